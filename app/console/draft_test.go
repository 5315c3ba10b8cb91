package console

import (
	"strings"
	"testing"

	"nereid/engine"

	"nereid/app/console/api"
)

// apply does the edits of a fix as the editor does.
func apply(text string, edits []api.Edit) string {
	lines := strings.Split(text, "\n")
	for _, e := range edits {
		r := []rune(lines[e.Line-1])
		lines[e.Line-1] = string(r[:e.Col-1]) + e.Text + string(r[e.EndCol-1:])
	}
	return strings.Join(lines, "\n")
}

// TestFixesMendTheText applies the first fix of the first fault.
func TestFixesMendTheText(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	for _, tc := range []struct{ name, text, want, label string }{
		{"name", `name: "reddy"`, `name: "ready"`, `set name to "ready"`},
		{"field", "max_batchsize: 4", "max_batch_size: 4", "use max_batch_size"},
		{"field after other characters", `default_model_filename: "é" max_batchsize: 4`, `default_model_filename: "é" max_batch_size: 4`, "use max_batch_size"},
		{"enum value", `input [ { name: "INPUT0" data_type: TYPE_FLOAT32 dims: [ 16 ] } ]`,
			`input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 16 ] } ]`, "use TYPE_FP32"},
		{"enum value in quotes", `input [ { name: "INPUT0" data_type: "TYPE_FP32" dims: [ 16 ] } ]`,
			`input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 16 ] } ]`, "remove the quotes"},
		{"number in quotes", `max_batch_size: "4"`, `max_batch_size: 4`, "remove the quotes"},
		{"backend", `backend: "identitty"`, `backend: "identity"`, `use "identity"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := get[api.CheckResult](r, 200, "POST", "/api/config/check", api.CheckRequest{Model: "ready", Text: tc.text})
			if len(c.Faults) == 0 || len(c.Faults[0].Fixes) == 0 {
				t.Fatalf("no fix among %+v", c.Faults)
			}
			fix := c.Faults[0].Fixes[0]
			if got := apply(tc.text, fix.Edits); got != tc.want || fix.Label != tc.label {
				t.Errorf("%q: %s, want %q: %s", fix.Label, got, tc.label, tc.want)
			}
		})
	}
}

func TestFixesFollowTheModelFile(t *testing.T) {
	for _, tc := range []struct{ name, line, fix, path, want string }{
		{"datatype", `data_type: TYPE_INT64`, "write data_type: TYPE_FP32", "input[0].data_type", "data_type: TYPE_FP32"},
		{"dims", `dims: [ 5 ] # so`, "write dims: [ 3, -1 ]; the batch dimension is not in dims", "input[0].dims", "dims: [ 3, -1 ] # so"},
		{"dims with reasons before", `dims: [ 4 ]`, "while max_batch_size is 0 the dims are the whole shape: write dims: [ -1, 4 ], or set max_batch_size to 1 or more", "input[0].dims", "dims: [ -1, 4 ]"},
		{"dims without a colon", `dims[5]`, "write dims: [ 4 ]", "input[0].dims", "dims: [ 4 ]"},
		{"one dimension a line", `dims: 5`, "write dims: [ 4 ]", "input[0].dims", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			col := 1
			if strings.HasSuffix(tc.path, "data_type") {
				col = len("data_type: ") + 1
			}
			fixes := fixesOf(tc.fix, tc.line, api.Fault{Line: 1, Col: col, Field: tc.path})
			if tc.want == "" {
				if len(fixes) != 0 {
					t.Errorf("fixes %+v for what one edit does not mend", fixes)
				}
				return
			}
			if len(fixes) != 1 {
				t.Fatalf("fixes = %+v, want one", fixes)
			}
			if got := apply(tc.line, fixes[0].Edits); got != tc.want {
				t.Errorf("%q: %s, want %s", fixes[0].Label, got, tc.want)
			}
		})
	}
}

// TestCheckRefusesWhatALoadWould checks texts that are right in themselves, but that this server cannot serve.
func TestCheckRefusesWhatALoadWould(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	r.write("ready/3/model.onnx", "good")
	for _, tc := range []struct {
		name, text, want string // the one error; "": none
		line, col        int
	}{
		{"backend of Triton", `backend: "openvino"`, "backend 'openvino' is not part of this server", 1, 10},
		{"platform of Triton", `platform: "pytorch_libtorch"`, "backend 'pytorch' is not part of this server", 1, 11},
		{"sequences", "max_batch_size: 4\nsequence_batching { }", "", 0, 0},
		{"version that is not there", "max_batch_size: 4\nversion_policy { specific { versions: [ 7 ] } }",
			"the version policy leaves no version to serve; choose among those that are there: 1, 3", 2, 1},
		{"version that is there", "version_policy { specific { versions: [ 3, 7 ] } }", "", 0, 0},
		{"no latest version", "version_policy { latest { num_versions: 0 } }", "version_policy serves the latest 0 versions, which is none; " +
			"write version_policy { latest { num_versions: 1 } }", 1, 41},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := get[api.CheckResult](r, 200, "POST", "/api/config/check", api.CheckRequest{Model: "ready", Text: tc.text})
			var errs []api.Fault
			for _, f := range c.Faults {
				if f.Severity == api.SeverityError {
					errs = append(errs, f)
				}
			}
			if tc.want == "" {
				if len(errs) > 0 {
					t.Errorf("errors %+v, want none", errs)
				}
				return
			}
			if len(errs) != 1 || errs[0].Message != tc.want || errs[0].Line != tc.line || errs[0].Col != tc.col {
				t.Errorf("errors %+v, want %q at %d:%d", errs, tc.want, tc.line, tc.col)
			}
		})
	}
}
