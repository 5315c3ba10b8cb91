package restrict

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Group is a set of routes or methods.
type Group uint8

// The groups. Unknown stands for everything that is no call of the protocol; it is never restricted.
const (
	Unknown Group = iota
	Health
	Metadata
	Inference
	SharedMemory
	ModelConfig
	ModelRepository
	Statistics
	Trace
	Logging

	groupCount = iota
)

var groupNames = [groupCount]string{"unknown", "health", "metadata", "inference", "shared-memory", "model-config",
	"model-repository", "statistics", "trace", "logging"}

// String returns Triton's name of the group, such as "model-repository".
func (g Group) String() string { return groupNames[g] }

// Rules are the groups that need a header. The zero value restricts nothing. After the last Add, Rules may be used
// concurrently.
type Rules struct {
	rules [groupCount]rule
}

type rule struct{ header, value string }

// Add adds a rule in the form of the option, "<group>[,<group>…]:<key>=<value>": the groups are open only to requests
// whose header prefix+key has the value. It fails and changes nothing if the option has another form, cannot
// be a header, or names a group that is unknown or has a rule already.
func (r *Rules) Add(option, prefix string) error {
	groups, setting, ok := strings.Cut(option, ":")
	key, value, ok2 := strings.Cut(setting, "=")
	if !ok || !ok2 || groups == "" || key == "" || value == "" {
		return fmt.Errorf("%q is not of the form <group>[,<group>...]:<key>=<value>", option)
	}
	if strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == ':' }) ||
		strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c == 0x7f }) ||
		strings.TrimSpace(value) != value {
		return fmt.Errorf("%q: %q and %q cannot be a header's name and value", option, key, value)
	}
	kind := "api"
	if prefix != "" { // gRPC
		kind = "protocol"
	}
	next := r.rules
	var errs []error
	for name := range strings.SplitSeq(groups, ",") {
		g := slices.Index(groupNames[:], name)
		switch {
		case g <= int(Unknown):
			errs = append(errs, fmt.Errorf("unknown restricted %s '%s'; the groups are %s",
				kind, name, strings.Join(groupNames[1:], ", ")))
		case next[g].header != "":
			errs = append(errs, fmt.Errorf("restricted %s '%s' can not be specified in multiple config groups", kind,
				name))
		default:
			next[g] = rule{prefix + key, value}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	r.rules = next
	return nil
}

// Header returns the name of the header that opens a group, "" if the group is open. A nil r restricts nothing.
func (r *Rules) Header(g Group) string {
	if r == nil {
		return ""
	}
	return r.rules[g].header
}

// Opens reports whether value is that of the header which opens the group. The group must have a rule (see Header), so
// r is not nil.
func (r *Rules) Opens(g Group, value string) bool {
	return subtle.ConstantTimeCompare([]byte(value), []byte(r.rules[g].value)) == 1
}

// Restricted returns the groups that have a rule.
func (r *Rules) Restricted() []Group {
	var list []Group
	for g := range r.rules {
		if r.rules[g].header != "" {
			list = append(list, Group(g))
		}
	}
	return list
}
