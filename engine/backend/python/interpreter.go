package python

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"nereid/engine/status"
	"nereid/engine/system/glob"
	"nereid/engine/worker/process"
)

// interpreter returns the absolute path of the Python to install the framework for: the given one, or, if the framework
// needs certain versions, one of these that is found on the machine. Errors: NotFound.
func (f Framework) interpreter(ctx context.Context, given string) (string, error) {
	path, err := exec.LookPath(given)
	if err != nil {
		return "", status.Errorf(status.NotFound,
			"there is no Python to install %s for: %s is not found; install python3", f.Title, given)
	}
	if path, err = filepath.Abs(path); err != nil { // it is run in another working directory
		return "", status.Errorf(status.Internal, "%s cannot be installed: %w", f.Title, err)
	}
	if len(f.Pythons) == 0 {
		return path, nil
	}
	is := pythonVersion(ctx, path)
	if slices.Contains(f.Pythons, is) {
		return path, nil
	}
	for _, version := range f.Pythons {
		for _, candidate := range pythonsOf(version) {
			if pythonVersion(ctx, candidate) == version {
				return candidate, nil
			}
		}
	}
	return "", status.Errorf(status.NotFound,
		"%s needs Python %s: %s is Python %s, and neither PATH nor pyenv has one of these; install one, and name it "+
			"by --python", f.Title, strings.Join(f.Pythons, " or "), given, is)
}

// pythonsOf returns where a Python of a version such as "3.10" may be: in PATH, or in pyenv's folder. There, what PATH
// has may be a script that refuses to run.
func pythonsOf(version string) []string {
	var paths []string
	if path, err := exec.LookPath("python" + version); err == nil {
		paths = append(paths, path)
	}
	root := os.Getenv("PYENV_ROOT")
	if home, err := os.UserHomeDir(); root == "" && err == nil {
		root = filepath.Join(home, ".pyenv")
	}
	return append(paths, glob.In(root, "versions/"+version+".*/bin/python")...)
}

// pythonVersion returns the version of an interpreter, such as "3.10"; "" if it does not run.
func pythonVersion(ctx context.Context, path string) string {
	cmd := inGroup(exec.CommandContext(ctx, path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"))
	cmd.Env = process.InstallerEnviron(nil)
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
