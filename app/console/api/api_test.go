package api_test

import (
	"encoding/json"
	"os"
	"strings"
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

// The types that a route names must exist, and doc.go must list the route.
func TestRoutesAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	ts, err := os.ReadFile(generated)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range api.Routes() {
		key := r.Method + " " + r.Path
		if seen[key] {
			t.Errorf("route %s is listed twice", key)
		}
		seen[key] = true
		for _, typ := range []string{r.Request, r.Response} {
			if typ != "" && !strings.Contains(string(ts), "export interface "+typ+" ") {
				t.Errorf("route %s: type %s does not exist", key, typ)
			}
		}
		if !documented(string(doc), r) {
			t.Errorf("route %s is missing in doc.go", key)
		}
	}
}

func documented(doc string, r api.Route) bool {
	for _, line := range strings.Split(doc, "\n") {
		f := strings.Fields(strings.TrimPrefix(line, "//"))
		if len(f) < 2 || f[0] != r.Method {
			continue
		}
		if path, _, _ := strings.Cut(f[1], "?"); path == r.Path {
			return true
		}
	}
	return false
}
