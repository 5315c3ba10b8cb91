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

	"golang.org/x/net/http2"

	"nereid/build/bench/proc"
)

// idlePoint is what connections without a request cost our server.
type idlePoint struct {
	proto        string
	connections  int
	bytesEach    int64
	median, most time.Duration // of a request on one of them; 0: not measured
}

const (
	idleHTTP, idleGRPC = 10_000, 1_000
	// idleSettle is how long a server may take to give back what it needed for the requests.
	idleSettle = 8 * time.Second
	idleHealth = "GET /v2/health/ready HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
)

// measureIdle opens many connections to a server of ours and leaves them alone.
func measureIdle(ctx context.Context, o options, rep *report) error {
	for _, c := range []struct {
		proto string
		n     int
		greet func(net.Conn) error
	}{{"http", idleHTTP, askHealth}, {"grpc", idleGRPC, greetGRPC}} {
		p, err := measureIdleOf(ctx, o, c.proto, c.n, c.greet)
		if err != nil {
			return fmt.Errorf("idle %s connections: %w", c.proto, err)
		}
		rep.idle = append(rep.idle, p)
	}
	return nil
}

func measureIdleOf(ctx context.Context, o options, proto string, n int, greet func(net.Conn) error) (point idlePoint, err error) {
	s, err := nereid(o.binary, o.work).start(ctx, filepath.Join(o.work, "empty"), o.work)
	if err != nil {
		return point, err
	}
	defer s.stop()
	settle(ctx, time.Second)
	before, err := proc.Tree(s.cmd.Process.Pid)
	if err != nil {
		return point, err
	}
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close() // the measurement is over
		}
	}()
	for range n {
		c, err := net.Dial("tcp", s.addr(proto))
		if err != nil {
			return point, err
		}
		conns = append(conns, c)
		if err := greet(c); err != nil {
			return point, err
		}
	}
	settle(ctx, idleSettle)
	after, err := proc.Tree(s.cmd.Process.Pid)
	if err != nil {
		return point, err
	}
	point = idlePoint{proto: proto, connections: n, bytesEach: int64((after.RSSMB - before.RSSMB) * 1e6 / float64(n))}
	if proto != "http" {
		return point, ctx.Err()
	}
	var took []time.Duration
	for i := range 101 {
		begin := time.Now()
		if err := greet(conns[i*(n/101)]); err != nil {
			return point, err
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	point.median, point.most = took[len(took)/2], took[len(took)-1]
	return point, ctx.Err()
}

func askHealth(c net.Conn) error {
	if _, err := io.WriteString(c, idleHealth); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New("answer " + resp.Status)
	}
	return resp.Body.Close()
}

// greetGRPC opens the protocol and waits until the server has, too.
func greetGRPC(c net.Conn) error {
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		return err
	}
	f := http2.NewFramer(c, c)
	if err := f.WriteSettings(); err != nil {
		return err
	}
	_, err := f.ReadFrame()
	return err
}
