package main

import (
	"bufio"
	"bytes"
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
	"golang.org/x/net/http2/hpack"

	"nereid/engine/system/proc"
)

// idlePoint is what connections without a request cost our server.
type idlePoint struct {
	proto       string
	connections int
	bytesEach   int64
	old, fresh  latency // of a request on one of them, and on a new one beside them
}

type latency struct{ median, most time.Duration }

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
		open  func(net.Conn) error // a connection, which it leaves idle
		ask   func(net.Conn) error // and is answered
	}{{"http", idleHTTP, askHealth, askHealth}, {"grpc", idleGRPC, greetGRPC, askLive}} {
		p, err := measureIdleOf(ctx, o, c.proto, c.n, c.open, c.ask)
		if err != nil {
			return fmt.Errorf("idle %s connections: %w", c.proto, err)
		}
		rep.idle = append(rep.idle, p)
	}
	return nil
}

func measureIdleOf(ctx context.Context, o options, proto string, n int, open, ask func(net.Conn) error) (point idlePoint, err error) {
	s, err := nereid(o.binary, o.work).start(ctx, filepath.Join(o.work, "empty"))
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
		if err := open(c); err != nil {
			return point, err
		}
	}
	settle(ctx, idleSettle)
	after, err := proc.Tree(s.cmd.Process.Pid)
	if err != nil {
		return point, err
	}
	point = idlePoint{proto: proto, connections: n, bytesEach: int64((after.RSSMB - before.RSSMB) * 1e6 / float64(n))}
	if point.old, err = timed(func(i int) error { return ask(conns[i*(n/idleAsked)]) }); err != nil {
		return point, err
	}
	if point.fresh, err = timed(func(int) error {
		c, err := net.Dial("tcp", s.addr(proto))
		if err != nil {
			return err
		}
		conns = append(conns, c)
		if err := open(c); err != nil || proto == "http" { // that asks already
			return err
		}
		return ask(c)
	}); err != nil {
		return point, err
	}
	return point, ctx.Err()
}

// idleAsked is how many requests are sent one after the other.
const idleAsked = 101

func timed(request func(i int) error) (latency, error) {
	took := make([]time.Duration, idleAsked)
	for i := range took {
		begin := time.Now()
		if err := request(i); err != nil {
			return latency{}, err
		}
		took[i] = time.Since(begin)
	}
	slices.Sort(took)
	return latency{took[len(took)/2], took[len(took)-1]}, nil
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

// askLive asks whether the server is live: the connection's first call.
func askLive(c net.Conn) error {
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/inference.GRPCInferenceService/ServerLive"},
		{":authority", "127.0.0.1"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		if err := enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
			return err
		}
	}
	f := http2.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true}); err != nil {
		return err
	}
	if err := f.WriteData(1, true, make([]byte, 5)); err != nil { // an empty message
		return err
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return err
		}
		if h, ok := frame.(*http2.MetaHeadersFrame); ok && h.StreamEnded() {
			for _, field := range h.Fields {
				if field.Name == "grpc-status" && field.Value != "0" {
					return errors.New("gRPC status " + field.Value)
				}
			}
			return nil
		}
	}
}
