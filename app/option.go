package app

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// class says what an option of tritonserver does here.
type class uint8

const (
	// ours: tritonserver has no such option. 0 stands for: it does what it does in tritonserver.
	ours class = iota + 1
	// noEffect: accepted and logged once; ignoring it changes no answer.
	noEffect
)

// option is one command line option.
type option struct {
	names []string // without dashes; the first one is shown
	group string
	class class
	// flag: takes no value. Others take "--name=value" or "--name value".
	flag bool
	arg  string // what the value is, in the usage text
	help string
	row  string // the row of the feature list that it fulfils
	set  func(c *Config, value string) error
}

// parseBool reads Triton's booleans: true, on, 1, false, off, 0 in any case.
func parseBool(v string) (bool, error) {
	switch strings.ToLower(v) {
	case "true", "on", "1":
		return true, nil
	case "false", "off", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q is not a boolean; use true, on or 1, or false, off or 0", v)
}

func boolean(field func(*Config) *bool) func(*Config, string) error {
	return func(c *Config, v string) (err error) {
		*field(c), err = parseBool(v)
		return err
	}
}

func text(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error { *field(c) = v; return nil }
}

func list(field func(*Config) *[]string) func(*Config, string) error {
	return func(c *Config, v string) error {
		if v == "" {
			return errors.New("the value is empty")
		}
		f := field(c)
		*f = append(*f, v)
		return nil
	}
}

func integer(low, high int, field func(*Config) *int) func(*Config, string) error {
	return func(c *Config, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < low || n > high {
			return fmt.Errorf("%q is not a whole number from %d to %d", v, low, high)
		}
		*field(c) = n
		return nil
	}
}

// ignored checks the value and forgets it.
func ignored(check func(string) error) func(*Config, string) error {
	return func(_ *Config, v string) error { return check(v) }
}

func anyText(string) error { return nil }

func anyBool(v string) error { _, err := parseBool(v); return err }

func anyInt(v string) error {
	if _, err := strconv.ParseInt(v, 10, 64); err != nil {
		return fmt.Errorf("%q is not a whole number", v)
	}
	return nil
}

// parse reads a command line into c. It returns every fault at once.
func parse(c *Config, args []string) error {
	byName := map[string]*option{}
	all := options()
	for i := range all {
		for _, n := range all[i].names {
			byName[n] = &all[i]
		}
	}
	var errs []error
	for i := 0; i < len(args); i++ {
		name, value, has := strings.Cut(args[i], "=")
		name, ok := strings.CutPrefix(name, "--")
		o := byName[name]
		switch {
		case !ok && args[i] == "-h":
			c.Help = true
			continue
		case !ok:
			errs = append(errs, fmt.Errorf("unexpected argument %q: options begin with --", args[i]))
			continue
		case o == nil:
			errs = append(errs, fmt.Errorf("unrecognized option '--%s'%s", name, suggest(name, byName)))
			continue
		case o.flag && has:
			errs = append(errs, fmt.Errorf("--%s takes no value", name))
			continue
		case !o.flag && !has:
			if i++; i == len(args) {
				errs = append(errs, fmt.Errorf("--%s needs a value (%s)", name, o.arg))
				continue
			}
			value = args[i]
		}
		if err := o.set(c, value); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", name, err))
			continue
		}
		c.given[o.names[0]] = value
		if !o.flag {
			c.args = append(c.args, "--"+o.names[0]+"="+value)
		}
		if o.class == noEffect {
			c.WithoutEffect = append(c.WithoutEffect, o.names[0])
		}
	}
	return errors.Join(errs...)
}

// suggest names the option that was probably meant.
func suggest(name string, byName map[string]*option) string {
	best, dist := "", 4
	for n := range byName {
		if d := distance(name, n); d < dist || d == dist && n < best {
			best, dist = n, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean --" + best + "?"
}

// distance is the Levenshtein distance of two short names.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diag
			if a[i] != b[j] {
				cost++
			}
			diag = row[j+1]
			row[j+1] = min(cost, row[j]+1, diag+1)
		}
	}
	return row[len(b)]
}

// usage is the text of --help: the options by group, each with its class where that is not "working".
func usage(program string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: %s [options]\n", program)
	group := ""
	for _, o := range options() {
		if o.group != group {
			group = o.group
			fmt.Fprintf(&b, "\n%s:\n", group)
		}
		for i, n := range o.names {
			if i > 0 {
				b.WriteString("\n")
			}
			b.WriteString("  --" + n)
			if !o.flag {
				b.WriteString("=<" + o.arg + ">")
			}
		}
		b.WriteString("\n\t" + o.help)
		if o.class == noEffect {
			b.WriteString(" Accepted without effect.")
		}
		b.WriteString("\n")
	}
	return b.String()
}
