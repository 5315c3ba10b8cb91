package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"nereid/engine/system/socket"
)

// connections are a server's listeners and open connections. They enforce the time limits and notice clients that
// leave.
//
// A connection is served by a goroutine, or polled: it has had no request for a while, and only the poll set
// watches it. See idle.go.
type connections struct {
	opt       *Options
	serveHTTP func(*conn) error // serves requests until the connection ends or is to be polled

	// lifetime ends when the server is closed.
	lifetime context.Context
	kill     context.CancelFunc

	start   time.Time
	ticks   atomic.Int64 // the watcher's clock: ticks since start
	open    atomic.Int64 // connections, also the polled ones
	closing atomic.Bool

	mu        sync.Mutex         // guards the next six
	served    map[*conn]struct{} // those that have a goroutine
	idle      idleSet            // the others
	slow      bool               // the watcher's clock is slow or stands still: kick it for a new connection
	listeners map[net.Listener]struct{}
	stop      chan struct{} // closed to stop the watcher; nil before the first listener
	drained   chan struct{} // closed when closing and no connection is left

	kick    chan struct{} // capacity 1: ends the watcher's pause
	running sync.WaitGroup
}

func newConnections(o *Options, serveHTTP func(*conn) error) *connections {
	cs := &connections{
		opt: o, serveHTTP: serveHTTP, start: time.Now(), kick: make(chan struct{}, 1), served: map[*conn]struct{}{},
		listeners: map[net.Listener]struct{}{}, drained: make(chan struct{}),
	}
	cs.lifetime, cs.kill = context.WithCancel(context.Background())
	return cs
}

// accept serves the connections of l until shutdown.
func (cs *connections) accept(l net.Listener) error {
	defer l.Close()
	if !cs.register(l) {
		return nil
	}
	var spare spareFile
	defer spare.release()
	defer func() {
		cs.mu.Lock()
		defer cs.mu.Unlock()
		delete(cs.listeners, l)
	}()
	pause := time.Duration(0)
	for {
		spare.take()
		nc, err := l.Accept()
		if err == nil {
			pause = 0
			cs.add(nc)
			continue
		}
		if cs.closing.Load() {
			return nil
		}
		if noDescriptors(err) && spare.release() {
			if nc, err = l.Accept(); err == nil {
				if spare.take() { // there are some again
					cs.add(nc)
				} else {
					spare.report(cs.opt.Log)
					cs.reject(nc, "the server has no file descriptor left for this connection")
				}
				continue
			}
		}
		var temporary interface{ Temporary() bool }
		if !errors.As(err, &temporary) || !temporary.Temporary() { // too many open files is temporary
			return fmt.Errorf("httpapi: accept on %v: %w", l.Addr(), err)
		}
		pause = min(max(2*pause, minAcceptRetry), maxAcceptRetry)
		cs.opt.Log.Warn("cannot accept HTTP connections for now", "err", err, "retry_in", pause)
		select {
		case <-time.After(pause):
		case <-cs.lifetime.Done():
		}
	}
}

// register adds a listener and starts the watcher. It returns false after shutdown.
func (cs *connections) register(l net.Listener) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.closing.Load() {
		return false
	}
	cs.listeners[l] = struct{}{}
	if cs.stop == nil {
		cs.stop = make(chan struct{})
		stop := cs.stop
		cs.running.Go(func() { cs.watch(stop) })
	}
	return true
}

// add serves a new connection, or rejects it if there are too many.
func (cs *connections) add(nc net.Conn) {
	cs.mu.Lock()
	closing, full := cs.closing.Load(), cs.open.Load() >= int64(cs.opt.MaxConnections)
	if !closing && !full {
		cs.open.Add(1)
		cs.serve(newConn(cs, socket.New(nc)))
	}
	cs.mu.Unlock()
	switch {
	case closing:
		_ = nc.Close() // it was never served
	case full:
		cs.reject(nc, "the server has as many connections as it takes")
	}
}

// serve starts the goroutine of a connection. mu is held.
func (cs *connections) serve(c *conn) {
	cs.served[c] = struct{}{}
	if cs.slow {
		cs.slow = false
		cs.ticks.Store(cs.now())
		select {
		case cs.kick <- struct{}{}:
		default:
		}
	}
	c.since.Store(cs.ticks.Load())
	c.phase.Store(int32(idle))
	cs.running.Go(func() { cs.run(c) })
}

// run serves a connection until it ends or is polled.
func (cs *connections) run(c *conn) {
	var err error
	if cs.handshake(c) {
		err = cs.serveHTTP(c)
	}
	if phase(c.phase.Load()) == polled && cs.poll(c) {
		return
	}
	if err != nil {
		cs.opt.Log.Debug("HTTP connection ended", "remote", c.RemoteAddr(), "err", err)
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.served, c)
	cs.ended()
}

// ended counts a connection that was closed. mu is held.
func (cs *connections) ended() {
	cs.open.Add(-1)
	cs.checkDrained()
}

// checkDrained notices that a server that is closing has no connection left. mu is held.
func (cs *connections) checkDrained() {
	if cs.closing.Load() && cs.open.Load() == 0 {
		select {
		case <-cs.drained:
		default:
			close(cs.drained)
		}
	}
}

// shutdown implements Server.Shutdown.
func (cs *connections) shutdown(ctx context.Context) error {
	cs.mu.Lock()
	cs.closing.Store(true)
	for l := range cs.listeners {
		_ = l.Close() // accept closes it too
	}
	for c := range cs.served {
		if c.phase.CompareAndSwap(int32(idle), int32(closed)) {
			_ = c.Conn.Close() // its goroutine ends by it
		}
	}
	cs.closePolled(func(*conn) bool { return true })
	cs.checkDrained()
	cs.mu.Unlock()

	var err error
	select {
	case <-cs.drained:
	case <-ctx.Done():
		err = ctx.Err()
		cs.abort()
	}
	cs.kill()
	cs.mu.Lock()
	if cs.stop != nil {
		close(cs.stop)
		cs.stop = nil
	}
	if cs.idle.set != nil {
		cs.idle.set.Close()
	}
	cs.mu.Unlock()
	cs.running.Wait()
	return err
}

// abort cancels what is being handled and closes every connection.
func (cs *connections) abort() {
	cs.kill()
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for c := range cs.served {
		c.cancel()
		_ = c.Conn.Close() // its goroutine ends by it
	}
}
