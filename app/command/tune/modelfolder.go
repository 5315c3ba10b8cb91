package tunecmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"nereid/app/durable"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
)

// modelFolder is a model in its repository.
type modelFolder struct {
	name, folder string
	configName   string // configs/NAME.pbtxt counts in place of config.pbtxt, if it exists; "": it does not
	config       string // the text of the configuration; "" without a file
}

// configPath is the file of the configuration, which need not exist.
func (m *modelFolder) configPath() string { return repo.ConfigPath(m.folder, m.configName) }

// files returns a text that changes when a file of the model does, other than its configuration.
func (m *modelFolder) files() string {
	found := repo.ScanModel(filepath.Dir(m.folder), filepath.Base(m.folder), m.configName)
	return fmt.Sprint(found.Rest, found.Versions)
}

// findModel finds a model in repositories, which must be folders.
func findModel(repositories []string, name, configName string) (modelFolder, error) {
	if err := repo.CheckName(name); err != nil {
		return modelFolder{}, err
	}
	for _, root := range repositories {
		if strings.Contains(root, "://") {
			return modelFolder{}, fmt.Errorf("--model-repository %s: models are tuned in folders; copy it first", root)
		}
		root, err := filepath.Abs(root)
		if err != nil {
			return modelFolder{}, err
		}
		folder := filepath.Join(root, name)
		if !isFolder(folder) {
			if _, err := os.ReadDir(root); err != nil {
				return modelFolder{}, fmt.Errorf("--model-repository: %w", err)
			}
			continue
		}
		m := modelFolder{name: name, folder: folder, configName: configName}
		text, err := os.ReadFile(m.configPath())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return m, err
		}
		m.config = string(text)
		return m, nil
	}
	return modelFolder{}, fmt.Errorf("there is no model %q in %s", name, strings.Join(repositories, ", "))
}

// link makes the model's folder below root, with links to its files and another configuration; "": with none.
func (m *modelFolder) link(root, config string) error {
	folder := filepath.Join(root, m.name)
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(m.folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == repo.ConfigName || repo.Ignored(e.Name()) {
			continue
		}
		if err := os.Symlink(filepath.Join(m.folder, e.Name()), filepath.Join(folder, e.Name())); err != nil {
			return err
		}
	}
	if config == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(folder, repo.ConfigName), []byte(config), 0o644)
}

// steps are the models of an ensemble; none for other models, and for a configuration with faults.
func (m *modelFolder) steps() (names []string) {
	cfg, _, faults := modelconfig.Parse(repo.ConfigName, []byte(m.config))
	if faults.Err() != nil {
		return nil // the private server reports them better
	}
	for _, s := range cfg.GetEnsembleScheduling().GetStep() {
		names = append(names, s.GetModelName())
	}
	return names
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// copyTree copies a model's files. It makes no links: writing to a file of one model would change the other.
func copyTree(from, to string) error {
	from, err := filepath.EvalSymlinks(from) // links are followed, here and below
	if err != nil {
		return err
	}
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || path == from:
			return err
		case repo.Ignored(d.Name()) && d.IsDir():
			return fs.SkipDir
		case repo.Ignored(d.Name()):
			return nil
		}
		at := filepath.Join(to, strings.TrimPrefix(path, from))
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return durable.Copy(path, at)
		}
		if err := os.Mkdir(at, 0o755); err != nil || d.IsDir() {
			return err
		}
		return copyTree(path, at)
	})
}
