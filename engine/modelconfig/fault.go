package modelconfig

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"nereid/engine/status"
)

// Severity says whether a fault keeps the model from loading.
type Severity uint8

// The severities.
const (
	SeverityError   Severity = iota // the model cannot be loaded
	SeverityWarning                 // it can be loaded, but the setting has not the effect that it seems to have
)

// String returns "error" or "warning".
func (s Severity) String() string {
	if s == SeverityWarning {
		return "warning"
	}
	return "error"
}

// MarshalJSON writes the severity as its name.
func (s Severity) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// Fault is one error or warning about a configuration.
type Fault struct {
	File     string   `json:"file"`          // as given to Parse, "" if the configuration came from no file
	Line     int      `json:"line"`          // from 1; 0 if the fault is about no line
	Col      int      `json:"col"`           // in characters, from 1; 0 with Line 0
	Path     string   `json:"path"`          // field path: input[0].dims[1], parameters["k"].string_value
	Message  string   `json:"message"`       // what is wrong
	Fix      string   `json:"fix,omitempty"` // how to correct it, may be empty
	Severity Severity `json:"severity"`
}

// Error returns "config.pbtxt:12:7: message; fix".
func (f Fault) Error() string {
	var b strings.Builder
	switch {
	case f.Line > 0 && f.File != "":
		fmt.Fprintf(&b, "%s:%d:%d: ", f.File, f.Line, f.Col)
	case f.Line > 0:
		fmt.Fprintf(&b, "%d:%d: ", f.Line, f.Col)
	case f.File != "":
		fmt.Fprintf(&b, "%s: ", f.File)
	}
	if f.Severity == SeverityWarning {
		b.WriteString("warning: ")
	}
	b.WriteString(f.Message)
	if f.Fix != "" {
		if !strings.HasSuffix(f.Message, ".") { // some of Triton's messages are whole sentences
			b.WriteString(";")
		}
		b.WriteString(" " + f.Fix)
	}
	return b.String()
}

// Faults are all the faults of one configuration. A nil or empty list means none.
type Faults []Fault

// Error joins the faults, one per line.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Errors returns the faults that prevent loading.
func (fs Faults) Errors() Faults { return fs.of(SeverityError) }

// Warnings returns the faults that do not prevent loading.
func (fs Faults) Warnings() Faults { return fs.of(SeverityWarning) }

// Err returns nil if there are no errors (warnings do not count). Else it returns one InvalidArg error with all of
// them, one per line.
func (fs Faults) Err() error {
	if errs := fs.Errors(); len(errs) > 0 {
		return status.New(status.InvalidArg, errs.Error())
	}
	return nil
}

func (fs Faults) of(s Severity) Faults {
	return slices.DeleteFunc(slices.Clone(fs), func(f Fault) bool { return f.Severity != s })
}

// sort sorts the faults by position; those without a line come last.
func (fs Faults) sort() {
	slices.SortStableFunc(fs, func(a, b Fault) int {
		if (a.Line == 0) != (b.Line == 0) {
			return cmp.Compare(b.Line, a.Line)
		}
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
}
