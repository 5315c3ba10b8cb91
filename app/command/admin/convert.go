package admin

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"

	"nereid/app/command"
	"nereid/app/console/folders"
	"nereid/app/console/imports/staging"
	"nereid/app/datadir"
	"nereid/app/durable"
	"nereid/app/inspect"
	"nereid/app/options"
	"nereid/engine/backend/python"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
	"nereid/engine/worker/process"
)

const convertUsage = `Converts a trained model to ONNX, or an ONNX model to a smaller one, compares
the two, and puts the result into a model repository.

Usage:
  nereid convert -r FOLDER [options] FILE

FILE is one of
  .pkl .pickle .joblib        a model of scikit-learn, or of XGBoost's or LightGBM's classes for it
  .json .ubj                  a model of XGBoost (save_model)
  .txt                        a model of LightGBM (save_model)
  .onnx                       with --fp16, --int8, --opset or --simplify

The converters are installed into an environment of their own in the data folder, once (450 MB, for ONNX files 240 MB).
Both models then answer the same rows. The table shows by how much they differ, their sizes, and the time of one row. If
a number differs by more than the tolerance, or a label differs, nothing is put into the repository. With --fp16 and
--int8 the difference is a share of the output's largest value, and 99 % of the labels must be the same. The first rows
become golden requests, which each version of the model must pass before it is served.

`

// converters is an environment of its own, and no framework of a backend.
var converters = python.Framework{Name: "convert", Title: "the converters", Module: "skl2onnx", Size: "450 MB",
	Requirements: "scikit-learn==1.9.1\nskl2onnx==1.20.0\nonnxmltools==1.16.0\nlightgbm==4.7.0\nxgboost-cpu==3.2.0\n" +
		"onnx==1.23.2\nonnxruntime==1.31.1\nnumpy\n"}

//go:embed convert.py convert_onnx.py
var convertPrograms embed.FS

// forUser is the exit status with which convert.py ends after an error for the user.
const forUser = 3

type converter struct {
	repository, name, inputs, python, dataDir string
	trust, accept, asJSON                     bool
	fp16, int8, simplify                      bool
	opset                                     int
	tolerance                                 float64
	env                                       *command.Env
}

func (o *converter) sections() []command.Section {
	return []command.Section{{Options: []command.Option{
		command.Opt("-r, --model-repository", "FOLDER", "where the model is put", &o.repository),
		command.Opt("--name", "NAME", "the model's name; default: from the file", &o.name),
		command.Opt("--inputs", "FILE", "rows to compare with: .npy, .npz or .csv; default: made ones", &o.inputs),
		command.Opt("--fp16", "", "numbers of 16 bits inside, for GPUs; inputs and outputs stay", &o.fp16),
		command.Opt("--int8", "", "weights of 8 bits; with --inputs also calibrated activations", &o.int8),
		command.Opt("--simplify", "", "folds constants and removes what has no effect", &o.simplify),
		command.Opt("--opset", "NUMBER", "the version of ONNX's operators", &o.opset),
		command.Opt("--tolerance", "NUMBER", "how much a number may differ: absolute below 1, else relative; "+
			"default 0.0001, with --fp16 0.01, with --int8 0.1", &o.tolerance),
		command.Opt("--trust", "", "reads a pickle. To read one runs the code in it", &o.trust),
		command.Opt("--accept", "", "takes a model that differs by more", &o.accept),
		command.Opt("--python", "PATH", "the interpreter for a new environment; default python3", &o.python),
		command.Opt("--data-dir", "FOLDER", "the server's data folder; default as of nereid serve", &o.dataDir),
		command.Opt("--json", "", "prints JSON", &o.asJSON),
	}}}
}

// Convert runs "nereid convert".
func Convert(ctx context.Context, e *command.Env, args []string) int {
	o := converter{env: e, python: "python3", tolerance: -1}
	flags := command.NewFlagSet("nereid convert", o.sections())
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		err = command.FlagError("nereid convert", err)
	case flags.NArg() != 1:
		err = errors.New("name one file, after the options; nereid convert --help shows the use")
	default:
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = o.convert(ctx, flags.Arg(0))
	}
	return e.ExitStatus(err, convertUsage+command.Help(o.sections()))
}

