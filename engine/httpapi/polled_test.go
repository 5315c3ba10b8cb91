package httpapi

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// soon makes a server poll its connections as soon as the watcher can.
func soon(o *Options) { o.pollAfter = time.Nanosecond }

func (s *Server) polledCount() int {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	return len(s.conns.idle.byFD)
}

// untilPolled waits until n connections are polled.
func untilPolled(t *testing.T, s *Server, n int) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("connections are polled on Linux only")
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 3000 {
		if s.polledCount() == n {
			return
		}
		<-tick.C
	}
	t.Fatalf("%d connections are polled, want %d", s.polledCount(), n)
}

// Requests on polled connections are answered, however often a connection is polled.
func TestPolledConnectionsServeRequests(t *testing.T) {
	t.Parallel() // it mostly waits
	s := serve(t, soon)
	conn := dial(t, s.addr)
	for range 3 {
		untilPolled(t, s.Server, 1)
		checkAnswer(t, send(t, conn, request("POST", addSubPath, addSubJSON)), okJSON(addSubReply))
	}
	// The header comes in two parts, the second one after more than pollAfter.
	untilPolled(t, s.Server, 1)
	whole := request("POST", addSubPath, addSubJSON)
	io.WriteString(conn, whole[:20])
	<-time.After(300 * time.Millisecond)
	if n := s.polledCount(); n != 0 {
		t.Errorf("%d connections are parked in the middle of a header", n)
	}
	checkAnswer(t, send(t, conn, whole[20:]), okJSON(addSubReply))
	// Part of the next header comes with a request.
	io.WriteString(conn, whole+whole[:20])
	r := bufio.NewReader(conn)
	checkAnswer(t, receive(t, r, "POST"), okJSON(addSubReply))
	<-time.After(300 * time.Millisecond)
	io.WriteString(conn, whole[20:])
	checkAnswer(t, receive(t, r, "POST"), okJSON(addSubReply))
}

func TestPolledConnectionsServeRequestsOverTLS(t *testing.T) {
	t.Parallel() // it mostly waits
	config := &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}
	s, err := New(Options{Engine: newFake(), pollAfter: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(tls.NewListener(l, config)) }()
	defer func() {
		if err := errors.Join(s.Shutdown(t.Context()), <-served); err != nil {
			t.Error(err)
		}
	}()
	silent := dial(t, l.Addr().String()) // no handshake yet: it must not be interrupted
	<-time.After(200 * time.Millisecond)
	conn := tls.Client(dial(t, l.Addr().String()), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // test
	for range 3 {
		checkAnswer(t, send(t, conn, request("POST", addSubPath, addSubJSON)), okJSON(addSubReply))
		untilPolled(t, s, 1)
	}
	late := tls.Client(silent, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // test
	checkAnswer(t, send(t, late, request("POST", addSubPath, addSubJSON)), okJSON(addSubReply))
}

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)},
		&x509.Certificate{}, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// A polled connection is ended by the client, the idle limit or Shutdown, and no longer counted then.
func TestPolledConnectionsEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	before := runtime.NumGoroutine()
	s, l := bareServer(t)
	s.opt.pollAfter, s.opt.IdleTimeout = time.Nanosecond, 4*time.Second // long enough to see them polled
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	var conns []net.Conn
	for range 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
	}
	untilPolled(t, s, 3)
	conns[0].Close()
	untilPolled(t, s, 2)
	ended(t, conns[1])
	ended(t, conns[2])
	untilPolled(t, s, 0)
	if n := s.conns.open.Load(); n != 0 {
		t.Errorf("%d connections count as open, all have ended", n)
	}
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	untilPolled(t, s, 1)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown = %v", err)
	}
	ended(t, c)
	if err := <-served; err != nil {
		t.Errorf("Serve = %v", err)
	}
	noGoroutinesLeft(t, before)
}

// Requests that arrive while a connection is being polled are answered.
func TestRequestsDuringReleaseAreAnswered(t *testing.T) {
	t.Parallel() // it mostly waits
	s := serve(t, soon)
	rounds := 20
	if testing.Short() {
		rounds = 5
	}
	var wg sync.WaitGroup
	for worker := range 64 {
		wg.Go(func() {
			conn, err := net.Dial("tcp", s.addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			r := bufio.NewReader(conn)
			whole := request("POST", addSubPath, addSubJSON)
			for i := range rounds {
				<-time.After(time.Duration(40+(worker*7+i*13)%30) * time.Millisecond) // a tick is 50 ms
				io.WriteString(conn, whole)
				if got := receive(t, r, "POST"); got.body != addSubReply {
					t.Errorf("worker %d, request %d: %s %s", worker, i, got.status, got.body)
					return
				}
			}
		})
	}
	wg.Wait()
}

// Connections over the limit get 503. When others end, new ones are served again.
func TestConnectionsOverTheLimitGet503(t *testing.T) {
	t.Parallel() // it mostly waits
	s := serve(t, soon, func(o *Options) { o.MaxConnections = 2 })
	a, b := dial(t, s.addr), dial(t, s.addr)
	for _, c := range []net.Conn{a, b} {
		if got := send(t, c, request("GET", "/v2/health/live", "")); got.status != "200 OK" {
			t.Fatalf("answer %s", got.status)
		}
	}
	untilPolled(t, s.Server, 2) // polled ones count too
	c := dial(t, s.addr)
	got := send(t, c, request("GET", "/v2/health/live", ""))
	if got.status != "503 Service Unavailable" || !got.close || !strings.Contains(got.body,
		`{"error":"the server has as many`) {
		t.Errorf("the third connection: %s %q, close %v", got.status, got.body, got.close)
	}
	ended(t, c)
	a.Close()
	untilPolled(t, s.Server, 1)
	untilTrue(t, "the place becomes free after that", func() bool { return s.conns.open.Load() == 1 })
	alive(t, s)
	fmt.Fprint(b, request("GET", "/v2/health/live", ""))
	if got := receive(t, bufio.NewReader(b), "GET"); got.status != "200 OK" {
		t.Errorf("answer %s", got.status)
	}
}
