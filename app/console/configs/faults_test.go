package configs

import (
	"strings"
	"testing"

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

func TestFixesFollowTheModelFile(t *testing.T) {
	for _, tc := range []struct{ name, line, fix, path, want string }{
		{"datatype", `data_type: TYPE_INT64`, "write data_type: TYPE_FP32", "input[0].data_type",
			"data_type: TYPE_FP32"},
		{"dims", `dims: [ 5 ] # so`, "write dims: [ 3, -1 ]; the batch dimension is not in dims", "input[0].dims",
			"dims: [ 3, -1 ] # so"},
		{"dims with reasons before", `dims: [ 4 ]`,
			"while max_batch_size is 0 the dims are the whole shape: write dims: [ -1, 4 ], or set max_batch_size " +
				"to 1 or more",
			"input[0].dims", "dims: [ -1, 4 ]"},
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
					t.Errorf("fixes %+v for what one edit does not correct", fixes)
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
