package tsgen_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nereid/app/console/api/tsgen/tsgen"
)

func TestGenerate(t *testing.T) {
	for _, tt := range []struct {
		name string
		src  string
		want string // a part of the output
		err  string // a part of the error
	}{
		{name: "struct with doc", src: "// T is a thing.\ntype T struct {\n\tA List[*float64] `json:\"a\"` // in µs\n}",
			want: "/** T is a thing. */\nexport interface T {\n  /** in µs */\n  a: (number | null)[];\n}\n"},
		{name: "optional and map", src: "type T struct {\n\tM map[string]List[string] `json:\"m,omitempty\"`\n}",
			want: "  m?: Record<string, string[]>;\n"},
		{name: "embedded", src: "type A struct {\n\tX int `json:\"x\"`\n}\ntype B struct {\n\tA\n}",
			want: "export interface B extends A {\n}\n"},
		{name: "union", src: "type K string\nconst (\n\tK1 K = \"a\"\n\tK2 K = \"b\"\n)",
			want: `export type K = "a" | "b";`},
		{name: "no tag", src: "type T struct {\n\tA int\n}", err: "each with a json tag"},
		{name: "plain slice", src: "type T struct {\n\tA []int `json:\"a\"`\n}", err: "use List for arrays"},
		{name: "unknown type", src: "type T struct {\n\tA Nope `json:\"a\"`\n}", err: "no TypeScript form"},
		{name: "string type without constants", src: "type K string",
			err: "only structs and string types with constants"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("package api\n\n"+tt.src+"\n"),
				0o644); err != nil {
				t.Fatal(err)
			}
			got, err := tsgen.Generate(dir)
			if tt.err == "" && (err != nil || !strings.Contains(string(got), tt.want)) {
				t.Errorf("Generate(%s) = %s, %v; want a part %q", tt.src, got, err, tt.want)
			}
			if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("Generate(%s) = %v; want an error with %q", tt.src, err, tt.err)
			}
		})
	}
}
