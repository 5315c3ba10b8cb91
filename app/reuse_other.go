//go:build !linux

package app

import "syscall"

const canReusePorts = false

func reusePort(_, _ string, _ syscall.RawConn) error { return nil }
