package httpapi

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// alive fails the test unless the server still answers correctly.
func alive(t *testing.T, s *testServer) {
	t.Helper()
	checkAnswer(t, send(t, dial(t, s.addr), request("POST", addSubPath, addSubJSON)),
		okJSON(addSubReply))
}

// ended fails the test unless the server closes the connection.
func ended(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := io.Copy(io.Discard, c); n != 0 || isTimeout(err) {
		t.Errorf("connection gives %d more bytes and %v, want its end", n, err)
	}
}

func isTimeout(err error) bool {
	ne, ok := err.(net.Error)
	return ok && ne.Timeout()
}

func TestHTTP10KeepAlive(t *testing.T) {
	s := serve(t)
	conn := dial(t, s.addr)
	r := bufio.NewReader(conn)
	for range 3 {
		// The request of ab -k.
		fmt.Fprintf(conn, "POST %s HTTP/1.0\r\nConnection: Keep-Alive\r\nContent-length: %d\r\nContent-type: "+
			"text/plain\r\nHost: %s\r\n"+
			"User-Agent: ApacheBench/2.3\r\nAccept: */*\r\n\r\n%s", addSubPath, len(addSubJSON), s.addr, addSubJSON)
		got := receive(t, r, "POST")
		checkAnswer(t, got, okJSON(addSubReply))
		if got.header.Get("Connection") != "keep-alive" || got.header.Get("Content-Length") == "" {
			t.Errorf("headers %v, want Connection: keep-alive and a length", got.header)
		}
	}
	fmt.Fprintf(conn, "GET /v2/health/live HTTP/1.0\r\n\r\n")
	if got := receive(t, r, "GET"); !got.close {
		t.Errorf("without keep-alive the connection stays open: %v", got.header)
	}
	ended(t, conn)
}

func TestExpectContinue(t *testing.T) {
	s := serve(t)
	for _, expect := range []string{"Expect: 100-continue", "Expect: 100-Continue", "EXPECT: 100-CONTINUE"} {
		t.Run(expect, func(t *testing.T) {
			conn := dial(t, s.addr)
			// A server that ignores the expectation waits for the body.
			_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n\r\n", addSubPath,
				len(addSubJSON), expect)
			r := bufio.NewReader(conn)
			line, err := r.ReadString('\n')
			if err != nil || line != "HTTP/1.1 100 Continue\r\n" {
				t.Fatalf("answer to %s: %q, %v", expect, line, err)
			}
			if _, err := r.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			io.WriteString(conn, addSubJSON)
			checkAnswer(t, receive(t, r, "POST"), okJSON(addSubReply))
		})
	}
}

func TestExpectRefused(t *testing.T) {
	s := serve(t, func(o *Options) { o.MaxBody = 1000 })
	conn := dial(t, s.addr)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\nExpect: 100-continue\r\n\r\n", addSubPath)
	got := receive(t, bufio.NewReader(conn), "POST")
	if got.status != "413 Request Entity Too Large" {
		t.Errorf("Expect with a body over the limit answers %s %s", got.status, got.body)
	}
}

func TestChunkedBody_B039(t *testing.T) {
	s := serve(t)
	conn := dial(t, s.addr)
	var b strings.Builder
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", addSubPath)
	for i := range len(addSubJSON) { // A9: one byte per chunk
		fmt.Fprintf(&b, "1\r\n%c\r\n", addSubJSON[i])
	}
	b.WriteString("0\r\n\r\n")
	for range 2 {
		checkAnswer(t, send(t, conn, b.String()), okJSON(addSubReply))
	}
}

// Only the last chunk ends a chunked body. What follows it is the next request.
func TestChunkedBodyThatEnds_B039(t *testing.T) {
	s := serve(t)
	head := "POST " + addSubPath + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
	chunks := func(body string, size int) string {
		var b strings.Builder
		for len(body) > 0 {
			n := min(size, len(body))
			fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
			body = body[n:]
		}
		return b.String()
	}
	for _, cut := range []struct{ name, end string }{
		{"no last chunk", ""}, {"half a size", "1"}, {"no end of the trailers", "0\r\n"},
		{"a trailer cut off", "0\r\nX-T: 1\r\n"},
	} {
		t.Run(cut.name, func(t *testing.T) {
			conn := dial(t, s.addr)
			io.WriteString(conn, head+"\r\n"+chunks(addSubJSON, 40)+cut.end)
			_ = conn.(*net.TCPConn).CloseWrite()
			if got := receive(t, bufio.NewReader(conn), "POST"); got.status != "400 Bad Request" || !got.close {
				t.Errorf("answer %s %s, want 400 and the connection's end", got.status, got.body)
			}
			ended(t, conn)
		})
	}
	t.Run("pipelined and compressed", func(t *testing.T) {
		conn := dial(t, s.addr)
		one := head + "Content-Encoding: gzip\r\n\r\n" + chunks(compressed(t, "gzip", addSubJSON), 9) + "0\r\n\r\n"
		io.WriteString(conn, strings.Repeat(one, 3))
		_ = conn.(*net.TCPConn).CloseWrite() // the end after a whole request does not end its body
		r := bufio.NewReader(conn)
		for range 3 {
			checkAnswer(t, receive(t, r, "POST"), okJSON(addSubReply))
		}
	})
}

