//go:build unix

package python

import (
	"os/exec"
	"syscall"
	"time"
)

// groupDelay is how long to wait for the end of a command's output after the command has ended. A child of it may still
// have the pipe open.
const groupDelay = 5 * time.Second

// inGroup makes the end of a command's context kill the command and all its children.
func inGroup(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = groupDelay
	return cmd
}
