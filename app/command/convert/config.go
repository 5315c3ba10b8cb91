package convert

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"nereid/app/backends"
	"nereid/app/inspect"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
)

// isScores reports whether an output has a number for each class. Converters give such an output this name.
func isScores(out *inferencepb.ModelOutput) bool { return out.Name == "probabilities" }

// configure writes the configuration of the model folder dir. s is the model that was converted.
func (o *converter) configure(ctx context.Context, s source, dir string) error {
	if cfg, err := changedConfig(s); err != nil || cfg != nil {
		return errors.Join(err, o.copyConfig(cfg, s.file, dir))
	}
	all, closeBackends, err := backends.OpenInspection(o.dataDir, o.env.Lookup)
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
		if i := slices.IndexFunc(cfg.Output, isScores); i >= 0 {
			cfg.Output[i].LabelFilename = "labels.txt"
			text = modelconfig.Format(cfg)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(filepath.Join(dir, repo.ConfigName), []byte(text), 0o644)
}

// folderOf is the folder of the model that a file MODEL/VERSION/FILE belongs to.
func folderOf(file string) (string, error) {
	file, err := filepath.Abs(file) // it may be named from within these folders
	return filepath.Dir(filepath.Dir(file)), err
}

// configOf returns the configuration that belongs to a file MODEL/VERSION/FILE; nil: there is none.
func configOf(file string) (*inferencepb.ModelConfig, error) {
	folder, err := folderOf(file)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(folder, repo.ConfigName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	cfg, _, faults := modelconfig.Parse(path, text)
	return cfg, faults.Err()
}

// copyConfig writes the configuration of the model that was converted, whose tensors stay the same, and the files that
// it names.
func (o *converter) copyConfig(cfg *inferencepb.ModelConfig, file, dir string) error {
	if cfg == nil {
		return nil
	}
	folder, err := folderOf(file)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range filesOf(cfg) {
		text, err := root.ReadFile(name)
		if err != nil {
			return err
		}
		at := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, text, 0o644)); err != nil {
			return err
		}
	}
	cfg.Name, cfg.DefaultModelFilename, cfg.CcModelFilenames, cfg.VersionPolicy = o.name, "", nil, nil
	return os.WriteFile(filepath.Join(dir, repo.ConfigName), []byte(modelconfig.Format(cfg)), 0o644)
}

// filesOf returns the files of labels, warmups and initial states that a configuration names, by their paths in the
// model's folder.
func filesOf(cfg *inferencepb.ModelConfig) (names []string) {
	add := func(folder, name string) {
		if name != "" {
			names = append(names, filepath.Join(folder, filepath.FromSlash(name)))
		}
	}
	for _, out := range cfg.Output {
		add("", out.LabelFilename)
	}
	for _, w := range cfg.ModelWarmup {
		for _, in := range w.Inputs {
			add("warmup", in.GetInputDataFile())
		}
	}
	for _, s := range cfg.GetSequenceBatching().GetState() {
		for _, initial := range s.InitialState {
			add("initial_state", initial.GetDataFile())
		}
	}
	return names
}

// changedConfig returns the configuration of an ONNX model that was changed and not converted; nil: there is none.
func changedConfig(s source) (*inferencepb.ModelConfig, error) {
	if s.kind != kindONNX {
		return nil, nil
	}
	return configOf(s.file)
}
