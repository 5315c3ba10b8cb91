package listen

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// guardedServer serves a handler through a Guard and returns how to connect to it.
func guardedServer(t *testing.T, connections int, stall time.Duration, h http.HandlerFunc) (*http.Server, *Guard,
	func() net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := NewGuard(connections, stall)
	return serveGuarded(t, l, g, h), g, func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute)) // a failure shows in reads
		return c
	}
}

// serveGuarded serves a handler on l through g until the test ends.
func serveGuarded(t *testing.T, l net.Listener, g *Guard, h http.HandlerFunc) *http.Server {
	t.Helper()
	srv := &http.Server{Handler: g.Handler(h), ReadHeaderTimeout: time.Minute, IdleTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(g.Listener(l)) }()
	t.Cleanup(func() {
		_ = srv.Close() // ends Serve
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return srv
}

func answer(t *testing.T, c net.Conn) int {
	t.Helper()
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	return r.StatusCode
}

const unsent = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"

func TestA27BodyThatDoesNotArrive(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"read": func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the body ends with %v", err)
			}
			w.WriteHeader(http.StatusRequestTimeout)
		},
		"not read": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestTimeout) },
		"not read before a long answer": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusRequestTimeout)
			_, _ = w.Write(make([]byte, 1<<20))
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, dial := guardedServer(t, 10, 300*time.Millisecond, h)
			c := dial()
			_, _ = io.WriteString(c, unsent)
			if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection is open after a minute")
			}
		})
	}
}

// pipes is a listener for a bubble of synctest, in which the clock is fake and sockets would use the real one.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, open := <-p; open {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

// A body that arrives slowly and a handler that takes long have the time that they need.
func TestA27SlowBodyAndLongHandler(t *testing.T) {
	const stall = time.Minute
	synctest.Test(t, func(t *testing.T) {
		l := make(pipes)
		serveGuarded(t, l, NewGuard(10, stall), func(w http.ResponseWriter, r *http.Request) {
			begin := time.Now()
			if b, err := io.ReadAll(r.Body); err != nil || string(b) != "0123456789" {
				t.Errorf("the body is %q: %v", b, err)
			}
			if took := time.Since(begin); took < 2*stall {
				t.Errorf("the body took %v: it was not slow", took)
			}
			select {
			case <-r.Context().Done():
				t.Error("the request was cancelled while its handler ran")
			case <-time.After(2 * stall):
			}
			w.WriteHeader(http.StatusNoContent)
		})
		c, server := net.Pipe()
		defer c.Close()
		l <- server
		_, _ = io.WriteString(c, unsent)
		for _, b := range "0123456789" {
			time.Sleep(stall / 4)
			_, _ = io.WriteString(c, string(b))
		}
		if code := answer(t, c); code != http.StatusNoContent {
			t.Errorf("status %d", code)
		}
	})
}

// A body of which only some bytes come is given up: each byte alone is no progress.
func TestA27BodyThatDrips(t *testing.T) {
	for _, length := range []string{"Content-Length: 100000", "Transfer-Encoding: chunked"} {
		t.Run(length, func(t *testing.T) {
			ended := make(chan error, 1)
			_, _, dial := guardedServer(t, 10, 300*time.Millisecond, func(_ http.ResponseWriter, r *http.Request) {
				_, err := io.Copy(io.Discard, r.Body)
				ended <- err
			})
			c := dial()
			_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\n"+length+"\r\n\r\n")
			drip := time.NewTicker(10 * time.Millisecond)
			defer drip.Stop()
			for end := time.Now().Add(20 * time.Second); time.Now().Before(end); <-drip.C {
				if _, err := io.WriteString(c, "1\r\nx\r\n"); err != nil {
					break
				}
			}
			select {
			case err := <-ended:
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("the body ends with %v", err)
				}
			default:
				t.Error("the body is still being read after 20 seconds")
			}
		})
	}
}

func TestA27ReaderThatDoesNotRead(t *testing.T) {
	ended := make(chan error, 1)
	_, _, dial := guardedServer(t, 10, 300*time.Millisecond, func(w http.ResponseWriter, _ *http.Request) {
		var err error
		for err == nil {
			_, err = w.Write(make([]byte, 1<<20))
		}
		ended <- err
	})
	_, _ = io.WriteString(dial(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	select {
	case err := <-ended:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the answer ends with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the answer is still being written")
	}
}

func TestA27ConnectionsBeyondTheLimit(t *testing.T) {
	handling, release := make(chan struct{}), make(chan struct{})
	_, _, dial := guardedServer(t, 2, time.Minute, func(http.ResponseWriter, *http.Request) {
		handling <- struct{}{}
		<-release
	})
	busy := []net.Conn{dial(), dial()}
	for _, c := range busy {
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		<-handling
	}
	if code := answer(t, dial()); code != http.StatusServiceUnavailable {
		t.Errorf("a third connection: status %d", code)
	}
	close(release)
	for _, c := range busy {
		if code := answer(t, c); code != http.StatusOK {
			t.Errorf("a request that was being handled: status %d", code)
		}
	}
}

// The server was slow, and accepts at once what came meanwhile: no connection has waited for its client for long.
func TestA27NewConnectionWaitsForAPlace(t *testing.T) {
	const n = 4
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dial := func(text string) net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(c, text)
		return c
	}
	for range n {
		dial(unsent[:10])
	}
	last := dial("GET / HTTP/1.1\r\nHost: x\r\n\r\n") // all are in the queue of the kernel
	serveGuarded(t, l, NewGuard(n, time.Minute), func(http.ResponseWriter, *http.Request) {})
	if code := answer(t, last); code != http.StatusOK {
		t.Errorf("status %d", code)
	}
}

// A client of a busy machine, such as a scrape of the metrics, needs a while between its connection and its request.
func TestA27ClientHasASecondForItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := make(pipes)
		serveGuarded(t, l, NewGuard(1, time.Minute), func(http.ResponseWriter, *http.Request) {})
		first, server := net.Pipe()
		l <- server
		second, server := net.Pipe()
		l <- server // wants the place
		refused := make(chan string, 1)
		go func() {
			text, _ := io.ReadAll(second)
			refused <- string(text)
		}()
		time.Sleep(950 * time.Millisecond) // of the fake clock
		if _, err := io.WriteString(first, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Errorf("it lost its place before its request: %v", err)
			return
		}
		if code := answer(t, first); code != http.StatusOK {
			t.Errorf("status %d", code)
		}
		if text := <-refused; !strings.HasPrefix(text, "HTTP/1.1 503 ") {
			t.Errorf("the second gets %q, want 503: there is one place", text)
		}
		_ = first.Close()
	})
}

