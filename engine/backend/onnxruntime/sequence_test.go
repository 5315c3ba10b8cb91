package onnxruntime_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"nereid/engine"
	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/tensor"
)

// serveSequences starts an engine with models of testdata.
func serveSequences(t *testing.T, models map[string]string, files map[string]string) *engine.Engine {
	t.Helper()
	root := t.TempDir()
	put := func(path string, data []byte) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range models {
		file, _, _ := strings.Cut(name, "-")
		onnx, err := os.ReadFile("testdata/" + file + ".onnx")
		if err != nil {
			t.Fatal(err)
		}
		put(filepath.Join(root, name, "1/model.onnx"), onnx)
		put(filepath.Join(root, name, "config.pbtxt"), []byte(text))
	}
	for path, text := range files {
		put(filepath.Join(root, path), []byte(text))
	}
	e, err := engine.New(engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{root}, Backends: []backend.Backend{open(t)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(context.Background()) })
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

// responseText executes r and returns the shape and values of each output as text.
func responseText(t *testing.T, e *engine.Engine, r *infer.Request) map[string]string {
	t.Helper()
	defer r.Release()
	if err := e.Infer(t.Context(), r); err != nil {
		t.Error(err)
		return nil
	}
	resp, err := r.Next(t.Context())
	if err != nil || resp.Err != nil {
		t.Error(err, resp.Err)
		return nil
	}
	defer resp.Release()
	all := map[string]string{}
	for i := range resp.Outputs {
		o := &resp.Outputs[i]
		var values []string
		switch o.DataType {
		case tensor.Bytes:
			for _, b := range tensor.BytesElements(o.Data) {
				values = append(values, string(b))
			}
		case tensor.Bool:
			values = append(values, fmt.Sprint(o.Data))
		default:
			for _, v := range numbers(o) {
				values = append(values, fmt.Sprint(v))
			}
		}
		all[o.Name] = fmt.Sprint(o.Shape, " ", strings.Join(values, " "))
	}
	return all
}

func sequel(model string, id infer.CorrelationID, flags infer.Flags, in tensor.Tensor) *infer.Request {
	r := infer.New()
	r.ModelName, r.Correlation, r.Flags = model, id, flags
	r.Inputs = append(r.Inputs, in)
	return r
}

func number(n int32) tensor.Tensor {
	return tensor.Tensor{Name: "INPUT", DataType: tensor.Int32, Shape: []int64{1, 1},
		Data: binary.LittleEndian.AppendUint32(nil, uint32(n))}
}

func word(s string) tensor.Tensor {
	return tensor.Tensor{Name: "WORD", DataType: tensor.Bytes, Shape: []int64{1},
		Data: tensor.AppendBytesElement(nil, s)}
}

const statefulConfig = `backend: "onnxruntime" max_batch_size: 4
input { name: "INPUT" data_type: TYPE_INT32 dims: 1 }
output { name: "OUTPUT" data_type: TYPE_INT32 dims: 1 }
instance_group { count: 2 kind: KIND_CPU }
sequence_batching { max_sequence_idle_microseconds: 3600000000 %s
  state { input_name: "SUM_IN" output_name: "SUM_OUT" data_type: TYPE_INT32 dims: 1 %s }
  state { input_name: "SEEN_IN" output_name: "SEEN_OUT" data_type: TYPE_INT32 dims: -1 %s }
}
`

func TestImplicitState(t *testing.T) {
	returned := `output { name: "SEEN_OUT" data_type: TYPE_INT32 dims: -1 }`
	e := serveSequences(t, map[string]string{
		"stateful-direct": fmt.Sprintf(statefulConfig, "direct {}", "", ""),
		"stateful-oldest": fmt.Sprintf(statefulConfig, "oldest { max_candidate_sequences: 3 }",
			"use_same_buffer_for_input_output: true", ""),
		"stateful-file": returned +
			fmt.Sprintf(statefulConfig, "",
				`initial_state { name: "init" data_type: TYPE_INT32 dims: 1 data_file: "sum" }`,
				`initial_state { name: "init" data_type: TYPE_INT32 dims: 2 zero_data: true }`),
		"words": `backend: "onnxruntime"
input { name: "WORD" data_type: TYPE_STRING dims: 1 } output { name: "BEFORE" data_type: TYPE_STRING dims: 1 }
sequence_batching {
  max_sequence_idle_microseconds: 3600000000
  state { input_name: "LAST_IN" output_name: "LAST_OUT" data_type: TYPE_STRING dims: 1 }
}`,
	}, map[string]string{"stateful-file/initial_state/sum": "\x64\x00\x00\x00"})
	for _, tt := range []struct {
		name, model string
		begin       int32
	}{
		{"C036 D018 direct", "stateful-direct", 0},
		{"C036 C038 D018 oldest, one buffer", "stateful-oldest", 0},
		{"C037 initial state of a file", "stateful-file", 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var wg sync.WaitGroup
			for id := range 20 {
				wg.Go(func() {
					for range 3 {
						sum := tt.begin
						for i := range 8 {
							flags := infer.Flags(0)
							switch i {
							case 0:
								flags = infer.SequenceStart
							case 7:
								flags = infer.SequenceEnd
							}
							n := int32(id*100 + i)
							sum += n
							got := responseText(t,
								e, sequel(tt.model, infer.CorrelationID{Number: uint64(id + 1)}, flags,
									number(n)))
							if want := fmt.Sprintf("[1 1] %d", sum); got["OUTPUT"] != want {
								t.Errorf("sequence %d, request %d: OUTPUT is %s, want %s", id, i, got["OUTPUT"], want)
								return
							}
							if _, there := got["SUM_OUT"]; there {
								t.Error("a state that is no output is in the answer")
							}
						}
					}
				})
			}
			wg.Wait()
		})
	}
	t.Run("C039 C037 a state as an output, of variable shape, from zeros", func(t *testing.T) {
		id := infer.CorrelationID{Text: "all"}
		for i, want := range []string{"[1 3] 0 0 5", "[1 4] 0 0 5 6", "[1 5] 0 0 5 6 7"} {
			flags := []infer.Flags{infer.SequenceStart, 0, infer.SequenceEnd}[i]
			if got := responseText(t,
				e, sequel("stateful-file", id, flags, number(int32(5+i)))); got["SEEN_OUT"] != want {
				t.Errorf("request %d: SEEN_OUT is %s, want %s", i, got["SEEN_OUT"], want)
			}
		}
		r := sequel("stateful-file", id, infer.SequenceStart|infer.SequenceEnd, number(9))
		r.Outputs = append(r.Outputs, infer.RequestedOutput{Name: "OUTPUT"})
		if got := responseText(t, e, r); len(got) != 1 || got["OUTPUT"] != "[1 1] 109" {
			t.Errorf("one output of two: %v", got)
		}
	})
	t.Run("C036 texts, without a batch dimension", func(t *testing.T) {
		for i, w := range []string{"one", "two", "three"} {
			flags := []infer.Flags{infer.SequenceStart, 0, infer.SequenceEnd}[i]
			want := []string{"[1] ", "[1] one", "[1] two"}[i]
			if got := responseText(t, e,
				sequel("words", infer.CorrelationID{Number: 7}, flags, word(w))); got["BEFORE"] != want {
				t.Errorf("request %d: BEFORE is %q, want %q", i, got["BEFORE"], want)
			}
		}
	})
}

