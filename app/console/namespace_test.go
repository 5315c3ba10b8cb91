package console

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nereid/app/console/api"
	"nereid/engine"
)

// Two models of one name are two models to the page: each with its own folder, configuration and revisions.
func TestNamespaces_A076(t *testing.T) {
	const config = "backend: \"onnxruntime\"\nmax_batch_size: "
	roots := []string{filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")}
	for i, root := range roots {
		if err := os.MkdirAll(root+"/m/1", 0o755); err != nil {
			t.Fatal(err)
		}
		for path, text := range map[string]string{"/m/config.pbtxt": config + []string{"4", "8"}[i] + "\n", "/m/1/model.onnx": "good"} {
			if err := os.WriteFile(root+path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := newRig(t, engine.ModeExplicit, func(o *Options) {
		e, err := engine.New(engine.Options{Repositories: roots, Namespaces: true, Backends: o.Backends, Mode: engine.ModeExplicit, StartupModels: []string{"*"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close(context.Background()) })
		o.Engine, o.Repositories, o.Namespaces = e, roots, true
	})
	var names []string
	for _, m := range get[api.Models](r, 200, "GET", "/api/models", nil).Models {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	want := []string{roots[0] + "/m", roots[1] + "/m"}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Fatalf("models %v, want %v", names, want)
	}
	at := func(root string) string { return "/api/models/" + url.PathEscape(root+"/m") }
	for i, root := range roots {
		if d := get[api.ModelDetail](r, 200, "GET", at(root), nil); d.MaxBatchSize != []int{4, 8}[i] || d.Folder != root+"/m" || d.State != api.StateReady {
			t.Errorf("model of %s = %+v", root, d)
		}
	}
	saved := get[api.SaveResult](r, 200, "PUT", at(roots[1])+"/config", api.SaveConfig{Text: config + "16\n"})
	if saved.Outcome != api.SaveLoaded {
		t.Errorf("saved = %+v", saved)
	}
	if text, err := os.ReadFile(roots[0] + "/m/config.pbtxt"); err != nil || !strings.HasSuffix(string(text), "4\n") {
		t.Errorf("the other one's configuration is %q, %v", text, err)
	}
	if d := get[api.ModelDetail](r, 200, "GET", at(roots[1]), nil); d.MaxBatchSize != 16 {
		t.Errorf("after the change: %+v", d)
	}
	if code, _ := r.call("GET", "/api/models/"+url.PathEscape("/etc/m"), nil); code != 400 {
		t.Errorf("another folder as namespace = %d, want 400", code)
	}
}
