package modelconfig_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"nereid/build/corrupt"
	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
)

// good returns the text of every file in testdata/good.
func good(tb testing.TB) map[string]string {
	tb.Helper()
	files, err := filepath.Glob("testdata/good/*.pbtxt")
	if err != nil || len(files) < 10 {
		tb.Fatalf("testdata/good has %d files, %v; want at least 10", len(files), err)
	}
	texts := make(map[string]string)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			tb.Fatal(err)
		}
		texts[filepath.Base(f)] = string(b)
	}
	return texts
}

func TestParseGoodFiles(t *testing.T) {
	for name, text := range good(t) {
		t.Run(name, func(t *testing.T) {
			got, _, faults := modelconfig.Parse(name, []byte(text))
			if len(faults) > 0 {
				t.Fatalf("Parse = %v, want no fault", faults)
			}
			want := new(inferencepb.ModelConfig)
			if err := prototext.Unmarshal([]byte(text), want); err != nil {
				t.Fatalf("protobuf refuses the file: %v", err)
			}
			if !proto.Equal(got, want) {
				t.Errorf("Parse = %v, protobuf reads %v", got, want)
			}
		})
	}
}

func TestParseForms_A025(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", ""},
		{"byte order mark", "\ufeffname: 'x'", `name: "x"`},
		{"separators", `name: "x"; backend: "b", max_batch_size: 1`, `name: "x" backend: "b" max_batch_size: 1`},
		{"angle brackets", `input < name: "a" dims: 1 >`, `input { name: "a" dims: 1 }`},
		{"list of messages", `input: [ <name: "a">, {name: "b"} ]`, `input { name: "a" } input { name: "b" }`},
		{"list without colon", `input [ {name: "a"} ] input [ ]`, `input { name: "a" }`},
		{"list twice", `input { dims: [1, 2] dims: 3 dims: [] dims: [4] }`,
			`input { dims: 1 dims: 2 dims: 3 dims: 4 }`},
		{"numbers", `input { dims: [0x10, 010, -1, - 2, 0] }`, `input { dims: [16, 8, -1, -2, 0] }`},
		{"strings",
			`name: "a" 'b' "\x41\101\n\t\"\'\\\?\u00e9\U0001F600" # end`, "name: \"abAA\\n\\t\\\"'\\\\?é😀\""},
		{"string over lines", "name: \"a\"\n  # between\n  \"b\"", `name: "ab"`},
		{"bytes of one character apart", `name: "\xe4" "\xbd\xa0"`, `name: "你"`},
		{"surrogates", `name: "\ud83d\ude00"`, `name: "😀"`},
		{"floats", `sequence_batching { direct { minimum_slot_utilization: 1.5f } }`,
			`sequence_batching { direct { minimum_slot_utilization: 1.5 } }`},
		{"float forms", `model_metrics { metric_control { histogram_options { buckets: ` +
			`[1, .5, 2., 1e3, 1E-2F, inf, -Infinity, 1e999] } } }`,
			`model_metrics { metric_control { histogram_options { buckets: ` +
				`[1, 0.5, 2, 1000, 0.01, inf, -inf, inf] } } }`},
		{"enum by number", `input { data_type: 11 }`, `input { data_type: TYPE_FP32 }`},
		{"bools", `input [{optional: t}, {optional: True}, {optional: 1}, {optional: f}, {optional: 0x1}]`,
			`input [{optional: true}, {optional: true}, {optional: true}, {optional: false}, {optional: true}]`},
		{"map",
			`parameters { key: "k" value: { string_value: "v" } } ` +
				`parameters: [{ key: "l" value { string_value: "w" } }]`,
			`parameters { key: "k" value { string_value: "v" } } parameters { key: "l" value { string_value: "w" } }`},
		{"map, value first", `metric_tags { value: "v" key: "k" } metric_tags { key: "only" } name: "x"`,
			`metric_tags { key: "k" value: "v" } metric_tags { key: "only" value: "" } name: "x"`},
		{"map of messages, value first", `parameters { value: { string_value: "v" }, key: "k" }`,
			`parameters { key: "k" value { string_value: "v" } }`},
		{"map with integer keys", `dynamic_batching { priority_queue_policy { key: 2 value { max_queue_size: 3 } } }`,
			`dynamic_batching { priority_queue_policy { key: 2 value { max_queue_size: 3 } } }`},
		{"oneof", `version_policy: { all { } }`, `version_policy { all { } }`},
		{"value on the next line", "input {\n data_type:\n TYPE_FP32\n}", `input { data_type: TYPE_FP32 }`},
		{"windows line ends", "name: \"x\"\r\nbackend: \"b\"\r\n", `name: "x" backend: "b"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := new(inferencepb.ModelConfig)
			if err := prototext.Unmarshal([]byte(tt.want), want); err != nil {
				t.Fatalf("the wanted text is wrong: %v", err)
			}
			got, _, faults := modelconfig.Parse("f", []byte(tt.text))
			if len(faults) > 0 || !proto.Equal(got, want) {
				t.Errorf("Parse(%q) = %v, %v; want %v", tt.text, got, faults, want)
			}
		})
	}
}

func TestPositions_A025(t *testing.T) {
	const text = `name: "x" # 模型
input [
  { name: "a"
    dims: [ 1, -1 ] },
  { name: "b" }
]
input { name: "c" }
/**/
`
	const plain = `name: "x" # 模型
input [
  { name: "a"
    dims: [ 1, -1 ] },
  { name: "b" }
]
input { name: "c" }
parameters { value: { string_value: "v" } key: "k\"]x" }
dynamic_batching { }
`
	_, pos, faults := modelconfig.Parse("config.pbtxt", []byte(plain))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	for path, want := range map[string]modelconfig.Pos{
		"name":                             {1, 7},
		"input":                            {2, 1},
		"input[0]":                         {3, 3},
		"input[0].name":                    {3, 11},
		"input[0].dims":                    {4, 5},
		"input[0].dims[1]":                 {4, 16},
		"input[0].data_type":               {3, 3},
		"input[1]":                         {5, 3},
		"input[2]":                         {7, 1},
		"input[2].dims[7]":                 {7, 1},
		"parameters[\"k\\\"]x\"]":          {8, 1},
		`parameters["k\"]x"].string_value`: {8, 37},
		`parameters["other"].string_value`: {8, 1},
		"dynamic_batching.preferred_batch_size[0]": {9, 1},
		"output[0]": {},
	} {
		if got := pos.At(path); got != want {
			t.Errorf("At(%s) = %v, want %v", path, got, want)
		}
	}
	if _, _, faults := modelconfig.Parse("config.pbtxt", []byte(text)); len(faults) != 1 || faults[0].Line != 8 {
		t.Errorf("Parse with a C comment = %v, want one fault on line 8", faults)
	}
}

func TestParseFaults_A025(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"unknown field",
			"nam: \"x\"", []string{`f:1:1: the model configuration has no field named "nam"; did you mean name?`}},
		{"several",
			"max_batch: 3\ninput {\n  dim: 3\n  data_type: FLOAT\n}\ninstance_groups [ { count: 1 } ]\nname: x",
			[]string{
				`f:1:1: the model configuration has no field named "max_batch"`,
				`f:3:3: input has no field named "dim"; did you mean dims?`,
				`f:4:14: data_type has no value 'FLOAT'; did you mean TYPE_FP32?`,
				`f:6:1: the model configuration has no field named "instance_groups"; did you mean instance_group?`,
				`f:7:7: name is a string, found 'x'; put " around it`}},
		{"goes on after a forgotten value", "name:\nmax_batch_size: -x\nbackend: \"b\" }", []string{
			"f:2:1: name has no value, found 'max_batch_size'",
			"f:2:17: max_batch_size is a whole number, found 'x'",
			"f:3:14: '}' closes nothing"}},
		{"set twice", "name: 'a'\nname: 'b'", []string{"f:2:1: name is set a second time; the first is at 1:1"}},
		{"oneof", "dynamic_batching {}\nsequence_batching {}",
			[]string{"f:2:1: sequence_batching excludes dynamic_batching, which is set at 1:1"}},
		{"extension", "[foo.bar]: 3\nnam: 1", []string{"f:1:1: extensions and Any are not supported",
			`f:2:1: the model configuration has no field named "nam"`}},
		{"field number", "4: 3", []string{"f:1:1: field numbers are not supported"}},
		{"full-width colon",
			"name\uff1a \"x\"", []string{"f:1:5: the character '\uff1a' (U+FF1A) only looks like ':'"}},
		{"not closed",
			"input {\n  name: \"a\"\n", []string{"f:1:7: the '{' opened here is not closed; add the missing '}'"}},
		{"list not closed", "input {\n  dims: [ 1, 2\n  name: \"a\"\n}",
			[]string{"f:3:3: expected ',' or ']' in the list opened at 2:9, found 'name'"}},
		{"mismatch", "input { name: 'a' >", []string{"f:1:19: '>' does not close the '{' at 1:7"}},
		{"range",
			"max_batch_size: 3000000000", []string{"f:1:17: 3000000000 is out of range for int32: max_batch_size"}},
		{"float for an integer",
			"max_batch_size: 8.0", []string{"f:1:17: max_batch_size is a whole number, found number 8.0"}},
		{"quoted number", `max_batch_size: "8"`,
			[]string{`f:1:17: max_batch_size is a whole number, found string "8"; remove the quotes`}},
		{"quoted enum", `input { data_type: "TYPE_FP32" }`, []string{"f:1:20: data_type takes a name without quotes"}},
		{"open string", "name: \"x\nbackend: \"b\"", []string{"f:1:7: the string is not closed on its line"}},
		{"bad UTF-8", "name: \"\xff\"", []string{"f:1:7: name is not valid UTF-8"}},
		{"trailing comma", "input { dims: [1, ] }", []string{"f:1:19: expected another value after ',', found ']'"}},
		{"no comma", "input { dims: [1 2] }", []string{"f:1:18: expected ',' or ']', found number 2"}},
		{"missing colon", "name \"x\"", []string{"f:1:6: expected ':' after name"}},
		{"list for one value", "name: [\"x\"]", []string{"f:1:7: name takes one value, not a list"}},
		{"braces missing", "input: 3", []string{"f:1:8: expected '{', found number 3"}},
		{"no key", "metric_tags { value: 'x' }", []string{"f:1:1: warning: the entry of metric_tags has no key"}},
		{"double separator", "name: 'x';;", []string{"f:1:11: ';' stands alone"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, faults := modelconfig.Parse("f", []byte(tt.text))
			if len(faults) != len(tt.want) {
				t.Fatalf("Parse(%q) =\n%v\nwant %d faults: %v", tt.text, faults, len(tt.want), tt.want)
			}
			for i, f := range faults {
				if !strings.Contains(f.Error(), tt.want[i]) {
					t.Errorf("fault %d = %q, want %q in it", i, f.Error(), tt.want[i])
				}
			}
		})
	}
}