func TestControlInputs(t *testing.T) {
	const text = `backend: "onnxruntime" max_batch_size: 4
input { name: "INPUT" data_type: TYPE_INT32 dims: 1 }
%s
sequence_batching { max_sequence_idle_microseconds: 3600000000 %s
  control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 10, 20 ] } }
  control_input { name: "READY" control { kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 3, 4 ] } }
  control_input { name: "END" control { kind: CONTROL_SEQUENCE_END bool_false_true: [ false, true ] } }
  control_input { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } }
}`
	outputs := `output [ { name: "OUTPUT" data_type: TYPE_INT32 dims: 1 },
  { name: "ID" data_type: TYPE_STRING dims: 1 },
  { name: "READY_OUT" data_type: TYPE_FP32 dims: 1 }, { name: "END_OUT" data_type: TYPE_BOOL dims: 1 } ]`
	e := serveSequences(t, map[string]string{
		"controls-direct": fmt.Sprintf(text, outputs, "direct { }"),
		"controls-oldest": fmt.Sprintf(text, outputs, "oldest { max_candidate_sequences: 4 }"),
		"controls-completed": strings.Replace(fmt.Sprintf(text, "", "direct { }"),
			"input { name: \"INPUT\" data_type: TYPE_INT32 dims: 1 }", "", 1),
	}, nil)
	for _, model := range []string{"controls-direct", "controls-oldest", "controls-completed"} {
		t.Run("C031 C035 R8 "+model, func(t *testing.T) {
			for i, want := range []string{"21 4 [0]", "12 4 [0]", "13 4 [1]"} {
				got := responseText(t, e, sequel(model, infer.CorrelationID{Text: "käse"},
					[]infer.Flags{infer.SequenceStart, 0, infer.SequenceEnd}[i], number(int32(i+1))))
				v := strings.Split(want, " ")
				if got["OUTPUT"] != "[1 1] "+v[0] || got["READY_OUT"] != "[1 1] "+v[1] ||
					got["END_OUT"] != "[1 1] "+v[2] || got["ID"] != "[1 1] käse" {
					t.Errorf("request %d: %v; want %v", i, got, want)
				}
			}
		})
	}
}

