package model

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nereid/engine/backend/builtin"
	"nereid/engine/tensor"
)

// A version goes into service only if it answers its golden requests as expected.
func TestGoldenRequests(t *testing.T) {
	const add = `backend: "add_sub" max_batch_size: 4
		input { name: "INPUT0" data_type: TYPE_FP32 dims: 2 } input { name: "INPUT1" data_type: TYPE_FP32 dims: 2 }
		output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 2 } output { name: "OUTPUT1" data_type: TYPE_FP32 dims: 2 }
		instance_group { kind: KIND_CPU count: 2 }`
	for _, tt := range []struct {
		name, file, text, want string // want: a part of the error, "" for none
	}{
		{"right", "golden/a.json", `{"data":[{"INPUT0":[1,2],"INPUT1":{"content":[[3,4]],"shape":[1,2]}}],` +
			`"validation_data":[{"OUTPUT0":[4,6],"OUTPUT1":[-2,-2]}]}`, ""},
		{"within the default tolerance", "golden/a.json",
			`{"data":[{"INPUT0":[1,2],"INPUT1":[3,4]}],"validation_data":[{"OUTPUT0":[4.0003,6]}]}`, ""},
		{"two rows, as bytes", "golden/a.json",
			`{"data":[{"INPUT0":{"shape":[2,2],"content":[1,2,3,4]},"INPUT1":{"shape":[2,2],` +
				`"b64":"AAAAAAAAAAAAAAAAAAAAAA=="}}],"validation_data":[{"OUTPUT0":{"shape":[2,2],"content":[1,2,3,` +
				`4]}}]}`, ""},
		{"wrong", "golden/a.json", `{"data":[{"INPUT0":[1,2],"INPUT1":[3,4]}],"validation_data":[{"OUTPUT0":[4,7]}]}`,
			"the version does not answer its golden requests: a.json request 0: output 'OUTPUT0', element 1 is 6, " +
				"want 7 within 0.0001"},
		{"the second is wrong, beside the version", "1/golden/b.json",
			`{"data":[{"INPUT0":[1,2],"INPUT1":[3,4]},{"INPUT0":[1,2],"INPUT1":[3,4]}],` +
				`"validation_data":[{"OUTPUT0":[4,6]},{"OUTPUT1":[4,6]}]}`,
			"b.json request 1: output 'OUTPUT1', element 0 is -2, want 4"},
		{"outside the tolerance of the output", "golden/a.json",
			`{"tolerance":0,"data":[{"INPUT0":[1,2],"INPUT1":[3,4]}],"validation_data":[{"OUTPUT0":[4.00001,6]}]}`,
			"within 0"},
		{"another shape", "golden/a.json", `{"data":[{"INPUT0":[1,2],"INPUT1":[3,4]}],` +
			`"validation_data":[{"OUTPUT0":{"shape":[2,2],"content":[1,2,3,4]}}]}`,
			"output 'OUTPUT0' is FP32 [1,2], want FP32 [2,2]"},
		{"not JSON", "golden/a.json", `{`, "a.json: unexpected EOF"},
		{"an input that is not there", "golden/a.json",
			`{"data":[{"NOSUCH":[1]}],"validation_data":[{"OUTPUT0":[1,1]}]}`, "the model has no input 'NOSUCH'"},
		{"an output that is not there", "golden/a.json", `{"data":[{}],"validation_data":[{"NOSUCH":[1]}]}`,
			"the model has no output 'NOSUCH'"},
		{"no answer", "golden/a.json", `{"data":[{"INPUT0":[1,2]}]}`, "each request needs its answer"},
		{"too few elements", "golden/a.json", `{"data":[{"INPUT0":[1]}],"validation_data":[{"OUTPUT0":[1,1]}]}`,
			"shape [1,2] needs 8 bytes, its content has 4"},
		{"words for numbers", "golden/a.json", `{"data":[{"INPUT0":["a",1]}],"validation_data":[{"OUTPUT0":[1,1]}]}`,
			"element 0: a is not a FP32"},
		{"an input that the request lacks", "golden/a.json",
			`{"data":[{"INPUT0":[1,2]}],"validation_data":[{"OUTPUT0":[1,1]}]}`, "expected 2 inputs"},
		{"another kind of file", "golden/readme.txt", `{`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			folder := t.TempDir()
			path := filepath.Join(folder, tt.file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(tt.text), 0o644); err != nil {
				t.Fatal(err)
			}
			m, err := Load(t.Context(), spec(config(t, add), folder, builtin.AddSub()))
			if m != nil {
				defer func() { _ = m.Close(context.Background()) }()
			}
			if n := strings.Count(tt.text, `"INPUT1"`); err == nil && m.Golden() != n {
				t.Errorf("%d golden requests were answered, want %d", m.Golden(), n)
			}
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("Load = %v, want %q in it", err, tt.want)
			}
		})
	}
}

func FuzzGolden(f *testing.F) {
	f.Add([]byte(`{"data":[{"INPUT0":{"content":[1,2],"shape":[1,2]}}],"validation_data":[{"OUTPUT0":[1,2]}],` +
		`"tolerance":1}`))
	f.Add([]byte(`{"data":[{"TEXT":["a","b"]}],"validation_data":[{"OUTPUT0":{"b64":"AAA="}}]}`))
	cfg := config(f, `max_batch_size: 2 input { name: "INPUT0" data_type: TYPE_FP32 dims: 2 }
		input { name: "TEXT" data_type: TYPE_STRING dims: -1 }
		output { name: "OUTPUT0" data_type: TYPE_FP16 dims: 2 }`)
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := appendGolden(nil, text, "f", cfg)
		if err != nil {
			return
		}
		for _, g := range all {
			for _, in := range append(g.inputs, g.want...) {
				if n, err := tensor.Elements(in.Shape); err != nil || in.DataType != tensor.Bytes &&
					n*int64(in.DataType.Size()) != int64(len(in.Data)) {
					t.Fatalf("%s has shape %v and %d bytes", in.Name, in.Shape, len(in.Data))
				}
			}
		}
	})
}

func TestHalfPrecisionRoundTrip(t *testing.T) {
	for h := range uint32(1 << 16) {
		f := float64(tensor.Float16(uint16(h)))
		if f != f {
			continue
		}
		if back := toHalf(float32(f)); back != uint16(h) {
			t.Fatalf("half %#x is %v is %#x", h, f, back)
		}
	}
}
