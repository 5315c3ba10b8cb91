package inspect

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"nereid/engine/backend"
	"nereid/engine/inferencepb"
	"nereid/engine/lifecycle"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
)

// Options are settings of the server that affect models.
type Options struct {
	Backends            []backend.Backend
	ConfigName          string // --model-config-name
	Namespaces          bool   // --model-namespacing
	AutoComplete        bool
	DefaultMaxBatchSize int
	GPUs                []int32 // of the machine that is to serve
	Log                 *slog.Logger
}

func (o *Options) backend(name string) backend.Backend {
	for _, b := range o.Backends {
		if b.Name() == name {
			return b
		}
	}
	return nil
}

// maxConfigSize is the most that is read from a configuration file, in bytes.
const maxConfigSize = 16 << 20

// model is what is known about a model folder.
type model struct {
	src       *repo.Model
	text      string
	cfg       *inferencepb.ModelConfig // nil when it cannot be read
	completed *inferencepb.ModelConfig // before the defaults
	pos       *modelconfig.Positions
	faults    modelconfig.Faults
}

// fault records what is wrong with a field, or with the folder if field is "".
func (m *model) fault(s modelconfig.Severity, path, message, fix string) {
	f := modelconfig.Fault{File: m.src.Folder, Path: path, Message: message, Fix: fix, Severity: s}
	if m.src.Config != "" && (path != "" || m.pos != nil) {
		f.File = m.src.Config
		at := m.pos.At(path)
		f.Line, f.Col = at.Line, at.Col
	}
	m.faults = append(m.faults, f)
}

// take records faults that package modelconfig found, with the path of the file.
func (m *model) take(faults modelconfig.Faults) {
	for _, f := range faults {
		f.File = m.src.Config
		if f.File == "" {
			f.File = m.src.Folder
		}
		if !slices.Contains(m.faults, f) { // a fault of all versions is reported once
			m.faults = append(m.faults, f)
		}
	}
}

// look reads, completes and checks a model, as far as its faults permit.
func (o *Options) look(ctx context.Context, src *repo.Model) *model {
	m := &model{src: src}
	if src.Err != nil {
		m.fault(modelconfig.SeverityError, "", src.Err.Error(), "")
		return m
	}
	if !m.read(o) {
		return m
	}
	numbers := src.Numbers()
	var entries []os.DirEntry
	if len(numbers) > 0 {
		entries, _ = os.ReadDir(m.version(numbers[len(numbers)-1])) // empty: the missing file is reported below
	}
	more := modelconfig.CompleteBackend(m.cfg, src.Name, entries)
	m.take(more)
	if more.Err() != nil {
		return m
	}
	m.folders(numbers)
	versions := modelconfig.ChooseVersions(m.cfg.GetVersionPolicy(), numbers)
	parameters := CheckParameters(m.cfg, o.backend(m.cfg.GetBackend()), m.pos)
	m.take(parameters)
	sigs := o.signatures(ctx, m, versions, parameters.Err() == nil)
	if o.AutoComplete {
		for _, n := range slices.Backward(versions) {
			if sigs[n] != nil {
				m.take(modelconfig.Complete(m.cfg, sigs[n],
					modelconfig.CompleteOptions{DefaultMaxBatchSize: o.DefaultMaxBatchSize, Positions: m.pos}))
				break
			}
		}
	}
	m.completed = proto.CloneOf(m.cfg)
	modelconfig.Normalize(m.cfg, backend.NormalizeOptions(o.backend(m.cfg.GetBackend()), o.GPUs))
	m.validate(o, versions, sigs)
	return m
}

// read reads the configuration. It returns false if there is none that can be read.
func (m *model) read(o *Options) bool {
	if m.src.Config == "" {
		m.cfg = &inferencepb.ModelConfig{}
		if !o.AutoComplete {
			m.fault(modelconfig.SeverityError, "", "there is no config.pbtxt, and completing configurations is "+
				"turned off", "write one with nereid config generate")
		}
		return o.AutoComplete
	}
	info, err := os.Stat(m.src.Config)
	if err == nil && info.Size() > maxConfigSize {
		m.fault(modelconfig.SeverityError, "",
			"the configuration is larger than "+strconv.Itoa(maxConfigSize>>20)+" MiB", "")
		return false
	}
	text, err := os.ReadFile(m.src.Config)
	if err != nil {
		m.fault(modelconfig.SeverityError, "", err.Error(), "")
		return false
	}
	var faults modelconfig.Faults
	m.text = string(text)
	m.cfg, m.pos, faults = modelconfig.Parse(m.src.Config, text)
	m.take(faults)
	if faults.Err() != nil {
		m.cfg = nil
	}
	return m.cfg != nil
}

