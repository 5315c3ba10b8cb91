//go:build unix

package httpapi

import "syscall"

// hungUp reports whether the client closed its side: nothing more to read, and no bytes of a next request waiting.
// It does not block and takes nothing from the stream. Only the watcher calls it.
func (c *conn) hungUp() bool {
	raw, err := c.rawConn()
	if err != nil {
		return false
	}
	hungUp := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch err {
		case nil:
			hungUp = n == 0
		case syscall.EAGAIN, syscall.EINTR:
		default:
			hungUp = true
		}
	})
	return hungUp || err != nil
}
