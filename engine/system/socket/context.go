package socket

import (
	"context"
	"errors"
	"net"
	"syscall"
)

type connKey struct{}

// NewContext returns ctx with the connection that a request came by. It has the signature of http.Server.ConnContext.
func NewContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// FromContext returns the connection of NewContext, nil if there is none.
func FromContext(ctx context.Context) net.Conn {
	c, _ := ctx.Value(connKey{}).(net.Conn)
	return c
}

// descriptor gives access to a connection's descriptor, also below TLS and other layers that have NetConn.
func descriptor(c net.Conn) (syscall.RawConn, error) {
	for c != nil {
		if s, ok := c.(syscall.Conn); ok {
			return s.SyscallConn()
		}
		layer, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		c = layer.NetConn()
	}
	return nil, errors.New("the connection has no descriptor")
}
