package frames

import (
	"context"
	"encoding/binary"
	"log/slog"
	"math"

	"nereid/engine/infer"
)

// Hello is what a process says when it starts.
type Hello struct {
	Protocol int               `json:"protocol"`
	PID      int               `json:"pid"`
	Runtime  string            `json:"runtime"`
	Versions map[string]string `json:"versions"`
	Error    string            `json:"error"` // why it cannot work
}

// Log is a line of a model's log.
type Log struct {
	Level slog.Level
	Line  uint32
	File  string // "": not known
	Text  string
}

var levels = [...]slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}

// Levels are the levels that a log takes: a bit for each of verbose, info, warning and error.
type Levels uint16

// LevelsOf returns the levels that a log takes now.
func LevelsOf(log *slog.Logger) (l Levels) {
	for i, level := range levels {
		if log.Enabled(context.Background(), level) {
			l |= 1 << i
		}
	}
	return l
}

// Has reports whether the log takes lines of a level.
func (l Levels) Has(level slog.Level) bool {
	for i := len(levels) - 1; i >= 0; i-- {
		if level >= levels[i] || i == 0 {
			return l>>i&1 != 0
		}
	}
	return false // never
}

// ParseLog reads the body of a LOG frame.
func ParseLog(body []byte) (Log, error) {
	c := cursor{b: body}
	level := c.u8()
	c.u8()
	n := int(c.u16())
	l := Log{Level: slog.LevelInfo, Line: c.u32(), File: string(c.take(n))}
	if c.bad {
		return l, errFrame
	}
	if int(level) < len(levels) {
		l.Level = levels[level]
	}
	l.Text = string(c.b[c.at:])
	return l, nil
}

// MaxActivity is the size of an activity's name in bytes.
const MaxActivity = 1 << 10

// Activity is something that happened to a traced request in a process.
type Activity struct {
	Ticket uint64
	At     int64 // nanoseconds of CLOCK_MONOTONIC
	Name   string
}

// ParseActivity reads the body of a TRACE frame.
func ParseActivity(body []byte) (Activity, error) {
	c := cursor{b: body}
	a := Activity{Ticket: c.u64(), At: int64(c.u64())}
	if name := c.b[min(c.at, len(c.b)):]; !c.bad && len(name) <= MaxActivity {
		a.Name = string(name)
		return a, nil
	}
	return a, errFrame
}

// Operations on a metric.
const (
	MetricIncrement = 1 + iota
	MetricSet
	MetricObserve
)

// Metric is one change of a metric.
type Metric struct {
	Metric uint64
	Op     uint32 // MetricIncrement, MetricSet or MetricObserve
	Value  float64
}

// ParseMetric returns the next change in the body of a METRIC frame, and the rest of the body.
func ParseMetric(b []byte) (Metric, []byte, error) {
	if len(b) < 24 {
		return Metric{}, nil, errFrame
	}
	return Metric{
		Metric: binary.LittleEndian.Uint64(b), Op: binary.LittleEndian.Uint32(b[8:]),
		Value: math.Float64frombits(binary.LittleEndian.Uint64(b[16:])),
	}, b[24:], nil
}

// reportSize is the size of a report in bytes.
const reportSize = 48

// AppendReport appends a report.
func AppendReport(b []byte, p *infer.Report) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(p.Kind))
	b = binary.LittleEndian.AppendUint64(b, p.N)
	for _, t := range []infer.Stamp{p.Began, p.Input, p.Output, p.Ended} {
		b = binary.LittleEndian.AppendUint64(b, uint64(t))
	}
	return b
}

// ParseReport returns the next report in b, and the rest of b.
func ParseReport(b []byte) (p infer.Report, rest []byte, err error) {
	if len(b) < reportSize {
		return p, nil, errFrame
	}
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	p = infer.Report{Kind: infer.ReportKind(min(at(0), math.MaxUint32)), N: at(1), Began: infer.Stamp(at(2)),
		Input: infer.Stamp(at(3)), Output: infer.Stamp(at(4)), Ended: infer.Stamp(at(5))}
	return p, b[reportSize:], nil
}
