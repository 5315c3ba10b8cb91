//go:build unix

package socket

import "syscall"

// PeerClosed reports whether the peer closed its side of a connection and everything before that was read. It does not
// block and takes nothing from the connection. isEnd, if not nil, is called with up to 128 bytes that wait to be read,
// and decides whether they mean the same.
func PeerClosed(raw syscall.RawConn, isEnd func(waiting []byte) bool) bool {
	closed := false
	err := raw.Control(func(fd uintptr) {
		var b [128]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch err {
		case nil:
			closed = n == 0 || isEnd != nil && isEnd(b[:n])
		case syscall.EAGAIN, syscall.EINTR:
		default:
			closed = true
		}
	})
	return closed || err != nil
}
