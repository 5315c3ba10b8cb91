package perf

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Range is the levels of a search, from Start to End.
type Range struct {
	Start, End, Step float64 // End 0: until the latency threshold is met
}

// Has reports whether a level is at most the end, apart from rounding errors. No level is if there is no end.
func (r Range) Has(level float64) bool { return level <= r.End*(1+1e-12) }

// ParseRange reads "start:end:step". Without an end the range has one level; the default step is 1. whole demands whole
// numbers, as for a concurrency.
func ParseRange(s string, whole bool) (Range, error) {
	parts := strings.Split(s, ":")
	if len(parts) > 3 {
		return Range{}, fmt.Errorf("%q: want start:end:step", s)
	}
	var v [3]float64
	for i, p := range parts {
		n, err := strconv.ParseFloat(p, 64)
		if err != nil || n < 0 || n > 1e9 || math.IsNaN(n) || whole && n != math.Trunc(n) {
			kind := "number"
			if whole {
				kind = "whole number"
			}
			return Range{}, fmt.Errorf("%q: %q is no %s from 0 to 1000000000; want start:end:step", s, p, kind)
		}
		v[i] = n
	}
	r := Range{Start: v[0], End: v[1], Step: v[2]}
	if len(parts) < 2 {
		r.End = r.Start
	}
	if len(parts) < 3 {
		r.Step = 1
	}
	switch {
	case r.Start == 0:
		return Range{}, fmt.Errorf("%q: the start of the range must be above 0", s)
	case r.Step == 0:
		return Range{}, fmt.Errorf("%q: the step of the range must be above 0", s)
	}
	return r, nil
}

// ParseIDs reads "start:end" of correlation IDs. The end is exclusive; 0 or no end is no bound.
func ParseIDs(s string) (start, end uint64, err error) {
	first, last, has := strings.Cut(s, ":")
	if start, err = strconv.ParseUint(first, 10, 64); err == nil && has {
		end, err = strconv.ParseUint(last, 10, 64)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%q: want start:end of whole numbers", s)
	}
	if start == 0 || has && end <= start {
		return 0, 0, fmt.Errorf("%q: the start must be above 0 and the end above the start", s)
	}
	return start, end, nil
}

// maxIntervals bounds the number of intervals in a file.
const maxIntervals = 10 << 20

// ParseIntervals reads gaps between requests, one number of microseconds per line. It skips empty lines.
func ParseIntervals(b []byte) ([]time.Duration, error) {
	var gaps []time.Duration
	var sum time.Duration
	for i, line := range bytes.Split(b, []byte("\n")) {
		text := string(bytes.TrimSpace(line))
		if text == "" {
			continue
		}
		us, err := strconv.ParseUint(text, 10, 40)
		if err != nil {
			return nil, fmt.Errorf("line %d: %q is no whole number of microseconds", i+1, text)
		}
		if len(gaps) == maxIntervals {
			return nil, fmt.Errorf("line %d: there are more than %d intervals", i+1, maxIntervals)
		}
		gaps = append(gaps, time.Duration(us)*time.Microsecond)
		sum += gaps[len(gaps)-1]
	}
	if sum == 0 {
		return nil, fmt.Errorf("the intervals add up to nothing; want one number of microseconds above 0 a line")
	}
	return gaps, nil
}

// ParseShape reads "name:d,d,…".
func ParseShape(s string) (name string, shape []int64, err error) {
	at := strings.LastIndexByte(s, ':')
	if at < 1 {
		return "", nil, fmt.Errorf("%q: want name:d,d,… such as IMAGE:3,224,224", s)
	}
	for d := range strings.SplitSeq(s[at+1:], ",") {
		n, err := strconv.ParseInt(d, 10, 32)
		if err != nil || n < 1 {
			return "", nil, fmt.Errorf("%q: the dimension %q is no whole number above 0", s, d)
		}
		shape = append(shape, n)
	}
	return s[:at], shape, nil
}

// ParseShapes reads several shapes by their names.
func ParseShapes(list []string) (map[string][]int64, error) {
	var shapes map[string][]int64
	for _, s := range list {
		name, shape, err := ParseShape(s)
		if err != nil {
			return nil, err
		}
		if shapes == nil {
			shapes = map[string][]int64{}
		}
		shapes[name] = shape
	}
	return shapes, nil
}

// ParseParameter reads "name:value:type" with the types bool, int and string. The value may have colons.
func ParseParameter(s string) (name string, value any, err error) {
	first, last := strings.IndexByte(s, ':'), strings.LastIndexByte(s, ':')
	if first < 1 || first == last {
		return "", nil, fmt.Errorf("%q: want name:value:type such as max_tokens:256:int", s)
	}
	name, text := s[:first], s[first+1:last]
	switch kind := strings.ToLower(s[last+1:]); kind {
	case "string":
		value = text
	case "int":
		value, err = strconv.ParseInt(text, 10, 64)
	case "bool":
		value, err = strconv.ParseBool(strings.ToLower(text))
	default:
		return "", nil, fmt.Errorf("%q: the type %q is none of bool, int and string", s, kind)
	}
	if err != nil {
		return "", nil, fmt.Errorf("%q: %q is no %s", s, text, s[last+1:])
	}
	return name, value, nil
}
