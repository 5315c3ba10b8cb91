package options

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"nereid/engine/restrict"
)

// setter checks the value of an option and stores it. Its error does not name the option.
type setter func(value string) error

const maxInt = 1<<31 - 1

// parseBool reads Triton's booleans: true, on, 1, false, off, 0 in upper or lower case.
func parseBool(v string) (bool, error) {
	switch strings.ToLower(v) {
	case "true", "on", "1":
		return true, nil
	case "false", "off", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q is not a boolean; use true, on or 1, or false, off or 0", v)
}

func boolean(field *bool) setter {
	return func(v string) (err error) {
		*field, err = parseBool(v)
		return err
	}
}

// not is boolean for a field that means the opposite of the option.
func not(field *bool) setter {
	return func(v string) error {
		on, err := parseBool(v)
		*field = !on
		return err
	}
}

// flag is for an option without a value.
func flag(field *bool) setter {
	return func(string) error { *field = true; return nil }
}

func text[T ~string](field *T) setter {
	return func(v string) error { *field = T(v); return nil }
}

// CheckFileName refuses what is not the name of a file without a folder.
func CheckFileName(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\\x00") {
		return fmt.Errorf("%q is no plain file name", name)
	}
	return nil
}

func fileName(field *string) setter {
	return func(v string) error { *field = v; return CheckFileName(v) }
}

// choice accepts one of some words, in any case, as tritonserver.
func choice[T ~string](field *T, words ...string) setter {
	return func(v string) error {
		i := slices.IndexFunc(words, func(w string) bool { return strings.EqualFold(w, v) })
		if i < 0 {
			if len(words) == 2 {
				return fmt.Errorf("%q is neither %s nor %s", v, words[0], words[1])
			}
			return fmt.Errorf("%q is none of %s", v, strings.Join(words, ", "))
		}
		*field = T(words[i])
		return nil
	}
}

// oneOf is a choice of two words, of which the second sets field.
func oneOf(field *bool, off, on string) setter {
	return func(v string) error {
		var word string
		err := choice(&word, off, on)(v)
		*field = word == on
		return err
	}
}

// list is for an option that may be given several times.
func list(field *[]string) setter {
	return func(v string) error {
		if v == "" {
			return errors.New("the value is empty")
		}
		*field = append(*field, v)
		return nil
	}
}

func integer[T int | int32 | int64 | uint32](low, high int, field *T) setter {
	return func(v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < low || n > high {
			return fmt.Errorf("%q is not a whole number from %d to %d", v, low, high)
		}
		*field = T(n)
		return nil
	}
}

func port(field *int) setter { return integer(0, 65535, field) }

// duration reads a whole number of a unit.
func duration(low, high int, unit time.Duration, field *time.Duration) setter {
	return func(v string) error {
		var n int
		err := integer(low, high, &n)(v)
		*field = time.Duration(n) * unit
		return err
	}
}

func milliseconds(low int, field *time.Duration) setter {
	return duration(low, maxInt, time.Millisecond, field)
}

// pingInterval reads milliseconds. It stores 0 as the shortest time, because the transport's zero is its default.
func pingInterval(field *time.Duration) setter {
	return func(v string) error {
		err := milliseconds(0, field)(v)
		*field = max(*field, 1)
		return err
	}
}

// seconds reads a number of seconds, which may have a fraction.
func seconds(field *time.Duration) setter {
	return func(v string) error {
		n, err := strconv.ParseFloat(v, 64)
		if err != nil || !(n >= 0 && n <= 1e9) {
			return fmt.Errorf("%q is not a number of seconds", v)
		}
		*field = time.Duration(n * float64(time.Second))
		return nil
	}
}

// units of sizes, the longer ones first.
var units = []struct {
	name  string
	bytes int64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12},
	{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40}, {"b", 1},
}

// parseSize reads a number of bytes, or a number with a unit.
func parseSize(v string) (int64, error) {
	text, unit := strings.ToLower(strings.TrimSpace(v)), int64(1)
	for _, u := range units {
		if number, ok := strings.CutSuffix(text, u.name); ok {
			text, unit = strings.TrimSpace(number), u.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if bytes := n * float64(unit); err != nil || !(bytes >= 1 && bytes < 1<<62) {
		return 0, fmt.Errorf("%q is not a size over 0, such as 8GiB, 500MB or 1073741824", v)
	}
	return int64(n * float64(unit)), nil
}

func size(field *int64) setter {
	return func(v string) (err error) { *field, err = parseSize(v); return err }
}

// sizeOrZero is a size, or 0.
func sizeOrZero(field *int64) setter {
	return func(v string) error {
		if v == "0" {
			*field = 0
			return nil
		}
		return size(field)(v)
	}
}

// put stores a value in a map, which it makes when needed.
func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

// byGPU reads "<gpu>:<value>" into a map by the GPU's number. form describes the expected form in the error.
func byGPU[V any](field *map[int]V, form string, parse func(string) (V, error)) setter {
	return func(v string) error {
		gpu, value, ok := strings.Cut(v, ":")
		id, err := strconv.ParseUint(gpu, 10, 16)
		parsed, err2 := parse(value)
		if !ok || err != nil || err2 != nil {
			return fmt.Errorf("%q is not of the form %s", v, form)
		}
		put(field, int(id), parsed)
		return nil
	}
}

func parseFraction(v string) (float64, error) {
	f, err := strconv.ParseFloat(v, 64)
	if err == nil && !(f >= 0 && f <= 1) {
		err = errors.New("not from 0 to 1")
	}
	return f, err
}

func parseByteCount(v string) (int64, error) {
	n, err := strconv.ParseUint(v, 10, 47) // no process can have more
	return int64(n), err
}

func capability(field *float64) setter {
	return func(v string) error {
		n, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(n) || n < 0 || n >= 100 {
			return fmt.Errorf("%q is not a compute capability, such as 7.5", v)
		}
		*field = n
		return nil
	}
}

// headerPattern reads a regular expression for header names. As in Triton, it matches anywhere in a name and ignores
// case.
func headerPattern(field **regexp.Regexp) setter {
	return func(v string) (err error) {
		*field = nil
		if v != "" {
			if *field, err = regexp.Compile("(?i)" + v); err != nil {
				return fmt.Errorf("%q is no regular expression: %w", v, err)
			}
		}
		return nil
	}
}

// restriction reads one rule that guards groups of calls with a header.
func restriction(prefix string, field **restrict.Rules) setter {
	return func(v string) error {
		if *field == nil {
			*field = &restrict.Rules{}
		}
		if prefix != "" { // gRPC sends metadata keys in lower case
			groups, rule, _ := strings.Cut(v, ":")
			if key, value, ok := strings.Cut(rule, "="); ok {
				v = groups + ":" + strings.ToLower(key) + "=" + value
			}
		}
		return (*field).Add(v, prefix)
	}
}

func anyBool(v string) error { _, err := parseBool(v); return err }

func anyInt(v string) error {
	if _, err := strconv.ParseInt(v, 10, 64); err != nil {
		return fmt.Errorf("%q is not a whole number", v)
	}
	return nil
}
