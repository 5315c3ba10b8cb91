package python

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"nereid/engine/status"
)

// Framework is what the models of a backend need from the package index: it is installed into an environment of its
// own, by InstallFramework, or by hand into the machine's Python.
type Framework struct {
	Name         string // of the backend
	Title        string
	Module       string // the Python package
	Requirements string // the text of a requirements.txt
	Size         string // about, on disk
}

// Frameworks returns them by their names.
func Frameworks() []Framework {
	return []Framework{
		{"fil", "Treelite", "treelite", "treelite==4.8.1\nnumpy\n", "250 MB"},
		{"openvino", "OpenVINO", "openvino", "openvino==2026.4.1\nnumpy\n", "280 MB"},
		{"pytorch", "PyTorch", "torch", "torch==2.15.0\nnumpy\n", "5.5 GB with its CUDA libraries"},
		{"tensorflow", "TensorFlow", "tensorflow", "tensorflow-cpu==2.21.0\nnumpy\n", "1.6 GB"},
	}
}

// FindFramework returns the framework of a backend's name.
func FindFramework(name string) (Framework, bool) {
	all := Frameworks()
	i := slices.IndexFunc(all, func(f Framework) bool { return f.Name == name })
	if i < 0 {
		return Framework{}, false
	}
	return all[i], true
}

// Environment is where a framework's environment is, or would be, below folder, the Options.Folder of the server.
func (f Framework) Environment(folder string) string {
	return filepath.Join(folder, "environments", "framework-"+f.Name)
}

// Installed reports whether InstallFramework has made the environment, in the version that is asked for.
func (f Framework) Installed(folder string) bool {
	path := f.Environment(folder)
	if _, err := os.Stat(filepath.Join(path, ".complete")); err != nil {
		return false
	}
	text, err := os.ReadFile(filepath.Join(path, "requirements.txt"))
	return err == nil && string(text) == f.Requirements
}

// InstallFramework makes a framework's environment below folder, the Options.Folder of the servers that shall use it,
// with the Python that interpreter names. One that is there, in the same version, stays. What the installer says goes
// to out as well as to a file beside the environment. Errors: NotFound for an interpreter that is not there, Internal
// when the installation fails, with the last lines of what was said.
func InstallFramework(ctx context.Context, folder, interpreter string, f Framework, out io.Writer) error {
	python, err := exec.LookPath(interpreter)
	if err != nil {
		return status.Errorf(status.NotFound,
			"there is no Python to install %s for: %s is not found; install python3", f.Title, interpreter)
	}
	if python, err = filepath.Abs(python); err != nil { // it is run from elsewhere
		return status.Errorf(status.Internal, "%s cannot be installed: %w", f.Title, err)
	}
	if folder, err = filepath.Abs(folder); err != nil { // as is what it writes
		return status.Errorf(status.Internal, "%s cannot be installed: %w", f.Title, err)
	}
	path := f.Environment(folder)
	if !f.Installed(folder) { // of another version, or not finished
		if err := os.Remove(filepath.Join(path, ".complete")); err != nil && !os.IsNotExist(err) {
			return status.Errorf(status.Internal, "%s cannot be installed: %w", f.Title, err)
		}
	}
	err = once(ctx, path, func() error {
		file, err := os.CreateTemp(filepath.Dir(path), "requirements-*.txt")
		if err != nil {
			return err
		}
		defer os.Remove(file.Name()) // a copy lies in the environment
		_, err = file.WriteString(f.Requirements)
		if cerr := file.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
		return build(ctx, python, file.Name(), []byte(f.Requirements), path, out)
	})
	if err != nil {
		return status.Errorf(status.Internal, "%s cannot be installed: %w", f.Title, err)
	}
	return nil
}

// missing adds to the error of a missing framework how to install it.
func (m *model) missing(err error) error {
	f, ok := FindFramework(m.platform)
	if !ok || !strings.Contains(err.Error(), fmt.Sprintf("No module named '%s'", f.Module)) {
		return err
	}
	return status.Errorf(status.CodeOf(err),
		"%s is not installed, which model '%s' needs: run 'nereid install %s' (%s), or install %s where %s finds "+
			"it: %w",
		f.Title, m.spec.ModelName, f.Name, f.Size, strings.Fields(f.Requirements)[0], m.env.python, err)
}
