package socket

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// small is the size in bytes up to which a transfer is cheap: copying it takes some microseconds.
const small = 64 << 10

// Conn is a connection with cheap small reads and writes. Like every net.Conn it may be used concurrently.
type Conn struct {
	net.Conn
	raw syscall.RawConn
	in  transfer
	out transfer
}

// transfer is the read or the write in progress. Its function is made once, so that a call allocates nothing.
type transfer struct {
	mu  sync.Mutex // held by the call
	do  func(fd uintptr) bool
	b   []byte // what is left to transfer
	n   int    // the number of bytes transferred
	err syscall.Errno
	try bool // do not wait until the socket is ready
}

// New returns c with cheap small reads and writes. It returns c itself if c has no descriptor or this system is not
// supported.
func New(c net.Conn) net.Conn {
	s, ok := c.(syscall.Conn)
	if !ok || !supported {
		return c
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return c // it is closed already; the caller's next call fails
	}
	k := &Conn{Conn: c, raw: raw}
	k.in.do, k.out.do = k.in.read, k.out.write
	return k
}

// SyscallConn gives access to the descriptor.
func (c *Conn) SyscallConn() (syscall.RawConn, error) { return c.raw, nil }

// CloseWrite closes the writing side of the connection. It fails for connections that cannot be closed by halves.
func (c *Conn) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return c.fault("close", syscall.ENOTSUP)
}

// Read reads at least one byte.
func (c *Conn) Read(b []byte) (int, error) {
	if len(b) == 0 || len(b) > small {
		return c.Conn.Read(b)
	}
	t := &c.in
	t.mu.Lock()
	defer t.mu.Unlock()
	n, errno, err := t.run(c.raw.Read, b)
	switch {
	case err != nil:
		return n, c.fault("read", err)
	case errno != 0:
		return n, c.fault("read", os.NewSyscallError("read", errno))
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write writes all of b.
func (c *Conn) Write(b []byte) (int, error) {
	if len(b) == 0 || len(b) > small {
		return c.Conn.Write(b)
	}
	return c.write(b, false)
}

// TryWrite writes as much of b as the socket accepts without waiting, at most 64 KiB, and returns the number of bytes.
func (c *Conn) TryWrite(b []byte) (int, error) {
	return c.write(b[:min(len(b), small)], true)
}

// WriteBuffers writes all of v with few system calls, like v.WriteTo.
func (c *Conn) WriteBuffers(v *net.Buffers) (int64, error) { return v.WriteTo(c.Conn) }

func (c *Conn) write(b []byte, try bool) (int, error) {
	t := &c.out
	t.mu.Lock()
	defer t.mu.Unlock()
	t.try = try
	n, errno, err := t.run(c.raw.Write, b)
	if err == nil && errno != 0 {
		err = os.NewSyscallError("write", errno)
	}
	if err != nil {
		return n, c.fault("write", err)
	}
	return n, nil
}

// run makes one call. t.mu is held.
func (t *transfer) run(call func(func(uintptr) bool) error, b []byte) (int, syscall.Errno, error) {
	t.b, t.n, t.err = b, 0, 0
	err := call(t.do)
	t.b = nil
	return t.n, t.err, err
}

// fault returns an error in the form of package net's errors. Errors of the raw connection have that form already, but
// name another operation.
func (c *Conn) fault(op string, err error) error {
	if e, ok := err.(*net.OpError); ok { //nolint:errorlint // the outermost is meant
		err = e.Err
	}
	return &net.OpError{Op: op, Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}