// Forms of requests that HTTP/1.1 requires are served, also those that Triton does not know.
func TestRequestForms_B020_B041(t *testing.T) {
	s := serve(t)
	live, ok := request("GET", "/v2/health/live", ""), answer{status: "200 OK", kind: typeText}
	t.Run("DV64 HEAD", func(t *testing.T) {
		conn := dial(t, s.addr)
		io.WriteString(conn, request("HEAD", "/v2/health/live", "")+request("HEAD", "/nope", "")+live)
		r := bufio.NewReader(conn)
		checkAnswer(t, receive(t, r, "HEAD"), answer{status: "405 Not Allowed", kind: typeText})
		checkAnswer(t, receive(t, r, "HEAD"), answer{status: "404 Not Found", kind: typeText})
		checkAnswer(t, receive(t, r, "GET"), ok)
	})
	t.Run("DV65 chunk extensions", func(t *testing.T) {
		body := fmt.Sprintf("%x;a=b;c=\"d\"\r\n%s\r\n0;last\r\nX-Trailer: 1\r\n\r\n", len(addSubJSON), addSubJSON)
		conn := dial(t, s.addr)
		io.WriteString(conn, "POST "+addSubPath+" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"+body+live)
		r := bufio.NewReader(conn)
		checkAnswer(t, receive(t, r, "POST"), okJSON(addSubReply))
		checkAnswer(t, receive(t, r, "GET"), ok)
	})
	t.Run("DV65 an empty line before", func(t *testing.T) {
		checkAnswer(t, send(t, dial(t, s.addr), "\r\n"+live), ok)
	})
	t.Run("DV66 Connection: close", func(t *testing.T) {
		conn := dial(t, s.addr)
		io.WriteString(conn, request("POST", addSubPath, addSubJSON, "Connection: close")+live)
		r := bufio.NewReader(conn)
		checkAnswer(t, receive(t, r, "POST"), okJSON(addSubReply))
		if rest, err := io.ReadAll(r); len(rest) > 0 || isTimeout(err) {
			t.Errorf("then %q, %v; want the end", rest, err)
		}
	})
	t.Run("B020 a body for a wrong method is none of the next request", func(t *testing.T) {
		conn := dial(t, s.addr)
		io.WriteString(conn, request("PUT", addSubPath, addSubJSON)+request("POST", "/nope", addSubJSON)+
			request("GET", "/v2/health/live", addSubJSON)+live)
		r := bufio.NewReader(conn)
		checkAnswer(t, receive(t, r, "PUT"), answer{status: "405 Not Allowed", kind: typeText,
			body: `{"error":"Method Not Allowed"}`})
		checkAnswer(t, receive(t, r, "POST"), answer{status: "404 Not Found", kind: typeText,
			body: `{"error":"Not Found"}`})
		checkAnswer(t, receive(t, r, "GET"), ok)
		checkAnswer(t, receive(t, r, "GET"), ok)
	})
}

func TestPipelining(t *testing.T) {
	s := serve(t)
	conn := dial(t, s.addr)
	io.WriteString(conn, strings.Repeat(request("POST", addSubPath, addSubJSON), 20))
	r := bufio.NewReader(conn)
	for range 20 {
		checkAnswer(t, receive(t, r, "POST"), okJSON(addSubReply))
	}
}

func TestResponseCompression_B038(t *testing.T) {
	s := serve(t)
	conn := dial(t, s.addr)
	for _, tt := range []struct{ accept, want string }{
		{"gzip", "gzip"}, {"br, deflate", "deflate"}, {"gzip;q=0.1, deflate;q=0.9", "deflate"}, {"gzip;q=0", ""},
		{"br", ""},
	} {
		got := send(t, conn, request("POST", addSubPath, addSubJSON, "Accept-Encoding: "+tt.accept))
		if e := got.header.Get("Content-Encoding"); e != tt.want {
			t.Errorf("Accept-Encoding %q answers with %q, want %q", tt.accept, e, tt.want)
			continue
		}
		var r io.Reader = strings.NewReader(got.body)
		var err error
		switch tt.want {
		case "gzip":
			r, err = gzip.NewReader(r)
		case "deflate":
			r, err = zlib.NewReader(r)
		}
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := io.ReadAll(r); err != nil || string(plain) != addSubReply {
			t.Errorf("Accept-Encoding %q: %q, %v", tt.accept, plain, err)
		}
	}
	if got := send(t, conn, request("GET", "/v2/models/add_sub/config", "",
		"Accept-Encoding: gzip")); got.header.Get("Content-Encoding") != "" {
		t.Errorf("a configuration is compressed")
	}
	got := send(t, conn, request("POST", addSubPath, addSubJSON, "Content-Encoding: br"))
	if got.header.Get("Accept-Encoding") != "gzip, deflate" {
		t.Errorf("unknown encoding answers with headers %v", got.header)
	}
}

