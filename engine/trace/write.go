package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
)

// writer writes traces to the destination of their setting. Only the tracer's goroutine uses it.
type writer struct {
	log    *slog.Logger
	file   string
	export *exporter // nil: not in use

	whole  *array              // the file of traces that do not go to a numbered one; nil: not open
	groups map[*setting]*array // open numbered files
	index  int                 // of the next numbered file
}

// flushSize is the number of pending bytes that are written at once, even if more traces are waiting.
const flushSize = 256 << 10

func (w *writer) add(tr *Trace) {
	if tr.setting.Mode == ModeOpenTelemetry {
		w.export.add(tr)
		return
	}
	a, most := w.sink(tr.setting)
	a.add(tr, w.log)
	if len(a.pending) >= flushSize {
		a.flush(w.log)
	}
	if most > 0 && a.traces >= most {
		w.retire(tr.setting)
	}
}

// sink returns the file for a setting's next trace, and the number of traces at which the file is full (0: no limit).
// As in Triton, there is a numbered file for every LogFrequency traces, or for all Count traces.
func (w *writer) sink(s *setting) (*array, int64) {
	most := int64(s.LogFrequency)
	if most == 0 && s.Count > 0 {
		most = int64(s.Count)
	}
	if most == 0 {
		return w.theWhole(), 0
	}
	a := w.groups[s]
	if a == nil {
		a = &array{path: w.numbered(w.index)}
		w.index++
		w.groups[s] = a
	}
	return a, most
}

// retire closes a setting's numbered file. As in Triton, fewer traces than Count go to the file without a number.
func (w *writer) retire(s *setting) {
	a := w.groups[s]
	if a == nil {
		return
	}
	delete(w.groups, s)
	a.flush(w.log)
	a.close(w.log)
	if s.LogFrequency == 0 && a.traces < int64(s.Count) {
		if err := w.unnumber(a); err != nil {
			w.log.Error("traces stay in a numbered file", "file", a.path, "err", err)
		}
	}
}

// unnumber moves the traces of a closed numbered file to the file without a number.
func (w *writer) unnumber(a *array) error {
	text, err := os.ReadFile(a.path)
	if err != nil || len(text) <= len("[]") {
		return err
	}
	whole := w.theWhole()
	whole.pending = append(append(whole.pending, ','), text[1:len(text)-1]...)
	if whole.flush(w.log); whole.failed {
		return nil // flush has logged it
	}
	if a.path == w.numbered(w.index-1) {
		w.index--
	}
	return os.Remove(a.path)
}

func (w *writer) numbered(n int) string { return fmt.Sprintf("%s.%d", w.file, n) }

func (w *writer) theWhole() *array {
	if w.whole == nil {
		w.whole = &array{path: w.file}
	}
	return w.whole
}

func (w *writer) flush() {
	if w.whole != nil {
		w.whole.flush(w.log)
	}
	for _, a := range w.groups {
		a.flush(w.log)
	}
}

func (w *writer) close(ctx context.Context) error {
	for s := range w.groups {
		w.retire(s)
	}
	if w.whole != nil {
		w.whole.flush(w.log)
		w.whole.close(w.log)
	}
	if w.export != nil {
		return w.export.close(ctx)
	}
	return nil
}

// array is a file with a JSON array that grows. The file is valid after every write: each write includes the closing
// bracket, and the next one overwrites it.
type array struct {
	path    string
	f       *os.File
	size    int64
	traces  int64
	pending []byte
	failed  bool // the last write failed, which has been logged
}

func (a *array) add(tr *Trace, log *slog.Logger) {
	a.traces++
	text, err := appendJSON(append(a.pending, ','), tr)
	if err != nil {
		log.Error("a trace cannot be encoded and is lost", "file", a.path, "err", err)
		return
	}
	a.pending = text
}

// flush writes what is pending. What cannot be written is lost. This is logged once until a write succeeds again.
func (a *array) flush(log *slog.Logger) {
	if len(a.pending) == 0 {
		return
	}
	err := a.write()
	a.pending = a.pending[:0]
	if cap(a.pending) > 4*flushSize {
		a.pending = nil
	}
	if err != nil && !a.failed {
		log.Error("traces cannot be written and are lost; make room or fix the trace file's path, serving goes on",
			"file", a.path, "err", err)
	}
	a.failed = err != nil
}

func (a *array) write() error {
	if a.f == nil {
		f, err := os.OpenFile(a.path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) // tensors may be private
		if err != nil {
			return err
		}
		a.f, a.size = f, 0
	}
	text := append(a.pending, ']')
	at := a.size - 1 // over the bracket
	if a.size == 0 {
		text[0], at = '[', 0
	}
	n, err := a.f.WriteAt(text, at)
	if err == nil {
		a.size = at + int64(n)
		return nil
	}
	if a.size == 0 { // start again at the next write
		err = errors.Join(err, a.f.Truncate(0))
	} else { // remove the incomplete end
		_, werr := a.f.WriteAt([]byte{']'}, at)
		err = errors.Join(err, werr, a.f.Truncate(a.size))
	}
	return err
}

func (a *array) close(log *slog.Logger) {
	if a.f == nil {
		return
	}
	if err := a.f.Close(); err != nil {
		log.Error("closing a trace file failed; its last traces may be lost", "file", a.path, "err", err)
	}
	a.f = nil
}