// convertKind returns the format of a file by the end of its name.
func convertKind(file string) (string, error) {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".pkl", ".pickle", ".joblib":
		return "pickle", nil
	case ".json", ".ubj":
		return "xgboost", nil
	case ".txt":
		return "lightgbm", nil
	case ".onnx":
		return "onnx", nil
	case ".pt", ".pth", ".pt2":
		return "", fmt.Errorf("%s is a model of PyTorch, which this command does not convert: a TorchScript or pt2 "+
			"file is served as it is, and torch.onnx.export makes an ONNX model where the class is", file)
	case ".h5", ".keras", ".pb", ".tflite":
		return "", fmt.Errorf("%s is a model of TensorFlow, which this command does not convert: a SavedModel is "+
			"served as it is, and tf2onnx makes an ONNX model", file)
	}
	return "", fmt.Errorf("the end of the name %s is of no format that can be converted; see nereid convert --help",
		file)
}

func (o *converter) convert(ctx context.Context, file string) (err error) {
	kind, err := convertKind(file)
	if err != nil {
		return err
	}
	if err := o.check(file, kind); err != nil {
		return err
	}
	if _, err := os.Stat(file); err != nil {
		return err
	}
	if kind == "pickle" && !o.trust {
		return fmt.Errorf("%s is a pickle: to read it runs the code in it. If you trust where it is from, say --trust",
			file)
	}
	if o.name == "" {
		o.name = o.nameFor(file)
	}
	if err := repo.CheckName(o.name); err != nil {
		return err
	}
	if info, err := os.Stat(o.repository); o.repository == "" || err != nil || !info.IsDir() {
		return fmt.Errorf("%q is no folder; name the model repository with -r", o.repository)
	}
	to := filepath.Join(o.repository, o.name)
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("a model %s is in %s already; choose another --name", o.name, o.repository)
	}
	hidden := folders.Hidden(o.repository)
	dir := filepath.Join(hidden, o.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(hidden)) }()
	r, err := o.run(ctx, file, kind, dir)
	if err != nil {
		return err
	}
	if err := r.print(o); err != nil {
		return err
	}
	if why := r.differs(o.tolerance); why != "" && !o.accept {
		return fmt.Errorf("%s; nothing was put into %s. --accept takes the model all the same", why, o.repository)
	}
	if err := o.configure(ctx, file, dir); err != nil {
		return err
	}
	if err := durable.SyncTree(dir); err != nil {
		return err
	}
	if err := folders.Place(dir, to); err != nil {
		return err
	}
	fmt.Fprintf(o.env.Stderr, "%s is in %s; a server finds it in poll mode, or by nereid load %[1]s\n", o.name,
		o.repository)
	return durable.SyncFolder(o.repository)
}

// nameFor makes a model name from a file name.
func (o *converter) nameFor(file string) string {
	stem := strings.TrimSuffix(file, filepath.Ext(file))
	if cfg, err := configOf(file); err == nil && cfg != nil {
		stem = filepath.Dir(filepath.Dir(file)) + o.suffix()
	}
	return staging.ModelName(stem)
}

