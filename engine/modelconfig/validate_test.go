package modelconfig_test

import (
	"cmp"
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"google.golang.org/protobuf/proto"

	"nereid/engine/inferencepb"
	"nereid/engine/modelconfig"
	"nereid/engine/status"
)

func TestValidateGoodFiles(t *testing.T) {
	for name, text := range good(t) {
		t.Run(name, func(t *testing.T) {
			cfg, pos, faults := modelconfig.Parse(name, []byte(text))
			if len(faults) > 0 {
				t.Fatal(faults)
			}
			folder := cmp.Or(cfg.Name, "m")
			if faults := modelconfig.CompleteBackend(cfg, folder, nil); len(faults) > 0 {
				t.Fatal(faults)
			}
			o := modelconfig.ValidateOptions{Positions: pos, Folder: folder, GPUs: []int32{0, 1},
				Files: fstest.MapFS{"labels.txt": {}}}
			before := proto.Clone(cfg)
			if faults := modelconfig.Validate(cfg, o); len(faults) > 0 {
				t.Errorf("Validate = %v, want no fault", faults)
			}
			if !proto.Equal(before, cfg) {
				t.Errorf("Validate changed the configuration")
			}
			modelconfig.Normalize(cfg, modelconfig.NormalizeOptions{GPUs: o.GPUs})
			if faults := modelconfig.Validate(cfg, o); len(faults) > 0 {
				t.Errorf("Validate after Normalize = %v, want no fault", faults)
			}
		})
	}
}

func TestValidateSignature_I006(t *testing.T) {
	s := sig(fp32("x", -1, 3, -1), fp32("y", -1, 10))
	s.Inputs = append(s.Inputs, modelconfig.IO{Name: "START", DataType: 11, Dims: []int64{-1, 1}})
	s.Inputs = append(s.Inputs, modelconfig.IO{Name: "bias", DataType: 11, Dims: []int64{-1}, Optional: true})
	s.Outputs = append(s.Outputs, modelconfig.IO{Name: "none", DataType: 11, Dims: []int64{0, 2}})
	const start = `sequence_batching { control_input { name: "START" control { ` +
		`kind: CONTROL_SEQUENCE_START fp32_false_true: [0, 1] } } }`
	for _, tt := range []struct{ name, text, want string }{
		{"batched", `max_batch_size: 8 ` + x(`[3, 224]`) + " " + start, ""},
		{"whole shape", x(`[5, 3, -1]`) + " " + y(`[-1, 10]`) + " " + start, ""},
		{"a dimension of 0", x(`[5, 3, -1]`) + " " + y(`[-1, 10]`) +
			` output { name: "none" data_type: TYPE_FP32 dims: [-1, 2] } ` + start, ""},
		{"output stricter than the model", x(`[5, 3, -1]`) + " " + y(`[5, 10]`) + " " + start,
			"tensor 'y': the model expects 2 dimensions (shape [-1,10]) but the model configuration specifies 2 " +
				"dimensions (shape [5,10]); write dims: [ -1, 10 ]"},
		{"reshape",
			`max_batch_size: 8 ` +
				`input { name: "x" data_type: TYPE_FP32 dims: [12] reshape { shape: [3, 4] } } ` + start, ""},
		{"reshape contradicts",
			`max_batch_size: 8 input { name: "x" data_type: TYPE_FP32 dims: [12] reshape { shape: [4, 3] } } ` + start,
			"making complete shape [-1,4,3]); write reshape { shape: [ 3, -1 ] }"},
		{"control input missing", `max_batch_size: 8 ` + x(`[3, 224]`),
			"configuration expects 1 inputs, model provides 2; add the inputs START"},
		{"control input unknown",
			`max_batch_size: 8 ` + x(`[3, 224]`) + " " + strings.Replace(start, `"START"`, `"BEGIN"`, 1),
			`the model has no input "BEGIN" for the sequence control`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := parse(t, `name: "m" backend: "onnxruntime" `+tt.text)
			faults := modelconfig.Validate(cfg, modelconfig.ValidateOptions{Signature: s})
			if tt.want == "" && len(faults) > 0 || tt.want != "" && !strings.Contains(faults.Error(), tt.want) {
				t.Errorf("Validate = %v, want %q", faults, tt.want)
			}
		})
	}
}

func TestAWarmupSampleMayRunAnyNumberOfTimes(t *testing.T) {
	cfg := parse(t, `name: "m" backend: "identity" `+x(`[1]`)+` model_warmup { name: "w" batch_size: 1 count: 5000 `+
		`inputs { key: "x" value { data_type: TYPE_FP32 dims: 1 zero_data: true } } }`)
	if faults := modelconfig.Validate(cfg, modelconfig.ValidateOptions{}); len(faults) > 0 {
		t.Errorf("Validate = %v, want no fault, as in Triton", faults)
	}
}

// The dims of a scalar in a model file are [1] in a configuration.
func TestScalarTensors(t *testing.T) {
	s := sig(fp32("x", 4), fp32("y"))
	cfg := parse(t, `name: "m" backend: "onnxruntime"`)
	if faults := modelconfig.Complete(cfg, s, modelconfig.CompleteOptions{DefaultMaxBatchSize: 4}); len(faults) > 0 {
		t.Fatal(faults)
	}
	if len(cfg.Output) != 1 || !slices.Equal(cfg.Output[0].Dims, []int64{1}) || cfg.Output[0].Reshape != nil {
		t.Errorf("Complete gives %v, want dims [1] without a reshape", cfg.Output)
	}
	o := modelconfig.ValidateOptions{Signature: s}
	if faults := modelconfig.Validate(cfg, o); len(faults) > 0 {
		t.Errorf("Validate = %v", faults)
	}
	cfg.Output[0].Dims = []int64{2}
	if faults := modelconfig.Validate(cfg, o); len(faults) != 1 || !strings.Contains(faults[0].Message,
		"scalar tensor 'y', should only provide 1") {
		t.Errorf("Validate = %v, want the scalar's fault", faults)
	}
}

