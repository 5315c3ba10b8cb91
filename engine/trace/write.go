package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
)

// writer puts traces where their setting says. Only the tracer's goroutine uses it.
type writer struct {
	log    *slog.Logger
	file   string
	export *exporter // nil: not in use

	whole  *array              // the file that takes what goes to no numbered one; nil: not begun
	groups map[*setting]*array // numbered files that are being filled
	index  int                 // of the next numbered file
}

// flushSize is how many bytes gather before they are written while more traces wait.
const flushSize = 256 << 10

func (w *writer) add(tr *Trace) {
	if tr.setting.Mode == ModeOpenTelemetry {
		w.export.add(tr)
		return
	}
	a, most := w.sink(tr.setting)
	a.add(tr)
	if len(a.pending) >= flushSize {
		a.flush(w.log)
	}
	if most > 0 && a.traces >= most {
		w.retire(tr.setting)
	}
}

// sink returns the file for a setting's next trace, and after how many traces it is full (0: never): a numbered one for
// every LogFrequency traces, or for all Count traces, as Triton does it.
func (w *writer) sink(s *setting) (*array, int64) {
	most := int64(s.LogFrequency)
	if most == 0 && s.Count > 0 {
		most = int64(s.Count)
	}
	if most == 0 {
		if w.whole == nil {
			w.whole = &array{path: w.file}
		}
		return w.whole, 0
	}
	a := w.groups[s]
	if a == nil {
		a = &array{path: fmt.Sprintf("%s.%d", w.file, w.index)}
		w.index++
		w.groups[s] = a
	}
	return a, most
}

// retire ends a setting's numbered file.
func (w *writer) retire(s *setting) {
	if a := w.groups[s]; a != nil {
		delete(w.groups, s)
		a.flush(w.log)
		a.close(w.log)
	}
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

// array is a file with a JSON array that grows. It is whole after every write: the closing bracket is written with what
// comes before it, and the next write begins at its place.
type array struct {
	path    string
	f       *os.File
	size    int64
	traces  int64
	pending []byte
	failed  bool // and it was said
}

func (a *array) add(tr *Trace) {
	a.traces++
	a.pending = append(a.pending, ',')
	a.pending = appendJSON(a.pending, tr)
}

// flush writes what is pending. What cannot be written is lost; that is logged once until writing succeeds again.
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
		log.Error("traces cannot be written and are lost; make room or fix the trace file's path, serving goes on", "file", a.path, "err", err)
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
	if a.size == 0 { // begin again next time
		err = errors.Join(err, a.f.Truncate(0))
	} else { // take the torn end away
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
