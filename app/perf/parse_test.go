package perf

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseRange(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		whole    bool
		want     Range
		err      string
	}{
		{name: "F001 a start", in: "4", whole: true, want: Range{4, 4, 1}},
		{name: "F001 an end", in: "1:8", whole: true, want: Range{1, 8, 1}},
		{name: "F001 a step", in: "1:8:2", whole: true, want: Range{1, 8, 2}},
		{name: "F001 without an end", in: "1:0:4", whole: true, want: Range{1, 0, 4}},
		{name: "F002 fractions", in: "0.5:2:0.25", want: Range{.5, 2, .25}},
		{name: "F001 a fraction of a request", in: "1.5", whole: true, err: `"1.5" is no whole number`},
		{name: "from nothing", in: "0:4", whole: true, err: "start of the range must be above 0"},
		{name: "no step", in: "1:4:0", whole: true, err: "step of the range must be above 0"},
		{name: "too many parts", in: "1:2:3:4", err: "want start:end:step"},
		{name: "empty", in: "", err: `"" is no number`},
		{name: "negative", in: "-1", err: `"-1" is no number`},
		{name: "words", in: "1:x", err: `"x" is no number`},
		{name: "no number", in: "NaN", err: `"NaN" is no number`},
		{name: "infinite", in: "Inf", err: `"Inf" is no number`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseRange(tt.in, tt.whole)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("ParseRange(%q) = %v, %v; want an error with %q", tt.in, got, err, tt.err)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("ParseRange(%q) = %v, %v; want %v", tt.in, got, err, tt.want)
			}
		})
	}
}

func TestParseIntervals(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []time.Duration
		err      string
	}{
		{name: "F003 lines", in: "100\r\n\n 20 \n0\n", want: []time.Duration{100 * time.Microsecond,
			20 * time.Microsecond, 0}},
		{name: "F003 nothing", in: "\n\n", err: "add up to nothing"},
		{name: "F003 nothing but zeros", in: "0\n0", err: "add up to nothing"},
		{name: "F003 a word", in: "1\nx", err: `line 2: "x" is no whole number`},
		{name: "F003 negative", in: "-1", err: `line 1: "-1"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseIntervals([]byte(tt.in))
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) ||
				!slices.Equal(got, tt.want) {
				t.Errorf("ParseIntervals(%q) = %v, %v; want %v, %q", tt.in, got, err, tt.want, tt.err)
			}
		})
	}
}

func TestParseIDs(t *testing.T) {
	for in, want := range map[string][2]uint64{"5": {5, 0}, "5:9": {5, 9}, "0": {}, "9:9": {}, "9:5": {}, "a": {},
		"1:": {}, "-1": {}} {
		start, end, err := ParseIDs(in)
		if (err != nil) != (want == [2]uint64{}) || err == nil && [2]uint64{start, end} != want {
			t.Errorf("F015 ParseIDs(%q) = %d, %d, %v; want %v", in, start, end, err, want)
		}
	}
}

func TestParseShapeAndParameter(t *testing.T) {
	for in, want := range map[string][]int64{"I:1,2": {1, 2}, "a:b:3": {3}, "I": nil, "I:": nil, "I:0": nil,
		"I:-1": nil, ":1": nil} {
		if _, got, err := ParseShape(in); (err != nil) != (want == nil) || err == nil && !slices.Equal(got, want) {
			t.Errorf("F011 ParseShape(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
	for in, want := range map[string]any{"a:256:int": int64(256), "a:x:y:string": "x:y", "a:TRUE:bool": true,
		"a::string": "", "a:1:float": nil, "a:1": nil, ":1:int": nil, "a:x:int": nil, "a:2:bool": nil} {
		if name, got, err := ParseParameter(in); (err != nil) != (want == nil) || err == nil &&
			(name != "a" || got != want) {
			t.Errorf("F017 ParseParameter(%q) = %q, %v, %v; want %v", in, name, got, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"1:8:2", "0.1:0:5", "100\n200\n", "IMAGE:3,224", "a:b:string", "5:9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, whole := range []bool{false, true} {
			if r, err := ParseRange(s, whole); err == nil && (r.Start <= 0 || r.Step <= 0 || r.End < 0 || whole &&
				!r.whole()) {
				t.Errorf("ParseRange(%q) = %v", s, r)
			}
		}
		if gaps, err := ParseIntervals([]byte(s)); err == nil &&
			(len(gaps) == 0 || len(gaps) > len(s) || meanRate(gaps) <= 0) {
			t.Errorf("ParseIntervals(%q) = %v", s, gaps)
		}
		if _, shape, err := ParseShape(s); err == nil && len(shape) == 0 {
			t.Errorf("ParseShape(%q) has no dimension", s)
		}
		if _, v, err := ParseParameter(s); err == nil && v == nil {
			t.Errorf("ParseParameter(%q) has no value", s)
		}
		if start, end, err := ParseIDs(s); err == nil && (start == 0 || end != 0 && end <= start) {
			t.Errorf("ParseIDs(%q) = %d, %d", s, start, end)
		}
	})
}

func TestParseMetrics(t *testing.T) {
	const text = `# HELP nv_gpu_utilization GPU utilization rate [0.0 - 1.0)
nv_gpu_utilization{gpu_uuid="GPU-a"} 0.5
nv_gpu_utilization{gpu_uuid="GPU-b"} 0.25
nv_gpu_power_usage{gpu_uuid="GPU-a"} 55.5
nv_gpu_memory_total_bytes{gpu_uuid="GPU-a"} 85899345920
nv_gpu_memory_used_bytes{gpu_uuid="GPU-a"} 1000
nv_inference_count{model="m",version="1"} 7
`
	first, err := ParseMetrics(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	second, err := ParseMetrics(strings.NewReader(strings.NewReplacer(" 0.5", " 0.7", " 1000", " 900", "85899345920",
		"1").Replace(text)))
	if err != nil {
		t.Fatal(err)
	}
	first.merge(second)
	want := []string{"GPU-a:0.6;GPU-b:0.25;", "GPU-a:55.5;", "GPU-a:1000;", "GPU-a:8.58993e+10;"}
	if got := gpuCells(first); !reflect.DeepEqual(got, want) {
		t.Errorf("F020 averages, the largest and the first: %q, want %q", got, want)
	}
	for _, bad := range []string{"nv_gpu_utilization{gpu_uuid=\"a\"} x", "nv_gpu_utilization{a=\"b\"} 1",
		"nv_gpu_utilization{gpu_uuid=\"a\"", "nv_gpu_utilization{gpu_uuid=\"a} 1"} {
		if _, err := ParseMetrics(strings.NewReader(bad)); err == nil {
			t.Errorf("ParseMetrics(%q) = nil error", bad)
		}
	}
}
