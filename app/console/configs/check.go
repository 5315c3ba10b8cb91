package configs

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"nereid/app/console/catalog"
	"nereid/app/inspect"
	"nereid/engine/backend"
	"nereid/engine/device"
	"nereid/engine/inferencepb"
	"nereid/engine/lifecycle"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
)

// Checker checks configurations as a load would, without loading. It is safe for concurrent use.
type Checker struct {
	Backends []backend.Backend
	// Libraries returns the names of the backends that come as libraries; nil: there are none.
	Libraries func() []string
	// Library reports whether the backend directory has the library that a configuration names; nil: there is none.
	Library func(*inferencepb.ModelConfig) bool
	// Machine has the GPUs that models may use; nil: none.
	Machine *device.Machine
	// AutoComplete is the engine's.
	AutoComplete bool
	// DefaultMaxBatchSize returns the engine's for models of a backend.
	DefaultMaxBatchSize func(backend string) int
	// Catalog has the other models, for the steps of ensembles; nil: they are not known.
	Catalog *catalog.Catalog
	Log     *slog.Logger

	// signatures are what backends read from model files. Without them, each check of a text that is being typed would
	// read a large file.
	mu         sync.Mutex
	signatures map[signatureKey]*modelconfig.Signature // guarded by mu
}

// Checked is a configuration that is not running: what a text would become.
type Checked struct {
	Config    *inferencepb.ModelConfig // completed; nil if the text cannot be read
	Signature *modelconfig.Signature   // of the newest version's file; nil if no backend can read it

	completed *inferencepb.ModelConfig // Config before the defaults
	faults    modelconfig.Faults
	file      *modelconfig.Fault // why the newest version's file cannot be read, nil if it can
	pos       *modelconfig.Positions
}

// Faults returns the faults of the text and, with the given severity, that of the model file.
func (d *Checked) Faults(file modelconfig.Severity) modelconfig.Faults {
	if d.file == nil {
		return d.faults
	}
	f := *d.file
	f.Severity = file
	return append(slices.Clone(d.faults), f)
}

// Check reads, completes and checks a configuration text for a model folder. A nil text stands for a missing file.
// Without a folder only the text is checked.
func (c *Checker) Check(ctx context.Context, name, folder string, text *string) *Checked {
	d := &Checked{}
	key := name
	_, name = repo.Split(name)
	cfg := &inferencepb.ModelConfig{}
	if text != nil {
		cfg, d.pos, d.faults = modelconfig.Parse(repo.ConfigName, []byte(*text))
		if len(d.faults.Errors()) > 0 || cfg == nil {
			return d
		}
	}
	d.Config = cfg
	if folder == "" {
		d.completed = cfg
		d.faults = append(d.faults, modelconfig.Validate(cfg, modelconfig.ValidateOptions{Positions: d.pos})...)
		d.faults = slices.DeleteFunc(d.faults, func(f modelconfig.Fault) bool {
			return f.Path == "name" && cfg.GetName() == ""
		})
		return d
	}
	numbers := repo.ScanModel(filepath.Dir(folder), filepath.Base(folder), "").Numbers()
	var entries []os.DirEntry // of the newest version; one that cannot be read counts as empty
	if len(numbers) > 0 {
		entries, _ = os.ReadDir(filepath.Join(folder, strconv.FormatInt(numbers[len(numbers)-1], 10)))
	}
	if faults := modelconfig.CompleteBackend(cfg, name, entries); len(faults) > 0 {
		d.faults = append(d.faults, faults...)
		return d
	}
	c.complete(ctx, d, name, folder)
	o := modelconfig.ValidateOptions{Positions: d.pos, Refused: lifecycle.Refused, Folder: name, Signature: d.Signature,
		Files: os.DirFS(folder), GPUs: c.Machine.IDs(), MinCapability: c.Machine.MinCapability(),
		Cores: runtime.GOMAXPROCS(0), Library: c.Library}
	for _, b := range c.Backends {
		o.Backends = append(o.Backends, b.Name())
	}
	if c.Libraries != nil {
		o.Backends = append(o.Backends, c.Libraries()...)
	}
	d.faults = append(d.faults, modelconfig.Validate(cfg, o)...)
	d.faults = append(d.faults, inspect.CheckParameters(cfg, c.backend(cfg.GetBackend()), d.pos)...)
	d.checkVersions(numbers)
	c.checkSteps(d, key)
	c.checkSupported(d)
	return d
}

