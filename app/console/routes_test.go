package console

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// documented reads the routes that the comment of package api lists: method, path, request, status and response.
func documented(t *testing.T) []string {
	t.Helper()
	doc, err := os.ReadFile("api/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(doc)) {
		f := strings.Fields(strings.TrimPrefix(line, "//"))
		if len(f) < 4 || !slices.Contains([]string{"GET", "PUT", "POST", "DELETE"}, f[0]) {
			continue
		}
		path, _, _ := strings.Cut(f[1], "?")
		arrow := slices.Index(f, "→")
		if arrow < 0 {
			t.Fatalf("no reply in %q", line)
		}
		request, status, response := f[arrow-1], 200, f[arrow+1]
		if n, err := strconv.Atoi(response); err == nil {
			status, response = n, ""
			if arrow+2 < len(f) {
				response = f[arrow+2]
			}
		}
		out = append(out, fmt.Sprintf("%s %s %s %d %s", f[0], path, typeName(request), status, typeName(response)))
	}
	return out
}

// typeName returns a word if it is a type of package api, otherwise "-".
func typeName(word string) string {
	if word == "" || word[0] < 'A' || word[0] > 'Z' {
		return "-"
	}
	return word
}

func TestRoutesAreDocumented(t *testing.T) {
	docs := documented(t)
	seen := map[string]bool{}
	c := new(Console)
	own := slices.DeleteFunc(c.kioskRoutes(), func(r route) bool { return !strings.HasPrefix(r.path, "/api/kiosk") })
	for _, r := range append(c.routes(), own...) {
		e := r.endpoint
		key := fmt.Sprintf("%s %s %s %d %s", r.method, r.path, typeName(e.Request), e.Status, typeName(e.Response))
		if seen[key] {
			t.Errorf("route %s is listed twice", key)
		}
		seen[key] = true
		if !slices.Contains(docs, key) {
			t.Errorf("route %s is missing in the comment of package api", key)
		}
	}
	for _, key := range docs {
		if !seen[key] {
			t.Errorf("the comment of package api lists %s, which is not a route: %v", key,
				slices.Sorted(maps.Keys(seen)))
		}
	}
}

func TestRoutesAreServed(t *testing.T) {
	c := new(Console)
	mux := c.mux(c.routes(), http.NotFoundHandler())
	for _, route := range c.routes() {
		path := strings.NewReplacer("{", "", "}", "", "...", "").Replace(route.path)
		_, pattern := mux.Handler(httptest.NewRequest(route.method, path, nil))
		if want := route.method + " " + route.path; pattern != want {
			t.Errorf("%s is served by %q", want, pattern)
		}
	}
}