// Decompression bombs, damaged and nested streams are refused.
func TestA7CompressedBodies(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	s := serve(t, func(o *Options) { o.MaxBody = 1 << 20 })
	whole := compressed(t, "gzip", addSubJSON)
	for _, tt := range []struct{ name, body, encoding, want string }{
		{"gzip bomb", compressed(t, "gzip", strings.Repeat(" ", 32<<20)), "gzip", "413"},
		{"deflate bomb", compressed(t, "deflate", strings.Repeat(" ", 32<<20)), "deflate", "413"},
		{"DV67 broken half way", whole[:len(whole)/2], "gzip", "400"},
		{"DV67 without its checksum", whole[:len(whole)-8], "gzip", "400"},
		{"DV67 with more behind it", whole + "more", "gzip", "400"},
		{"bad checksum", whole[:len(whole)-8] + "12345678", "gzip", "400"},
		{"plain text", addSubJSON, "gzip", "400"},
		{"nested", compressed(t, "gzip", whole), "gzip", "400"},
		{"two encodings", whole, "gzip, gzip", "501"},
		{"empty", "", "gzip", "400"},
		{"one byte", "\x1f", "gzip", "400"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := send(t, dial(t, s.addr), request("POST", addSubPath, tt.body, "Content-Encoding: "+tt.encoding))
			if !strings.HasPrefix(got.status, tt.want) {
				t.Errorf("answer %s %s, want %s", got.status, got.body, tt.want)
			}
		})
	}
	alive(t, s)
}

// A body over the limit is refused before it is read, with a length and in chunks.
func TestA10BodyLimit_B036(t *testing.T) {
	s := serve(t, func(o *Options) { o.MaxBody = 100_000 })
	text := `{"error":"request body is over the limit of 100000 bytes; raise it with --http-max-input-size"}`
	conn := dial(t, s.addr)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000000000\r\n\r\n%s", addSubPath,
		strings.Repeat(" ", 8<<10))
	got := receive(t, bufio.NewReader(conn), "POST")
	checkAnswer(t, got, answer{status: "413 Request Entity Too Large", kind: typeJSON, body: text})
	ended(t, conn)

	conn = dial(t, s.addr)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", addSubPath)
	go func() { // the server stops reading at some point
		for range 1000 {
			if _, err := fmt.Fprintf(conn, "400\r\n%s\r\n", strings.Repeat(" ", 1024)); err != nil {
				return
			}
		}
	}()
	got = receive(t, bufio.NewReader(conn), "POST")
	checkAnswer(t, got, answer{status: "413 Request Entity Too Large", kind: typeJSON, body: text})
	alive(t, s)
}

// Python's urllib, for one, reads no reply before it has sent the whole body.
func TestAClientThatSendsAllOfABodyGetsAnEarlyAnswer_B036(t *testing.T) {
	s := serve(t, func(o *Options) {
		o.MaxBody = 40 << 20
		o.Authorize = func(a *Access) error {
			if a.Path == "/denied" {
				return &Denied{Status: 401, Text: "no token"}
			}
			return nil
		}
	})
	for _, tt := range []struct {
		path, head string
		size       int
		want       string
	}{
		{addSubPath, "Content-Length: 50331648\r\n\r\n", 48 << 20, "413 Request Entity Too Large"},
		{addSubPath, "Transfer-Encoding: chunked\r\n\r\n3000000\r\n", 48 << 20, "413 Request Entity Too Large"},
		{"/v2/models/nosuch/infer", "Content-Length: 33554432\r\n\r\n", 32 << 20, "404 Not Found"},
		{"/nosuch", "Content-Length: 33554432\r\n\r\n", 32 << 20, "404 Not Found"},
		{"/denied", "Content-Length: 12582912\r\n\r\n", 12 << 20, "401 Unauthorized"},
	} {
		conn := dial(t, s.addr)
		_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%s%s", tt.path, tt.head,
			strings.Repeat(" ", tt.size))
		if err != nil {
			t.Errorf("%s: %v, want the answer %s", tt.path, err, tt.want)
			continue
		}
		if got := receive(t, bufio.NewReader(conn), "POST"); got.status != tt.want {
			t.Errorf("%s: %s %s, want %s", tt.path, got.status, got.body, tt.want)
		}
	}
}

// sender is the connection of a client that still sends when it has its answer.
type sender struct {
	net.Conn
	read func()
}

func (s sender) Read([]byte) (int, error)        { s.read(); return 0, io.EOF }
func (s sender) CloseWrite() error               { return nil }
func (s sender) SetReadDeadline(time.Time) error { return nil }
func (s sender) Close() error                    { return nil }

