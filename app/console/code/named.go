package code

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
	"nereid/engine/system/glob"
)

const (
	maxConfigs    = 100     // alternative configurations that are read
	maxConfigSize = 1 << 20 // bytes of each
)

// environmentPath is the parameter that names a Python environment. In its value, modelFolder stands for the model's
// folder.
const (
	environmentPath = "EXECUTION_ENV_PATH"
	modelFolder     = "$$TRITON_MODEL_DIRECTORY"
)

// named lists what configurations make the server load or run: config.pbtxt with this text, and those in the folder
// configs, of which --model-config-name chooses one. A text that cannot be parsed cannot be loaded and names nothing.
func named(dir, name, text string) (reasons, error) {
	found := reasons{}
	all, err := versions(dir)
	if err != nil {
		return nil, err
	}
	m := finder{dir: dir, name: name, versions: all, found: found}
	m.read(repo.ConfigName, text)
	for i, path := range glob.In(dir, "configs/*.pbtxt") {
		rel := "configs/" + filepath.Base(path)
		text, whole := readSmall(path)
		if i >= maxConfigs || !whole {
			found.add(rel, "a configuration that is not read here: it is too large, or one of too many")
			continue
		}
		m.read(rel, text)
	}
	return found, nil
}

// readSmall reads a file of at most maxConfigSize bytes; whole is false for others.
func readSmall(path string) (text string, whole bool) {
	f, err := os.Open(path)
	if err != nil {
		return "", false
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxConfigSize+1))
	return string(b), err == nil && len(b) <= maxConfigSize
}

// finder collects what the configurations of one model name.
type finder struct {
	dir, name string
	versions  map[string][]fs.DirEntry
	config    string // the path of the configuration that is read
	found     reasons
}

// read adds what one configuration names. What it leaves out is completed from the files of each version.
func (m *finder) read(path, text string) {
	m.config = path
	cfg, _, faults := modelconfig.Parse(path, []byte(text))
	if cfg == nil || len(faults.Errors()) > 0 {
		return
	}
	if len(m.versions) == 0 {
		m.version("", cfg, nil)
	}
	for version, entries := range m.versions {
		m.version(version, cfg, entries)
	}
}

// version adds what a configuration names for one version, whose files are entries.
func (m *finder) version(version string, cfg *inferencepb.ModelConfig, entries []fs.DirEntry) {
	cfg = proto.CloneOf(cfg)
	_ = modelconfig.CompleteBackend(cfg, m.name, entries) // a model without a backend is not loaded
	for _, lib := range cfg.GetModelOperations().GetOpLibraryFilename() {
		m.file(version, lib, "a native library, by op_library_filename")
	}
	m.modelFile(version, cfg)
	m.environment(version, cfg)
	m.parameters(version, cfg)
	for _, a := range accelerators(cfg) {
		m.accelerator(a)
	}
}

// file adds a file that a configuration names: in the folder of a version or of the model, or else wherever it is.
func (m *finder) file(version, file, why string) {
	rel := file
	if filepath.IsAbs(file) {
		rel, _ = filepath.Rel(m.dir, file) // an error leaves no local path
	}
	there := false
	for _, at := range []string{filepath.Join(version, rel), rel} {
		if filepath.IsLocal(at) {
			if _, err := os.Stat(filepath.Join(m.dir, at)); err == nil {
				m.found.add(at, why)
				there = true
			}
		}
	}
	if !there {
		m.outside(why, file)
	}
}

// outside adds something that is not in the model folder, under the path of the configuration.
func (m *finder) outside(why, what string) {
	m.found.add(m.config, fmt.Sprintf("it names %q: %s", what, why))
}

// modelFile adds the model's file if its backend runs it.
func (m *finder) modelFile(version string, cfg *inferencepb.ModelConfig) {
	why, usual := "", ""
	switch cfg.GetBackend() {
	case modelconfig.BackendPython:
		why, usual = "a Python program", "model.py"
	case modelconfig.BackendPyTorch:
		why, usual = "a pickle: unpacking it can run code", "model.pt"
	case modelconfig.BackendTensorFlow:
		why = "a graph of TensorFlow: its operators can read and write files"
		usual = "model.savedmodel"
	default:
		return
	}
	files := []string{cmp.Or(cfg.GetDefaultModelFilename(), usual)}
	for _, file := range cfg.GetCcModelFilenames() {
		files = append(files, file)
	}
	for _, file := range files {
		if at := filepath.Join(version, file); filepath.IsLocal(at) {
			if _, err := os.Stat(filepath.Join(m.dir, at)); err == nil {
				m.found.add(at, why)
			}
		}
	}
}

