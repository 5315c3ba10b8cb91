package httpapi

import (
	"crypto/tls"
	"errors"
	"io"
	"strconv"
)

func (c *conn) isTLS() bool {
	_, ok := c.Conn.(*tls.Conn)
	return ok
}

// handshake completes the TLS handshake of a new connection, in the time that a header may take. Without TLS it does
// nothing. It reports whether the connection can be served.
func (cs *connections) handshake(c *conn) bool {
	secure, ok := c.Conn.(*tls.Conn)
	if !ok || secure.ConnectionState().HandshakeComplete {
		return true
	}
	c.enter(readingHead) // the watcher ends it if it takes too long
	err := secure.Handshake()
	if err == nil {
		c.enter(idle)
		if !cs.closing.Load() {
			return true
		}
	} else {
		cs.opt.Log.Debug("TLS handshake failed", "remote", c.RemoteAddr(), "err", err)
		answerPlainHTTP(err)
	}
	_ = c.Conn.Close() // there was no request
	return false
}

// answerPlainHTTP answers a client that speaks HTTP without TLS; err is the error of the handshake.
func answerPlainHTTP(err error) {
	var header tls.RecordHeaderError
	if !errors.As(err, &header) || header.Conn == nil {
		return
	}
	switch string(header.RecordHeader[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET":
		const body = `{"error":"this port speaks HTTPS; use an address that begins with https://"}`
		_, _ = io.WriteString(header.Conn, "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n"+
			"Content-Length: "+strconv.Itoa(len(body))+"\r\nConnection: close\r\n\r\n"+body)
	}
}

// handshakeRecord is the first byte that a TLS client sends. No HTTP request begins with it.
const handshakeRecord = 0x16

// errTLS is the fault of a client that speaks TLS to a port without.
var errTLS = errors.New("the client speaks TLS, which this port does not")

// isCloseNotify reports whether b, the next bytes of a TLS connection, are an alert and nothing else. After a
// handshake clients send only one alert, close_notify. In TLS 1.2 the type of an alert record is not encrypted. In
// TLS 1.3 the alert is the only record of 19 bytes: two, their type and a tag of 16 (RFC 8446, 5.2 and 6).
func isCloseNotify(b []byte) bool {
	const header, data, alert = 5, 23, 21
	if len(b) < header {
		return false
	}
	length := int(b[3])<<8 | int(b[4])
	return len(b) == header+length && (b[0] == alert || b[0] == data && length == 19)
}
