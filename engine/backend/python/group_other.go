//go:build !unix

package python

import "os/exec"

func inGroup(cmd *exec.Cmd) *exec.Cmd { return cmd }