// A client that does nothing loses its place to one that needs it. One whose request is being handled keeps it.
func TestA27NewConnectionTakesThePlaceOfAnIdleOne(t *testing.T) {
	handling, release := make(chan struct{}), make(chan struct{})
	_, _, dial := guardedServer(t, 2, time.Minute, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			close(handling)
			<-release
		}
	})
	busy, silent := dial(), dial()
	_, _ = io.WriteString(busy, "GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
	<-handling
	_, _ = io.WriteString(silent, unsent[:10])
	code := 0
	for deadline := time.Now().Add(time.Minute); code != http.StatusOK && time.Now().Before(deadline); {
		c := dial()
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if r, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil { // a refused client may see a reset
			code = r.StatusCode
			_ = r.Body.Close()
		}
	}
	if code != http.StatusOK {
		t.Errorf("the new client has status %d after a minute", code)
	}
	close(release)
	if code := answer(t, busy); code != http.StatusOK {
		t.Errorf("the request that was being handled has status %d", code)
	}
}

// The handler took long, so the connection has had no bytes for long when its answer begins.
func TestA27AnswerThatBeginsKeepsItsPlace(t *testing.T) {
	g := NewGuard(1, time.Minute)
	server, client := net.Pipe()
	other, _ := net.Pipe()
	c, _ := g.admit(server)
	longAgo := func() { c.active.Store(time.Now().Add(-time.Hour).UnixNano()) }
	g.work(c.client, 1)
	longAgo()
	g.work(c.client, -1)
	if c, _ := g.admit(other); c != nil {
		t.Error("a new connection took the place of one whose handler just returned")
	}
	longAgo()
	done := make(chan error, 1)
	go func() {
		_, err := c.Write([]byte("answer"))
		done <- err
	}()
	if _, err := client.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if c, _ := g.admit(other); c != nil {
		t.Error("a new connection took the place of one whose answer has begun")
	}
	longAgo()
	if c, _ := g.admit(other); c == nil {
		t.Error("a client that does not read its answer keeps its place")
	}
	if err := <-done; err == nil {
		t.Error("the answer was written")
	}
}

// The server is slow: the request has come, and nobody has read it.
func TestA27RequestThatWasNotReadKeepsItsPlace(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(client, "GET"); err != nil {
		t.Fatal(err)
	}
	g := NewGuard(1, time.Minute)
	c, _ := g.admit(server)
	other, _ := net.Pipe()
	for !c.unread() { // on loopback it comes at once
		runtime.Gosched()
	}
	longAgo := time.Now().Add(-time.Hour).UnixNano()
	c.active.Store(longAgo)
	if c, _ := g.admit(other); c != nil {
		t.Error("a new connection took the place of one whose request waits to be read")
	}
	if _, err := c.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	c.active.Store(longAgo)
	if c, _ := g.admit(other); c == nil {
		t.Error("half a request keeps its place")
	}
}

func TestA27ClosingDoesNotWaitForBodies(t *testing.T) {
	reading := make(chan struct{}, 1)
	srv, g, dial := guardedServer(t, 10, time.Hour, func(_ http.ResponseWriter, r *http.Request) {
		reading <- struct{}{}
		_, _ = io.ReadAll(r.Body)
	})
	_, _ = io.WriteString(dial(), unsent)
	<-reading
	g.Closing()
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSharesLeaveDescriptors(t *testing.T) {
	for _, files := range []int{256, 512, 1024, 4096, 1 << 20} {
		s := SharesOf(files)
		if used := 2*s.Inference + 2*s.Plain; used > files*7/8 || s.Inference > 65536 {
			t.Errorf("%d files: %+v takes %d", files, s, used)
		}
	}
}

// A handler that panics after it has read a body leaves no request that seems to be handled.
func TestGuardForgetsRequestsThatPanic(t *testing.T) {
	g := NewGuard(1, time.Minute)
	server, _ := net.Pipe()
	c, _ := g.admit(server)
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("body"))
	r.RemoteAddr = c.client
	func() {
		defer func() { _ = recover() }() // as net/http does
		g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			panic(http.ErrAbortHandler)
		})).ServeHTTP(w, r)
	}()
	if c.working != 0 {
		t.Errorf("%d requests are handled", c.working)
	}
}
