package socket

import "syscall"

const supported = true

// read reads once. It returns false if there is nothing to read yet.
func (t *transfer) read(fd uintptr) bool {
	for {
		n, errno := read(fd, t.b)
		switch errno {
		case 0:
			t.n = n
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return false
		default:
			t.err = errno
		}
		return true
	}
}

// write writes all. It returns false if it must wait until the socket's buffer has room.
func (t *transfer) write(fd uintptr) bool {
	for len(t.b) > 0 {
		n, errno := write(fd, t.b)
		switch errno {
		case 0:
			t.n += n
			t.b = t.b[n:]
		case syscall.EINTR:
		case syscall.EAGAIN:
			return t.try
		default:
			t.err = errno
			return true
		}
	}
	return true
}
