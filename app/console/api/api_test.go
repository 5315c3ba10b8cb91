package api_test

import (
	"encoding/json"
	"os"
	"testing"

	"nereid/app/console/api"
	"nereid/app/console/api/tsgen/tsgen"
)

const generated = "../../../frontend/src/lib/api.gen.ts"

func TestTypeScriptIsUpToDate(t *testing.T) {
	want, err := tsgen.Generate(".")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(generated)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s is stale; run go generate ./app/console/api", generated)
	}
}

func TestListIsNeverNull(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   any
		want string
	}{
		{"nil list", api.List[int](nil), "[]"},
		{"nil list in a struct", api.Models{}, `{"models":[]}`},
		{"list of optional numbers", api.List[*float64]{nil}, "[null]"},
		{"list in a map", map[string]api.List[string]{"OUTPUT0": nil}, `{"OUTPUT0":[]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := json.Marshal(tt.in)
			if err != nil || string(got) != tt.want {
				t.Errorf("Marshal(%#v) = %s, %v; want %s", tt.in, got, err, tt.want)
			}
		})
	}
}
