package admin

import (
	"math"
	"strings"
	"testing"
)

func TestConvertKind(t *testing.T) {
	for file, want := range map[string]string{
		"a.PKL": "pickle", "a.b.joblib": "pickle", "m.json": "xgboost", "m.ubj": "xgboost", "m.txt": "lightgbm",
		"m.onnx": "onnx", "m.pt": "", "m.keras": "", "m": "",
	} {
		if got, err := convertKind(file); got != want || (err == nil) != (want != "") {
			t.Errorf("%s is %q, %v; want %q", file, got, err, want)
		}
	}
}

func TestConversionDiffers(t *testing.T) {
	numbers := func(e float64) convertedTable { return convertedTable{Output: "y", Rows: 4, MaxAbs: &e, Error: &e} }
	labels := func(same int) convertedTable { return convertedTable{Output: "label", Rows: 4, Same: &same} }
	for _, tt := range []struct {
		outputs []convertedTable
		want    string
	}{
		{[]convertedTable{labels(4), numbers(1e-4)}, ""},
		{[]convertedTable{labels(3), numbers(0)}, "1 of 4 labels of the output label differ"},
		{[]convertedTable{labels(4), numbers(1.1e-4)}, "numbers of the output y differ by up to 0.00011"},
		{[]convertedTable{numbers(math.NaN())}, "numbers of the output y differ by up to NaN"},
	} {
		r := conversion{Outputs: tt.outputs}
		if got := r.differs(1e-4); !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

func TestLowPrecisionMayChangeOneLabelInAHundred(t *testing.T) {
	small := 0.05
	for same, want := range map[int]string{99: "", 98: "2 of 100 labels of the output y differ"} {
		r := conversion{Low: true, Outputs: []convertedTable{{Output: "y", Rows: 100, Error: &small, Same: &same}}}
		if got := r.differs(0.1); got != want {
			t.Errorf("%d the same: %q, want %q", same, got, want)
		}
	}
}

func TestConvertChecksItsOptions(t *testing.T) {
	for _, tt := range []struct {
		o         converter
		kind      string
		tolerance float64
		want      string
	}{
		{converter{tolerance: -1}, "pickle", 1e-4, ""},
		{converter{tolerance: -1, fp16: true}, "onnx", 0.01, ""},
		{converter{tolerance: -1, int8: true}, "onnx", 0.1, ""},
		{converter{tolerance: 0, int8: true}, "onnx", 0, ""},
		{converter{}, "onnx", 0, "is an ONNX model already"},
		{converter{opset: 20}, "xgboost", 0, "are for ONNX models"},
		{converter{fp16: true, int8: true}, "onnx", 0, "exclude each other"},
	} {
		err := tt.o.check("m", tt.kind)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.o, err, tt.want)
		}
		if err == nil && tt.o.tolerance != tt.tolerance {
			t.Errorf("%+v: the tolerance is %g, want %g", tt.o, tt.o.tolerance, tt.tolerance)
		}
	}
}
