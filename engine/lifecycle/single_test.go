package lifecycle

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"nereid/engine/backend"
	"nereid/engine/repo"
	"nereid/engine/status"
)

// Loading or unloading one version does not affect the others.
func TestLoadAndUnloadOfOneVersion(t *testing.T) {
	r := newRig(t, nil)
	r.write("m/config.pbtxt", policy("latest { num_versions: 1 }"))
	for _, v := range []string{"1", "2", "3"} {
		r.write("m/"+v+"/file", "")
	}
	loadOne := func(v int64) {
		t.Helper()
		if err := r.LoadVersion(t.Context(), "m", v); err != nil {
			t.Fatal(err)
		}
	}
	unloadOne := func(v int64) {
		t.Helper()
		if err := r.UnloadVersion("m", v); err != nil {
			t.Fatal(err)
		}
	}
	loadOne(2)
	r.check("the first version of a model that was never loaded", "m", 2)
	r.pollAll()
	r.check("polling keeps to it", "m", 2)
	loadOne(1)
	r.check("another beside it", "m", 1, 2)
	_, before, _ := r.b.count()
	loadOne(1)
	if _, after, _ := r.b.count(); after != before {
		t.Error("a version that serves is loaded once more")
	}
	unloadOne(2)
	r.check("one goes", "m", 1)
	r.until("it is unloaded", func() bool { return r.reason("m", 2) == "unloaded" })
	r.pollAll()
	r.check("polling leaves it out", "m", 1)
	unloadOne(2)
	r.check("once more is no error", "m", 1)
	r.write("m/4/file", "")
	r.pollAll()
	r.check("a new version comes as the policy says", "m", 1, 4)

	r.write("m/2/broken", "")
	if err := r.LoadVersion(t.Context(), "m", 2); err == nil || !strings.Contains(err.Error(), "this file is broken") {
		t.Errorf("load of a broken version = %v", err)
	}
	r.check("a broken version changes nothing", "m", 1, 4)
	r.remove("m/2/broken")
	if err := r.LoadVersion(t.Context(), "m", 9); status.CodeOf(errors.Unwrap(err)) != status.NotFound &&
		!strings.Contains(err.Error(), "version 9 is not in the model repository") {
		t.Errorf("load of a version that is not there = %v", err)
	}
	if err := r.UnloadVersion("m", 9); status.CodeOf(err) != status.NotFound {
		t.Errorf("unload of a version that is not there = %v", err)
	}
	if err := r.UnloadVersion("nosuch", 1); status.CodeOf(err) != status.NotFound {
		t.Errorf("unload of a version of no model = %v", err)
	}
	if err := r.LoadVersion(t.Context(), "m", 0); status.CodeOf(err) != status.InvalidArg {
		t.Errorf("load of version 0 = %v", err)
	}
	r.check("refusals change nothing", "m", 1, 4)
	if !r.AllReady() {
		t.Error("not ready")
	}

	r.load("m")
	r.check("a whole load goes by the policy", "m", 4)
	unloadOne(4)
	r.check("the last one takes the model out", "m")
	r.pollAll()
	r.check("and polling leaves it out", "m")
	if !r.AllReady() {
		t.Error("an unloaded model counts for readiness")
	}
}

// Loading one version does not hide changes of the others from polling.
func TestLoadOfOneVersionHidesNoChange(t *testing.T) {
	r := newRig(t, nil)
	r.write("m/config.pbtxt", policy("specific { versions: [ 1 ] }"))
	r.write("m/1/file", "")
	r.write("m/2/file", "")
	r.load("m")
	r.write("m/1/file", "changed")
	if err := r.LoadVersion(t.Context(), "m", 2); err != nil {
		t.Fatal(err)
	}
	s, _ := r.Model("m")
	if s.Versions[0].Reloads != 0 {
		t.Error("version 1 was reloaded with version 2")
	}
	r.pollAll()
	s, _ = r.Model("m")
	if s.Versions[0].Reloads != 1 || s.Versions[1].Reloads != 0 {
		t.Errorf("after polling version 1 was reloaded %d times, version 2 %d times; want 1 and 0",
			s.Versions[0].Reloads, s.Versions[1].Reloads)
	}
	r.check("both serve", "m", 1, 2)
}

