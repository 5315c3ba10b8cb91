package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Option declares one option of a command: how it is parsed, and its line in the help.
type Option struct {
	// Names are as the user types them: "-p, --measurement-interval".
	Names string
	// Value is the placeholder of the value in the help. An option without one is a switch.
	Value string
	// Help says what the option does. The help does not show an option without it.
	Help string
	// Set takes the value. The value of a switch is "true" unless the user gives another one.
	Set func(value string) error
}

// Opt returns an option that stores its value in to: a *bool, *int, *float64 or *string, or a *[]string, to which every
// value is appended. to may also be a function as Option.Set.
func Opt(names, value, help string, to any) Option {
	return Option{Names: names, Value: value, Help: help, Set: setter(to)}
}

// Section is a group of options under a heading of the help.
type Section struct {
	Title   string
	Options []Option
}

// NewFlagSet returns a set that parses the options of all sections. It prints nothing: the caller reports the errors.
func NewFlagSet(command string, sections []Section) *flag.FlagSet {
	f := flag.NewFlagSet(command, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	for _, s := range sections {
		for _, o := range s.Options {
			add := f.Func
			if o.Value == "" {
				add = f.BoolFunc
			}
			for name := range strings.SplitSeq(o.Names, ", ") {
				add(strings.TrimLeft(name, "-"), "", o.Set)
			}
		}
	}
	return f
}

// ParseMixed parses options before, between and after the arguments, which f.Args then has.
func ParseMixed(f *flag.FlagSet, args []string) error {
	rest := []string{"--"}
	for {
		if err := f.Parse(args); err != nil {
			return err
		}
		parsed := args[:len(args)-f.NArg()]
		if f.NArg() == 0 || len(parsed) > 0 && parsed[len(parsed)-1] == "--" {
			return f.Parse(append(rest, f.Args()...))
		}
		rest, args = append(rest, f.Arg(0)), f.Args()[1:]
	}
}

// FlagError gives an error of package flag the style of the commands' other errors. err must not be nil.
func FlagError(command string, err error) error {
	if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: "); ok {
		return fmt.Errorf("unknown option %s; %s --help lists the options", name, command)
	}
	if value, name, ok := strings.Cut(err.Error(), " for flag -"); ok && strings.IndexByte(name, ':') > 1 {
		return fmt.Errorf("%s for flag --%s", value, name)
	}
	return err
}

// The width of the help, and the column where the description of an option starts.
const helpWidth, helpColumn = 110, 46

// Help returns the help of the options.
func Help(sections []Section) string {
	var b strings.Builder
	for _, s := range sections {
		if s.Title != "" {
			fmt.Fprintf(&b, "\n%s\n", s.Title)
		}
		for _, o := range s.Options {
			if o.Help == "" {
				continue
			}
			column := "  " + strings.TrimRight(o.Names+" "+o.Value, " ")
			for i, line := range wrap(o.Help, helpWidth-helpColumn) {
				if i == 0 && len(column) > helpColumn-2 {
					b.WriteString(column + "\n")
					column = ""
				}
				fmt.Fprintf(&b, "%-*s%s\n", helpColumn, column, line)
				column = ""
			}
		}
	}
	return b.String()
}

// wrap breaks a text between words into lines of at most width bytes.
func wrap(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimLeft(line+" "+word, " ")
	}
	return append(lines, line)
}

// CheckFile refuses a file that could not be written: it is a folder, or has none. "": there is no file.
func CheckFile(path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder", path)
	}
	folder := filepath.Dir(path)
	info, err := os.Stat(folder)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no folder", folder)
	}
	return err
}

// WriteFile creates or replaces a file and fills it with write. After an error the file may be incomplete.
func WriteFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// errValue is package flag's text for a value that cannot be parsed.
var errValue = errors.New("parse error")

func setter(to any) func(string) error {
	switch to := to.(type) {
	case func(string) error:
		return to
	case *bool:
		return parsed(to, strconv.ParseBool)
	case *int:
		return parsed(to, strconv.Atoi)
	case *float64:
		return parsed(to, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
	case *string:
		return func(s string) error { *to = s; return nil }
	case *[]string:
		return func(s string) error { *to = append(*to, s); return nil }
	}
	panic(fmt.Sprintf("an option cannot be stored in a %T", to)) // a fault of the table
}

func parsed[T any](to *T, parse func(string) (T, error)) func(string) error {
	return func(s string) error {
		v, err := parse(s)
		if err != nil {
			return errValue
		}
		*to = v
		return nil
	}
}

// OneOf returns a function for Opt that stores one of the values and refuses others.
func OneOf(to *string, values ...string) func(string) error {
	return func(s string) error {
		if !slices.Contains(values, s) {
			return fmt.Errorf("want %s", strings.Join(values, " or "))
		}
		*to = s
		return nil
	}
}
