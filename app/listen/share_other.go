//go:build !linux

package listen

import "syscall"

// CanSharePorts reports whether several servers can listen on one port.
const CanSharePorts = false

func sharePort(_, _ string, _ syscall.RawConn) error { return nil }
