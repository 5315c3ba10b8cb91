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
	"nereid/engine/system/glob"
	"nereid/engine/worker/process"
)

// activation is a shell script. It sources the scripts that are its arguments and prints all variables, each followed
// by a zero byte. The output of the scripts goes to stderr.
const activation = `exec 3>&1 >&2; for script; do . "$script"; done; exec env -0 >&3 3>&-`

// activate runs the activation scripts of a conda environment, those in etc/conda/activate.d. It returns vars, the
// variables of the environment's processes, with what the scripts have set. Errors: Internal, with the output of a
// script that fails.
func activate(ctx context.Context, folder string, vars []string) ([]string, error) {
	scripts := glob.In(folder, "etc/conda/activate.d/*.sh")
	if len(scripts) == 0 {
		return vars, nil
	}
	shell, err := exec.LookPath("bash")
	if err != nil {
		shell = "sh" // most scripts work with it
	}
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	cmd := inGroup(exec.CommandContext(ctx, shell, append([]string{"-c", activation, shell}, scripts...)...))
	cmd.Env = append(process.Environ(os.Environ(), nil), vars...) // exec takes the last of two
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) { // ErrWaitDelay: a script left a process running
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
