//go:build !linux

package socket

import (
	"net"
	"syscall"
)

// PeerUser knows no user on this system.
func PeerUser(net.Conn) (uid int, known bool) { return 0, false }

// UnixPeer knows no user on this system.
func UnixPeer(syscall.RawConn) (uid int, known bool) { return 0, false }
