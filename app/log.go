package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"nereid/engine"
)

// logHandler writes Triton's log lines: "I1121 06:23:18.117070 20900 file.go:12] "message" key=value". Messages and values are
// quoted where they hold anything but printable text, so that a request cannot forge a line.
type logHandler struct {
	out   *lockedWriter
	state *logState
	pid   int
	raw   bool // messages are written without quotes and escapes
	attrs string
	group string
}

// logState is what can be changed while the program runs. All handlers made of one share it.
type logState struct {
	v atomic.Pointer[engine.LogSettings]
}

var _ engine.LogControl = (*logState)(nil)

// LogSettings implements engine.LogControl.
func (s *logState) LogSettings() engine.LogSettings { return *s.v.Load() }

// UpdateLog implements engine.LogControl.
func (s *logState) UpdateLog(u engine.LogUpdate) {
	for {
		old := s.v.Load()
		next := *old
		set(&next.Info, u.Info)
		set(&next.Warning, u.Warning)
		set(&next.Error, u.Error)
		set(&next.Verbose, u.Verbose)
		set(&next.Format, u.Format)
		if s.v.CompareAndSwap(old, &next) {
			return
		}
	}
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer // guarded by mu
}

func (l *lockedWriter) write(b []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.w.Write(b)
	return err
}

func newLogHandler(c *Config, w io.Writer) *logHandler {
	state := &logState{}
	state.v.Store(&engine.LogSettings{
		File: c.LogFile, Info: c.LogInfo, Warning: c.LogWarn, Error: c.LogError, Verbose: uint32(c.LogVerbose), Format: c.LogFormat,
	})
	return &logHandler{out: &lockedWriter{w: w}, state: state, pid: os.Getpid(), raw: c.RawLog}
}

// Enabled implements slog.Handler.
func (h *logHandler) Enabled(_ context.Context, l slog.Level) bool {
	now := h.state.v.Load()
	switch {
	case l >= slog.LevelError:
		return now.Error
	case l >= slog.LevelWarn:
		return now.Warning
	case l >= slog.LevelInfo:
		return now.Info
	}
	return now.Verbose > 0
}

// tableKey marks a record whose message is a table: it is written as it is, after a line break.
const tableKey = "nereid.table"

// Handle implements slog.Handler.
func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	b := h.prefix(nil, r)
	table := false
	attrs := []byte(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == tableKey {
			table = true
		} else {
			attrs = appendAttr(attrs, h.group, a)
		}
		return true
	})
	switch {
	case table:
		b = append(append(append(b, '\n'), r.Message...), '\n')
	case h.raw:
		b = append(append(b, r.Message...), attrs...)
	default:
		b = strconv.AppendQuote(b, r.Message)
		b = append(b, attrs...)
	}
	return h.out.write(append(b, '\n'))
}

func (h *logHandler) prefix(b []byte, r slog.Record) []byte {
	letter := byte('I')
	switch {
	case r.Level >= slog.LevelError:
		letter = 'E'
	case r.Level >= slog.LevelWarn:
		letter = 'W'
	}
	iso := h.state.v.Load().Format == "ISO8601"
	if iso {
		b = r.Time.UTC().AppendFormat(b, time.RFC3339)
		b = append(b, ' ')
	} else {
		b = append(b, letter)
		b = r.Time.AppendFormat(b, "0102 15:04:05.000000 ")
	}
	b = strconv.AppendInt(b, int64(h.pid), 10)
	b = append(b, ' ')
	if iso {
		b = append(b, letter, ' ')
	}
	if r.PC != 0 {
		f, _ := runtime.CallersFrames([]uintptr{r.PC}).Next()
		b = fmt.Appendf(b, "%s:%d", filepath.Base(f.File), f.Line)
	}
	return append(b, ']', ' ')
}

func appendAttr(b []byte, group string, a slog.Attr) []byte {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		for _, g := range v.Group() {
			b = appendAttr(b, group+a.Key+".", g)
		}
		return b
	}
	b = append(b, ' ')
	b = append(b, group...)
	b = append(b, a.Key...)
	b = append(b, '=')
	s := v.String()
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '"' || r == '=' || !strconv.IsPrint(r) }) {
		return strconv.AppendQuote(b, s)
	}
	return append(b, s...)
}

// WithAttrs implements slog.Handler.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	b := []byte(h.attrs)
	for _, a := range attrs {
		b = appendAttr(b, h.group, a)
	}
	next.attrs = string(b)
	return &next
}

// WithGroup implements slog.Handler.
func (h *logHandler) WithGroup(name string) slog.Handler {
	next := *h
	next.group += name + "."
	return &next
}

// openLog opens the log's destination. Its close function is never nil.
func openLog(c *Config, stderr io.Writer) (io.Writer, func() error, error) {
	if c.LogFile == "" {
		return stderr, func() error { return nil }, nil
	}
	f, err := os.OpenFile(c.LogFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("--log-file: %w", err)
	}
	return f, f.Close, nil
}
