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

// configOf returns the configuration that belongs to a file MODEL/VERSION/FILE; nil: there is none.
func configOf(file string) (*inferencepb.ModelConfig, error) {
	path := filepath.Join(filepath.Dir(filepath.Dir(file)), repo.ConfigName)
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

// copyConfig writes the configuration and the labels of the model that was converted, whose tensors stay the same.
func (o *converter) copyConfig(cfg *inferencepb.ModelConfig, file, dir string) error {
	if cfg == nil {
		return nil
	}
	root, err := os.OpenRoot(filepath.Dir(filepath.Dir(file)))
	if err != nil {
		return err
	}
	defer root.Close()
	for _, out := range cfg.Output {
		if out.LabelFilename == "" {
			continue
		}
		text, err := root.ReadFile(filepath.FromSlash(out.LabelFilename))
		if err != nil {
			return err
		}
		out.LabelFilename = filepath.Base(out.LabelFilename)
		if err := os.WriteFile(filepath.Join(dir, out.LabelFilename), text, 0o644); err != nil {
			return err
		}
	}
	cfg.Name, cfg.DefaultModelFilename, cfg.VersionPolicy = o.name, "", nil
	return os.WriteFile(filepath.Join(dir, repo.ConfigName), []byte(modelconfig.Format(cfg)), 0o644)
}

// changedConfig returns the configuration of an ONNX model that was changed and not converted; nil: there is none.
func changedConfig(s source) (*inferencepb.ModelConfig, error) {
	if s.kind != kindONNX {
		return nil, nil
	}
	return configOf(s.file)
}
