package console_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"nereid/app/console"
	"nereid/app/console/api"
	"nereid/engine"
	"nereid/engine/backend"
	"nereid/engine/inferencepb"
	"nereid/engine/system/affinity"
)

func TestConfigCheckAndFields(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	c := get[api.CheckResult](r, 200, "POST", "/api/config/check",
		api.CheckRequest{Model: "ready", Text: "name: \"reddy\"\n"})
	if len(c.Faults) != 1 || c.Faults[0].Line != 1 || len(c.Faults[0].Fixes) != 1 ||
		c.Faults[0].Fixes[0].Edits[0].Text != `"ready"` || c.Completed != "" {
		t.Errorf("check of a wrong name = %+v", c)
	}
	c = get[api.CheckResult](r, 200, "POST", "/api/config/check",
		api.CheckRequest{Model: "ready", Text: ""})
	if len(c.Faults) != 0 || !strings.Contains(c.Completed, `name: "INPUT0"`) {
		t.Errorf("check of an empty text = %+v", c)
	}
	f := get[api.ConfigFields](r, 200, "GET", "/api/config/fields", nil)
	messages, enums := map[string]api.ConfigMessage{}, map[string]bool{}
	for _, m := range f.Messages {
		messages[m.Name] = m
	}
	for _, e := range f.Enums {
		enums[e.Name] = len(e.Values) > 0
	}
	for _, m := range f.Messages {
		for _, field := range m.Fields {
			known := field.Kind == api.KindScalar || field.Kind == api.KindMap || messages[field.Type].Name != "" ||
				enums[field.Type]
			if !known || field.Doc == "" {
				t.Errorf("%s.%s: type %q known: %v, doc %q", m.Name, field.Name, field.Type, known, field.Doc)
			}
		}
	}
	if f.Root != "ModelConfig" || len(messages["ModelInput"].Fields) < 5 || !enums["DataType"] {
		t.Errorf("fields: root %q, %d messages, %d enums", f.Root, len(f.Messages), len(f.Enums))
	}
}

// strictBackend refuses the parameter bad and knows good.
type strictBackend struct{ backend.Backend }

func (strictBackend) ValidateParameters(cfg *inferencepb.ModelConfig) (all []backend.ParameterRemark) {
	for name, p := range cfg.GetParameters() {
		switch {
		case name == "threads" && p.GetStringValue() != "1":
			all = append(all, backend.ParameterRemark{Name: name, Text: "is wrong; want 1", Refused: true})
		case name != "threads":
			all = append(all, backend.ParameterRemark{Name: name, Text: "has no effect", Known: []string{"threads"}})
		}
	}
	return all
}

func TestBackendsCheckParameters(t *testing.T) {
	r := newRig(t, engine.ModeExplicit, func(o *console.Options) {
		for i, b := range o.Check.Backends {
			if b.Name() == "onnxruntime" {
				o.Check.Backends[i] = strictBackend{b}
			}
		}
	})
	check := func(parameters string) []api.Fault {
		text := "backend: \"onnxruntime\"\n" + parameters
		return get[api.CheckResult](r, 200, "POST", "/api/config/check",
			api.CheckRequest{Model: "ready", Text: text}).Faults
	}
	one := func(key, value string) string {
		return "parameters {\n  key: \"" + key + "\"\n  value { string_value: \"" + value + "\" }\n}\n"
	}
	if f := check(one("threads", "1") + one("residency", "pinned")); len(f) != 0 {
		t.Errorf("good ones: %+v", f)
	}
	if f := check(one("threads", "x")); len(f) != 1 || f[0].Severity != api.SeverityError || f[0].Line != 4 ||
		f[0].Text() != `parameter "threads" is wrong; want 1` {
		t.Errorf("a bad value: %+v", f)
	}
	f := check(one("thread", "1"))
	if len(f) != 1 || f[0].Severity != api.SeverityWarning || f[0].Line != 3 ||
		!strings.Contains(f[0].Message, "has no effect") || len(f[0].Fixes) != 1 ||
		f[0].Fixes[0].Edits[0].Text != `"threads"` {
		t.Errorf("an unknown one: %+v", f)
	}
	if f := check(one("reload_polcy", "x")); len(f) != 1 || len(f[0].Fixes) != 1 ||
		f[0].Fixes[0].Edits[0].Text != `"reload_policy"` {
		t.Errorf("one of the server's: %+v", f)
	}
}

func TestInstanceGroupsOfAText(t *testing.T) {
	r := newRig(t, engine.ModeExplicit,
		func(o *console.Options) { o.HostPolicies = map[string]affinity.Policy{"big": {Cores: []int{0, 1}}} })
	v := get[api.CheckResult](r, 200, "POST", "/api/config/check",
		api.CheckRequest{Model: "ready", Text: `backend: "onnxruntime"
instance_group [ { count: 2 kind: KIND_CPU host_policy: "big" }, { kind: KIND_GPU gpus: [ 0, 2 ]
  rate_limiter { priority: 1 } passive: true } ]`})
	if len(v.Groups) != 2 {
		t.Fatalf("groups = %+v", v.Groups)
	}
	if g := v.Groups[0]; g.Count != 2 || g.Kind != "KIND_CPU" || g.HostPolicy != "big" || g.Other {
		t.Errorf("the first = %+v", g)
	}
	if g := v.Groups[1]; g.Count != 0 || g.Kind != "KIND_GPU" || len(g.GPUs) != 2 || g.GPUs[1] != 2 || !g.Other ||
		!g.Passive {
		t.Errorf("the second = %+v", g)
	}
	if m := get[api.Machine](r, 200, "GET", "/api/machine", nil); len(m.HostPolicies) != 1 ||
		m.HostPolicies[0] != (api.HostPolicy{Name: "big", Affinity: "cpu-cores=0-1"}) {
		t.Errorf("host policies = %+v", m.HostPolicies)
	}
}

