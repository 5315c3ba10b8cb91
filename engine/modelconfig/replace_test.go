package modelconfig

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"nereid/engine/inferencepb"
)

func TestReplace(t *testing.T) {
	three := &inferencepb.ModelConfig{
		MaxBatchSize:  8,
		InstanceGroup: []*inferencepb.ModelInstanceGroup{{Count: 3, Kind: inferencepb.ModelInstanceGroup_KIND_CPU}},
		Parameters:    map[string]*inferencepb.ModelParameter{"a": {StringValue: "1"}},
	}
	all := []string{"max_batch_size", "instance_group", "dynamic_batching", "parameters"}
	const group = "instance_group [\n  {\n    kind: KIND_CPU\n    count: 3\n  }\n]"
	for _, tt := range []struct {
		name, text string
		fields     []string
		want       string
	}{
		{"an empty text", "", []string{"max_batch_size"}, "max_batch_size: 8\n"},
		{"a number between comments", "# a\nmax_batch_size: 64 # b\nname: \"m\"\n", []string{"max_batch_size"},
			"# a\nmax_batch_size: 8 # b\nname: \"m\"\n"},
		{"on one line", `name: "m" max_batch_size: 64; backend: "x"`, []string{"max_batch_size"},
			`name: "m" max_batch_size: 8 backend: "x"`},
		{"lists and blocks",
			"name: \"m\"\ninstance_group [ { count: 1 }, { count: 2 } ]\ndynamic_batching { }\n" +
				"backend: \"x\"\n", all[1:3],
			"name: \"m\"\n" + group + "\nbackend: \"x\"\n"},
		{"repeated blocks", "parameters { key: \"b\" value { string_value: \"}\" } }\nname: 'a' \"b\"\nparameters " +
			"{ key: \"c\" value { string_value: '2' } }\n", all[3:],
			"parameters {\n  key: \"a\"\n  value {\n    string_value: \"1\"\n  }\n}\nname: 'a' \"b\"\n"},
		{"what is not there", "name: \"m\"", all[:3], "name: \"m\"\nmax_batch_size: 8\n" + group + "\n"},
		{"a field that is asked for twice", "name: \"m\"",
			[]string{"max_batch_size", "instance_group", "max_batch_size"},
			"name: \"m\"\nmax_batch_size: 8\n" + group + "\n"},
		{"a name within a block", "optimization { cuda { graphs: true } } max_batch_size: 1\nversion_policy: { " +
			"latest { num_versions: 1 } }", all[:1],
			"optimization { cuda { graphs: true } } max_batch_size: 8\nversion_policy: { latest { num_versions: 1 } }"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := Replace(tt.text, three, tt.fields...); err != nil || got != tt.want {
				t.Errorf("Replace(%q) = %q, %v; want %q", tt.text, got, err, tt.want)
			}
		})
	}
	for _, tt := range [][2]string{{"name: ", "max_batch_size"}, {"", "size"}} {
		if got, err := Replace(tt[0], three, tt[1]); err == nil {
			t.Errorf("Replace(%q, %q) = %q, want an error", tt[0], tt[1], got)
		}
	}
}

func FuzzReplace(f *testing.F) {
	for _, s := range []string{"", "max_batch_size: 1 # x", "instance_group [ { count: 1 } ] name: 'a' 'b'; " +
		"max_batch_size: -1", "parameters { key: \"{\" } dynamic_batching < >"} {
		f.Add(s)
	}
	cfg := &inferencepb.ModelConfig{MaxBatchSize: 3, InstanceGroup: []*inferencepb.ModelInstanceGroup{{Count: 2}}}
	f.Fuzz(func(t *testing.T, text string) {
		out, err := Replace(text, cfg, "max_batch_size", "instance_group", "dynamic_batching")
		if err != nil {
			return
		}
		got, _, faults := Parse("", []byte(out))
		if faults.Err() != nil || got.MaxBatchSize != 3 || len(got.InstanceGroup) != 1 ||
			got.GetDynamicBatching() != nil {
			t.Fatalf("%q becomes %q: %v", text, out, faults)
		}
		again, err := Replace(out, cfg, "max_batch_size", "instance_group", "dynamic_batching")
		if err != nil {
			t.Fatalf("%q becomes %q, which cannot be changed: %v", text, out, err)
		}
		if twice, _, _ := Parse("", []byte(again)); !proto.Equal(got, twice) {
			t.Fatalf("%q becomes %q and then %q", text, out, again)
		}
	})
}
