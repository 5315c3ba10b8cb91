package python

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nereid/engine/status"
)

// activation has the scripts that are its arguments set what they set, and prints all variables, each with a zero at
// its end. What the scripts say goes to the standard error.
const activation = `exec 3>&1 >&2; for script; do . "$script"; done; exec env -0 >&3 3>&-`

// activate returns vars, those of the processes of an environment, with what the environment's packages set when
// conda activates it: the scripts of etc/conda/activate.d, as bin/activate of an archive of conda-pack runs them.
// Errors: Internal, with what a script that fails has said.
func activate(ctx context.Context, folder string, vars []string) ([]string, error) {
	scripts, err := filepath.Glob(filepath.Join(folder, "etc", "conda", "activate.d", "*.sh"))
	if err != nil || len(scripts) == 0 {
		return vars, nil //nolint:nilerr // a folder's name that is no pattern has none
	}
	shell, err := exec.LookPath("bash")
	if err != nil {
		shell = "sh" // most scripts want no more
	}
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	cmd := inGroup(exec.CommandContext(ctx, shell, append([]string{"-c", activation, shell}, scripts...)...))
	cmd.Env = append(os.Environ(), vars...) // of two, exec takes the last
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) { // which is a script that left something running
		return nil, status.Errorf(status.Internal, "the scripts in %s: %w\n%s", filepath.Dir(scripts[0]), err,
			lastLines([]byte(said.String())))
	}
	before := cmd.Environ()
	for v := range strings.SplitSeq(string(out), "\x00") {
		name, _, ok := strings.Cut(v, "=")
		if !ok || slices.Contains(before, v) || slices.Contains([]string{"_", "SHLVL", "PWD", "OLDPWD"}, name) {
			continue
		}
		vars = slices.DeleteFunc(vars, func(old string) bool { return strings.HasPrefix(old, name+"=") })
		vars = append(vars, v)
	}
	return vars, nil
}