// TestFixesCorrectTheText applies the first fix of the first fault.
func TestFixesCorrectTheText(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	for _, tc := range []struct{ name, text, want, label string }{
		{"name", `name: "reddy"`, `name: "ready"`, `set name to "ready"`},
		{"field", "max_batchsize: 4", "max_batch_size: 4", "use max_batch_size"},
		{"field after other characters", `default_model_filename: "é" max_batchsize: 4`,
			`default_model_filename: "é" max_batch_size: 4`, "use max_batch_size"},
		{"enum value", `input [ { name: "INPUT0" data_type: TYPE_FLOAT32 dims: [ 16 ] } ]`,
			`input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 16 ] } ]`, "use TYPE_FP32"},
		{"enum value in quotes", `input [ { name: "INPUT0" data_type: "TYPE_FP32" dims: [ 16 ] } ]`,
			`input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 16 ] } ]`, "remove the quotes"},
		{"number in quotes", `max_batch_size: "4"`, `max_batch_size: 4`, "remove the quotes"},
		{"backend", `backend: "identitty"`, `backend: "identity"`, `use "identity"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := get[api.CheckResult](r, 200, "POST", "/api/config/check",
				api.CheckRequest{Model: "ready", Text: tc.text})
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

// TestCheckRefusesWhatALoadWould checks texts that are right in themselves, but that this server cannot serve.
func TestCheckRefusesWhatALoadWould(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	r.Write("ready/3/model.onnx", "good")
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
		{"no latest version", "version_policy { latest { num_versions: 0 } }",
			"version_policy serves the latest 0 versions, which is none; " +
				"write version_policy { latest { num_versions: 1 } }", 1, 41},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := get[api.CheckResult](r, 200, "POST", "/api/config/check",
				api.CheckRequest{Model: "ready", Text: tc.text})
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
			if len(errs) != 1 || errs[0].Text() != tc.want || errs[0].Line != tc.line || errs[0].Col != tc.col {
				t.Errorf("errors %+v, want %q at %d:%d", errs, tc.want, tc.line, tc.col)
			}
		})
	}
}

// apply does the edits of a fix as the editor does.
func apply(text string, edits []api.Edit) string {
	lines := strings.Split(text, "\n")
	for _, e := range edits {
		r := []rune(lines[e.Line-1])
		lines[e.Line-1] = string(r[:e.Col-1]) + e.Text + string(r[e.EndCol-1:])
	}
	return strings.Join(lines, "\n")
}

// The checks of an ensemble know the models of its steps, and those of instances the cores.
func TestChecksKnowTheOtherModels(t *testing.T) {
	r := newRig(t, engine.ModeExplicit)
	r.Write("pipeline/1/.keep", "")
	check := func(step, version, output string) []api.Fault {
		text := `platform: "ensemble"
max_batch_size: 4
input { name: "IN" data_type: TYPE_FP32 dims: 4 }
output { name: "OUT" data_type: TYPE_FP32 dims: 4 }
ensemble_scheduling { step {
  model_name: "` + step + `"
  model_version: ` + version + `
  input_map { key: "INPUT0" value: "IN" }
  output_map { key: "` + output + `" value: "OUT" }
} }
`
		return get[api.CheckResult](r, 200, "POST", "/api/config/check",
			api.CheckRequest{Model: "pipeline", Text: text}).Faults
	}
	for _, tc := range []struct{ name, step, version, output, want, fix string }{
		{"fits", "ready", "-1", "OUTPUT0", "", ""},
		{"a missing model", "raedy", "-1", "OUTPUT0", `runs model "raedy", which is not there`, `use "ready"`},
		{"a missing version", "ready", "7", "OUTPUT0", `has no version 7`, ""},
		{"a missing output", "ready", "-1", "OTHER", "non-existing output OTHER in model ready", ""},
	} {
		faults := check(tc.step, tc.version, tc.output)
		if tc.want == "" {
			if len(faults) != 0 {
				t.Errorf("%s: faults %+v", tc.name, faults)
			}
			continue
		}
		if len(faults) != 1 || faults[0].Severity != api.SeverityWarning || faults[0].Line == 0 ||
			!strings.Contains(faults[0].Message, tc.want) {
			t.Errorf("%s: faults %+v, want a warning with %q", tc.name, faults, tc.want)
		} else if tc.fix != "" && (len(faults[0].Fixes) != 1 || faults[0].Fixes[0].Label != tc.fix) {
			t.Errorf("%s: fixes %+v, want %q", tc.name, faults[0].Fixes, tc.fix)
		}
	}
	count := runtime.GOMAXPROCS(0)*8 + 1
	many := get[api.CheckResult](r, 200, "POST", "/api/config/check", api.CheckRequest{Model: "ready",
		Text: fmt.Sprintf("instance_group { count: %d kind: KIND_CPU }\n", count)}).Faults
	if len(many) != 1 || many[0].Severity != api.SeverityWarning || !strings.Contains(many[0].Message, "cores") {
		t.Errorf("%d instances: faults %+v, want a warning", count, many)
	}
	absent := get[api.CheckResult](r, 200, "POST", "/api/config/check", api.CheckRequest{Model: "ready",
		Text: `model_warmup { name: "w" batch_size: 1 inputs { key: "INPUT0"
  value { data_type: TYPE_FP32 dims: 4 input_data_file: "absent" } } }
`}).Faults
	if len(absent) != 1 || absent[0].Severity != api.SeverityError || absent[0].Line != 2 ||
		!strings.Contains(absent[0].Message, `warmup file "warmup/absent" cannot be read`) {
		t.Errorf("a warm-up file that is absent: faults %+v", absent)
	}
}
