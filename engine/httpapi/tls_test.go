package httpapi

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"nereid/engine/infer"
)

// secureServer returns a server over TLS.
func secureServer(t *testing.T, change ...func(*Options)) *testServer {
	t.Helper()
	o := Options{Engine: newFake()}
	for _, f := range change {
		f(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}
	served := make(chan error, 1)
	go func() { served <- s.Serve(tls.NewListener(l, config)) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown = %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
	return &testServer{Server: s, engine: o.Engine.(*fakeEngine), addr: l.Addr().String()}
}

func dialTLS(t *testing.T, addr string, version uint16) *tls.Conn {
	t.Helper()
	c := tls.Client(dial(t, addr), &tls.Config{InsecureSkipVerify: true, MaxVersion: version}) //nolint:gosec // test
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	return c
}

// A TLS client that leaves is noticed, with close_notify or without. A client that waits is not cancelled.
func TestA22ClientLeavesUnderTLS(t *testing.T) {
	s := secureServer(t)
	started := make(chan *infer.Request, 1)
	s.engine.models["multi"].run = func(r *infer.Request, _ *fakeModel) {
		started <- r.Retain() // never answers
	}
	infer := request("POST", "/v2/models/multi/infer", oneInput("[1,16]", "FP32", "["+zeroTo15+"]"))
	for _, tt := range []struct {
		name    string
		version uint16
		leave   func(*tls.Conn) error
	}{
		{"B043 TLS 1.3, with close_notify", tls.VersionTLS13, (*tls.Conn).Close},
		{"TLS 1.2, with close_notify", tls.VersionTLS12, (*tls.Conn).Close},
		{"TLS 1.3, without", tls.VersionTLS13, func(c *tls.Conn) error { return c.NetConn().Close() }},
		{"close_notify, and the connection stays", tls.VersionTLS13, (*tls.Conn).CloseWrite},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := dialTLS(t, s.addr, tt.version)
			io.WriteString(c, infer)
			r := <-started
			defer r.Release()
			select {
			case <-r.Done():
				t.Error("a waiting client's request is cancelled")
			case <-time.After(200 * time.Millisecond):
			}
			if err := tt.leave(c); err != nil {
				t.Fatal(err)
			}
			select {
			case <-r.Done():
			case <-time.After(time.Minute):
				t.Error("the request is not cancelled a minute after its client left")
			}
		})
	}
	t.Run("pipelined bytes are not an end", func(t *testing.T) {
		c := dialTLS(t, s.addr, tls.VersionTLS13)
		io.WriteString(c, infer)
		r := <-started
		io.WriteString(c, request("GET", "/v2", ""))
		select {
		case <-r.Done():
			t.Error("a waiting client's request is cancelled")
		case <-time.After(200 * time.Millisecond):
		}
		identity(r, nil)
		r.Release()
		read := bufio.NewReader(c)
		for _, method := range []string{"POST", "GET"} {
			if got := receive(t, read, method); got.status != "200 OK" {
				t.Errorf("answer %s %s", got.status, got.body)
			}
		}
	})
}

// A TLS client on a port without TLS gets an answer at once, not after the header timeout.
func TestHTTPSToAPlainPort_B043(t *testing.T) {
	s := serve(t, func(o *Options) { o.HeaderTimeout = time.Hour })
	conn := dial(t, s.addr)
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	err := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).Handshake()
	var record tls.RecordHeaderError
	if !errors.As(err, &record) {
		t.Errorf("handshake: %v, want that the answer is no TLS", err)
	}
	alive(t, s)
}

func TestPlainHTTPToAnHTTPSPort_B043(t *testing.T) {
	s := secureServer(t)
	got := send(t, dial(t, s.addr), request("GET", "/v2", ""))
	if !strings.HasPrefix(got.status, "400") || !strings.Contains(got.body, "https://") {
		t.Errorf("answer %s %s, want a hint at https", got.status, got.body)
	}
	if got := send(t, dialTLS(t, s.addr, tls.VersionTLS13), request("GET", "/v2", "")); got.status != "200 OK" {
		t.Errorf("answer %s %s", got.status, got.body)
	}
}

// The connection of a client that never completes the handshake is closed after the header timeout.
func TestA8SlowHandshake(t *testing.T) {
	s := secureServer(t, func(o *Options) { o.HeaderTimeout = 200 * time.Millisecond })
	ended(t, dial(t, s.addr))
}

func TestCloseNotifyIsRecognized(t *testing.T) {
	record := func(kind byte, length int) []byte {
		return append([]byte{kind, 3, 3, byte(length >> 8), byte(length)}, make([]byte, length)...)
	}
	for _, tt := range []struct {
		name string
		b    []byte
		want bool
	}{
		{"nothing", nil, false},
		{"TLS 1.3 alert", record(23, 19), true},
		{"TLS 1.2 alert", record(21, 26), true},
		{"data", record(23, 60), false},
		{"part of an alert", record(21, 26)[:20], false},
		{"data and an alert", append(record(23, 60), record(21, 26)...), false},
		{"part of a header", []byte{21, 3}, false},
	} {
		if got := isCloseNotify(tt.b); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
