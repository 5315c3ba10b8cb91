package app

import (
	"fmt"
	"os"
	"slices"

	"nereid/engine/backend"
	"nereid/engine/backend/python"
	"nereid/engine/backend/runtime"
	"nereid/engine/worker"
)

// newFrameworks makes the backends that run frameworks by their own libraries, but those for whose names there is a
// backend already: one that is written in Python and lies in the backend directory comes first.
func newFrameworks(c *Config, d *dataDir, launcher *worker.Launcher, have []backend.Backend) ([]backend.Backend, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("this program's file is not known, which models of frameworks are run by: %w", err)
	}
	var all []backend.Backend
	for _, name := range runtime.Names() {
		if slices.ContainsFunc(have, func(b backend.Backend) bool { return b.Name() == name }) {
			continue
		}
		f, ok := python.FindFramework(name)
		if !ok {
			return nil, fmt.Errorf("nothing says how %s is installed", name)
		}
		b, err := runtime.New(name, runtime.Options{
			Settings: c.Frameworks[name], Environment: f.Environment(d.python()), Interpreter: c.interpreter(),
			Install:  fmt.Sprintf("run 'nereid install %s' (%s)", f.Name, f.Size),
			Launcher: launcher, Worker: []string{exe, "worker", name},
		})
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

// setFramework takes a setting of --backend-config=<framework>.
func (c *Config) setFramework(name, key, value string) error {
	if err := runtime.CheckSetting(name, key, value); err != nil {
		return err
	}
	if c.Frameworks == nil {
		c.Frameworks = map[string]map[string]string{}
	}
	if c.Frameworks[name] == nil {
		c.Frameworks[name] = map[string]string{}
	}
	c.Frameworks[name][key] = value
	return nil
}
