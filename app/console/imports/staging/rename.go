package staging

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"nereid/app/durable"
	"nereid/engine/modelconfig"
	"nereid/engine/repo"
	"nereid/engine/system/glob"
)

// maxConfig is the largest configuration whose name is read or changed, in bytes.
const maxConfig = 1 << 20

// Author returns the name that the configuration in a model folder gives the model; "": none that a model can have.
func Author(dir string) string {
	text, err := readConfig(filepath.Join(dir, configName))
	if err != nil {
		return ""
	}
	cfg, _, _ := modelconfig.Parse(configName, text)
	if repo.CheckName(cfg.GetName()) != nil {
		return ""
	}
	return cfg.GetName()
}

// Rename writes a model's name into the configurations of its folder that have another one: config.pbtxt and those in
// the folder configs. Their other text stays.
func Rename(dir, name string) error {
	return errors.Join(renameIn(filepath.Join(dir, configName), name), RenameConfigs(dir, name))
}

// RenameConfigs is Rename for the folder configs alone.
func RenameConfigs(dir, name string) error {
	for _, path := range glob.In(dir, "configs/*.pbtxt") {
		if err := renameIn(path, name); err != nil {
			return err
		}
	}
	return nil
}

func renameIn(path, name string) error {
	text, err := readConfig(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if renamed := modelconfig.SetName(string(text), name); renamed != string(text) {
		return durable.Replace(path, []byte(renamed), 0o600)
	}
	return nil
}

// readConfig reads a configuration; of a file that is too large to be one it returns nothing.
func readConfig(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if len(b) > maxConfig {
		return nil, err
	}
	return b, err
}
