package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"nereid/app/logging"
	"nereid/app/options"
	"nereid/engine"
	"nereid/engine/metrics/custom"
	"nereid/engine/status"
)

// Embedded is a server inside another program: the parts of nereid serve, without signals, and without ports unless the
// options ask for them. Its methods are safe for concurrent use, except Close.
type Embedded struct {
	s          *server
	closeLog   func() error
	openFronts openFronts

	exitTimeout atomic.Int64 // in nanoseconds
}

// EmbedOptions are what a server inside another program has in addition to the options of a command line.
type EmbedOptions struct {
	Program string           // a file of this program, which runs models that have a process
	Metrics *custom.Registry // is shown with the server's metrics, and takes those that models make
	Log     io.Writer        // takes the log, unless the options name a file
}

// Embed makes a server with the options of a command line, and returns when its models are loaded. The caller closes
// the server. An error has the code and the text that Triton gives the caller.
func Embed(ctx context.Context, args []string, o EmbedOptions) (*Embedded, error) {
	c, err := options.LoadEmbedded(args, os.LookupEnv)
	if err != nil {
		return nil, status.Errorf(status.InvalidArg, "%w", err)
	}
	c.Backends.Program, c.Backends.Metrics = o.Program, o.Metrics
	log, logControl, closeLog, err := logging.Open(c.Log, o.Log)
	if err != nil {
		return nil, err
	}
	s := &server{c: c, log: log, logControl: logControl, tasks: tasks{failed: make(chan error, 1)}}
	e := &Embedded{s: s, closeLog: closeLog, openFronts: openFronts{all: map[*Front]bool{}}}
	e.SetExitTimeout(c.ExitTimeout)
	if err = s.open(ctx); err == nil {
		err = s.start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// Engine returns the engine. It is closed with the server.
func (e *Embedded) Engine() *engine.Engine { return e.s.engine }

// Metrics returns the metrics in Prometheus' text format.
func (e *Embedded) Metrics() []byte { return e.s.fronts.exporter.Append(nil) }

// Log returns the server's log. It is closed with the server.
func (e *Embedded) Log() *slog.Logger { return e.s.log }

// CloseLimit is the longest time that Close takes.
func (e *Embedded) CloseLimit() time.Duration { return time.Duration(e.exitTimeout.Load()) + endGrace }

// SetExitTimeout replaces the exit timeout of the options, for a Close that has not begun.
func (e *Embedded) SetExitTimeout(d time.Duration) { e.exitTimeout.Store(int64(d)) }

// Close waits for the requests under way, at most for the exit timeout, and stops the server.
func (e *Embedded) Close() error {
	e.s.c.ExitTimeout = time.Duration(e.exitTimeout.Load())
	var fronts sync.WaitGroup
	fronts.Go(e.openFronts.close)
	err := e.s.end() // which answers what the fronts wait for
	fronts.Wait()
	return errors.Join(err, e.closeLog())
}
