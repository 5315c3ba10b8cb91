package inspect

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"nereid/engine/backend"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
	"nereid/engine/status"
)

// Generate writes the configuration of a model without its name, which is that of the folder. For a model folder, the
// newest version completes its config.pbtxt. For a version folder or a model file, everything comes from there. The
// error is InvalidArg if the folder or its configuration is wrong, and Unsupported for files that do not describe their
// inputs.
func Generate(ctx context.Context, path string, o Options) (string, error) {
	o.AutoComplete = true
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if !isFolder(path) {
		return o.fromFile(ctx, path)
	}
	if v, ok := repo.ParseVersion(filepath.Base(path)); ok {
		if src := repo.ScanModel(filepath.Dir(filepath.Dir(path)), filepath.Base(filepath.Dir(path)),
			""); src.Versions[v] != 0 {
			src.Config = ""
			src.Versions = map[int64]repo.Fingerprint{v: src.Versions[v]}
			return o.fromModel(ctx, src)
		}
	}
	src := repo.ScanModel(filepath.Dir(path), filepath.Base(path), o.ConfigName)
	if len(src.Versions) == 0 && src.Err == nil {
		return "", status.Errorf(status.InvalidArg, "%s has no version folder: name a model folder with a folder 1 "+
			"in it, a version folder or a model file", path)
	}
	return o.fromModel(ctx, src)
}

func (o *Options) fromModel(ctx context.Context, src *repo.Model) (string, error) {
	m := o.look(ctx, src)
	if err := m.faults.Err(); err != nil {
		return "", err
	}
	if err := untold(m.completed); err != nil {
		return "", err
	}
	cfg := proto.CloneOf(m.completed)
	cfg.Name = ""
	return modelconfig.Format(cfg), nil
}

// untold is the error for a configuration that neither its text nor the model file completes.
func untold(cfg *inferencepb.ModelConfig) error {
	ensemble := cfg.GetEnsembleScheduling() != nil
	if ensemble || len(cfg.GetInput()) > 0 && len(cfg.GetOutput()) > 0 {
		return nil
	}
	return status.Errorf(status.Unsupported, "a model of backend '%s' does not tell its inputs and outputs without "+
		"running: write them into config.pbtxt (name, data_type, dims)", cfg.GetBackend())
}

// extensions are the backends of model files by file extension.
var extensions = map[string]string{
	".onnx": modelconfig.BackendONNXRuntime, ".py": modelconfig.BackendPython, ".pt": modelconfig.BackendPyTorch,
	".pt2":  modelconfig.BackendPyTorch,
	".plan": modelconfig.BackendTensorRT, ".xml": modelconfig.BackendOpenVINO,
	".graphdef": modelconfig.BackendTensorFlow,
}

// fromFile writes the configuration of a file that may have any name.
func (o *Options) fromFile(ctx context.Context, path string) (string, error) {
	name, ok := extensions[strings.ToLower(filepath.Ext(path))]
	if !ok {
		return "", status.Errorf(status.InvalidArg, "%s is neither a folder nor a model file by its name (%s)", path,
			strings.Join(slices.Sorted(maps.Keys(extensions)), ", "))
	}
	cfg := &inferencepb.ModelConfig{Backend: name, DefaultModelFilename: filepath.Base(path)}
	ac, can := o.backend(name).(backend.AutoCompleter)
	if !can || name != modelconfig.BackendONNXRuntime {
		return "", untold(cfg)
	}
	sig, err := ac.Signature(ctx, backend.Spec{ModelName: "model", Version: 1, Config: cfg,
		ModelFolder:   filepath.Dir(filepath.Dir(path)),
		VersionFolder: filepath.Dir(path), Log: o.Log})
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if faults := modelconfig.CompleteBackend(cfg, "", nil); faults.Err() != nil {
		return "", faults.Err()
	}
	if faults := modelconfig.Complete(cfg, sig,
		modelconfig.CompleteOptions{DefaultMaxBatchSize: o.DefaultMaxBatchSize}); faults.Err() != nil {
		return "", faults.Err()
	}
	return modelconfig.Format(cfg), nil
}
