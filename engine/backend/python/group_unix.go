//go:build unix

package python

import (
	"os/exec"
	"syscall"
	"time"
)

// groupDelay is how long the output of a command is waited for when the command has ended and something that it has
// started has not.
const groupDelay = 5 * time.Second

// inGroup makes a command that ends with its context take along what it has started.
func inGroup(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = groupDelay
	return cmd
}
