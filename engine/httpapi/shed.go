package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"
)

// shedder holds a file descriptor in reserve. When the process has none left, it is given up for the moment that it
// takes to tell a client so: otherwise clients would wait in the listener's queue for an answer that never comes.
type shedder struct {
	reserve *os.File
	told    time.Time // when it was last logged
}

// arm takes the reserve if there is none and reports whether there is one. It is called before every accept.
func (r *shedder) arm() bool {
	if r.reserve == nil {
		r.reserve, _ = os.Open(os.DevNull) // without one, accepting waits until there are descriptors again
	}
	return r.reserve != nil
}

// tell logs, now and then, that connections are refused.
func (r *shedder) tell(log *slog.Logger) {
	if time.Since(r.told) > 10*time.Second {
		r.told = time.Now()
		log.Warn("no file descriptor left: HTTP connections are answered with 503; raise the limit (ulimit -n)")
	}
}

// disarm gives the reserve up and reports whether there was one.
func (r *shedder) disarm() bool {
	if r.reserve == nil {
		return false
	}
	r.close()
	return true
}

func (r *shedder) close() {
	if r.reserve != nil {
		_ = r.reserve.Close() // it is only read from
		r.reserve = nil
	}
}

// noDescriptors reports whether accept failed because the process, or the system, has too many files open.
func noDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// rejectTime bounds how long a refusal may take; nothing else is accepted meanwhile.
const rejectTime = 10 * time.Millisecond

// reject answers 503 and closes the connection. Of a TLS client it closes the connection only: a handshake would cost
// what the server lacks.
func (s *Server) reject(nc net.Conn, why string) {
	defer nc.Close()
	s.opt.Log.Debug("HTTP connection refused", "remote", nc.RemoteAddr(), "why", why)
	tcp, ok := nc.(interface{ CloseWrite() error })
	if _, secure := nc.(interface{ NetConn() net.Conn }); secure || !ok {
		return
	}
	body := appendError(nil, why+"; try again later")
	head := fmt.Sprintf("HTTP/1.1 503 Service Unavailable\r\nContent-Type: %s\r\nContent-Length: %d\r\nRetry-After: 1\r\nConnection: close\r\n\r\n",
		typeText, len(body))
	_ = nc.SetDeadline(time.Now().Add(rejectTime)) // fails only if the connection is closed
	if _, err := nc.Write(append([]byte(head), body...)); err != nil || tcp.CloseWrite() != nil {
		return
	}
	// What the client sent is read before the connection is closed: otherwise it may be reset before its answer is read.
	var b [1024]byte
	_, _ = nc.Read(b[:]) // whatever comes
}
