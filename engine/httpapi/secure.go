package httpapi

import (
	"crypto/tls"
	"errors"
	"io"
	"strconv"
)

// handshake completes the TLS handshake of a new connection, within the time that a header may take; without TLS it does
// nothing. It reports whether the connection can be served.
func (s *Server) handshake(c *conn) bool {
	secure, ok := c.Conn.(*tls.Conn)
	if !ok || secure.ConnectionState().HandshakeComplete {
		return true
	}
	c.enter(heading) // the watcher ends it when it takes too long
	err := secure.Handshake()
	if err == nil {
		c.enter(idle)
		if !s.closing.Load() {
			return true
		}
	} else {
		s.opt.Log.Debug("TLS handshake failed", "remote", c.RemoteAddr(), "err", err)
		sayPlain(err)
	}
	_ = c.Conn.Close() // nothing was asked
	return false
}

// sayPlain answers a client that speaks HTTP without TLS.
func sayPlain(err error) {
	var header tls.RecordHeaderError
	if !errors.As(err, &header) || header.Conn == nil {
		return
	}
	switch string(header.RecordHeader[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET":
		const body = `{"error":"this port speaks HTTPS; use an address that begins with https://"}`
		_, _ = io.WriteString(header.Conn, "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\nConnection: close\r\n\r\n"+body)
	}
}

// handshakeRecord is the first byte that a TLS client sends, and no request begins with.
const handshakeRecord = 0x16

// errTLS is the fault of a client that speaks TLS to a port without.
var errTLS = errors.New("the client speaks TLS, which this port does not")

// goodbye reports whether b, the next bytes of a TLS connection, are an alert and nothing else. After a handshake clients
// send one only: close_notify, the end of what they have to say. TLS 1.2 says alert in the clear; in TLS 1.3 it is the one
// record of 19 bytes: two, their kind and a tag of 16 (RFC 8446, 5.2 and 6).
func goodbye(b []byte) bool {
	const header, data, alert = 5, 23, 21
	if len(b) < header {
		return false
	}
	length := int(b[3])<<8 | int(b[4])
	return len(b) == header+length && (b[0] == alert || b[0] == data && length == 19)
}

// maxGoodbye holds an alert of every cipher.
const maxGoodbye = 128
