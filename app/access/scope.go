package access

import (
	"fmt"
	"strings"
)

// Scope is the set of what a token opens.
type Scope uint8

// The scopes. Health, metadata, configuration, statistics and metrics may be read with any of them.
const (
	// Infer opens inference and shared memory.
	Infer Scope = 1 << iota
	// Control opens the model repository, trace and log settings.
	Control
	// Admin opens everything, the console too.
	Admin
	// View opens the console for reading, without logs and contents of requests.
	View

	// Any is every scope.
	Any = Infer | Control | Admin | View
)

var scopeNames = []struct {
	scope Scope
	name  string
}{{Infer, "infer"}, {Control, "control"}, {View, "view"}, {Admin, "admin"}}

// String returns the names with commas: "infer,control".
func (s Scope) String() string { return strings.Join(s.Names(), ",") }

// Names returns the names of the scopes in s.
func (s Scope) Names() []string {
	var names []string
	for _, n := range scopeNames {
		if s&n.scope != 0 {
			names = append(names, n.name)
		}
	}
	return names
}

// ParseScopes reads names with commas between them, at least one.
func ParseScopes(text string) (Scope, error) {
	var s Scope
next:
	for name := range strings.SplitSeq(text, ",") {
		for _, n := range scopeNames {
			if n.name == strings.TrimSpace(name) {
				s |= n.scope
				continue next
			}
		}
		return 0, fmt.Errorf("%q is no scope; use infer, control, view or admin, with commas for several", name)
	}
	return s, nil
}
