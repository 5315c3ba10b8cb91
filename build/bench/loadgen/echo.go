package main

import (
	"context"
	"fmt"
	"net"
	"runtime"

	"github.com/valyala/fasthttp"
)

// serveEcho answers every request on addr with its own body, over the HTTP library that the server uses and with as
// little else as that allows, until ctx ends. It is what moving bytes costs when nothing is done with them. Its
// processors are as many as the server takes.
func serveEcho(ctx context.Context, addr string) error {
	runtime.GOMAXPROCS(runtime.NumCPU() + 2)
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s := &fasthttp.Server{
		Handler: func(c *fasthttp.RequestCtx) {
			c.SetContentType("application/octet-stream")
			c.Response.SetBodyRaw(c.PostBody())
		},
		ReadBufferSize: 8 << 10, MaxRequestBodySize: 1 << 30, NoDefaultServerHeader: true, NoDefaultDate: true,
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		_ = l.Close() // Serve ends by it
	}()
	err = s.Serve(l)
	if ctx.Err() != nil {
		<-stopped
		return nil
	}
	return fmt.Errorf("echo on %s: %w", addr, err)
}
