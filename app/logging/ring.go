package logging

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	// ringBytes bounds the memory of the lines that are kept, ringLine that of a message and of its values each.
	ringBytes = 4 << 20
	ringLine  = 4 << 10
	// entryBytes is what a line takes beside its text.
	entryBytes = 80
)

// Line is a line of the log that is still in memory. Seq grows with each line, also over restarts.
type Line struct {
	Seq    int64
	Time   time.Time
	Level  slog.Level
	Text   string // the message as it was given
	Values string // " key=value", as in the log
	pc     uintptr
}

// Source returns the place in the program's code, such as "file.go:12"; "" if it is not known.
func (l *Line) Source() string {
	if l.pc == 0 {
		return ""
	}
	f, _ := runtime.CallersFrames([]uintptr{l.pc}).Next()
	return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
}

// OfProcess reports whether a model's process wrote the line.
func (l *Line) OfProcess() bool { return strings.Contains(l.Values, " stream=") }

// About reports whether the line is about a model: it has its name as the value model, or it names no model there and
// its text has the name as a word.
func (l *Line) About(model string) bool {
	if _, value, ok := strings.Cut(l.Values, " model="); ok {
		if quoted, err := strconv.QuotedPrefix(value); err == nil {
			name, err := strconv.Unquote(quoted)
			return err == nil && name == model
		}
		name, _, _ := strings.Cut(value, " ")
		return name == model
	}
	return hasName(l.Text, model) || hasName(l.Values, model)
}

// hasName reports whether text has name as a word. The number of an instance may follow it, as in "name_0_0".
func hasName(text, name string) bool {
	for from := 0; name != ""; {
		i := strings.Index(text[from:], name)
		if i < 0 {
			return false
		}
		begin, end := from+i, from+i+len(name)
		rest := text[end:]
		instance := len(rest) > 1 && rest[0] == '_' && '0' <= rest[1] && rest[1] <= '9'
		if (begin == 0 || !inName(text[begin-1])) && (rest == "" || instance || !inName(rest[0])) {
			return true
		}
		from = begin + 1
	}
	return false
}

func inName(c byte) bool {
	return c == '_' || c == '-' || c >= utf8.RuneSelf || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' ||
		'a' <= c && c <= 'z'
}

// ring keeps the newest lines within a budget. Safe for concurrent use.
type ring struct {
	mu    sync.Mutex
	lines []Line // guarded by mu, as are the next; those from head on are kept
	head  int
	bytes int
	last  int64 // Seq of the newest line
}

// newRing returns a ring whose numbers are above those of an earlier process.
func newRing() *ring { return &ring{last: time.Now().UnixMicro()} }

// add keeps a record. A nil ring keeps nothing.
func (r *ring) add(rec *slog.Record, values []byte) {
	if r == nil {
		return
	}
	l := Line{Time: rec.Time, Level: rec.Level, Text: cut(rec.Message), Values: cut(string(values)), pc: rec.PC}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	l.Seq = r.last
	r.lines = append(r.lines, l)
	for r.bytes += l.size(); r.bytes > ringBytes; r.head++ {
		r.bytes -= r.lines[r.head].size()
		r.lines[r.head] = Line{} // releases its text
	}
	if r.head > len(r.lines)/2 {
		r.lines = slices.Delete(r.lines, 0, r.head)
		r.head = 0
	}
}

func (l *Line) size() int { return entryBytes + len(l.Text) + len(l.Values) }

// cut returns at most ringLine bytes of s. It ends at a character.
func cut(s string) string {
	if len(s) <= ringLine {
		return s
	}
	end := ringLine - len("…")
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// after returns the lines after a number, the oldest first, and how many of them are no longer kept. With 0 all that
// are kept. last is the number to go on from.
func (r *ring) after(seq int64) (lines []Line, missed, last int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.lines[r.head:]
	first := r.last - int64(len(kept)) + 1
	from := max(0, seq+1-first)
	if seq > 0 {
		missed = max(0, first-seq-1)
	}
	return slices.Clone(kept[min(from, int64(len(kept))):]), missed, r.last
}

// Lines returns the lines of the log that follow the one with number seq, the oldest first; with 0 all that are in
// memory. missed is how many left memory before, and last is the seq for the next call.
func (s *Control) Lines(seq int64) (lines []Line, missed, last int64) { return s.ring.after(seq) }