func (m *model) version(n int64) string {
	return filepath.Join(m.src.Folder, strconv.FormatInt(n, 10))
}

// folders reports versions that are not served because of their names, and a version policy that selects none.
func (m *model) folders(numbers []int64) {
	entries, err := os.ReadDir(m.src.Folder)
	if err != nil {
		m.fault(modelconfig.SeverityError, "", err.Error(), "")
		return
	}
	for _, e := range entries {
		name := strings.TrimLeft(e.Name(), "vV0_")
		if _, ok := repo.ParseVersion(e.Name()); ok || !e.IsDir() {
			continue
		}
		if n, ok := repo.ParseVersion(name); ok {
			m.fault(modelconfig.SeverityWarning, "", "the folder "+e.Name()+" is no version and is not looked at",
				"call it "+strconv.FormatInt(n, 10))
		}
	}
	if len(numbers) == 0 {
		fix := "put the model's files into a folder called 1"
		if m.cfg.GetEnsembleScheduling() != nil {
			fix = "make an empty folder called 1"
		}
		m.fault(modelconfig.SeverityError, "", "there is no version folder", fix)
	}
	m.take(CheckVersions(m.cfg, numbers, m.pos))
}

// signatures reads the model files, if the backend can do so without running them. Without read it only looks whether
// they are there: a backend that refuses parameters would say so again for each file.
func (o *Options) signatures(ctx context.Context, m *model, versions []int64, read bool,
) map[int64]*modelconfig.Signature {
	b := o.backend(m.cfg.GetBackend())
	sigs := map[int64]*modelconfig.Signature{}
	for _, n := range versions {
		if !m.file(n) || !read {
			continue
		}
		ac, can := b.(backend.AutoCompleter)
		if !can || m.cfg.GetBackend() != modelconfig.BackendONNXRuntime {
			continue // the others would run the model's code
		}
		sig, err := ac.Signature(ctx, backend.Spec{ModelName: m.src.Name, Version: n, Config: m.cfg,
			ModelFolder:   m.src.Folder,
			VersionFolder: m.version(n), Log: o.Log})
		if err != nil {
			m.faults = append(m.faults, modelconfig.Fault{File: m.version(n), Message: err.Error()})
			continue
		}
		sigs[n] = sig
	}
	return sigs
}

// file reports whether a version has its model file. If not, it records a fault.
func (m *model) file(n int64) bool {
	names := modelconfig.ModelFiles(m.cfg)
	if len(names) == 0 || m.cfg.GetEnsembleScheduling() != nil {
		return true
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(m.version(n), filepath.FromSlash(name))); err == nil {
			return true
		}
	}
	f := modelconfig.Fault{File: m.version(n), Path: "default_model_filename",
		Message: "the model file is missing: there is no " + strings.Join(names, " or "),
		Fix:     "put it there, or name the file in default_model_filename"}
	m.faults = append(m.faults, f)
	return false
}

func (m *model) validate(o *Options, versions []int64, sigs map[int64]*modelconfig.Signature) {
	v := modelconfig.ValidateOptions{Positions: m.pos, Folder: m.src.Name, Files: os.DirFS(m.src.Folder), GPUs: o.GPUs,
		Refused: lifecycle.Refused}
	for _, b := range o.Backends {
		v.Backends = append(v.Backends, b.Name())
	}
	m.gpus(o)
	with := []*modelconfig.Signature{nil}
	for _, n := range versions {
		if sigs[n] != nil {
			with = append(with, sigs[n])
		}
	}
	if len(with) > 1 {
		with = with[1:]
	}
	for _, sig := range with {
		v.Signature = sig
		m.take(modelconfig.Validate(m.cfg, v))
	}
}

// gpus warns about instances on GPUs if the backend supports none on this machine. The serving machine may support
// them.
func (m *model) gpus(o *Options) {
	u, ok := o.backend(m.cfg.GetBackend()).(backend.GPUUser)
	if !ok || len(o.GPUs) == 0 || u.UsesGPUs() {
		return
	}
	for i, g := range m.cfg.GetInstanceGroup() {
		if g.GetKind() == inferencepb.ModelInstanceGroup_KIND_GPU {
			m.fault(modelconfig.SeverityWarning, "instance_group["+strconv.Itoa(i)+"].kind",
				"backend '"+m.cfg.GetBackend()+"' is not set up for GPUs here",
				"install one that is, such as onnxruntime-gpu, into the runtime folder of the server's data folder")
		}
	}
}

// isFolder reports whether a path is a folder.
func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
