package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"nereid/engine/system/socket"
)

// httpLane sends one prepared request over one keep-alive connection, which it opens when needed.
type httpLane struct {
	addr     string
	request  []byte
	deadline time.Time

	conn net.Conn
	in   *bufio.Reader
	body []byte // of the last answer, reused
}

// exchange sends the request and reads the whole answer. Any error closes the connection.
func (l *httpLane) exchange(context.Context) (answer, error) {
	a, err := l.try()
	if err != nil {
		l.close()
	}
	return a, err
}

func (l *httpLane) try() (answer, error) {
	if l.conn == nil {
		c, err := dial(l.addr, l.deadline)
		if err != nil {
			return answer{}, err
		}
		l.conn, l.in = c, bufio.NewReaderSize(c, 64<<10)
	}
	if _, err := l.conn.Write(l.request); err != nil {
		return answer{}, err
	}
	status, length, headerLen, err := l.readHead()
	if err != nil {
		return answer{}, err
	}
	if length >= 0 {
		if cap(l.body) < length {
			l.body = make([]byte, length)
		}
		l.body = l.body[:length]
		_, err = io.ReadFull(l.in, l.body)
	} else {
		err = l.readChunks()
	}
	if err != nil {
		return answer{}, fmt.Errorf("answer ends inside its body: %w", err)
	}
	if status != 200 {
		return answer{}, fmt.Errorf("status %d: %s", status, l.body[:min(len(l.body), 300)])
	}
	return answer{body: l.body, headerLen: headerLen}, nil
}

// dial opens a connection whose reads and writes all end by the deadline. Package net's would tell the scheduler of each, which
// wakes a thread where this process idled: 20 us of the machine that the server is on.
func dial(addr string, deadline time.Time) (net.Conn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	if err := c.SetDeadline(deadline); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return socket.New(c), nil
}

// readHead reads the status line and the headers. length is -1 for a chunked body.
func (l *httpLane) readHead() (status, length, headerLen int, err error) {
	line, err := l.in.ReadSlice('\n')
	if err != nil {
		return 0, 0, 0, fmt.Errorf("no answer: %w", err)
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) {
		return 0, 0, 0, fmt.Errorf("bad status line %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, 0, 0, fmt.Errorf("bad status line %q", line)
	}
	length = -2
	for {
		if line, err = l.in.ReadSlice('\n'); err != nil {
			return 0, 0, 0, fmt.Errorf("answer ends inside its head: %w", err)
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("content-length")):
			length, err = strconv.Atoi(string(value))
		case bytes.EqualFold(name, []byte("inference-header-content-length")):
			headerLen, err = strconv.Atoi(string(value))
		case bytes.EqualFold(name, []byte("transfer-encoding")) && bytes.EqualFold(value, []byte("chunked")):
			length = -1
		}
		if err != nil {
			return 0, 0, 0, fmt.Errorf("bad header %q", line)
		}
	}
	if length == -2 {
		return 0, 0, 0, errors.New("answer has neither Content-Length nor chunks")
	}
	return status, length, headerLen, nil
}

// readChunks reads a chunked body into l.body.
func (l *httpLane) readChunks() error {
	l.body = l.body[:0]
	for {
		line, err := l.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 31)
		if err != nil {
			return err
		}
		at := len(l.body)
		l.body = append(l.body, make([]byte, n)...)
		if _, err := io.ReadFull(l.in, l.body[at:]); err != nil {
			return err
		}
		if _, err := l.in.Discard(2); err != nil || n == 0 {
			return err
		}
	}
}

func (l *httpLane) close() {
	if l.conn != nil {
		_ = l.conn.Close() // what mattered has been read
		l.conn = nil
	}
}
