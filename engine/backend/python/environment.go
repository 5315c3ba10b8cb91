package python

import (
	"context"
	"log/slog"
	"os/exec"

	"nereid/engine/backend"
	"nereid/engine/status"
)

// environment is a Python with what a model needs.
type environment struct {
	python string   // the interpreter's path
	vars   []string // for its process
	stamp  string   // changes when what is in it does
}

// environments finds and builds environments.
type environments struct {
	folder       string
	interpreter  string // of the machine
	requirements string // a file, for models without an environment of their own
	log          *slog.Logger
}

// of returns the environment of a model.
func (e *environments) of(_ context.Context, s backend.Spec, _ *slog.Logger) (environment, error) {
	path, err := exec.LookPath(e.interpreter)
	if err != nil {
		return environment{}, status.Errorf(status.NotFound, "there is no Python to run model '%s' with: %s is not found; install python3 with numpy, or name one by --backend-config=python,python=<path>", s.ModelName, e.interpreter)
	}
	return environment{python: path}, nil
}