func TestLoadRetries_A072(t *testing.T) {
	fails := 0
	r := newRig(t, func(o *Options) { o.LoadRetries = 2 })
	r.b.load = func(context.Context, backend.Spec) error {
		if fails > 0 {
			fails--
			return status.New(status.Internal, "not this time")
		}
		return nil
	}
	r.write("m/config.pbtxt", policy("all {}"))
	r.write("m/1/file", "")
	fails = 2
	r.load("m")
	r.check("the third try loads", "m", 1)
	r.write("m/1/file", "new")
	fails = 3
	if err := r.Load(t.Context(), "m", nil); err == nil {
		t.Error("a load that fails three times passes with two retries")
	}
	if _, loads, _ := r.b.count(); loads != 6 {
		t.Errorf("%d tries in all, want 6", loads)
	}
	r.check("what served goes on", "m", 1)
}

func TestRegisteredRepositories_A024_I005(t *testing.T) {
	r := newRig(t, nil)
	other := t.TempDir()
	r.root, other = other, r.root
	r.write("inside/config.pbtxt", policy("all {}"))
	r.write("inside/1/file", "")
	r.write("plain/config.pbtxt", "name: \"plain\" "+policy("all {}"))
	r.write("plain/1/file", "")
	for _, tt := range []struct {
		name    string
		path    string
		folders map[string]string
		code    status.Code
	}{
		{"a folder that is not there", r.root + "/nosuch", nil, status.InvalidArg},
		{"one that is there already", other, nil, status.AlreadyExists},
		{"a name that leads out", r.root, map[string]string{"a": "../x"}, status.InvalidArg},
	} {
		if err := r.Register(tt.path, tt.folders); status.CodeOf(err) != tt.code {
			t.Errorf("Register of %s = %v, want %v", tt.name, err, tt.code)
		}
	}
	if err := r.Load(t.Context(), "plain", nil); err == nil {
		t.Error("a model of a repository that is not registered loads")
	}
	names := map[string]string{"outside": "inside", "again": "inside", "other": "plain"}
	if err := r.Register(r.root, names); err != nil {
		t.Fatal(err)
	}
	if err := r.Register(r.root+"/", nil); status.CodeOf(err) != status.AlreadyExists {
		t.Errorf("Register twice = %v", err)
	}
	third := t.TempDir()
	if err := r.Register(third, map[string]string{"outside": "x"}); status.CodeOf(err) != status.AlreadyExists {
		t.Errorf("Register of a name that is taken = %v", err)
	}
	r.load("outside")
	r.load("other")
	r.load("again")
	r.check("by its registered name", "outside", 1)
	r.check("by the second name of its folder", "again", 1)
	r.check("with its folder's name in the configuration", "other", 1)
	if m, err := r.Find("other", -1); err != nil || m.Config().GetName() != "other" {
		t.Errorf("the configuration is called %v, %v", m.Config().GetName(), err)
	}
	if err := r.Load(t.Context(), "inside", nil); err == nil {
		t.Error("the folder's name loads although it has another")
	}
	if err := r.Unregister(r.root); err != nil {
		t.Fatal(err)
	}
	if err := r.ask("outside"); err != nil {
		t.Errorf("a model of an unregistered repository serves no more: %v", err)
	}
	if err := r.Load(t.Context(), "outside", nil); err == nil {
		t.Error("a model of an unregistered repository loads again")
	}
	if err := r.Unregister(r.root); status.CodeOf(err) != status.InvalidArg {
		t.Errorf("Unregister twice = %v", err)
	}
	if err := r.Register(r.root, nil); err != nil {
		t.Error(err)
	}
	if found, _ := repo.Scan(r.scanOptions()); found["inside"] == nil ||
		found["inside"].Folder != filepath.Join(r.root, "inside") {
		t.Errorf("registered without names: %v", found)
	}
}
