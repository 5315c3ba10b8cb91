package convert

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"nereid/app/console/api"
	"nereid/app/datadir"
	"nereid/app/options"
	"nereid/engine/backend/python"
	"nereid/engine/worker/process"
)

//go:embed python/*.py
var programs embed.FS

// forUser is the exit status with which main.py ends after an error for the user.
const forUser = 3

// order is what main.py reads.
type order struct {
	Kind      string       `json:"kind"`
	File      string       `json:"file"`
	Class     string       `json:"class"`
	Arguments string       `json:"arguments"`
	Shapes    []inputShape `json:"shapes"`
	Out       string       `json:"out"`
	Inputs    string       `json:"inputs"`
	Scale     string       `json:"scale"`
	Tolerance float64      `json:"tolerance"`
	Trust     bool         `json:"trust"`
	FP16      bool         `json:"fp16"`
	INT8      bool         `json:"int8"`
	Simplify  bool         `json:"simplify"`
	External  bool         `json:"external"`
	Opset     int          `json:"opset"`
	Batched   *bool        `json:"batched"` // nil: as the graph says
	// Confidential inputs become no golden request.
	Confidential bool `json:"confidential"`
}

// make makes the model's folder below workspace, a folder that does not exist yet and that the caller removes.
func (o *converter) make(ctx context.Context, workspace string) (dir string, r api.ParityReport, err error) {
	dir = filepath.Join(workspace, o.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return dir, r, err
	}
	s := o.source
	job := order{Kind: s.kind, File: s.file, Class: s.class, Arguments: o.arguments, Shapes: o.shapes, Out: dir,
		Inputs: o.inputs, Scale: o.scale, Tolerance: o.tolerance, Trust: o.trust, FP16: o.fp16, INT8: o.int8,
		Simplify: o.simplify, External: o.external, Opset: o.opset, Confidential: o.confidential}
	if s.kind == kindONNX {
		cfg, err := configOf(s.file)
		if err != nil {
			return dir, r, err
		}
		if cfg != nil {
			job.Batched = new(cfg.MaxBatchSize > 0)
		}
	}
	if err := o.run(ctx, filepath.Join(workspace, ".programs"), &job); err != nil {
		return dir, r, err
	}
	text, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil {
		return dir, r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return dir, r, fmt.Errorf("the report of the conversion: %w", err)
	}
	r.Model, r.Differs = o.name, differs(&r, o.tolerance)
	return dir, r, o.configure(ctx, s, dir)
}

var errCancelled = errors.New("cancelled; nothing is left over")

// run runs main.py in the environment of its kind, which is installed first.
func (o *converter) run(ctx context.Context, folder string, job *order) error {
	data, err := options.CommandDataDir(o.dataDir, o.env.Lookup)
	if err != nil {
		return err
	}
	env := environment(job.Kind)
	if err := python.InstallFramework(ctx, datadir.Python(data), o.python, env, o.env.Stderr); err != nil {
		return err
	}
	files, err := fs.Sub(programs, "python")
	if err != nil {
		return err
	}
	if err := os.CopyFS(folder, files); err != nil {
		return err
	}
	text, err := json.Marshal(job)
	if err != nil {
		return err
	}
	var said bytes.Buffer
	interpreter := filepath.Join(env.Environment(datadir.Python(data)), "bin", "python")
	cmd := exec.CommandContext(ctx, interpreter, "-B", "-W", "ignore", filepath.Join(folder, "main.py"), string(text))
	cmd.Env, cmd.Stdout, cmd.Stderr = process.Environ(os.Environ(), nil), o.env.Stderr, &said
	err = cmd.Run()
	if err == nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	switch of := o.title(); {
	case ctx.Err() != nil:
		return errCancelled
	case cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == forUser:
		return fmt.Errorf("%s cannot be converted: %s", of, lines[len(lines)-1])
	default:
		return fmt.Errorf("%s cannot be converted: %w:\n%s", of, err, strings.Join(lines[max(0, len(lines)-20):], "\n"))
	}
}

// title is what messages call the model before.
func (o *converter) title() string {
	if o.source.file == "" {
		return o.source.class
	}
	return o.source.file
}