func TestFaultsErr(t *testing.T) {
	warning := modelconfig.Fault{File: "config.pbtxt", Line: 3, Col: 1, Message: "w",
		Severity: modelconfig.SeverityWarning}
	fault := modelconfig.Fault{File: "config.pbtxt", Line: 12, Col: 7, Message: "message", Fix: "fix it"}
	if err := (modelconfig.Faults{warning}).Err(); err != nil {
		t.Errorf("Err of a warning = %v, want nil", err)
	}
	err := modelconfig.Faults{warning, fault, {Message: "other"}}.Err()
	if status.CodeOf(err) != status.InvalidArg || err.Error() != "config.pbtxt:12:7: message; fix it\nother" {
		t.Errorf("Err = %v (%v)", err, status.CodeOf(err))
	}
	b, err := json.Marshal(warning)
	want := `{"file":"config.pbtxt","line":3,"col":1,"path":"","message":"w","severity":"warning"}`
	if err != nil || string(b) != want {
		t.Errorf("json.Marshal = %s, %v; want %s", b, err, want)
	}
}

// TestParseMemoryIsBounded parses the largest inputs that are accepted, and larger ones.
func TestParseMemoryIsBounded(t *testing.T) {
	for _, text := range []string{
		"input { dims: [1" + strings.Repeat(",1", 1_000_000) + "] }",
		strings.Repeat("metric_tags{}", 1_000_000),
		"name: \"" + strings.Repeat("a", 15<<20) + "\"",
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		_, _, faults := modelconfig.Parse("f", []byte(text))
		runtime.ReadMemStats(&after)
		if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 200 {
			t.Errorf("Parse of %.20s… (%d faults) takes %d MiB in all, want at most 200", text, len(faults), used)
		}
	}
}

// FuzzWholeWay passes any text that parses through every step. No step may panic, and Normalize must be idempotent.
func FuzzWholeWay(f *testing.F) {
	for _, text := range good(f) {
		f.Add([]byte(text))
	}
	s := sig(fp32("x", -1, 3), fp32("y", -1, 10))
	f.Fuzz(func(t *testing.T, text []byte) {
		cfg, pos, faults := modelconfig.Parse("f", text)
		if faults.Err() != nil {
			return
		}
		o := modelconfig.ValidateOptions{Positions: pos, Folder: "f", Signature: s, Files: fstest.MapFS{}}
		_ = modelconfig.CompleteBackend(cfg, "f", nil) // its fault does not keep the rest from running
		_ = modelconfig.Complete(cfg, s, modelconfig.CompleteOptions{DefaultMaxBatchSize: 4, Positions: pos})
		for _, fault := range modelconfig.Validate(cfg, o) {
			if fault.Message == "" || strings.Contains(fault.Error(), "%!") {
				t.Errorf("bad fault %q", fault.Error())
			}
		}
		modelconfig.Normalize(cfg, modelconfig.NormalizeOptions{GPUs: []int32{0}})
		once := proto.Clone(cfg).(*inferencepb.ModelConfig)
		modelconfig.Normalize(cfg, modelconfig.NormalizeOptions{GPUs: []int32{0}})
		if !proto.Equal(once, cfg) {
			t.Errorf("Normalize twice = %v, want %v", cfg, once)
		}
		if !json.Valid(modelconfig.MarshalJSON(cfg)) {
			t.Errorf("MarshalJSON of %v is no JSON", cfg)
		}
	})
}

// An image format needs three dims, and clients get it unchanged.
func TestFormat_C093(t *testing.T) {
	for _, tt := range []struct{ name, format, dims, want string }{
		{"C093 NHWC", "FORMAT_NHWC", "224, 224, 3", ""},
		{"C093 NCHW", "FORMAT_NCHW", "3, -1, -1", ""},
		{"C093 none", "FORMAT_NONE", "5", ""},
		{"C093 NCHW of four dims", "FORMAT_NCHW", "1, 3, 224, 224", `FORMAT_NCHW needs 3 dims, input "x" has 4`},
		{"C093 NHWC of one", "FORMAT_NHWC", "5", `FORMAT_NHWC needs 3 dims, input "x" has 1`},
		{"C093 another", "FORMAT_CHWN", "3, 2, 1", "FORMAT_CHWN"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := `name: "m" backend: "identity" max_batch_size: 4 ` +
				`input { name: "x" data_type: TYPE_FP32 format: ` + tt.format + ` dims: [ ` + tt.dims +
				` ] } ` + y(`[ 1 ]`)
			cfg, pos, faults := modelconfig.Parse("config.pbtxt", []byte(text))
			if faults.Err() == nil {
				faults = modelconfig.Validate(cfg, modelconfig.ValidateOptions{Positions: pos})
			}
			err := faults.Err()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("faults %v, want %q", err, tt.want)
			}
			if err == nil && !strings.Contains(string(modelconfig.MarshalJSON(cfg)), `"format":"`+tt.format+`"`) {
				t.Errorf("the configuration that clients see is %s", modelconfig.MarshalJSON(cfg))
			}
		})
	}
}