// The record, the trace and the memory of a request do not wait for the rest of its body.
func TestARequestEndsWithItsEarlyAnswer(t *testing.T) {
	s, err := New(Options{Engine: newFake()})
	if err != nil {
		t.Fatal(err)
	}
	c, reads := newConn(s.conns, nil), 0
	c.reply, c.linger = tensor.NewBuffer(nil, func(*tensor.Buffer) {}), lingerLong
	c.Conn = sender{read: func() {
		if reads++; c.reply != nil {
			t.Error("the answer is kept while the body is read")
		}
	}}
	if err := c.Close(); err != nil || reads != 1 {
		t.Errorf("Close: %v after %d reads", err, reads)
	}
}

// A body whose length is known only at its end may have exactly as many bytes as the limit.
func TestBodyLimitIsExact_B036(t *testing.T) {
	s := serve(t, func(o *Options) { o.MaxBody = 1000 })
	for _, over := range []int{0, 1, 2} {
		body := addSubJSON + strings.Repeat(" ", 1000+over-len(addSubJSON))
		for name, sent := range map[string]string{
			"gzip":    request("POST", addSubPath, compressed(t, "gzip", body), "Content-Encoding: gzip"),
			"deflate": request("POST", addSubPath, compressed(t, "deflate", body), "Content-Encoding: deflate"),
			"plain":   request("POST", addSubPath, body),
			"chunked": fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"+
				"%x\r\n%s\r\n0\r\n\r\n", addSubPath, len(body), body),
		} {
			want := "200"
			if over > 0 {
				want = "413"
			}
			if got := send(t, dial(t, s.addr), sent); !strings.HasPrefix(got.status, want) {
				t.Errorf("%s, %d bytes over the limit: answer %s %s, want %s", name, over, got.status, got.body, want)
			}
		}
	}
}