// native are the backends that do not run a Python environment for their models.
var native = []string{modelconfig.BackendONNXRuntime, modelconfig.BackendTensorFlow, modelconfig.BackendOpenVINO,
	modelconfig.BackendTensorRT, ""}

// environment adds the Python environment of a model: one that it brings, or requirements that are installed.
func (m *finder) environment(version string, cfg *inferencepb.ModelConfig) {
	if path := cfg.GetParameters()[environmentPath].GetStringValue(); path != "" {
		why := "the environment of " + environmentPath + ": its interpreter and scripts run"
		if inside, ok := strings.CutPrefix(path, modelFolder); ok {
			m.file("", strings.TrimPrefix(inside, "/"), why)
		} else {
			m.outside(why, path)
		}
	}
	if slices.Contains(native, cfg.GetBackend()) {
		return
	}
	for _, at := range []string{filepath.Join(version, "requirements.txt"), "requirements.txt"} {
		if _, err := os.Stat(filepath.Join(m.dir, at)); err == nil {
			m.found.add(at, "packages that are installed: their installers and their code run")
		}
	}
}

// OpensFiles reports whether a backend loads libraries, or reads or writes other files that the configuration names, as
// soon as it reads a model file, even if only for the file's signature.
func OpensFiles(cfg *inferencepb.ModelConfig) bool {
	if len(cfg.GetModelOperations().GetOpLibraryFilename()) > 0 {
		return true
	}
	for key, p := range cfg.GetParameters() {
		if value := p.GetStringValue(); value != "" && (namesLibrary(key) || namesSessionFile(key, value)) {
			return true
		}
	}
	return slices.ContainsFunc(accelerators(cfg), func(a *accelerator) bool { return len(filesOf(a)) > 0 })
}

// namesLibrary reports whether a parameter names a library, by its key.
func namesLibrary(key string) bool {
	lower := strings.ToLower(key)
	return strings.Contains(lower, "library") || strings.Contains(lower, "extension") ||
		strings.HasSuffix(lower, "strategy_path") ||
		strings.HasPrefix(lower, "ep.") && (strings.Contains(lower, "path") || strings.Contains(lower, "lib"))
}

// namesSessionFile reports whether a parameter names a file that ONNX Runtime reads or writes, wherever that is. Others
// of such a key are switches and numbers, as in session.use_memory_mapped_ort_model.
func namesSessionFile(key, value string) bool {
	lower := strings.ToLower(key)
	if !strings.HasPrefix(lower, "session.") && !strings.HasPrefix(lower, "ep.") {
		return false
	}
	_, notNumber := strconv.ParseFloat(value, 64)
	_, notSwitch := strconv.ParseBool(value)
	return notNumber != nil && notSwitch != nil && (strings.Contains(lower, "file") ||
		strings.Contains(lower, "path") || strings.Contains(lower, "dir"))
}

// parameters adds parameters that name libraries, or files of an ONNX session.
func (m *finder) parameters(version string, cfg *inferencepb.ModelConfig) {
	for key, p := range cfg.GetParameters() {
		switch value := p.GetStringValue(); {
		case value == "":
		case namesLibrary(key):
			m.file(version, value, "a native library, by the parameter "+key)
		case namesSessionFile(key, value):
			m.outside("a file that ONNX Runtime reads or writes, by the parameter "+key, value)
		}
	}
}

type accelerator = inferencepb.ModelOptimizationPolicy_ExecutionAccelerators_Accelerator

func accelerators(cfg *inferencepb.ModelConfig) []*accelerator {
	all := cfg.GetOptimization().GetExecutionAccelerators()
	return slices.Concat(all.GetGpuExecutionAccelerator(), all.GetCpuExecutionAccelerator())
}

// filesOf returns the parameters of an execution provider that name files.
func filesOf(a *accelerator) (keys []string) {
	for key, value := range a.GetParameters() {
		lower := strings.ToLower(key)
		if value != "" && (strings.Contains(lower, "path") || strings.Contains(lower, "lib") ||
			strings.Contains(lower, "dir") || strings.Contains(lower, "config") || strings.Contains(lower, "plugin")) {
			keys = append(keys, key)
		}
	}
	return keys
}

// accelerator adds an execution provider that this server does not know, or whose parameters name files.
func (m *finder) accelerator(a *accelerator) {
	known := []string{"cuda", "tensorrt", "openvino", "auto_mixed_precision", "gpu_io"}
	if !slices.Contains(known, a.GetName()) {
		m.outside("an execution provider that this server does not know", a.GetName())
	}
	for _, key := range filesOf(a) {
		m.outside("files that the execution accelerator "+a.GetName()+" uses, by its parameter "+key,
			a.GetParameters()[key])
	}
}
