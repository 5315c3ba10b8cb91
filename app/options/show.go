package options

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Show writes all options as a configuration file: those that are set, each with where its value comes from, and as
// comments the defaults of the others. Passwords and keys are hidden.
func (c *Config) Show(w io.Writer) error {
	var set, rest strings.Builder
	for _, g := range c.table() {
		for _, o := range g.options {
			name := o.names[0]
			switch settings := c.origin[name]; {
			case name == "help":
			case len(settings) > 0:
				values := make([]string, len(settings))
				var from []string
				for i, s := range settings {
					values[i] = scalar(hidden(name, s.value, o.arg == ""))
					from = append(from, s.from)
				}
				value := values[0]
				if len(values) > 1 {
					value = "[" + strings.Join(values, ", ") + "]"
				}
				key := name
				if name == FileOption {
					key = "# " + name // which a file must not contain
				}
				fmt.Fprintf(&set, "%-50s # %s\n", key+": "+value, strings.Join(slices.Compact(from), ", "))
			default:
				if _, text, ok := strings.Cut(o.help, "Default: "); ok {
					text, _, _ = strings.Cut(text, ". ")
					fmt.Fprintf(&rest, "# %-48s # default\n", name+": "+strings.TrimSuffix(text, "."))
				}
			}
		}
	}
	_, err := io.WriteString(w, set.String()+rest.String())
	return err
}

// scalar writes a value as YAML.
func scalar(v string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_./-", r)
	}
	if v != "" && v[0] != '-' && !strings.ContainsFunc(v, func(r rune) bool { return !plain(r) }) && v != "null" {
		return v
	}
	node := yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, Value: v, Tag: "!!str"}
	b, err := yaml.Marshal(&node)
	if err != nil {
		return fmt.Sprintf("%q", v)
	}
	return strings.TrimSpace(string(b))
}

// userInfo is the part of a URL that may have a password.
var userInfo = regexp.MustCompile(`://[^/?#\s]*@`)

// hidden replaces what a reader must not see.
func hidden(option, value string, isFlag bool) string {
	value = userInfo.ReplaceAllString(value, "://...@")
	switch {
	case isFlag:
		return "true"
	case option == "http-restricted-api" || option == "grpc-restricted-protocol":
		if at := strings.IndexByte(value, '='); at >= 0 {
			return value[:at+1] + "..."
		}
	case option == "cache-config":
		if at := strings.Index(value, "password="); at >= 0 {
			return value[:at] + "password=..."
		}
	}
	return value
}

// live lists the options that Reload may change while the server runs.
var live = []string{"log-verbose", "log-info", "log-warning", "log-error", "log-format"}

// Reload reads the command line, the environment and the file of c again. restart lists the options that differ and
// take effect only at the next start. The options of the log may be used from next at once.
func (c *Config) Reload() (next *Config, restart []string, err error) {
	if next, err = c.again(); err != nil {
		return nil, nil, err
	}
	for _, g := range c.table() {
		for _, o := range g.options {
			name := o.names[0]
			same := slices.EqualFunc(c.origin[name], next.origin[name],
				func(a, b setting) bool { return a.value == b.value })
			if !same && !slices.Contains(live, name) {
				restart = append(restart, name)
			}
		}
	}
	return next, restart, nil
}