// complete asks the backend for the model file's signature and fills in what the text leaves open.
func (c *Checker) complete(ctx context.Context, d *Checked, name, folder string) {
	sig, version, err := c.signature(ctx, name, folder, d.Config)
	if err != nil {
		// The folder is the server's matter, most of all while an import is staged.
		text := strings.ReplaceAll(err.Error(), folder+string(filepath.Separator), "")
		d.file = &modelconfig.Fault{Message: fmt.Sprintf("version %d: %s", version, text)}
	}
	d.Signature = sig
	if sig != nil && c.AutoComplete {
		d.faults = append(d.faults, modelconfig.Complete(d.Config, sig, modelconfig.CompleteOptions{
			DefaultMaxBatchSize: c.DefaultMaxBatchSize(d.Config.GetBackend()), Positions: d.pos})...)
	}
	d.completed = proto.CloneOf(d.Config)
	modelconfig.Normalize(d.Config, backend.NormalizeOptions(c.backend(d.Config.GetBackend()), c.Machine.IDs()))
}

// checkSupported adds a fault for what Triton would load and this server refuses. It replaces other faults of the
// backend.
func (c *Checker) checkSupported(d *Checked) {
	path, err := lifecycle.Unsupported(d.Config, c.backend(d.Config.GetBackend()) != nil)
	if err == nil {
		return
	}
	place := path
	if path == "backend" {
		if !d.pos.Has(path) {
			place = "platform" // which implies the backend
		}
		d.faults = slices.DeleteFunc(d.faults, func(f modelconfig.Fault) bool { return f.Path == path })
	}
	f := d.fault(place, err.Error(), "")
	f.Path = path
	d.faults = append(d.faults, f)
}

// checkVersions adds a fault if the version policy selects none of the existing versions, unless another fault reports
// the policy. A folder without versions is no fault of the text.
func (d *Checked) checkVersions(existing []int64) {
	reported := slices.ContainsFunc(d.faults.Errors(), func(f modelconfig.Fault) bool {
		return strings.HasPrefix(f.Path, "version_policy")
	})
	if !reported {
		d.faults = append(d.faults, inspect.CheckVersions(d.Config, existing, d.pos)...)
	}
}

func (d *Checked) fault(path, message, fix string) modelconfig.Fault {
	at := d.pos.At(path)
	return modelconfig.Fault{File: d.pos.File(), Line: at.Line, Col: at.Col, Path: path, Message: message, Fix: fix}
}

func (c *Checker) backend(name string) backend.Backend {
	for _, b := range c.Backends {
		if b.Name() == name {
			return b
		}
	}
	return nil
}

// Generated returns the text of a configuration that was made from the model file. It has no name, since the folder
// has it.
func (d *Checked) Generated() string {
	if d.completed == nil {
		return ""
	}
	cfg := proto.CloneOf(d.completed)
	cfg.Name = ""
	return modelconfig.Format(cfg)
}

// UseLabels gives the output with n values for each item a label file in the generated configuration, if it is the only
// such output. It reports whether it did.
func (d *Checked) UseLabels(file string, n int) bool {
	var found *inferencepb.ModelOutput
	for _, out := range d.completed.GetOutput() {
		size := int64(1)
		for _, dim := range out.GetDims() {
			if dim > 0 {
				size *= dim
			}
		}
		if n < 2 || size != int64(n) {
			continue
		}
		if found != nil {
			return false
		}
		found = out
	}
	if found == nil {
		return false
	}
	found.LabelFilename = file
	return true
}

// DimNames returns the names that the model file gives to the dimensions of a tensor; nil: they are not known.
func (d *Checked) DimNames() func(tensor string) []string { return dimNames(d.Signature) }

// DimNames asks the backend for the names of the dimensions of a model in a repository; nil: they are not known.
func (c *Checker) DimNames(ctx context.Context, name, folder string,
	cfg *inferencepb.ModelConfig) func(tensor string) []string {
	sig, _, _ := c.signature(ctx, name, folder, cfg) // the load reports an error
	return dimNames(sig)
}

func dimNames(sig *modelconfig.Signature) func(string) []string {
	if sig == nil {
		return nil
	}
	return func(name string) []string {
		for _, io := range slices.Concat(sig.Inputs, sig.Outputs) {
			if io.Name == name {
				return io.DimNames
			}
		}
		return nil
	}
}
