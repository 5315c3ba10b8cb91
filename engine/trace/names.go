package trace

import (
	"errors"
	"math"
	"strconv"

	"nereid/engine/status"
)

// Setting is one of the trace extension's settings by name. All but trace_level have one value.
type Setting struct {
	Name   string
	Values []string
}

// List returns the current settings of a model, or with "" of the server, with the extension's names and in its order.
func (t *Tracer) List(model string) []Setting {
	s := t.Settings(model)
	one := func(name, v string) Setting { return Setting{name, []string{v}} }
	all := []Setting{
		{"trace_level", s.Level.Names()},
		one("trace_rate", strconv.FormatUint(uint64(s.Rate), 10)),
		one("trace_count", strconv.FormatInt(int64(s.Count), 10)),
	}
	if s.Mode == ModeTriton {
		all = append(all, one("log_frequency", strconv.FormatUint(uint64(s.LogFrequency), 10)),
			one("trace_file", s.File))
	}
	all = append(all, one("trace_mode", string(s.Mode)))
	if s.Mode == ModeOpenTelemetry {
		for _, o := range t.tel.list() {
			all = append(all, one(o[0], o[1]))
		}
	}
	return all
}

// Put adds a setting to the update by its name; without values it is cleared. Errors: Unsupported for a setting that a
// client may not change, InvalidArg for an unknown name or a malformed value.
func (u *Update) Put(name string, values []string) error {
	if name == "trace_level" {
		if len(values) == 0 {
			u.Level = Field[Level]{Clear: true}
			return nil
		}
		l, err := ParseLevels(values)
		u.Level = Field[Level]{Set: true, Value: l}
		return err
	}
	if err := checkName(name); err != nil {
		return err
	}
	if len(values) > 1 {
		return status.Errorf(status.InvalidArg, "expect only 1 value for '%s'", name)
	}
	switch name {
	case "trace_rate":
		return put(&u.Rate, name, values, 0, math.MaxUint32)
	case "trace_count":
		return put(&u.Count, name, values, -1, math.MaxInt32)
	}
	return put(&u.LogFrequency, name, values, 0, math.MaxUint32)
}

func checkName(name string) error {
	switch name {
	case "trace_rate", "trace_count", "log_frequency":
		return nil
	case "trace_file":
		return status.New(status.Unsupported, "trace file location can not be updated through network protocol")
	case "trace_mode":
		return status.New(status.InvalidArg,
			"trace_mode can not be updated through network protocol; start the server with --trace-config=mode=<mode>")
	}
	return status.Errorf(status.InvalidArg,
		"unknown trace setting '%s'; known are trace_level, trace_rate, trace_count, log_frequency", printable(name))
}

// printable shortens and escapes a text from a client.
func printable(s string) string {
	q := strconv.QuoteToASCII(s[:min(len(s), 64)])
	return q[1 : len(q)-1]
}

func put[T uint32 | int32](f *Field[T], name string, values []string, low, high int64) error {
	if len(values) == 0 {
		*f = Field[T]{Clear: true}
		return nil
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	switch {
	case err == nil && n < low && low == -1:
		return status.Errorf(status.InvalidArg,
			"Unable to parse '%s'. Expecting value >= -1, got:%s", name, printable(values[0]))
	case errors.Is(err, strconv.ErrRange), err == nil && (n < low || n > high):
		return status.Errorf(status.InvalidArg,
			"Unable to parse '%s', value is out of range [ %d, %d ], got: %s", name, low, high, printable(values[0]))
	case err != nil:
		return status.Errorf(status.InvalidArg, "Unable to parse '%s', got: %s", name, printable(values[0]))
	}
	*f = Field[T]{Set: true, Value: T(n)}
	return nil
}
