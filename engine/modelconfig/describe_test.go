package modelconfig_test

import (
	"strings"
	"testing"

	"nereid/engine/modelconfig"
)

func TestDescribeCoversEveryField(t *testing.T) {
	docs := modelconfig.Describe()
	byPath := make(map[string]modelconfig.FieldDoc)
	for _, d := range docs {
		if d.Doc == "" && d.Default == "" {
			t.Errorf("%s has no text", d.Path)
		}
		if d.Type == "" {
			t.Errorf("%s has no type", d.Path)
		}
		for _, v := range d.Values {
			if v.Doc == "" && d.Type != "bool" {
				t.Errorf("%s: value %s has no text", d.Path, v.Name)
			}
		}
		if _, ok := byPath[d.Path]; ok {
			t.Errorf("%s is listed twice", d.Path)
		}
		byPath[d.Path] = d
	}
	if len(docs) < 150 {
		t.Errorf("Describe lists %d fields, want at least 150", len(docs))
	}
	for _, tt := range []struct{ path, typ, def, doc string }{
		{"name", "string", "the folder's name", "Name of the model"},
		{"input", "ModelInput", "those of the model file", "Inputs of the model."},
		{"input.dims", "int64", "", "the batch dimension is not listed"},
		{"input.data_type", "DataType", "", "Data type of the elements."},
		{"dynamic_batching.max_queue_delay_microseconds", "uint64",
			"0: whatever waits when an instance is free is the batch", "in microseconds"},
		{"parameters", "map<string, ModelParameter>", "none", "Settings for the backend"},
		{"parameters.key", "string", "", "Key"},
		{"parameters.value.string_value", "string", "", "always a string"},
		{"version_policy.latest.num_versions", "uint32", "", "How many versions"},
		{"optimization.cuda.graph_spec.graph_lower_bound.input.value.dim", "int64", "", "Dimensions"},
	} {
		d, ok := byPath[tt.path]
		if !ok || d.Type != tt.typ || !strings.Contains(d.Doc, tt.doc) || tt.def != "" && d.Default != tt.def {
			t.Errorf("Describe has %s = %+v, want type %s, default %q, text with %q", tt.path, d, tt.typ, tt.def,
				tt.doc)
		}
	}
	if d := byPath["version_policy.all"]; d.Oneof != "policy_choice" || !d.Message || d.Repeated {
		t.Errorf("version_policy.all = %+v", d)
	}
	if d := byPath["input.format"]; len(d.Values) != 3 || d.Values[1].Name != "FORMAT_NHWC" {
		t.Errorf("input.format = %+v", d)
	}
	if d := byPath["input.data_type"]; len(d.Values) != 14 {
		t.Errorf("input.data_type has %d values, want 14 without TYPE_INVALID", len(d.Values))
	}
}
