package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"nereid/engine/backend"
	"nereid/engine/backend/python"
	"nereid/engine/metrics/custom"
	"nereid/engine/worker"
)

// pythonRuntime is the Python backend, those that are written in Python, those of frameworks, and what they need.
type pythonRuntime struct {
	metrics *custom.Registry
	own     *python.Backend
	all     []backend.Backend
}

// newPython makes the backends. The caller closes them when no model is left, also after an error.
func newPython(c *Config, d *dataDir, launcher *worker.Launcher, log *slog.Logger) (pythonRuntime, error) {
	p := pythonRuntime{metrics: &custom.Registry{}}
	var err error
	p.own, err = python.New(python.Options{
		Settings: c.Python, Requirements: c.PythonRequirements, Folder: d.python(), Launcher: launcher,
		Metrics: p.metrics, Log: log,
	})
	if err != nil {
		return p, err
	}
	more, err := p.own.Based(c.BackendDirectory)
	if err != nil {
		return p, fmt.Errorf("--backend-directory: %w", err)
	}
	p.all = append([]backend.Backend{p.own}, more...)
	frameworks, err := newFrameworks(c, d, launcher, p.all)
	p.all = append(p.all, frameworks...)
	return p, err
}

// frameworks installs what python-based backends need, for the page.
type frameworks struct{ folder, interpreter string }

func (frameworks) List() []python.Framework { return python.Frameworks() }

func (f frameworks) Installed(x python.Framework) bool { return x.Installed(f.folder) }

func (f frameworks) Install(ctx context.Context, x python.Framework, out io.Writer) error {
	return python.InstallFramework(ctx, f.folder, f.interpreter, x, out)
}

// close ends the processes that are left.
func (p pythonRuntime) close() {
	if p.own != nil {
		p.own.Close()
	}
}

// interpreter is the Python that environments are made with.
func (c *Config) interpreter() string { return cmp.Or(c.Python["python"], "python3") }

// setPython takes a setting of --backend-config=python.
func (c *Config) setPython(key, value string) error {
	known, effect := python.Known(key)
	if known && effect {
		if c.Python == nil {
			c.Python = map[string]string{}
		}
		c.Python[key] = value
		return python.CheckSetting(key, value)
	}
	why := ""
	if known {
		why = " (the memory that is shared with a model's process has no name, and needs neither queues nor threads)"
	}
	c.WithoutEffect = append(c.WithoutEffect, "backend-config "+strings.Join([]string{"python", key}, ",")+why)
	return nil
}
