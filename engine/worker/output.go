package worker

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
	// lineMost is how much of a line of output is logged; linesPerSecond and linesAtOnce bound how many lines are.
	lineMost       = 4096
	linesPerSecond = 100
	linesAtOnce    = 1000
	// tailLines is how many of the last lines are kept to explain an end.
	tailLines = 20
)

// output reads what a worker writes to stdout and stderr.
type output struct {
	log *slog.Logger
	mu  sync.Mutex
	// guarded by mu, as are the next:
	allowed float64 // lines that may be logged now
	since   time.Time
	dropped int
	tail    []string
}

func newOutput(log *slog.Logger) *output {
	return &output{log: log, allowed: linesAtOnce, since: time.Now()}
}

// read logs f's lines until it ends.
func (o *output) read(f *os.File, stream string) {
	r := bufio.NewReaderSize(f, lineMost)
	for {
		line, err := r.ReadSlice('\n')
		if len(line) > 0 {
			o.line(stream, strings.TrimRight(string(line), "\r\n"))
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a long line is not worth keeping
			_, err = r.ReadSlice('\n')
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded) {
				o.log.Warn("the output of a model's process cannot be read", "err", err)
			}
			o.end()
			return
		}
	}
}

func (o *output) line(stream, text string) {
	o.mu.Lock()
	if len(o.tail) == tailLines {
		o.tail = append(o.tail[:0], o.tail[1:]...)
	}
	o.tail = append(o.tail, text)
	now := time.Now()
	o.allowed = min(linesAtOnce, o.allowed+now.Sub(o.since).Seconds()*linesPerSecond)
	o.since = now
	if o.allowed < 1 {
		o.dropped++
		o.mu.Unlock()
		return
	}
	o.allowed--
	dropped := o.dropped
	o.dropped = 0
	o.mu.Unlock()
	o.sayDropped(dropped)
	o.log.Info(text, "stream", stream)
}

func (o *output) end() {
	o.mu.Lock()
	dropped := o.dropped
	o.dropped = 0
	o.mu.Unlock()
	o.sayDropped(dropped)
}

func (o *output) sayDropped(n int) {
	if n > 0 {
		o.log.Warn("a model's process writes too much; lines were dropped", "lines", n)
	}
}

// last returns the last lines of output.
func (o *output) last() string { return strings.Join(o.lines(), "\n") }

func (o *output) lines() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.tail)
}
