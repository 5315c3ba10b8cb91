//go:build !linux

package listen

import "syscall"

// CanSharePorts: several servers can listen on one port.
const CanSharePorts = false

func sharePort(_, _ string, _ syscall.RawConn) error { return nil }
