package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"nereid/engine/client"
	"nereid/engine/system/proc"
)

var (
	idleMemory = figure{"server memory each, KB", "%.1f"}
	idleMedian = figure{"request, median ms", "%.2f"}
	idleMost   = figure{"request, at most ms", "%.2f"}
)

const (
	// idleSettle is how long a server may take to free the memory that the requests needed.
	idleSettle = 8 * time.Second
	// idleRequests is the number of requests that are sent one after the other.
	idleRequests = 101
	idleHealth   = "GET /v2/health/ready HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
)

// connection is one connection to a server. Its first request may open it.
type connection interface {
	Live(ctx context.Context) (bool, error)
	Close() error
}

// runIdle opens many connections to a Nereid server, sends a request over each, and leaves them idle. It measures their
// memory, and the time of requests over old and new ones.
func (b *bench) runIdle(ctx context.Context) error {
	dialHTTP := func(addr string) (connection, error) {
		c, err := net.Dial("tcp", addr)
		return httpConnection{c}, err
	}
	dialGRPC := func(addr string) (connection, error) { return client.NewGRPC(addr, client.GRPCOptions{}) }
	return errors.Join(b.measureIdle(ctx, "http", 10_000, dialHTTP), b.measureIdle(ctx, "grpc", 1_000, dialGRPC))
}

func (b *bench) measureIdle(ctx context.Context, proto string, n int, dial func(string) (connection, error)) error {
	s, err := nereid(b.binary, b.work).start(ctx, filepath.Join(b.work, "empty"))
	if err != nil {
		return err
	}
	defer s.stop()
	settle(ctx, time.Second)
	before, err := proc.Tree(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	var conns []connection
	defer func() {
		for _, c := range conns {
			_ = c.Close() // the measurement is over
		}
	}()
	open := func() error {
		c, err := dial(s.addr(proto))
		if err != nil {
			return err
		}
		conns = append(conns, c)
		_, err = c.Live(ctx)
		return err
	}
	for range n {
		if err := open(); err != nil {
			return fmt.Errorf("%s connection %d: %w", proto, len(conns), err)
		}
	}
	settle(ctx, idleSettle)
	after, err := proc.Tree(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("idle-%s, %d connections", proto, n)
	b.results.add(name, 0, value{idleMemory, (after.RSSMB - before.RSSMB) * 1e3 / float64(n)})
	old, err := timed(func(i int) error {
		_, err := conns[i*(n/idleRequests)].Live(ctx)
		return err
	})
	if err != nil {
		return err
	}
	b.results.add(name, 0, old...)
	fresh, err := timed(func(int) error { return open() })
	b.results.add(name+", a request over a new one", 0, fresh...)
	return errors.Join(err, ctx.Err())
}

// timed measures requests that are sent one after the other.
func timed(request func(i int) error) ([]value, error) {
	took := make([]time.Duration, idleRequests)
	for i := range took {
		begin := time.Now()
		if err := request(i); err != nil {
			return nil, err
		}
		took[i] = time.Since(begin)
	}
	slices.Sort(took)
	return []value{{idleMedian, milliseconds(took[len(took)/2])}, {idleMost, milliseconds(took[len(took)-1])}}, nil
}

// httpConnection is an HTTP/1.1 connection that needs little memory in this process.
type httpConnection struct{ net.Conn }

// Live reports whether the server is ready.
func (c httpConnection) Live(context.Context) (bool, error) {
	if _, err := io.WriteString(c, idleHealth); err != nil {
		return false, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return false, err
	}
	if resp.StatusCode != http.StatusOK {
		return false, errors.New("status " + resp.Status)
	}
	return true, resp.Body.Close()
}
