package process

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxLine is how many bytes of a line are logged. linesPerSecond and burstLines bound how many lines are logged.
	maxLine        = 4096
	linesPerSecond = 100
	burstLines     = 1000
	// tailLines is how many of the last lines are kept, to explain the end of a process.
	tailLines = 20
)

// Output logs what a process writes to stdout and stderr, at a limited rate, and keeps the last lines. Safe for
// concurrent use.
type Output struct {
	log *slog.Logger

	mu      sync.Mutex
	allowed float64 // guarded by mu, as are the next: lines that may be logged now
	since   time.Time
	dropped int
	tail    []string
}

// NewOutput returns an output that goes to log.
func NewOutput(log *slog.Logger) *Output {
	return &Output{log: log, allowed: burstLines, since: time.Now()}
}

// read logs f's lines until f ends.
func (o *Output) read(f *os.File, stream string) {
	r := bufio.NewReaderSize(f, maxLine)
	for {
		line, err := r.ReadSlice('\n')
		if len(line) > 0 {
			o.line(stream, strings.TrimRight(string(line), "\r\n"))
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a long line is dropped
			_, err = r.ReadSlice('\n')
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded) {
				o.log.Warn("the output of a model's process cannot be read", "err", err)
			}
			o.mu.Lock()
			dropped := o.takeDropped()
			o.mu.Unlock()
			o.logDropped(dropped)
			return
		}
	}
}

func (o *Output) line(stream, text string) {
	o.mu.Lock()
	if len(o.tail) == tailLines {
		o.tail = append(o.tail[:0], o.tail[1:]...)
	}
	o.tail = append(o.tail, text)
	now := time.Now()
	o.allowed = min(burstLines, o.allowed+now.Sub(o.since).Seconds()*linesPerSecond)
	o.since = now
	if o.allowed < 1 {
		o.dropped++
		o.mu.Unlock()
		return
	}
	o.allowed--
	dropped := o.takeDropped()
	o.mu.Unlock()
	o.logDropped(dropped)
	o.log.Info(text, "stream", stream)
}

// takeDropped returns how many lines were dropped since the last call. o.mu is held.
func (o *Output) takeDropped() int {
	n := o.dropped
	o.dropped = 0
	return n
}

func (o *Output) logDropped(n int) {
	if n > 0 {
		o.log.Warn("a model's process writes too much; lines were dropped", "lines", n)
	}
}

// Lines returns the last lines.
func (o *Output) Lines() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.tail)
}