// A request that could be read in two ways ends the connection.
func TestA11Smuggling(t *testing.T) {
	s := serve(t)
	post := "POST " + addSubPath + " HTTP/1.1\r\nHost: x\r\n"
	for _, tt := range []struct{ name, request, want string }{
		{"DV12 length and chunks", post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
		{"chunks and length", post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", "400"},
		{"DV62 two lengths", post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcde", "400"},
		{"DV63 negative length", post + "Content-Length: -5\r\n\r\n", "400"},
		{"length not a number", post + "Content-Length: 5x\r\n\r\nabcde", "400"},
		{"DV62 two transfer encodings", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n0\r\n\r\n", "400"},
		{"unknown transfer encoding", post + "Transfer-Encoding: gzip\r\n\r\n", "400"},
		{"DV63 folded header", post + "X: a\r\n b\r\n\r\n", "400"},
		{"CR alone", post + "X: a\rY: b\r\n\r\n", "400"},
		{"DV63 space before the colon", post + "Content-Length : 5\r\n\r\nabcde", "400"},
		{"DV62 NUL in a header", post + "X: a\x00b\r\n\r\n", "400"},
		{"DV62 name that is no token", post + "X-\xc3\xa9: a\r\n\r\n", "400"},
		{"DV62 no host", "GET /v2 HTTP/1.1\r\n\r\n", "400"},
		{"DV62 two hosts", "GET /v2 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"},
		{"DV63 bad chunk length", post + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "400"},
		{"chunk extension without end", post + "Transfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("x", 1<<20) +
			"\r\na\r\n0\r\n\r\n", ""},
		{"DV11 two header lengths", post + "Inference-Header-Content-Length: 2\r\nInference-Header-Content-Length: " +
			"2\r\nContent-Length: 2\r\n\r\n{}", "400"},
		{"not HTTP", "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", "400"},
		{"DV63 header too large", "GET /v2 HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 100_000) + "\r\n\r\n",
			"431"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn := dial(t, s.addr)
			go io.WriteString(conn, tt.request)
			r := bufio.NewReader(conn)
			got := receive(t, r, "POST")
			if !strings.HasPrefix(got.status, tt.want) {
				t.Errorf("answer %s %s, want %s", got.status, got.body, tt.want)
			}
			if date := got.header.Get("Date"); date != "" {
				t.Errorf("Date: %s; the library keeps a goroutine for it", date)
			}
			if tt.want != "" {
				if !got.close {
					t.Error("the connection stays open")
				}
				ended(t, conn)
			}
		})
	}
	alive(t, s)
}

// A header that never ends is refused after a time. A body that arrives slowly is not.
func TestA8SlowHeader(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	s := serve(t, func(o *Options) { o.HeaderTimeout = time.Second; o.IdleTimeout = time.Second })
	conn := dial(t, s.addr)
	io.WriteString(conn, "POST /v2 HTTP/1.1\r\nHos")
	got := receive(t, bufio.NewReader(conn), "POST")
	if got.status != "408 Request Timeout" {
		t.Errorf("half a header answers %s", got.status)
	}
	ended(t, conn)
	ended(t, dial(t, s.addr)) // a silent connection

	conn = dial(t, s.addr)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", addSubPath)
	tick := time.NewTicker(150 * time.Millisecond)
	defer tick.Stop()
	for i := 0; i < len(addSubJSON); i += 16 { // much longer than the header timeout
		<-tick.C
		part := addSubJSON[i:min(i+16, len(addSubJSON))]
		fmt.Fprintf(conn, "%x\r\n%s\r\n", len(part), part)
	}
	io.WriteString(conn, "0\r\n\r\n")
	checkAnswer(t, receive(t, bufio.NewReader(conn), "POST"), okJSON(addSubReply))
	ended(t, conn) // idle
}

func TestStalledBody(t *testing.T) {
	s := serve(t, func(o *Options) { o.StallTimeout = time.Second })
	conn := dial(t, s.addr)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n%s", addSubPath,
		strings.Repeat(" ", 10_000))
	if got := receive(t, bufio.NewReader(conn), "POST"); got.status != "408 Request Timeout" {
		t.Errorf("a body that stops answers %s %s", got.status, got.body)
	}
	ended(t, conn)
}

// A body of known length has the time of a body, not of a header, from its first byte on.
func TestA26BodyAfterTheHeaderTimeout(t *testing.T) {
	const headerTimeout = 3 * time.Second // far more than a busy machine needs to pass on a header
	s := serve(t, func(o *Options) { o.HeaderTimeout, o.StallTimeout = headerTimeout, time.Minute })
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", addSubPath, len(addSubJSON))
	var conns []net.Conn
	for cut := len(head) - 4; cut <= len(head); cut++ { // the end of the header may come in pieces
		conn := dial(t, s.addr)
		io.WriteString(conn, head[:cut])
		for _, b := range []byte(head[cut:]) {
			io.WriteString(conn, string(b))
		}
		conns = append(conns, conn)
	}
	over := time.Now().Add(headerTimeout + 500*time.Millisecond)
	for i, conn := range conns {
		_ = conn.SetReadDeadline(over) // a failure shows in Read
		if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("connection %d: an answer of %d bytes (%v) before the body", i, n, err)
		}
		_ = conn.SetReadDeadline(time.Time{})
		io.WriteString(conn, addSubJSON)
		checkAnswer(t, receive(t, bufio.NewReader(conn), "POST"), okJSON(addSubReply))
	}
}

// A client that announces a body, and sends it byte by byte, does not keep the memory for it.
func TestA26BodyThatArrivesByteByByte(t *testing.T) {
	s := serve(t, func(o *Options) { o.StallTimeout = 300 * time.Millisecond })
	for _, head := range []string{"Content-Length: 1048576", "Transfer-Encoding: chunked"} {
		conn := dial(t, s.addr)
		_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", addSubPath, head)
		for deadline := time.Now().Add(20 * time.Second); err == nil; { // each write gives the connection a little time
			if time.Now().After(deadline) {
				t.Fatalf("%s: the connection is open after 20 s", head)
			}
			_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond)) // a failure shows in Read
			if _, err = conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
				_, err = io.WriteString(conn, map[byte]string{'C': " ", 'T': "1\r\n \r\n"}[head[0]])
			} else if err == nil {
				break // the answer
			}
		}
	}
}

// A length over the limit is refused at once, with a token and without a byte of the body.
func TestA26AnnouncedBodyOverTheLimit(t *testing.T) {
	s := serve(t, func(o *Options) {
		o.Authorize = func(a *Access) error {
			if len(a.Authorization) == 0 {
				return &Denied{Status: 401, Text: "no token"}
			}
			return nil
		}
	})
	for _, tt := range []struct{ header, status string }{
		{"Authorization: x\r\n", "413 Request Entity Too Large"}, {"", "401 Unauthorized"},
	} {
		conn := dial(t, s.addr)
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: 1000000000000\r\n\r\n", addSubPath,
			tt.header)
		if got := receive(t, bufio.NewReader(conn), "POST"); got.status != tt.status {
			t.Errorf("1 TB: %s %s, want %s", got.status, got.body, tt.status)
		}
		ended(t, conn)
	}
}

