package admin

import (
	"math"
	"strings"
	"testing"
)

func TestConvertKind(t *testing.T) {
	for file, want := range map[string]string{
		"a.PKL": "pickle", "a.b.joblib": "pickle", "m.json": "xgboost", "m.ubj": "xgboost", "m.txt": "lightgbm",
		"m.onnx": "", "m.pt": "", "m.keras": "", "m": "",
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
		{[]convertedTable{labels(3), numbers(0)}, "1 of 4 values of the output label differ"},
		{[]convertedTable{labels(4), numbers(1.1e-4)}, "numbers of the output y differ by up to 0.00011"},
		{[]convertedTable{numbers(math.NaN())}, "numbers of the output y differ by up to NaN"},
	} {
		r := conversion{Outputs: tt.outputs}
		if got := r.differs(1e-4); !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