func TestSequenceConfigurationsAreCompared(t *testing.T) {
	root := t.TempDir()
	onnx, err := os.ReadFile("testdata/stateful.onnx")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, more, want string }{
		{"no such input",
			`control_input { name: "NOPE" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }`,
			`the model has no input "NOPE" for the sequence control`},
		{"type of a control",
			`control_input { name: "SEEN_IN" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } }`,
			"configuration expects datatype TYPE_FP32 for sequence control 'SEEN_IN'"},
		{"no such state output", `state { input_name: "SEEN_IN" output_name: "NOPE" data_type: TYPE_INT32 dims: -1 }`,
			"model 'm' has no tensor 'NOPE' for the sequence state"},
		{"type of a state", `state { input_name: "SEEN_IN" output_name: "SEEN_OUT" data_type: TYPE_FP32 dims: -1 }`,
			"configuration expects datatype TYPE_FP32 for sequence state 'SEEN_IN'"},
		{"file of an initial state",
			`state { input_name: "SEEN_IN" output_name: "SEEN_OUT" data_type: TYPE_INT32 dims: -1
			initial_state { name: "i" data_type: TYPE_INT32 dims: 4 data_file: "short" } }`,
			"initial_state setting expects 16 bytes, but the data provided from short only has 3 bytes."},
	} {
		t.Run("C036 "+tt.name, func(t *testing.T) {
			dir := filepath.Join(root, strings.ReplaceAll(tt.name, " ", "_"), "m")
			for path, data := range map[string]string{"1/model.onnx": string(onnx), "initial_state/short": "abc",
				"config.pbtxt": `backend: "onnxruntime" max_batch_size: 4
input { name: "INPUT" data_type: TYPE_INT32 dims: 1 } output { name: "OUTPUT" data_type: TYPE_INT32 dims: 1 }
sequence_batching { state { input_name: "SUM_IN" output_name: "SUM_OUT" data_type: TYPE_INT32 dims: 1 } ` +
					tt.more + " }"} {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, path), []byte(data), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			e, err := engine.New(engine.Options{
				ModelOptions: engine.ModelOptions{Repositories: []string{filepath.Dir(dir)},
					Backends: []backend.Backend{open(t)}},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close(context.Background())
			if err := e.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			m, _ := e.Model("m")
			if len(m.Versions) != 1 || !strings.Contains(m.Versions[0].Reason, tt.want) {
				t.Errorf("the model is %v %v; want %s", m.Err, m.Versions, tt.want)
			}
		})
	}
}