// processorTime returns the CPU time of the process. Unlike wall time it does not depend on other programs.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestParseBounds parses hostile and mistaken uploads.
func TestParseBounds(t *testing.T) {
	for _, tt := range []struct{ name, text string }{
		{"50 MB", strings.Repeat("x", 50<<20)},
		{"a million values", "input { dims: [1" + strings.Repeat(",1", 1_000_000) + "] }"},
		{"a million fields", strings.Repeat("metric_tags{}", 1_000_000)},
		{"a million unknown fields", strings.Repeat("zzz: 1\n", 1_000_000)},
		{"deep unknown message", "zzz " + strings.Repeat("{", 1_000_000)},
		{"deep list", "input " + strings.Repeat("[", 1_000_000)},
		{"long string", "name: \"" + strings.Repeat("\\", 8<<20)},
		{"a million string parts", "name: " + strings.Repeat("\"a\" ", 1_000_000) + "x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			start := processorTime(t)
			_, _, faults := modelconfig.Parse("f", []byte(tt.text))
			if len(faults) == 0 || len(faults) > 100 {
				t.Errorf("%d faults, want 1 to 100", len(faults))
			}
			if d := processorTime(t) - start; d > time.Minute {
				t.Errorf("took %v of processor time", d) // it has run away: a second is usual
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range good(f) {
		f.Add([]byte(text))
	}
	f.Add([]byte(`name: "a" 'b\x41' input < dims: [0x1, -1] > version_policy { all {} } ` +
		`metric_tags { value: "1" key: "k" };`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, _, faults := modelconfig.Parse("f", text)
		want := new(inferencepb.ModelConfig)
		err := prototext.Unmarshal(text, want)
		if faults.Err() == nil && err == nil && !proto.Equal(got, want) {
			t.Errorf("Parse(%q) = %v, protobuf reads %v", text, got, want)
		}
		if faults.Err() != nil {
			return
		}
		again, _, faults := modelconfig.Parse("f", []byte(modelconfig.Format(got)))
		if faults.Err() != nil || !proto.Equal(got, again) {
			t.Errorf("Format of Parse(%q) reads %v, %v; want %v", text, again, faults, got)
		}
	})
}

// TestA24MutatedConfigurations parses broken copies of good configurations. It fails on a panic and on a fault without
// a position. The soak run has 10^6 of them.
func TestA24MutatedConfigurations(t *testing.T) {
	var seeds [][]byte
	for _, text := range good(t) {
		seeds = append(seeds, []byte(text))
	}
	rng := rand.New(rand.NewPCG(3, 24))
	fine, n := 0, corrupt.Count(4_000, 1_000_000)
	for range n {
		text := corrupt.Bytes(rng, seeds[rng.IntN(len(seeds))], seeds[rng.IntN(len(seeds))])
		cfg, _, faults := modelconfig.Parse("f", text)
		if err := faults.Err(); err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Fatalf("Parse(%q): fault without a place: %v", text, err)
			}
			continue
		}
		fine++
		if _, _, faults := modelconfig.Parse("f", []byte(modelconfig.Format(cfg))); faults.Err() != nil {
			t.Fatalf("%q is read, but not when it is written again: %v", text, faults.Err())
		}
	}
	if fine == 0 || fine == n {
		t.Errorf("%d of %d mutants are good: they try nothing", fine, n)
	}
}