// A client that hangs in its body does not delay the shutdown.
func TestA26ShutdownWithHungClients(t *testing.T) {
	s := serve(t)
	head := "POST " + addSubPath + " HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n"
	for _, part := range []string{head[:20], head + "x"} {
		conn := dial(t, s.addr)
		io.WriteString(conn, part)
	}
	untilTrue(t, "both clients are being read", func() bool {
		s.conns.mu.Lock()
		defer s.conns.mu.Unlock()
		n := 0
		for c := range s.conns.served {
			if p := phase(c.phase.Load()); p == readingHead || p == readingBody {
				n++
			}
		}
		return n == 2
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	begin := time.Now()
	if err := s.Shutdown(ctx); err != nil || time.Since(begin) > 30*time.Second {
		t.Errorf("the shutdown took %v: %v", time.Since(begin), err)
	}
}

// The request of a client that leaves is cancelled, and its memory is released.
func TestA22ClientLeaves_C056(t *testing.T) {
	s := serve(t)
	started := make(chan *infer.Request, 1)
	s.engine.models["multi"].run = func(r *infer.Request, _ *fakeModel) {
		started <- r.Retain() // never answers
	}
	body := oneInput("[1,16]", "FP32", "["+zeroTo15+"]")
	conn := dial(t, s.addr)
	io.WriteString(conn, request("POST", "/v2/models/multi/infer", body))
	r := <-started
	conn.Close()
	select {
	case <-r.Done():
	case <-time.After(time.Minute):
		t.Error("the request is not cancelled a minute after its client left")
	}
	r.Release()

	// A pipelined request does not count as leaving.
	conn = dial(t, s.addr)
	io.WriteString(conn, request("POST", "/v2/models/multi/infer", body)+request("GET", "/v2", ""))
	r = <-started
	select {
	case <-r.Done():
		t.Error("a waiting client's request is cancelled")
	case <-time.After(300 * time.Millisecond):
	}
	identity(r, nil)
	r.Release()
	read := bufio.NewReader(conn)
	if got := receive(t, read, "POST"); got.status != "200 OK" {
		t.Errorf("answer %s %s", got.status, got.body)
	}
	if got := receive(t, read, "GET"); got.status != "200 OK" {
		t.Errorf("answer %s %s", got.status, got.body)
	}
}

func TestPanicInHandler(t *testing.T) {
	var log bytes.Buffer
	s := serve(t, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	got := send(t, dial(t, s.addr), request("POST", "/v2/models/panic/infer", addSubJSON))
	checkAnswer(t, got, answer{status: "500 Internal Server Error", kind: typeText,
		body: `{"error":"internal error; the server's log has the details"}`})
	alive(t, s)
	if !strings.Contains(log.String(), "panic=boom") {
		t.Errorf("the log says %q", log.String())
	}
}

func TestBasePath_B022(t *testing.T) {
	s := serve(t, func(o *Options) { o.BasePath = "/api/predict/svc/" })
	conn := dial(t, s.addr)
	for _, path := range []string{"/api/predict/svc" + addSubPath, addSubPath} {
		checkAnswer(t, send(t, conn, request("POST", path, addSubJSON)), okJSON(addSubReply))
	}
	checkAnswer(t, send(t, conn, request("GET", "/api/predict/svcv2", "")),
		answer{status: "404 Not Found", kind: typeText, body: notFoundBody})
}

// DNS rebinding and cross-site requests are refused.
func TestH1HostAndOrigin(t *testing.T) {
	s := serve(t, func(o *Options) {
		o.AllowedHosts = []string{"models.example"}
		o.AllowedOrigins = []string{"https://ok.example"}
	})
	conn := dial(t, s.addr)
	get := func(host, extra string) string { return "GET /v2 HTTP/1.1\r\nHost: " + host + "\r\n" + extra + "\r\n" }
	load := func(extra string) string {
		return "POST /v2/repository/models/m/load HTTP/1.1\r\nHost: localhost:8000\r\nContent-Length: 0\r\n" + extra +
			"\r\n"
	}
	for _, tt := range []struct{ name, request, want string }{
		{"localhost", get("localhost:8000", ""), "200"},
		{"address", get("127.0.0.1", ""), "200"},
		{"address, version 6", get("[::1]:8000", ""), "200"},
		{"listed name", get("MODELS.example:80", ""), "200"},
		{"DV15 foreign name", get("evil.example:8000", ""), "421"},
		{"name with an address in it", get("127.0.0.1.evil.example", ""), "421"},
		{"foreign name in the target", "GET http://evil.example/v2 HTTP/1.1\r\nHost: localhost\r\n\r\n", "421"},
		{"foreign origin reads", get("localhost", "Origin: https://evil.example\r\n"), "200"},
		{"DV15 foreign origin writes", load("Origin: https://evil.example\r\n"), "403"},
		{"null origin writes", load("Origin: null\r\n"), "403"},
		{"own origin writes", load("Origin: http://localhost:8000\r\n"), "200"},
		{"other port writes", load("Origin: http://localhost:9999\r\n"), "403"},
		{"listed origin writes", load("Origin: https://ok.example\r\n"), "200"},
		{"cross-site without origin writes", load("Sec-Fetch-Site: cross-site\r\n"), "403"},
		{"no browser writes", load(""), "200"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := send(t, conn, tt.request); !strings.HasPrefix(got.status, tt.want) {
				t.Errorf("answer %s %s, want %s", got.status, got.body, tt.want)
			}
		})
	}
}

// Authorize is called for every path, before the body is read.
func TestH8Authorize(t *testing.T) {
	var seen sync.Map
	s := serve(t, func(o *Options) {
		o.Authorize = func(a *Access) error {
			seen.Store(strings.Clone(a.Path), a.Group)
			switch {
			case a.Group == Health:
				return nil
			case a.Authorization == "":
				return &Denied{Status: 401, Text: "a token is needed"}
			case a.Authorization != "secret" || a.Header("x-key") == "no":
				return &Denied{Status: 403, Text: "no"}
			}
			return nil
		}
	})
	for _, tt := range []struct{ path, header, want string }{
		{"/v2/health/live", "", "200"},
		{"/v2", "", "401"},
		{"//v2", "", "401"},
		{"/v2/./health/live", "", "401"},
		{"/%762", "", "401"},
		{"/v2/health/live/", "", "401"},
		{"/v2", "Authorization: wrong", "403"},
		{"/v2", "authorization: secret", "200"},
		{"/v2?token=secret", "", "401"},
	} {
		headers := []string{tt.header}
		if tt.header == "" {
			headers = nil
		}
		got := send(t, dial(t, s.addr), request("GET", tt.path, "", headers...))
		if !strings.HasPrefix(got.status, tt.want) {
			t.Errorf("%s with %q answers %s, want %s", tt.path, tt.header, got.status, tt.want)
		}
		if challenge := got.header.Get("WWW-Authenticate"); (challenge != "") != (tt.want == "401") {
			t.Errorf("%s with %q has the challenge %q", tt.path, tt.header, challenge)
		}
	}
	conn := dial(t, s.addr)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n%s", addSubPath,
		strings.Repeat(" ", 9000))
	if got := receive(t, bufio.NewReader(conn), "POST"); got.status != "401 Unauthorized" {
		t.Errorf("a large body without a token answers %s", got.status)
	}
	ended(t, conn)
	if g, _ := seen.Load(addSubPath); g != Inference {
		t.Errorf("the group of %s is %v", addSubPath, g)
	}
}

// Shutdown answers the requests that are being handled, closes idle connections and leaves no goroutine.
func TestShutdownDrains(t *testing.T) {
	before := runtime.NumGoroutine()
	s, l := bareServer(t)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	started := make(chan *infer.Request, 8)
	s.opt.Engine.(*fakeEngine).models["multi"].run = func(r *infer.Request, _ *fakeModel) { started <- r.Retain() }

	idleConn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	send(t, idleConn, request("GET", "/v2", ""))
	busy, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(busy, request("POST", "/v2/models/multi/infer", oneInput("[1,16]", "FP32", "["+zeroTo15+"]")))
	r := <-started
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(context.Background()) }()
	ended(t, idleConn)
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("a new connection is accepted during Shutdown")
	}
	select {
	case err := <-done:
		t.Fatalf("Shutdown = %v while a request is being handled", err)
	default:
	}
	identity(r, nil)
	r.Release()
	if got := receive(t, bufio.NewReader(busy), "POST"); got.status != "200 OK" || !got.close {
		t.Errorf("the last request is answered %s, close %v", got.status, got.close)
	}
	if err := <-done; err != nil {
		t.Errorf("Shutdown = %v", err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve = %v", err)
	}
	idleConn.Close()
	busy.Close()
	noGoroutinesLeft(t, before)
}

