package sagemaker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nereid/engine"
	"nereid/engine/backend/builtin"
	"nereid/engine/httpapi/compat"
	"nereid/engine/infer"
	"nereid/engine/lifecycle"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

const identityConfig = `name: "theirs" backend: "identity" ` +
	`input { name: "INPUT0" data_type: TYPE_FP32 dims: 1 } output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 1 }`

func writeModel(t *testing.T, folder string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(folder, "1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "config.pbtxt"), []byte(identityConfig), 0o644); err != nil {
		t.Fatal(err)
	}
}

// An archive's model is served under SageMaker's name for it, whatever its folder and its configuration call it.
func TestArchives_B083(t *testing.T) {
	root, repository, outside := t.TempDir(), t.TempDir(), t.TempDir()
	writeModel(t, root+"/abc/model")
	writeModel(t, root+"/def/model/sub")
	writeModel(t, root+"/many/model/one")
	writeModel(t, root+"/many/model/two")
	writeModel(t, outside+"/model")
	if err := os.Symlink(outside, root+"/link"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(root+"/broken/model/m/1", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root+"/broken/model/m/config.pbtxt", []byte(`backend: "nosuch"`), 0o644); err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Options{
		ModelOptions: engine.ModelOptions{
			Repositories: []string{repository}, Backends: builtin.All(), OverrideFolder: t.TempDir(),
		},
		Mode: engine.ModeExplicit,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(t.Context())
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := NewArchives(e, root, repository)
	for _, tt := range []struct {
		name, url string
		code      status.Code
	}{
		{"h1", root + "/abc/model", 0},
		{"h1", root + "/abc/model", status.AlreadyExists},
		{"h2.tar.gz", root + "/def/model", 0},
		{"h3", root + "/many/model", status.Unsupported},
		{"h3", root + "/nosuch/model", status.InvalidArg},
		{"h3", root + "/../abc/model", status.InvalidArg},
		{"h3", outside, status.InvalidArg},
		{"h3", root + "/link/model", status.InvalidArg},
		{"../h3", root + "/abc/model", status.InvalidArg},
		{"", root + "/abc/model", status.InvalidArg},
		{"h4", root + "/broken/model", status.InvalidArg},
	} {
		err := a.Load(t.Context(), tt.name, tt.url)
		if (err == nil) != (tt.code == 0) || err != nil && status.CodeOf(err) != tt.code {
			t.Errorf("Load(%q, %q) = %v, want code %v", tt.name, tt.url, err, tt.code)
		}
	}
	if !e.Ready() {
		t.Error("after loads that failed the server is not ready")
	}
	if got := a.Loaded(); !slices.Equal(got, []compat.Archive{{Name: "h1", URL: root + "/abc"},
		{Name: "h2.tar.gz", URL: root + "/def/model"}}) {
		t.Errorf("loaded: %v", got)
	}
	for _, name := range []string{"h1", "h2.tar.gz"} {
		r := infer.New()
		r.ModelName = name
		r.Inputs = append(r.Inputs, tensor.Tensor{Name: "INPUT0", DataType: tensor.FP32, Shape: []int64{1},
			Data: []byte{0, 0, 128, 63}})
		if err := e.Infer(t.Context(), r); err != nil {
			t.Errorf("inference on %s: %v", name, err)
		} else if resp, err := r.Next(t.Context()); err != nil || resp.Err != nil {
			t.Errorf("inference on %s: %v, %v", name, resp, err)
		} else {
			resp.Release()
		}
		r.Release()
	}
	for _, want := range []status.Code{0, status.NotFound} {
		if err := a.Unload(t.Context(), "h1"); (err == nil) != (want == 0) || err != nil && status.CodeOf(err) != want {
			t.Errorf("Unload = %v, want code %v", err, want)
		}
	}
	if links, err := os.ReadDir(repository); err != nil || len(links) != 1 {
		t.Errorf("links left: %v, %v", links, err)
	}
	if err := a.Load(t.Context(), "h1", root+"/abc/model"); err != nil {
		t.Errorf("load after the unload: %v", err)
	}
}

// An archive with several models is served as the ensemble that runs the others. Models in two archives may have the
// same name.
func TestArchivesOfEnsembles_B083(t *testing.T) {
	root, repository := t.TempDir(), t.TempDir()
	const head = `input { name: "X" data_type: TYPE_INT32 dims: 1 } output { name: "Y" data_type: TYPE_INT32 dims: 1 }
`
	put := func(path, config string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(root, path, "1"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path, "config.pbtxt"), []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	step := func(model, out string) string { // the sum of X and X, or their difference
		return fmt.Sprintf(`ensemble_scheduling { step { model_name: %q model_version: -1
			input_map { key: "INPUT0" value: "X" } input_map { key: "INPUT1" value: "X" }
			output_map { key: %q value: "Y" } } }`, model, out)
	}
	pass := func(model string) string {
		return fmt.Sprintf(`ensemble_scheduling { step { model_name: %q model_version: -1
			input_map { key: "X" value: "X" } output_map { key: "Y" value: "Y" } } }`, model)
	}
	const part = `name: "part" backend: "add_sub"
		input { name: "INPUT0" data_type: TYPE_INT32 dims: 1 } input { name: "INPUT1" data_type: TYPE_INT32 dims: 1 }
		output { name: "OUTPUT0" data_type: TYPE_INT32 dims: 1 }
		output { name: "OUTPUT1" data_type: TYPE_INT32 dims: 1 }`
	for hash, out := range map[string]string{"sum": "OUTPUT0", "difference": "OUTPUT1"} {
		put(hash+"/model/part", part)
		put(hash+"/model/inner", `name: "inner" platform: "ensemble" `+head+step("part", out))
		put(hash+"/model/outer", `platform: "ensemble" `+head+pass("inner"))
	}
	put("two/model/part", part)
	put("two/model/a", `platform: "ensemble" `+head+step("part", "OUTPUT0"))
	put("two/model/b", `platform: "ensemble" `+head+step("part", "OUTPUT0"))
	put("cycle/model/a", `platform: "ensemble" `+head+pass("b"))
	put("cycle/model/b", `platform: "ensemble" `+head+pass("a"))
	put("cycle/model/top", `platform: "ensemble" `+head+pass("a"))
	put("bad/model/part", strings.Replace(part, "add_sub", "nosuch", 1))
	put("bad/model/e", `platform: "ensemble" `+head+step("part", "OUTPUT0"))
	e, err := engine.New(engine.Options{
		ModelOptions: engine.ModelOptions{
			Repositories: []string{repository}, Backends: builtin.All(), OverrideFolder: t.TempDir(),
		},
		Mode: engine.ModeExplicit,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(t.Context())
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := NewArchives(e, root, repository)
	ask := func(name string, want byte) {
		t.Helper()
		r := infer.New()
		defer r.Release()
		r.ModelName = name
		r.Inputs = append(r.Inputs, tensor.Tensor{Name: "X", DataType: tensor.Int32, Shape: []int64{1},
			Data: []byte{5, 0, 0, 0}})
		if err := e.Infer(t.Context(), r); err != nil {
			t.Errorf("inference on %s: %v", name, err)
			return
		}
		resp, err := r.Next(t.Context())
		if err != nil || resp.Err != nil || resp.Outputs[0].Data[0] != want {
			t.Errorf("inference on %s: %v, %v; want %d", name, resp, err, want)
		}
		resp.Release()
	}
	for _, tt := range []struct{ hash, want string }{
		{"sum", ""}, {"difference", ""}, {"two", `ensembles that no other runs: ["a" "b"]`},
		{"cycle", "run each other in a cycle"}, {"bad", "unable to find backend library"},
	} {
		err := a.Load(t.Context(), tt.hash, root+"/"+tt.hash+"/model")
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Load of %s = %v, want %q", tt.hash, err, tt.want)
		}
	}
	ask("sum", 10)
	ask("difference", 0)
	if err := a.Unload(t.Context(), "sum"); err != nil {
		t.Fatal(err)
	}
	ask("difference", 0)
	links, err := os.ReadDir(repository)
	var names []string
	for _, l := range links {
		names = append(names, l.Name())
	}
	if want := []string{"difference", "difference:inner", "difference:part"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("links left: %v, %v; want %v", names, err, want)
	}
	if got := a.Loaded(); len(got) != 1 || got[0].Name != "difference" {
		t.Errorf("loaded: %v", got)
	}
	for _, m := range e.Models() {
		for _, v := range m.Versions {
			if up := v.State == lifecycle.Ready; up != strings.HasPrefix(m.Name, "difference") {
				t.Errorf("%s is %s", m.Name, v.State)
			}
		}
	}
}

// refusing is an engine that refuses to unload one model.
type refusing struct{ name string }

func (refusing) LoadModel(context.Context, string, engine.LoadParameters) error { return nil }

func (refusing) ModelReady(string, int64) (bool, error) { return false, nil }

func (r *refusing) UnloadModel(_ context.Context, name string, _ bool) error {
	if name == r.name {
		return status.New(status.Unavailable, "not now")
	}
	return nil
}

// A model that could not be unloaded at once is unloaded by the next request.
func TestAnArchiveIsUnloadedByTheNextRequest(t *testing.T) {
	root, repository := t.TempDir(), t.TempDir()
	for name, config := range map[string]string{
		"part": `backend: "identity"`,
		"top":  `platform: "ensemble" ensemble_scheduling { step { model_name: "part" model_version: -1 } }`,
	} {
		if err := os.MkdirAll(filepath.Join(root, "h", "model", name, "1"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "h", "model", name, "config.pbtxt"), []byte(config),
			0o644); err != nil {
			t.Fatal(err)
		}
	}
	e := &refusing{"m" + partSeparator + "part"}
	a := NewArchives(e, root, repository)
	if err := a.Load(t.Context(), "m", root+"/h/model"); err != nil {
		t.Fatal(err)
	}
	if err := a.Unload(t.Context(), "m"); status.CodeOf(err) != status.Unavailable {
		t.Fatalf("Unload = %v, want that it is not possible now", err)
	}
	e.name = ""
	if err := a.Unload(t.Context(), "m"); err != nil {
		t.Errorf("Unload again = %v", err)
	}
	if links, err := os.ReadDir(repository); err != nil || len(links) != 0 || len(a.Loaded()) != 0 {
		t.Errorf("links left: %v, %v; loaded %v", links, err, a.Loaded())
	}
}

// While an archive is loaded under the name of a model of another repository, its model is served in place of that one,
// as in Triton. Only a name that another archive has is refused.
func TestAnArchiveTakesTheNameOfAModel_B083(t *testing.T) {
	root, links, models := t.TempDir(), t.TempDir(), t.TempDir()
	writeModel(t, root+"/abc/model/theirs")
	if err := os.Rename(root+"/abc/model/theirs/1", root+"/abc/model/theirs/2"); err != nil {
		t.Fatal(err)
	}
	writeModel(t, models+"/theirs")
	if err := os.MkdirAll(root+"/bad/model/theirs/1", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root+"/bad/model/theirs/config.pbtxt", []byte(`backend: "nosuch"`), 0o644); err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Options{
		ModelOptions: engine.ModelOptions{
			Repositories: []string{models, links}, Preferred: links, Backends: builtin.All(),
			OverrideFolder: t.TempDir(),
		},
		Mode: engine.ModeExplicit, StartupModels: []string{"theirs"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(t.Context())
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	served := func() (versions []int64) { // the archive has version 2, the repository version 1
		for _, m := range e.Models() {
			for _, v := range m.Versions {
				if v.State == lifecycle.Ready {
					versions = append(versions, v.Version)
				}
			}
		}
		return versions
	}
	a := NewArchives(e, root, links)
	for _, step := range []struct {
		name string
		do   func() error
		code status.Code
		want []int64
	}{
		{"a load that fails", func() error { return a.Load(t.Context(), "theirs", root+"/bad/model") },
			status.InvalidArg, []int64{1}},
		{"load", func() error { return a.Load(t.Context(), "theirs", root+"/abc/model") }, 0, []int64{2}},
		{"second load", func() error { return a.Load(t.Context(), "theirs", root+"/abc/model") },
			status.AlreadyExists, []int64{2}},
		{"unload", func() error { return a.Unload(t.Context(), "theirs") }, 0, nil},
		{"load from the repository",
			func() error { return e.LoadModel(t.Context(), "theirs", engine.LoadParameters{}) }, 0, []int64{1}},
	} {
		err := step.do()
		if (err == nil) != (step.code == 0) || err != nil && status.CodeOf(err) != step.code {
			t.Errorf("%s = %v, want code %v", step.name, err, step.code)
		}
		if got := served(); !slices.Equal(got, step.want) {
			t.Errorf("after %s: versions %v are ready, want %v", step.name, got, step.want)
		}
	}
}
