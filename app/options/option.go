package options

import (
	"errors"
	"fmt"
	"strings"
)

// option is one option of the command line.
type option struct {
	names []string // without dashes; the first one is shown first
	arg   string   // what the value is, in the usage text; "" if the option takes no value
	help  string
	// noEffect: the option is accepted and logged, and changes nothing. Ignoring it changes no response.
	noEffect bool
	set      setter // checks and stores a value
}

// group is a section of the usage text.
type group struct {
	title   string
	options []option
}

// opt returns an option. names are separated by spaces.
func opt(names, arg, help string, set setter) option {
	return option{names: strings.Fields(names), arg: arg, help: help, set: set}
}

// ignored returns an option of tritonserver that has no effect here. Its values are still checked.
func ignored(name, arg, help string, check setter) option {
	return option{names: []string{name}, arg: arg, help: help, noEffect: true, set: check}
}

// names are the options of a table by each of their names.
type names map[string]option

func byName(table []group) names {
	t := names{}
	for _, g := range table {
		for _, o := range g.options {
			for _, n := range o.names {
				t[n] = o
			}
		}
	}
	return t
}

// parts divides a word of a command line, --name or --name=value.
func parts(word string) (name, value string, has, dashes bool) {
	name, value, has = strings.Cut(word, "=")
	name, dashes = strings.CutPrefix(name, "--")
	return name, value, has, dashes
}

// takesNext reports whether the next word of a command line is the option's value. has: its own word has one.
func (o option) takesNext(has bool) bool { return o.arg != "" && !has }

// scan reads a command line, in which tritonserver's options may be abbreviated. help: the user asked for the usage
// text. It returns all faults at once. It does not check values.
func (t names) scan(args []string, asTriton bool) (line []setting, help bool, err error) {
	var errs []error
	for i := 0; i < len(args); i++ {
		name, value, has, dashes := parts(args[i])
		o, known := t[name]
		if !known && asTriton {
			o, known = abbreviated(name, t)
		}
		switch {
		case args[i] == "-h":
			help = true
			continue
		case !dashes:
			errs = append(errs, fmt.Errorf("unexpected argument %q: options begin with --", args[i]))
			continue
		case !known:
			errs = append(errs, fmt.Errorf("unrecognized option '--%s'%s", name, suggest(name, t)))
			continue
		case o.arg == "" && has:
			errs = append(errs, fmt.Errorf("--%s takes no value", name))
			continue
		case o.takesNext(has):
			if i++; i == len(args) {
				errs = append(errs, fmt.Errorf("--%s needs a value (%s)", name, o.arg))
				continue
			}
			value = args[i]
		}
		if !t.has(name) { // the option was abbreviated
			name = o.names[0]
		}
		line = append(line, setting{name: name, value: value, from: commandLine})
	}
	return line, help, errors.Join(errs...)
}

// SplitFiles takes the words that are neither options nor their values out of a command line: the files to open.
func SplitFiles(args []string) (line, files []string) {
	known := byName(Default(false).table())
	for i := 0; i < len(args); i++ {
		if !strings.HasPrefix(args[i], "-") {
			files = append(files, args[i])
			continue
		}
		line = append(line, args[i])
		if name, _, has, dashes := parts(args[i]); dashes && known[name].takesNext(has) && i+1 < len(args) {
			i++
			line = append(line, args[i])
		}
	}
	return line, files
}

func (t names) has(name string) bool { _, ok := t[name]; return ok }

// apply checks and stores settings. It returns all faults at once.
func (c *Config) apply(byName names, settings []setting) error {
	var errs []error
	for _, s := range settings {
		o := byName[s.name]
		if err := o.set(s.value); err != nil {
			err = fmt.Errorf("--%s: %w", s.name, err)
			if s.from != commandLine {
				err = fmt.Errorf("%s: %w", s.from, err)
			}
			errs = append(errs, err)
			continue
		}
		c.given[o.names[0]] = s.value
		if before := c.origin[o.names[0]]; len(before) > 0 && before[0].from != s.from && before[0].from != edgeFrom {
			c.origin[o.names[0]] = nil // s has precedence; preset has left out what s replaces
		}
		c.origin[o.names[0]] = append(c.origin[o.names[0]], s)
		if o.arg != "" {
			c.Args = append(c.Args, "--"+o.names[0]+"="+s.value)
		}
		if o.noEffect {
			c.WithoutEffect = append(c.WithoutEffect, o.names[0])
		}
	}
	return errors.Join(errs...)
}

// abbreviated returns the only option with a name that begins so, as tritonserver does; false if there is none, or
// several.
func abbreviated(name string, byName names) (found option, ok bool) {
	for n, o := range byName {
		if name == "" || !strings.HasPrefix(n, name) || ok && o.names[0] == found.names[0] {
			continue
		}
		if ok {
			return option{}, false
		}
		found, ok = o, true
	}
	return found, ok
}

// suggest names the option that the user probably meant.
func suggest(name string, byName names) string {
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

// Usage is the text of --help: the options by group. program is how the user starts the server.
func Usage(program string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: %s [options]\n", program)
	for _, g := range Default(false).table() {
		fmt.Fprintf(&b, "\n%s:\n", g.title)
		for _, o := range g.options {
			for _, n := range o.names {
				b.WriteString("  --" + n)
				if o.arg != "" {
					b.WriteString("=<" + o.arg + ">")
				}
				b.WriteString("\n")
			}
			b.WriteString("\t" + o.help)
			if o.noEffect {
				b.WriteString(" Accepted without effect.")
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}