// When its context ends, Shutdown cancels requests and closes connections.
func TestShutdownByForce(t *testing.T) {
	before := runtime.NumGoroutine()
	s, l := bareServer(t)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	started := make(chan *infer.Request, 8)
	s.opt.Engine.(*fakeEngine).models["multi"].run = func(r *infer.Request, _ *fakeModel) { started <- r.Retain() }
	busy, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(busy, request("POST", "/v2/models/multi/infer", oneInput("[1,16]", "FP32", "["+zeroTo15+"]")))
	r := <-started
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); err != context.Canceled {
		t.Errorf("Shutdown = %v, want context.Canceled", err)
	}
	if !r.Cancelled() {
		t.Error("the request is not cancelled")
	}
	r.Release()
	if err := <-served; err != nil {
		t.Errorf("Serve = %v", err)
	}
	busy.Close()
	noGoroutinesLeft(t, before)
}

func bareServer(t *testing.T) (*Server, net.Listener) {
	t.Helper()
	s, err := New(Options{Engine: newFake()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return s, l
}

// noGoroutinesLeft waits until there are no more goroutines than before.
func noGoroutinesLeft(t *testing.T, before int) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 6000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		<-tick.C
	}
	buf := make([]byte, 1<<20)
	t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
}

// Each client gets the reply to its own request, while others leave.
func TestConcurrentRequests(t *testing.T) {
	s := serve(t)
	var wg sync.WaitGroup
	for worker := range 16 {
		wg.Go(func() {
			conn, err := net.Dial("tcp", s.addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			r := bufio.NewReader(conn)
			for i := range 100 {
				n := worker*1000 + i
				size := 1 + n%700
				data := strings.TrimSuffix(strings.Repeat(strconv.Itoa(n)+",", size), ",")
				body := fmt.Sprintf(`{"id":"%d","inputs":[{"name":"INPUT0","shape":[%d],"datatype":"INT32",`+
					`"data":[%s]}]}`, n, size, data)
				if i%10 == 9 { // leave in the middle of a request
					c, err := net.Dial("tcp", s.addr)
					if err == nil {
						io.WriteString(c, request("POST", "/v2/models/id_any/infer", body)[:100+i])
						c.Close()
					}
				}
				if _, err := io.WriteString(conn, request("POST", "/v2/models/id_any/infer", body)); err != nil {
					t.Error(err)
					return
				}
				got := receive(t, r, "POST")
				want := fmt.Sprintf(`{"id":"%d","model_name":"id_any","model_version":"1",`+
					`"outputs":[{"name":"OUTPUT0","datatype":"INT32","shape":[%d],"data":[%s]}]}`, n, size, data)
				if got.body != want {
					t.Errorf("worker %d request %d: got %.120q", worker, i, got.body)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestLargeBodies(t *testing.T) {
	s := serve(t)
	conn := dial(t, s.addr)
	data := bytes.Repeat([]byte("0123456789abcdef"), 3<<16) // 3 MiB
	body, header := withBinary(`{"inputs":[{"name":"INPUT0","shape":[`+strconv.Itoa(len(data))+
		`],"datatype":"UINT8","parameters":{"binary_data_size":`+
		strconv.Itoa(len(data))+`}}],"parameters":{"binary_data_output":true}}`, string(data))
	got := send(t, conn, request("POST", "/v2/models/id_any/infer", body, header))
	if got.status != "200 OK" || !strings.HasSuffix(got.body, string(data)) {
		t.Errorf("3 MiB: %s, %d bytes", got.status, len(got.body))
	}
}

// A connection does not keep the memory of a large request.
func TestLargeBodiesAreReleased(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	s := serve(t, func(o *Options) { o.MaxBody = 128 << 20 })
	conn := dial(t, s.addr)
	r := bufio.NewReader(conn)
	held := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const size = 80 << 20 // more than pools keep
	piece := make([]byte, 1<<20)
	before := held()
	for _, tt := range []struct{ path, head, tail string }{
		{"id_any/infer", `{"inputs":[{"name":"INPUT0","shape":[` + strconv.Itoa(size) +
			`],"datatype":"UINT8","parameters":{"binary_data_size":` +
			strconv.Itoa(size) + `}}],"parameters":{"binary_data_output":true},"outputs":[{"name":"NOPE"}]}`, ""},
		{"id_bytes/infer", "", `{"inputs":[]`},
		{"id_bytes/generate", "", `{"INPUT0":`},
	} {
		fmt.Fprintf(conn, "POST /v2/models/%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n", tt.path, size+
			len(tt.head)+len(tt.tail))
		if tt.head != "" {
			fmt.Fprintf(conn, "Inference-Header-Content-Length: %d\r\n", len(tt.head))
		} else { // white space before an error
			for i := range piece {
				piece[i] = ' '
			}
		}
		io.WriteString(conn, "\r\n"+tt.head)
		for range size / len(piece) {
			if _, err := conn.Write(piece); err != nil {
				t.Fatal(err)
			}
		}
		io.WriteString(conn, tt.tail)
		got := receive(t, r, "POST")
		if more := held() - before; more > size/2 {
			t.Errorf("%s (%s): %d bytes are held after it", tt.path, got.status, more)
		}
	}
}

func TestOptionsFaults(t *testing.T) {
	_, err := New(Options{BasePath: "x", MaxBody: -1})
	for _, want := range []string{"Engine is missing", `base path "x"`, "negative"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New = %v, want %q in it", err, want)
		}
	}
}

func TestConnectionCloseInCapitals(t *testing.T) {
	s := serve(t)
	conn := dial(t, s.addr)
	if got := send(t, conn, request("GET", "/v2", "", "Connection: Close")); !got.close {
		t.Error("the connection stays open")
	}
	ended(t, conn)
}

// For any path the reply is JSON.
func TestA18StrangeNames(t *testing.T) {
	s := serve(t)
	conn := dial(t, s.addr)
	for _, name := range []string{"%ff%fe", "%00", "%0a%1b[31m", "a%22b", "..", "%2e%2e%2fx",
		strings.Repeat("x", 5000)} {
		for _, r := range []string{
			request("GET", "/v2/models/"+name, ""), request("POST", "/v2/models/"+name+"/infer", addSubJSON),
			request("GET", "/v2/models/"+name+"/stats", ""), request("POST", "/v2/repository/models/"+name+"/load", ""),
			request("GET", "/v2/systemsharedmemory/region/"+name+"/status", ""),
		} {
			got := send(t, conn, r)
			var v map[string]string
			if got.body != "" && json.Unmarshal([]byte(got.body), &v) != nil || !utf8.ValidString(got.body) ||
				strings.HasPrefix(got.status, "5") {
				t.Errorf("%.60q answers %s %q", r, got.status, got.body)
			}
		}
	}
	alive(t, s)
}
