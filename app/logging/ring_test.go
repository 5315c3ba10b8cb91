package logging

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTheRingKeepsTheNewestLinesWithinItsBudget(t *testing.T) {
	h := newHandler(defaults(), io.Discard)
	log := slog.New(h)
	long := strings.Repeat("a", ringLine-10) + strings.Repeat("模", 10)
	log.Info("first")
	_, _, first := h.control.Lines(0)
	const lines = 2 * ringBytes / ringLine
	for range lines {
		log.Info(long, "k", long)
	}
	log.Warn("last")
	kept, missed, last := h.control.Lines(0)
	size := 0
	for _, l := range kept {
		if size += l.size(); len(l.Text) > ringLine || len(l.Values) > ringLine || !utf8.ValidString(l.Text+l.Values) {
			t.Fatalf("a line has %d and %d bytes", len(l.Text), len(l.Values))
		}
	}
	if size > ringBytes || size < ringBytes/2 || len(h.control.ring.lines) > 2*len(kept)+1 {
		t.Errorf("%d bytes in %d lines, room for %d", size, len(kept), len(h.control.ring.lines))
	}
	if l := kept[len(kept)-1]; l.Text != "last" || l.Seq != last || missed != 0 || last != first+lines+1 {
		t.Errorf("the newest is %q %d, last %d, first %d, missed %d", l.Text, l.Seq, last, first, missed)
	}
	if kept, missed, _ = h.control.Lines(first); int(missed)+len(kept) != lines+1 {
		t.Errorf("%d missed and %d kept of %d", missed, len(kept), lines+1)
	}
	if kept, missed, _ = h.control.Lines(last - 1); len(kept) != 1 || missed != 0 {
		t.Errorf("%d lines, %d missed after the last but one", len(kept), missed)
	}
	if kept, _, _ = h.control.Lines(last + 100); len(kept) != 0 {
		t.Errorf("%d lines after one that is not there", len(kept))
	}
}

func TestLinesNameTheirModel(t *testing.T) {
	h := newHandler(defaults(), io.Discard)
	for _, tt := range []struct {
		write func(*slog.Logger)
		model string
		want  bool
	}{
		{func(l *slog.Logger) { l.Info("x", "model", "a") }, "a", true},
		{func(l *slog.Logger) { l.With("model", "a").Info("x", "stream", "stderr") }, "a", true},
		{func(l *slog.Logger) { l.Info("a fails", "model", "b") }, "a", false},
		{func(l *slog.Logger) { l.Info("x", "model", "a b") }, "a b", true},
		{func(l *slog.Logger) { l.Info("x", "model", "a b") }, "a", false},
		{func(l *slog.Logger) { l.Info("successfully loaded 'a'") }, "a", true},
		{func(l *slog.Logger) { l.Info("loading: a:1") }, "a", true},
		{func(l *slog.Logger) { l.Info("loading: a_b:1") }, "a", false},
		{func(l *slog.Logger) { l.Info("loading: ab:1") }, "b", false},
		{func(l *slog.Logger) { l.Info("x", "instance", "a_0_1") }, "a", true},
	} {
		tt.write(slog.New(h))
		lines, _, last := h.control.Lines(0)
		if l := lines[len(lines)-1]; l.Seq != last || l.About(tt.model) != tt.want {
			t.Errorf("%q%s is about %s: %v", l.Text, l.Values, tt.model, !tt.want)
		}
	}
}

func TestTheRingDoesNotChangeWhatIsWritten(t *testing.T) {
	var with, without strings.Builder
	for out, h := range map[*strings.Builder]*handler{&with: newHandler(defaults(), &with),
		&without: newHandler(defaults(), &without)} {
		if out == &without {
			h.control.ring = nil
		}
		log := slog.New(h)
		log.Error("two\nlines", "k", "v w")
		Table(log, [][]string{{"Model"}, {"a"}})
		log.Debug("not enabled")
	}
	strip := func(s string) string {
		var out []string
		for line := range strings.Lines(s) {
			_, text, _ := strings.Cut(line, "] ")
			out = append(out, text)
		}
		return strings.Join(out, "|")
	}
	if strip(with.String()) != strip(without.String()) || with.Len() == 0 {
		t.Errorf("%q\n%q", with.String(), without.String())
	}
}

func BenchmarkLine(b *testing.B) {
	for _, name := range []string{"with the ring", "without"} {
		b.Run(name, func(b *testing.B) {
			h := newHandler(defaults(), io.Discard)
			if name == "without" {
				h.control.ring = nil
			}
			log := slog.New(h).With("model", "digits", "version", 1)
			b.ReportAllocs()
			for b.Loop() {
				log.Info("epoch 12: loss 0.123456", "stream", "stderr")
			}
		})
	}
}
