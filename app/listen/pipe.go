package listen

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Pipe is a listener whose connections begin and end in this process. Its methods may be called concurrently.
type Pipe struct {
	ready  chan net.Conn
	closed chan struct{}
	close  func()
}

var _ net.Listener = (*Pipe)(nil)

// NewPipe returns a Pipe, which the caller closes.
func NewPipe() *Pipe {
	p := &Pipe{ready: make(chan net.Conn), closed: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	return p
}

// Dial connects to whoever calls Accept. It returns net.ErrClosed after Close.
func (p *Pipe) Dial(ctx context.Context) (net.Conn, error) {
	mine, theirs, err := connectedPair()
	if err != nil {
		return nil, err
	}
	select {
	case p.ready <- theirs:
		return mine, nil
	case <-p.closed:
		err = net.ErrClosed
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, errors.Join(err, mine.Close(), theirs.Close())
}

// Accept waits for Dial.
func (p *Pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.ready:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close makes Accept and Dial return. Open connections stay open.
func (p *Pipe) Close() error { p.close(); return nil }

// Addr implements net.Listener. There is no address.
func (p *Pipe) Addr() net.Addr { return &net.UnixAddr{Name: "this process", Net: "unix"} }
