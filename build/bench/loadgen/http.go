package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/valyala/fasthttp"

	"nereid/engine/client"
	"nereid/engine/system/socket"
)

// httpSender sends one prepared request over one keep-alive connection, which it opens when needed.
type httpSender struct {
	addr     string
	asked    *client.Request
	request  []byte // asked, encoded
	deadline time.Time

	conn     net.Conn
	in       *bufio.Reader
	response fasthttp.Response
}

func newHTTPSender(o *options, r *client.Request, deadline time.Time) (*httpSender, error) {
	inJSON := o.proto == "json"
	request, err := httpRequest(o.addr, r, &client.HTTPOptions{JSONInputs: inJSON, JSONOutputs: inJSON})
	return &httpSender{addr: o.addr, asked: r, request: request, deadline: deadline}, err
}

// exchange sends the request and reads the whole response. Any error closes the connection.
func (s *httpSender) exchange(context.Context) ([]byte, error) {
	body, err := s.try()
	if err != nil {
		s.close()
	}
	return body, err
}

func (s *httpSender) try() ([]byte, error) {
	if s.conn == nil {
		c, err := dial(s.addr, s.deadline)
		if err != nil {
			return nil, err
		}
		s.conn, s.in = c, bufio.NewReaderSize(c, 64<<10)
	}
	if _, err := s.conn.Write(s.request); err != nil {
		return nil, err
	}
	if err := s.response.Read(s.in); err != nil {
		return nil, fmt.Errorf("no whole response: %w", err)
	}
	body := s.response.Body()
	if status := s.response.StatusCode(); status != http.StatusOK {
		return nil, fmt.Errorf("status %d: %s", status, body[:min(len(body), 300)])
	}
	return body, nil
}

func (s *httpSender) decode(body []byte) (*client.Response, error) {
	return client.DecodeHTTP(s.asked, body, string(s.response.Header.Peek(client.HeaderLength)))
}

func (s *httpSender) close() {
	if s.conn != nil {
		_ = s.conn.Close() // everything that counts has been read
		s.conn = nil
	}
}

// dial opens a connection whose reads and writes all end by the deadline. It avoids package net's reads and writes,
// which notify the Go scheduler and may wake a thread of this process each time.
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
