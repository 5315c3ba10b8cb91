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
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"nereid/engine/system/proc"
)

// idleExperiment opens many connections to a server of ours and leaves them idle.
type idleExperiment struct{ points []idlePoint }

// idlePoint is what idle connections cost our server.
type idlePoint struct {
	proto       string
	connections int
	bytesEach   int64
	old, fresh  latency // of a request on one of them, and on a new one beside them
}

type latency struct{ median, most time.Duration }

const (
	// idleSettle is how long a server may take to free what it needed for the requests.
	idleSettle = 8 * time.Second
	idleHealth = "GET /v2/health/ready HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
)

func (e *idleExperiment) cases() []string { return []string{"idle"} }

func (e *idleExperiment) run(ctx context.Context, o *options) error {
	for _, c := range []struct {
		proto string
		n     int
		open  func(net.Conn) error // prepares a connection
		ask   func(net.Conn) error // sends a request over it and waits for the response
	}{{"http", 10_000, askHealth, askHealth}, {"grpc", 1_000, greetGRPC, askLive}} {
		p, err := measureIdle(ctx, o, c.proto, c.n, c.open, c.ask)
		if err != nil {
			return fmt.Errorf("idle %s connections: %w", c.proto, err)
		}
		e.points = append(e.points, p)
	}
	return nil
}

func measureIdle(ctx context.Context, o *options, proto string, n int, open, ask func(net.Conn) error) (point idlePoint,
	err error) {
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
	connect := func() (net.Conn, error) {
		c, err := net.Dial("tcp", s.addr(proto))
		if err != nil {
			return nil, err
		}
		conns = append(conns, c)
		return c, open(c)
	}
	for range n {
		if _, err := connect(); err != nil {
			return point, err
		}
	}
	settle(ctx, idleSettle)
	after, err := proc.Tree(s.cmd.Process.Pid)
	if err != nil {
		return point, err
	}
	bytesEach := int64((after.RSSMB - before.RSSMB) * 1e6 / float64(n))
	point = idlePoint{proto: proto, connections: n, bytesEach: bytesEach}
	if point.old, err = timed(func(i int) error { return ask(conns[i*(n/idleAsked)]) }); err != nil {
		return point, err
	}
	point.fresh, err = timed(func(int) error {
		c, err := connect()
		if err != nil || proto == "http" { // whose open is a request
			return err
		}
		return ask(c)
	})
	return point, errors.Join(err, ctx.Err())
}

// idleAsked is the number of requests that are sent one after the other.
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
		return errors.New("status " + resp.Status)
	}
	return resp.Body.Close()
}

// greetGRPC sends the connection preface and waits for the server's.
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
	for _, h := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", "/inference.GRPCInferenceService/ServerLive"},
		{":authority", "127.0.0.1"}, {"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		if err := enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
			return err
		}
	}
	f := http2.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	head := http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true}
	if err := f.WriteHeaders(head); err != nil {
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

func (e *idleExperiment) table() string {
	if len(e.points) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nIdle connections, each after one request (HTTP) or its greeting (gRPC):\n\n" +
		"| protocol | connections | memory each, bytes | a request on one, median ms | at most | " +
		"on a new one, median ms | at most |\n|---|---|---|---|---|---|---|\n")
	for _, p := range e.points {
		fmt.Fprintf(&b, "| %s | %d | %d | %.2f | %.2f | %.2f | %.2f |\n", p.proto, p.connections, p.bytesEach,
			milliseconds(p.old.median), milliseconds(p.old.most), milliseconds(p.fresh.median),
			milliseconds(p.fresh.most))
	}
	return b.String()
}

func (e *idleExperiment) bars() (list []bar) {
	for _, p := range e.points {
		if p.proto == "http" {
			list = append(list,
				atMost(10, "KB", float64(p.bytesEach)/1000, "%d idle HTTP connections, memory each", p.connections),
				atMost(50, "ms", milliseconds(p.old.most), "a request on one of them, at most"),
				atMost(50, "ms", milliseconds(p.fresh.most), "a request on a new connection beside them, at most"))
		}
	}
	return list
}
