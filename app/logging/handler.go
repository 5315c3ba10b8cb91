// Package logging writes the log of the server in the form of Triton's.
package logging

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
	"unicode/utf16"
	"unicode/utf8"

	"gopkg.in/natefinch/lumberjack.v2"

	"nereid/engine"
)

// Options are the settings of the log at the start of the program.
type Options struct {
	Settings engine.LogSettings
	Raw      bool // messages are written without quotes and escapes
	// FileMaxBytes is how large the file may become, in MiB rounded up; 0: any size. A full file is renamed, with the
	// time in its name, and the one before is removed.
	FileMaxBytes int64
}

// Open opens the log. It writes to stderr, or to the file of the settings. The Control changes its settings. close is
// never nil.
func Open(o Options, stderr io.Writer) (log *slog.Logger, control *Control, close func() error, err error) {
	out, close := stderr, func() error { return nil }
	if o.Settings.File != "" {
		file, err := openFile(o.Settings.File, o.FileMaxBytes)
		if err != nil {
			return nil, nil, close, fmt.Errorf("--log-file: %w", err)
		}
		out, close = file, file.Close
	}
	h := newHandler(o, out)
	return slog.New(h), h.control, close, nil
}

func openFile(path string, maxBytes int64) (io.WriteCloser, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil || maxBytes == 0 {
		return f, err
	}
	const mib = 1 << 20
	// It opens the file at the first line; here it only had to be possible.
	return &lumberjack.Logger{Filename: path, MaxSize: int((maxBytes + mib - 1) / mib), MaxBackups: 1}, f.Close()
}

// handler writes Triton's log lines: "I1121 06:23:18.117070 20900 file.go:12] "message" key=value". Messages are
// quoted, and so are values with anything but printable text, so that a request cannot forge a line.
type handler struct {
	out     *lockedWriter
	control *Control
	pid     int
	raw     bool
	attrs   string // of WithAttrs, as they are written
	group   string // of WithGroup, with a dot at the end
}

// Control changes the settings of a log while the program runs, and keeps its newest lines in memory. Its methods may
// be called concurrently.
type Control struct {
	v    atomic.Pointer[engine.LogSettings]
	ring *ring
}

var _ engine.LogControl = (*Control)(nil)

// LogSettings implements engine.LogControl.
func (s *Control) LogSettings() engine.LogSettings { return *s.v.Load() }

// UpdateLog implements engine.LogControl.
func (s *Control) UpdateLog(u engine.LogUpdate) {
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

func newHandler(o Options, w io.Writer) *handler {
	control := &Control{ring: newRing()}
	control.v.Store(&o.Settings)
	return &handler{out: &lockedWriter{w: w}, control: control, pid: os.Getpid(), raw: o.Raw}
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(_ context.Context, l slog.Level) bool {
	now := h.control.v.Load()
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

// Handle implements slog.Handler.
func (h *handler) Handle(_ context.Context, r slog.Record) error {
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
	h.control.ring.add(&r, attrs)
	switch {
	case table:
		b = append(append(append(b, '\n'), r.Message...), '\n')
	case h.raw:
		b = append(append(b, r.Message...), attrs...)
	default:
		b = appendJSON(b, r.Message+string(attrs))
	}
	return h.out.write(append(b, '\n'))
}

func (h *handler) prefix(b []byte, r slog.Record) []byte {
	letter := byte('I')
	switch {
	case r.Level >= slog.LevelError:
		letter = 'E'
	case r.Level >= slog.LevelWarn:
		letter = 'W'
	}
	now := r.Time.UTC() // in both formats, as in Triton
	iso := h.control.v.Load().Format == "ISO8601"
	if iso {
		b = now.AppendFormat(b, time.RFC3339)
		b = append(b, ' ')
	} else {
		b = append(b, letter)
		b = now.AppendFormat(b, "0102 15:04:05.000000 ")
	}
	if iso {
		b = append(b, letter, ' ')
	}
	b = strconv.AppendInt(b, int64(h.pid), 10)
	b = append(b, ' ')
	if r.PC != 0 {
		f, _ := runtime.CallersFrames([]uintptr{r.PC}).Next()
		b = fmt.Appendf(b, "%s:%d", filepath.Base(f.File), f.Line)
	}
	return append(b, ']', ' ')
}

// appendJSON appends a text as a JSON string, as Triton logs its messages. What cannot be printed is escaped.
func appendJSON(b []byte, text string) []byte {
	b = append(b, '"')
	for _, r := range text { // bytes that are not UTF-8 become U+FFFD
		switch {
		case r == '\n':
			b = append(b, `\n`...)
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case strconv.IsPrint(r):
			b = utf8.AppendRune(b, r)
		default:
			for _, unit := range utf16.AppendRune(nil, r) {
				b = fmt.Appendf(b, `\u%04x`, unit)
			}
		}
	}
	return append(b, '"')
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
	special := func(r rune) bool { return r <= ' ' || r == '"' || r == '=' || !strconv.IsPrint(r) }
	if s == "" || strings.ContainsFunc(s, special) {
		return strconv.AppendQuote(b, s)
	}
	return append(b, s...)
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	b := []byte(h.attrs)
	for _, a := range attrs {
		b = appendAttr(b, h.group, a)
	}
	next.attrs = string(b)
	return &next
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	next := *h
	next.group += name + "."
	return &next
}
