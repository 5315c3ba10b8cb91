package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"

	"nereid/engine/httpapi/tensorjson"
	"nereid/engine/refusals"
	"nereid/engine/requests"
)

// spareFile is a file descriptor in reserve. If the process has no other left, it is released for the moment that it
// takes to accept and reject a client. Otherwise clients would wait in the listener's queue without an answer.
type spareFile struct {
	file     *os.File
	reported time.Time // when report last logged
}

// take opens the file unless it is open, and reports whether it is.
func (r *spareFile) take() bool {
	if r.file == nil {
		r.file, _ = os.Open(os.DevNull) // without it, accepting waits until there are descriptors again
	}
	return r.file != nil
}

// release closes the file and reports whether it was open.
func (r *spareFile) release() bool {
	if r.file == nil {
		return false
	}
	_ = r.file.Close() // it is only read from
	r.file = nil
	return true
}

// report logs that connections are rejected, once in ten seconds.
func (r *spareFile) report(log *slog.Logger) {
	if time.Since(r.reported) > 10*time.Second {
		r.reported = time.Now()
		log.Warn("no file descriptor left: HTTP connections are answered with 503; raise the limit (ulimit -n)")
	}
}

// noDescriptors reports whether accept failed because the process, or the system, has too many files open.
func noDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// reject answers 503 and closes the connection. The connection of a TLS client is only closed: a handshake would cost
// what the server lacks.
func (cs *connections) reject(nc net.Conn, why string) {
	defer nc.Close()
	cs.opt.Log.Debug("HTTP connection refused", "remote", nc.RemoteAddr(), "why", why)
	tcp, ok := nc.(interface{ CloseWrite() error })
	if _, secure := nc.(interface{ NetConn() net.Conn }); secure || !ok {
		return
	}
	cs.opt.Refusals.Add(refusals.Refusal{Protocol: "http", Cause: refusals.HTTPCause(503),
		Client: nc.RemoteAddr().String(), Text: why})
	cs.opt.Requests.Add(requests.HTTP, nc.RemoteAddr(), "", 503, refusals.HTTPCause(503), why)
	body := tensorjson.Error(why + "; try again later")
	head := fmt.Sprintf("HTTP/1.1 503 Service Unavailable\r\nContent-Type: %s\r\nContent-Length: %d\r\n"+
		"Retry-After: 1\r\nConnection: close\r\n\r\n", typeText, len(body))
	_ = nc.SetDeadline(time.Now().Add(rejectTime)) // fails only if the connection is closed
	if _, err := nc.Write(append([]byte(head), body...)); err != nil || tcp.CloseWrite() != nil {
		return
	}
	// What the client sent is read before the connection is closed. Otherwise it may be reset before the client reads
	// the answer.
	var b [1024]byte
	_, _ = nc.Read(b[:]) // whatever comes
}
