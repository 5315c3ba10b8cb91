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

// Framework is a Python package that the models of a backend need. InstallFramework installs it into a separate
// environment; a user may also install it into the machine's Python.
type Framework struct {
	Name         string // of the backend
	Title        string
	Module       string // the Python package
	Requirements string // the text of a requirements.txt
	Size         string // on disk, about, as text
}

// Frameworks returns all frameworks, sorted by name.
func Frameworks() []Framework {
	return []Framework{
		{"fil", "Treelite", "treelite", "treelite==4.8.1\nnumpy\n", "250 MB"},
		{"openvino", "OpenVINO", "openvino", "openvino==2026.4.1\nnumpy\n", "280 MB"},
		{"pytorch", "PyTorch", "torch", "torch==2.15.0\nnumpy\n", "5.5 GB with its CUDA libraries"},
		{"tensorflow", "TensorFlow", "tensorflow", "tensorflow-cpu==2.21.0\nnumpy\n", "1.6 GB"},
	}
}

// FindFramework returns the framework of the backend with this name; false if it needs none.
func FindFramework(name string) (Framework, bool) {
	all := Frameworks()
	i := slices.IndexFunc(all, func(f Framework) bool { return f.Name == name })
	if i < 0 {
		return Framework{}, false
	}
	return all[i], true
}

// Environment returns the folder of the framework's environment, which may not exist yet. folder is the server's
// Options.Folder.
func (f Framework) Environment(folder string) string {
	return filepath.Join(folder, "environments", "framework-"+f.Name)
}

// Installed reports whether InstallFramework has installed this version of the framework.
func (f Framework) Installed(folder string) bool {
	path := f.Environment(folder)
	if _, err := os.Stat(filepath.Join(path, ".complete")); err != nil {
		return false
	}
	text, err := os.ReadFile(filepath.Join(path, "requirements.txt"))
	return err == nil && string(text) == f.Requirements
}

// InstallFramework installs a framework, unless this version is installed, by the Python that interpreter names. folder
// is the Options.Folder of the servers that will use it. The installer's output goes to out and to a file beside the
// environment. Errors: NotFound for an interpreter that does not exist, Internal when the installation fails, with the
// last lines of the output.
func InstallFramework(ctx context.Context, folder, interpreter string, f Framework, out io.Writer) error {
	python, err := exec.LookPath(interpreter)
	if err != nil {
		return status.Errorf(status.NotFound,
			"there is no Python to install %s for: %s is not found; install python3", f.Title, interpreter)
	}
	if python, err = filepath.Abs(python); err != nil { // it is run in another working directory
		return status.Errorf(status.Internal, "%s cannot be installed: %w", f.Title, err)
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return status.Errorf(status.Internal, "%s cannot be installed: %w", f.Title, err)
	}
	path := f.Environment(folder)
	if !f.Installed(folder) { // it is another version, or not finished
		if err := os.Remove(filepath.Join(path, ".complete")); err != nil && !os.IsNotExist(err) {
			return status.Errorf(status.Internal, "%s cannot be installed: %w", f.Title, err)
		}
	}
	err = once(ctx, path, func() error {
		file, err := os.CreateTemp(filepath.Dir(path), "requirements-*.txt")
		if err != nil {
			return err
		}
		defer os.Remove(file.Name()) // the environment has a copy
		_, err = file.WriteString(f.Requirements)
		if cerr := file.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
		return build(ctx, python, file.Name(), []byte(f.Requirements), path, nil, out)
	})
	if err != nil {
		return status.Errorf(status.Internal, "%s cannot be installed: %w", f.Title, err)
	}
	return nil
}

// missing adds the way to install a framework to the error of a model that does not find it.
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
