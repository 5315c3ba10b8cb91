package trace

import (
	"maps"
	"strings"
	"sync/atomic"

	"nereid/engine/status"
)

// Level is what is recorded of a traced request.
type Level uint8

// The levels, which can be combined. 0 is OFF.
const (
	Timestamps Level = 1 << iota
	Tensors
)

// Names returns Triton's names of a level: OFF, or TIMESTAMPS and TENSORS.
func (l Level) Names() []string {
	var all []string
	if l&Timestamps != 0 {
		all = append(all, "TIMESTAMPS")
	}
	if l&Tensors != 0 {
		all = append(all, "TENSORS")
	}
	if l == 0 {
		all = append(all, "OFF")
	}
	return all
}

// ParseLevel parses one of Triton's names, in upper or lower case. MIN and MAX are old names of TIMESTAMPS.
func ParseLevel(word string) (Level, error) {
	switch strings.ToUpper(word) {
	case "OFF":
		return 0, nil
	case "TIMESTAMPS", "MIN", "MAX":
		return Timestamps, nil
	case "TENSORS":
		return Tensors, nil
	}
	return 0, status.Errorf(status.InvalidArg, "trace_level: '%s' is none of OFF, TIMESTAMPS, TENSORS", word)
}

// ParseLevels parses a list of names. OFF must be the only one. An empty list is OFF.
func ParseLevels(words []string) (Level, error) {
	var all Level
	for _, w := range words {
		if w == "OFF" && len(words) > 1 {
			return 0, status.New(status.InvalidArg, "Expect only one trace level 'OFF' is specified")
		}
		l, err := ParseLevel(w)
		if err != nil {
			return 0, err
		}
		all |= l
	}
	return all, nil
}

// Mode is the destination of traces.
type Mode string

// The modes.
const (
	ModeTriton        Mode = "triton"        // a JSON file
	ModeOpenTelemetry Mode = "opentelemetry" // a collector, by OTLP over HTTP
)

// Settings are the trace settings of the server or of a model.
type Settings struct {
	Level Level
	// Rate: every Rate-th request is traced. 0, for ModeOpenTelemetry only: those that have a trace context.
	Rate uint32
	// Count is the number of requests that are still to be traced. -1: no limit.
	Count int32
	// LogFrequency is the number of traces in one file <File>.<n>. 0: all go to File.
	LogFrequency uint32
	File         string
	Mode         Mode
}

// Default returns Triton's default settings: off, one in 1000.
func Default() Settings { return Settings{Rate: 1000, Count: -1, Mode: ModeTriton} }

// fault returns why the settings trace nothing, "" if they can trace.
func (s *Settings) fault() string {
	switch {
	case s.Level == 0:
		return "tracing is disabled"
	case s.Rate == 0 && s.Mode == ModeTriton:
		return "sample rate must be non-zero"
	case s.Mode == ModeTriton && s.File == "":
		return "trace file name is not given"
	}
	return ""
}

// Field is a change of one setting.
type Field[T any] struct {
	Set   bool // to Value
	Clear bool // back to the server's setting, or for the server to the setting of the start
	Value T
}

func (f Field[T]) apply(specified *bool, current, fallback T) T {
	switch {
	case f.Clear:
		*specified = false
		return fallback
	case f.Set:
		*specified = true
		return f.Value
	case *specified:
		return current
	}
	return fallback
}

// Update is a change of settings. The zero value changes nothing. The destination cannot be changed: a client must
// not name files on the server.
type Update struct {
	Level        Field[Level]
	Rate         Field[uint32]
	Count        Field[int32]
	LogFrequency Field[uint32]
}

// setting is the current setting of a model, or of all models without one. It is replaced, never changed, so that a
// running trace keeps the setting that sampled it.
type setting struct {
	Settings
	specified [4]bool       // which fields were set here, in the order of Update
	seen      atomic.Uint64 // requests that Rate was applied to
	left      atomic.Int64  // what is left of Count
}

func newSetting(s Settings) *setting {
	n := &setting{Settings: s}
	n.left.Store(int64(s.Count))
	return n
}

// now returns the settings with the current count.
func (s *setting) now() Settings {
	v := s.Settings
	v.Count = int32(s.left.Load())
	return v
}

// changed returns s, which may be nil, changed by u. Fields that are not specified have the value of fallback.
func changed(s *setting, fallback Settings, u Update) *setting {
	var specified [4]bool
	current := fallback
	if s != nil {
		specified, current = s.specified, s.now()
	}
	next := fallback
	next.Level = u.Level.apply(&specified[0], current.Level, fallback.Level)
	next.Rate = u.Rate.apply(&specified[1], current.Rate, fallback.Rate)
	next.Count = u.Count.apply(&specified[2], current.Count, fallback.Count)
	next.LogFrequency = u.LogFrequency.apply(&specified[3], current.LogFrequency, fallback.LogFrequency)
	n := newSetting(next)
	n.specified = specified
	return n
}

// sample decides whether a request is traced. wanted: it has a trace context. As in Triton, an OpenTelemetry collector
// gets all these, whatever the rate and the count.
func (s *setting) sample(wanted bool) bool {
	if s.fault() != "" {
		return false
	}
	chosen := s.Rate != 0 && s.seen.Add(1)%uint64(s.Rate) == 0 && s.take()
	return chosen || wanted && s.Mode == ModeOpenTelemetry
}

// take takes one of Count, if there is one left.
func (s *setting) take() bool {
	for {
		left := s.left.Load()
		if left < 0 {
			return true
		}
		if left == 0 {
			return false
		}
		if s.left.CompareAndSwap(left, left-1) {
			return true
		}
	}
}

// table holds all settings. It is not changed after it is made.
type table struct {
	server *setting
	models map[string]*setting
}

func (t *table) of(model string) *setting {
	if s, ok := t.models[model]; ok {
		return s
	}
	return t.server
}

// on reports whether any setting can trace.
func (t *table) on() bool {
	if t.server.fault() == "" {
		return true
	}
	for _, s := range t.models {
		if s.fault() == "" {
			return true
		}
	}
	return false
}

// with returns the table after a change, and the settings that it no longer holds. Errors: InvalidArg, with Triton's
// text, for a setting that should trace but cannot.
func (t *table) with(model string, u Update, start Settings) (next *table, gone []*setting, err error) {
	next = &table{server: t.server, models: maps.Clone(t.models)}
	if next.models == nil {
		next.models = map[string]*setting{}
	}
	replace := func(name string, s *setting) error {
		if why := s.fault(); why != "" && s.Level != 0 {
			return status.Errorf(status.InvalidArg, "Attempting to set invalid trace setting :%s", why)
		}
		if name == "" {
			gone = append(gone, next.server)
			next.server = s
			return nil
		}
		if old := next.models[name]; old != nil {
			gone = append(gone, old)
		}
		if s.specified == [4]bool{} {
			delete(next.models, name)
		} else {
			next.models[name] = s
		}
		return nil
	}
	if model != "" {
		err = replace(model, changed(t.models[model], t.server.now(), u))
		return next, gone, err
	}
	if err := replace("", changed(t.server, start, u)); err != nil {
		return nil, nil, err
	}
	for name, s := range t.models { // their fields may follow those of the server
		if s.specified == [4]bool{true, true, true, true} {
			continue
		}
		if err := replace(name, changed(s, next.server.now(), Update{})); err != nil {
			return nil, nil, status.Errorf(status.InvalidArg,
				"%w, for the model '%s', which follows the server's setting in part", err, name)
		}
	}
	return next, gone, nil
}