// run converts a file into a model folder.
func (o *converter) run(ctx context.Context, file, kind, dir string) (r conversion, err error) {
	data, err := options.CommandDataDir(o.dataDir, o.env.Lookup)
	if err != nil {
		return r, err
	}
	folder := datadir.Python(data)
	env, args := converters, []string{"convert.py", file, kind, dir, o.inputs,
		strconv.FormatFloat(o.tolerance, 'g', -1, 64)}
	if kind == "onnx" {
		env = changers
		if args, err = o.changeArguments(file, dir); err != nil {
			return r, err
		}
	}
	if err := python.InstallFramework(ctx, folder, o.python, env, o.env.Stderr); err != nil {
		return r, err
	}
	programs := filepath.Join(filepath.Dir(dir), ".programs")
	if err := os.CopyFS(programs, convertPrograms); err != nil {
		return r, err
	}
	args[0] = filepath.Join(programs, args[0])
	var said bytes.Buffer
	interpreter := filepath.Join(env.Environment(folder), "bin", "python")
	cmd := exec.CommandContext(ctx, interpreter, append([]string{"-B", "-W", "ignore"}, args...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = process.Environ(os.Environ(), nil), o.env.Stderr, &said
	if err := cmd.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		if ctx.Err() != nil {
			return r, errors.New("cancelled; nothing is left over")
		}
		if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == forUser {
			return r, fmt.Errorf("%s cannot be converted: %s", file, lines[len(lines)-1])
		}
		return r, fmt.Errorf("%s cannot be converted: %w:\n%s", file, err, strings.Join(lines, "\n"))
	}
	path := filepath.Join(dir, "report.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("the report of the conversion: %w", err)
	}
	r.Model = o.name
	return r, nil
}

// configure writes the configuration of a model folder. file is what was converted.
func (o *converter) configure(ctx context.Context, file, dir string) error {
	if cfg, err := configOf(file); err != nil || cfg != nil {
		return errors.Join(err, o.copyConfig(cfg, file, dir))
	}
	all, closeBackends, err := inspectOptions(o.env, o.dataDir)
	if err != nil {
		return err
	}
	defer closeBackends()
	text, err := inspect.Generate(ctx, filepath.Join(dir, "1"), all)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "labels.txt")); err == nil {
		cfg, _, faults := modelconfig.Parse(repo.ConfigName, []byte(text))
		if err := faults.Err(); err != nil {
			return err
		}
		isScores := func(out *inferencepb.ModelOutput) bool { return out.Name == "probabilities" }
		if i := slices.IndexFunc(cfg.Output, isScores); i >= 0 {
			cfg.Output[i].LabelFilename = "labels.txt"
			text = modelconfig.Format(cfg)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(filepath.Join(dir, repo.ConfigName), []byte(text), 0o644)
}

// conversion is the report of convert.py.
type conversion struct {
	Model       string           `json:"model"`
	Framework   string           `json:"framework"`
	Rows        int              `json:"rows"`
	Made        bool             `json:"made"` // the rows; else they were given
	Outputs     []convertedTable `json:"outputs"`
	BytesBefore int64            `json:"bytesBefore"`
	BytesAfter  int64            `json:"bytesAfter"`
	MsBefore    float64          `json:"msBefore"`
	MsAfter     float64          `json:"msAfter"`
	Low         bool             `json:"low"` // the model has low precision: see compared in convert_onnx.py
}

// convertedTable compares an output of the ONNX model with the framework's answer.
type convertedTable struct {
	Output string   `json:"output"`
	Rows   int      `json:"rows"`
	MaxAbs *float64 `json:"maxAbs,omitempty"` // nil: labels
	MaxRel *float64 `json:"maxRel,omitempty"`
	Error  *float64 `json:"error,omitempty"` // the largest: absolute for numbers below 1, else relative
	Same   *int     `json:"same,omitempty"`  // rows with the same label, or the same highest number
}

// differs says which output differs by more than the tolerance; "": none does.
func (r *conversion) differs(tolerance float64) string {
	for _, t := range r.Outputs {
		switch {
		case t.Same != nil && *t.Same < t.Rows && t.Error == nil, r.Low && t.Same != nil && *t.Same*100 < t.Rows*99:
			return fmt.Sprintf("%d of %d labels of the output %s differ", t.Rows-*t.Same, t.Rows, t.Output)
		case t.Error != nil && !(*t.Error <= tolerance): // also NaN
			return fmt.Sprintf("numbers of the output %s differ by up to %.3g, and the tolerance is %g", t.Output,
				*t.Error, tolerance)
		}
	}
	return ""
}

func (r *conversion) print(o *converter) error {
	if o.asJSON {
		return json.NewEncoder(o.env.Stdout).Encode(r)
	}
	w := tabwriter.NewWriter(o.env.Stdout, 0, 8, 2, ' ', 0)
	rows := "made"
	if !r.Made {
		rows = "given"
	}
	fmt.Fprintf(w, "%s, compared on %d rows that were %s\n", r.Framework, r.Rows, rows)
	fmt.Fprintln(w, "OUTPUT\tMAX ABS\tMAX REL\tSAME LABEL")
	for _, t := range r.Outputs {
		cells := []string{t.Output, "", "", ""}
		if t.MaxAbs != nil && t.MaxRel != nil {
			cells[1], cells[2] = fmt.Sprintf("%.3g", *t.MaxAbs), fmt.Sprintf("%.3g", *t.MaxRel)
		}
		if t.Same != nil {
			cells[3] = fmt.Sprintf("%d of %d", *t.Same, t.Rows)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	fmt.Fprintf(w, "size %d bytes → %d; one row %.3f ms → %.3f ms\n", r.BytesBefore, r.BytesAfter, r.MsBefore,
		r.MsAfter)
	if r.MsAfter > 1.5*r.MsBefore {
		fmt.Fprintln(w, "it is slower than before on this processor")
	}
	return w.Flush()
}
