package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nereid/engine/backend"
	"nereid/engine/infer"
	"nereid/engine/repo"
	"nereid/engine/status"
)

// Each case is a sequence of changes in a repository, and what polling does after each.
func TestPollFollowsChanges_A055_A056_A057(t *testing.T) {
	all, latest := policy("all {}"), policy("latest { num_versions: 1 }")
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, r *rig)
	}{
		{"a new version beside the old", func(_ *testing.T, r *rig) {
			r.write("m/2/file", "")
			r.pollAll()
			r.check("added", "m", 1, 2)
			r.remove("m/1")
			r.pollAll()
			r.check("removed", "m", 2)
			r.until("version 1 is unloaded", func() bool { return r.reason("m", 1) == "unloaded" })
		}},
		{"a new version in place of the old", func(_ *testing.T, r *rig) {
			r.write("m/config.pbtxt", latest)
			r.write("m/2/file", "")
			r.pollAll()
			r.check("latest", "m", 2)
		}},
		{"the policy changes", func(_ *testing.T, r *rig) {
			r.write("m/3/file", "")
			r.write("m/7/file", "")
			for _, step := range []struct {
				policy string
				want   []int64
			}{
				{"all {}", []int64{1, 3, 7}}, {"latest { num_versions: 2 }", []int64{3, 7}},
				{"specific { versions: [ 1, 3, 9 ] }", []int64{1, 3}},
				{"latest { num_versions: 1 }", []int64{7}},
			} {
				r.write("m/config.pbtxt", policy(step.policy))
				r.pollAll()
				r.check(step.policy, "m", step.want...)
			}
			r.write("m/config.pbtxt", policy("specific { versions: [ 9 ] }"))
			r.pollAll()
			r.check("a policy that leaves nothing", "m", 7)
			if got := r.reason("m", 0); !strings.Contains(got, "at least one version must be available") {
				t.Errorf("reason %q", got)
			}
		}},
		{"I005 B17 a broken version, then mended", func(t *testing.T, r *rig) {
			r.write("m/config.pbtxt", latest)
			r.pollAll()
			r.write("m/2/broken", "")
			r.pollAll()
			r.check("broken", "m", 1)
			if got := r.reason("m", 2); got != "Internal: this file is broken" {
				t.Errorf("reason %q", got)
			}
			if !r.AllReady() {
				t.Error("not ready although the old version serves")
			}
			r.rename("m/2/broken", "m/2/file")
			r.pollAll()
			r.check("mended", "m", 2)
		}},
		{"B17 a version in service becomes broken", func(t *testing.T, r *rig) {
			r.rename("m/1/file", "m/1/broken")
			r.pollAll()
			r.check("broken", "m", 1)
			if got := r.reason("m", 1); !strings.Contains(got, "goes on serving: this file is broken") {
				t.Errorf("reason %q", got)
			}
			r.rename("m/1/broken", "m/1/file")
			r.pollAll()
			r.check("mended", "m", 1)
			if got := r.reason("m", 1); got != "" {
				t.Errorf("reason %q after mending", got)
			}
		}},
		{"a broken configuration, then mended", func(t *testing.T, r *rig) {
			r.write("m/config.pbtxt", "what: ever")
			r.pollAll()
			r.check("broken", "m", 1)
			if got := r.reason("m", 0); !strings.Contains(got, "config.pbtxt:1:1") {
				t.Errorf("reason %q", got)
			}
			r.write("m/config.pbtxt", all+"# mended")
			r.pollAll()
			r.check("mended", "m", 1)
			if got := r.reason("m", 0); got != "" {
				t.Errorf("reason %q after mending", got)
			}
		}},
		{"labels change", func(t *testing.T, r *rig) {
			r.write("m/config.pbtxt", strings.Replace(strings.Replace(pickyConfig, "POLICY", "all {}", 1), "LABELS",
				`label_filename: "l"`, 1))
			labels := func() []string {
				m, err := r.Find("m", 1)
				if err != nil {
					t.Fatal(err)
				}
				return m.Labels("OUTPUT0")
			}
			for _, text := range []string{"cat", "dog\nfox"} {
				r.write("m/l", text)
				r.pollAll()
				if got := labels(); !slices.Equal(got, strings.Split(text, "\n")) {
					t.Errorf("labels %q, want %q", got, text)
				}
			}
			b, err := os.ReadFile(filepath.Join(r.root, "m/config.pbtxt"))
			if err != nil {
				t.Fatal(err)
			}
			r.write("m/config.pbtxt", strings.Replace(string(b), "count: 1", "count: 3", 1))
			r.write("m/l", "owl\ncow")
			r.pollAll()
			if m, err := r.Find("m", 1); err != nil || m.Instances() != 3 ||
				!slices.Equal(m.Labels("OUTPUT0"), []string{"owl", "cow"}) {
				t.Errorf("after labels and count changed: %v, want 3 instances and the new labels", err)
			}
		}},
		{"I005 A062 only the instance count changes", func(t *testing.T, r *rig) {
			before, err := r.Find("m", 1)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{4, 1, 2} {
				r.write("m/config.pbtxt", strings.Replace(all, "count: 1", fmt.Sprintf("count: %d", n), 1))
				r.pollAll()
				if m, err := r.Find("m", 1); err != nil || m != before || m.Instances() != n ||
					int(m.Config().GetInstanceGroup()[0].GetCount()) != n {
					t.Errorf("count %d: %v; want the same model resized", n, err)
				}
			}
		}},
		{"the folder goes and comes", func(t *testing.T, r *rig) {
			r.rename("m", "kept")
			r.write("kept/config.pbtxt", `name: "m" `+all)
			r.pollAll()
			if _, known := r.Model("m"); known {
				t.Error("a model whose folder is gone is known")
			}
			r.check("renamed", "kept")
			if got := r.reason("kept", 0); !strings.Contains(got, "directory name must equal model name") {
				t.Errorf("reason %q", got)
			}
			r.rename("kept", "m")
			r.pollAll()
			r.check("back", "m", 1)
		}},
		{"the folder becomes a file", func(t *testing.T, r *rig) {
			r.remove("m")
			r.write("m", "")
			r.pollAll()
			if _, known := r.Model("m"); known {
				t.Error("a file is known as a model")
			}
		}},
		{"the last version goes", func(t *testing.T, r *rig) {
			r.remove("m/1")
			r.pollAll()
			r.check("no version", "m", 1)
			if got := r.reason("m", 0); !strings.Contains(got, "at least one version must be available") {
				t.Errorf("reason %q", got)
			}
		}},
		{"the repository goes, is a file, and comes back", func(t *testing.T, r *rig) {
			aside := t.TempDir() + "/aside"
			if err := os.Rename(r.root, aside); err != nil {
				t.Fatal(err)
			}
			r.pollAll()
			r.check("repository gone", "m", 1)
			if err := os.WriteFile(r.root, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			r.pollAll()
			r.check("repository a file", "m", 1)
			if err := errors.Join(os.Remove(r.root), os.Rename(aside, r.root)); err != nil {
				t.Fatal(err)
			}
			r.write("m/2/file", "")
			r.pollAll()
			r.check("repository back", "m", 1, 2)
		}},
		{"unloaded by hand it stays unloaded", func(_ *testing.T, r *rig) {
			r.Unload("m")
			r.write("m/2/file", "")
			r.pollAll()
			r.check("after Unload", "m")
			r.load("m")
			r.check("after Load", "m", 1, 2)
			r.write("m/3/file", "")
			r.pollAll()
			r.check("followed again", "m", 1, 2, 3)
		}},
		{"a configuration that is only written again", func(t *testing.T, r *rig) {
			_, before, _ := r.b.count()
			r.write("m/config.pbtxt", "# a comment\n"+all)
			r.load("m")
			r.check("written again", "m", 1)
			if _, after, _ := r.b.count(); after != before {
				t.Errorf("%d loads for an equal configuration", after-before)
			}
		}},
		{"swap files and hidden folders", func(t *testing.T, r *rig) {
			_, before, _ := r.b.count()
			r.write("m/.config.pbtxt.swp", "x")
			r.write("m/1/file.part", "x")
			r.write(".trash/1/file", "x")
			r.pollAll()
			if _, after, _ := r.b.count(); after != before {
				t.Errorf("%d loads for files that do not count", after-before)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.write("m/config.pbtxt", all)
			r.write("m/1/file", "")
			if failed, err := r.LoadAll(t.Context()); err != nil || len(failed) != 0 {
				t.Fatal(failed, err)
			}
			tt.do(t, r)
		})
	}
}

// B20: if two repositories contain a model of the same name, neither is loaded, but a loaded one stays in service
// (DV91). When one is removed, the other is loaded.
func TestDuplicateNameIsNotServed_A003_B20_DV91(t *testing.T) {
	for _, gone := range []string{"first", "second"} {
		t.Run(gone+" goes", func(t *testing.T) {
			second := t.TempDir()
			r := newRig(t, func(o *Options) { o.Repositories = append(o.Repositories, second) })
			r.write("m/config.pbtxt", policy("all {}"))
			r.write("m/1/file", "")
			r.pollAll()
			if err := os.CopyFS(second, os.DirFS(r.root)); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(second+"/m/1", second+"/m/2"); err != nil {
				t.Fatal(err)
			}
			r.pollAll()
			r.check("twice", "m", 1)
			if got := r.reason("m", 0); !strings.Contains(got, "is in two repositories") {
				t.Errorf("reason %q", got)
			}
			if err := r.Load(t.Context(), "m", nil); err == nil {
				t.Error("a load of a name in two repositories passes")
			}
			want := int64(1)
			if gone == "first" {
				r.remove("m")
				want = 2
			} else if err := os.RemoveAll(second + "/m"); err != nil {
				t.Fatal(err)
			}
			r.pollAll()
			r.check("one gone", "m", want)
			if got := r.reason("m", 0); got != "" {
				t.Errorf("reason %q", got)
			}
		})
	}
}

// A repository that cannot be read unloads nothing, and polling follows the others.
func TestUnreadableRepositoryDoesNotAffectOthers_A060_B16(t *testing.T) {
	second := t.TempDir()
	r := newRig(t, func(o *Options) { o.Repositories = append(o.Repositories, second) })
	r.write("here/config.pbtxt", policy("all {}"))
	r.write("here/1/file", "")
	if err := os.CopyFS(second, os.DirFS(r.root)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(second+"/here", second+"/there"); err != nil {
		t.Fatal(err)
	}
	r.pollAll()
	r.check("start", "there", 1)
	aside := t.TempDir() + "/aside"
	if err := os.Rename(second, aside); err != nil {
		t.Fatal(err)
	}
	r.write("here/2/file", "")
	r.write("new/config.pbtxt", policy("all {}"))
	r.write("new/1/file", "")
	r.write("there/config.pbtxt", policy("all {}")) // must not replace the one that cannot be looked at
	r.write("there/9/file", "")
	r.pollAll()
	r.check("followed", "here", 1, 2)
	r.check("added", "new", 1)
	r.check("kept", "there", 1)
	if err := r.Load(t.Context(), "here", nil); err != nil {
		t.Errorf("load from the readable repository: %v", err)
	}
	r.remove("there")
	if err := os.Rename(aside, second); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(second + "/there"); err != nil {
		t.Fatal(err)
	}
	r.pollAll()
	r.check("gone", "there")
}

func TestOverrides_A065_A066(t *testing.T) {
	r := newRig(t, nil)
	r.write("m/config.pbtxt", policy("all {}"))
	r.write("m/1/file", "")
	r.load("m")
	batch := func() int32 {
		m, err := r.Find("m", -1)
		if err != nil {
			t.Fatal(err)
		}
		return m.Config().GetMaxBatchSize()
	}
	for _, tt := range []struct {
		name     string
		over     *Override
		fails    bool
		versions []int64
		batch    int32
	}{
		{"configuration that does not parse", &Override{Config: "{bad"}, true, []int64{1}, 4},
		{"configuration that is wrong", &Override{Config: `{"backend":"nosuch"}`}, true, []int64{1}, 4},
		{"plain load after failures", nil, false, []int64{1}, 4},
		{"files without configuration", &Override{Files: map[string][]byte{"1/file": nil}}, true, []int64{1}, 4},
		{"files that do not load", overriding("5/broken"), true, []int64{1}, 4},
		{"path that leads out", overriding("../x"), true, []int64{1}, 4},
		{"plain load after failed files", nil, false, []int64{1}, 4},
		{"configuration", &Override{Config: overrideConfig}, false, []int64{1}, 3},
		{"plain load keeps the override", nil, false, []int64{1}, 3},
		{"files", overriding("5/file"), false, []int64{5}, 3},
		{"plain load goes back to the folder", nil, false, []int64{1}, 4},
	} {
		err := r.Load(t.Context(), "m", tt.over)
		if (err != nil) != tt.fails {
			t.Errorf("%s: Load = %v, want an error: %v", tt.name, err, tt.fails)
		}
		r.check(tt.name, "m", tt.versions...)
		if got := batch(); got != tt.batch {
			t.Errorf("%s: max_batch_size %d, want %d", tt.name, got, tt.batch)
		}
		if !r.AllReady() {
			t.Errorf("%s: not ready", tt.name)
		}
	}
	if err := r.Load(t.Context(), "only", overriding("1/file")); err != nil {
		t.Errorf("a model given only in the request: %v", err)
	}
	r.check("given only in the request", "only", 1)
}

// Of several versions one can be loaded from the repository. The other needs its files until it leaves.
func TestFilesOfALoadRequestStayForOneVersion_A066(t *testing.T) {
	r := newRig(t, nil)
	r.write("m/config.pbtxt", policy("all {}"))
	r.write("m/1/broken", "")
	r.write("m/2/file", "")
	over := &Override{Config: strings.Replace(overrideConfig, "{", `{"version_policy":{"all":{}},`, 1),
		Files: map[string][]byte{"1/file": nil, "2/file": nil}}
	if err := r.Load(t.Context(), "m", over); err != nil {
		t.Fatal(err)
	}
	s, _ := r.Model("m")
	there := func() bool {
		_, err := os.Stat(filepath.Join(s.Folder, "1/file"))
		return err == nil
	}
	if err := r.Load(t.Context(), "m", nil); err == nil || !there() {
		t.Errorf("load without files = %v, files there %v", err, there())
	}
	r.check("one version failed", "m", 1, 2)
	if err := r.UnloadVersion("m", 1); err != nil {
		t.Fatal(err)
	}
	r.until("the files go", func() bool { return !there() })
	r.check("the other version", "m", 2)
}

// The files of a load request stay as long as a model that was loaded from them serves, and no longer: a process may
// have to be started again, and an evicted model to be loaded again.
func TestFilesOfALoadRequestStayWhileTheyServe_A066(t *testing.T) {
	r := newRig(t, nil)
	r.write("m/config.pbtxt", policy("all {}"))
	r.write("m/1/file", "")
	if err := r.Load(t.Context(), "m", overriding("1/file")); err != nil {
		t.Fatal(err)
	}
	s, _ := r.Model("m")
	there := func() bool {
		_, err := os.Stat(filepath.Join(s.Folder, "1/file"))
		return err == nil
	}
	serves := func(what string) {
		t.Helper()
		now, _ := r.Model("m")
		if !there() || len(now.Versions) != 1 || now.Versions[0].State != Ready || !now.Overridden ||
			now.Config.GetMaxBatchSize() != 3 {
			t.Errorf("%s: files there %v, versions %+v of %s; want the override", what, there(), now.Versions,
				now.Folder)
		}
	}
	r.write("m/1/broken", "")
	for what, load := range map[string]func() error{
		"load without files": func() error { return r.Load(t.Context(), "m", nil) },
		"load of a version":  func() error { return r.LoadVersion(t.Context(), "m", 1) },
		"load with files":    func() error { return r.Load(t.Context(), "m", overriding("1/broken")) },
	} {
		if err := load(); err == nil {
			t.Errorf("%s: it does not fail", what)
		}
		serves(what)
		if err := r.Evict("m"); err != nil {
			t.Fatal(err)
		}
		if err := load(); err == nil {
			t.Errorf("%s while the model is evicted: it does not fail", what)
		}
		serves(what + " while the model is evicted")
		if err := r.ask("m"); err != nil {
			t.Errorf("%s: a request to the evicted model: %v", what, err)
		}
		serves(what + ", back in memory")
	}
	r.remove("m/1/broken")
	for what, leave := range map[string]func(){
		"loaded from the repository": func() { r.load("m") },
		"unloaded":                   func() { r.Unload("m") },
	} {
		if err := r.Load(t.Context(), "m", overriding("1/file")); err != nil {
			t.Fatal(err)
		}
		s, _ = r.Model("m")
		working, finish, answered := make(chan struct{}), make(chan struct{}), make(chan error)
		r.b.execute = func(context.Context) { close(working); <-finish }
		go func() { answered <- r.ask("m") }()
		<-working
		r.b.execute = nil
		leave()
		if !there() {
			t.Errorf("%s: the files are gone before the last request is answered", what)
		}
		close(finish)
		if err := <-answered; err != nil {
			t.Error(err)
		}
		r.until(what+": the files go", func() bool { return !there() })
	}
}

func TestLoadOfUnknownModelLeavesNoEntry(t *testing.T) {
	r := newRig(t, nil)
	for name, want := range map[string]status.Code{"nope": status.Internal, "../nope": status.InvalidArg,
		"": status.InvalidArg, "a\x00b": status.InvalidArg, ".hidden": status.InvalidArg} {
		if err := r.Load(t.Context(), name, nil); status.CodeOf(err) != want || want == status.Internal &&
			!strings.HasPrefix(err.Error(), "failed to load") {
			t.Errorf("Load(%q) = %v, want code %v", name, err, want)
		}
	}
	if all := r.Models(); len(all) != 0 {
		t.Errorf("models %+v are known", all)
	}
}

// blocking makes the backend's loads wait until the returned function is called, or their context ends.
func (r *rig) blocking() (started chan string, release func()) {
	started = make(chan string, 1000)
	gate := make(chan struct{})
	r.b.load = func(ctx context.Context, s backend.Spec) error {
		started <- s.ModelName
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return started, sync.OnceFunc(func() { close(gate) })
}

func TestUnloadWhileLoading_A070(t *testing.T) {
	r := newRig(t, nil)
	r.write("m/config.pbtxt", policy("all {}"))
	r.write("m/1/file", "")
	started, release := r.blocking()
	loaded, unloaded := make(chan error, 1), make(chan struct{})
	go func() { loaded <- r.Load(t.Context(), "m", nil) }()
	<-started
	if s, _ := r.Model("m"); len(s.Versions) != 1 || s.Versions[0].State != Loading {
		t.Errorf("while it loads: %+v, want LOADING", s.Versions)
	}
	go func() { defer close(unloaded); r.Unload("m") }()
	release()
	if err := <-loaded; err != nil {
		t.Errorf("Load = %v", err)
	}
	<-unloaded
	r.until("the model is unloaded", func() bool {
		s, _ := r.Model("m")
		return s.Versions[0].State == Unavailable && s.Versions[0].Reason == "unloaded"
	})
	if !r.AllReady() {
		t.Error("an unloaded model makes the server unready")
	}
}

// An unload request for an ensemble and its steps that comes while the ensemble loads waits, and takes the steps too.
func TestUnloadOfAnEnsembleWhileItLoads_A067(t *testing.T) {
	r := newRig(t, nil)
	r.write("m/config.pbtxt", policy("all {}"))
	r.write("m/1/file", "")
	r.write("e/config.pbtxt", `platform: "ensemble" max_batch_size: 4
		input { name: "X" data_type: TYPE_FP32 dims: 4 } output { name: "Y" data_type: TYPE_FP32 dims: 4 }
		ensemble_scheduling { step { model_name: "m" model_version: -1
			input_map { key: "INPUT0" value: "X" } output_map { key: "OUTPUT0" value: "Y" } } }`)
	r.write("e/1/file", "")
	started, release := r.blocking()
	loaded, unloaded := make(chan error, 1), make(chan struct{})
	go func() { loaded <- r.Load(t.Context(), "e", nil) }()
	<-started
	go func() { defer close(unloaded); r.UnloadAll("e") }()
	for waits := false; !waits; runtime.Gosched() {
		buf := make([]byte, 1<<20)
		waits = bytes.Contains(buf[:runtime.Stack(buf, true)], []byte("lockToUnload"))
	}
	release()
	if err := <-loaded; err != nil {
		t.Errorf("Load = %v", err)
	}
	<-unloaded
	r.check("the ensemble", "e")
	r.check("its step", "m")
}

// A model that loads for the first time is known: its versions are not ready, which is not the same as absent.
func TestFindWhileLoading_A049(t *testing.T) {
	for _, namespaces := range []bool{false, true} {
		r := newRig(t, func(o *Options) { o.Namespaces = namespaces })
		r.write("m/config.pbtxt", policy("all {}"))
		r.write("m/1/file", "")
		started, release := r.blocking()
		loaded := make(chan error, 1)
		go func() { loaded <- r.Load(t.Context(), "m", nil) }()
		<-started
		for _, want := range []struct {
			version int64
			code    status.Code
			text    string
		}{
			{infer.LatestVersion, status.NotFound, "Request for unknown model: 'm' has no available versions"},
			{1, status.Unavailable, "Request for unknown model: 'm' version 1 is not at ready state"},
			{9, status.NotFound, "Request for unknown model: 'm' version 9 is not found"},
		} {
			_, err := r.Find("m", want.version)
			if err == nil || err.Error() != want.text || status.CodeOf(err) != want.code {
				t.Errorf("namespaces %v, version %d: %v, want %s", namespaces, want.version, err, want.text)
			}
		}
		release()
		if err := <-loaded; err != nil || !r.VersionReady("m", 1) {
			t.Errorf("namespaces %v, afterwards: %v", namespaces, err)
		}
	}
}

func TestCloseWhileLoading(t *testing.T) {
	r := newRig(t, func(o *Options) { o.LoadThreads = 1 })
	var wg sync.WaitGroup
	started, release := r.blocking()
	defer release()
	for i := range 10 {
		name := fmt.Sprintf("m%d", i)
		r.write(name+"/config.pbtxt", policy("all {}"))
		r.write(name+"/1/file", "")
		wg.Go(func() {
			if err := r.Load(context.Background(), name, nil); err == nil {
				t.Errorf("the load of %s, stopped by Close, says it went well", name)
			}
		})
	}
	<-started
	r.Close(context.Background())
	wg.Wait()
	if _, loads, _ := r.b.count(); loads != 1 {
		t.Errorf("%d loads were begun, want the one under way alone", loads)
	}
	if err := r.Load(t.Context(), "m0", nil); status.CodeOf(err) != status.Unavailable {
		t.Errorf("Load after Close = %v, want Unavailable", err)
	}
}

func TestStartIsCancellable(t *testing.T) {
	r := newRig(t, func(o *Options) { o.LoadThreads = 2 })
	started, release := r.blocking()
	defer release()
	for i := range 20 {
		r.write(fmt.Sprintf("m%d/config.pbtxt", i), policy("all {}"))
		r.write(fmt.Sprintf("m%d/1/file", i), "")
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	failed, err := r.LoadAll(ctx)
	if err != nil || len(failed) != 20 {
		t.Errorf("LoadAll = %d failures, %v; want 20", len(failed), err)
	}
}

// B21: load and unload of one model from 50 clients are serialised, and the state is that of the last one.
func TestManyClientsLoadAndUnloadOneModel_A070_B21(t *testing.T) {
	r := newRig(t, nil)
	r.write("m/config.pbtxt", policy("all {}"))
	r.write("m/1/file", "")
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for n := range 4 {
				if (i+n)%2 == 0 {
					if err := r.Load(t.Context(), "m", nil); err != nil {
						t.Errorf("client %d: %v", i, err)
					}
				} else {
					r.Unload("m")
				}
				if err := r.ask("m"); err != nil && status.CodeOf(err) != status.NotFound {
					t.Errorf("client %d: a request got %v; want an answer or NotFound", i, err)
				}
			}
		})
	}
	wg.Wait()
	r.Unload("m")
	r.check("after Unload", "m")
	r.until("one model at most is open", func() bool { open, _, _ := r.b.count(); return open == 0 })
	r.load("m")
	r.check("after Load", "m", 1)
	if err := r.ask("m"); err != nil {
		t.Error(err)
	}
	if s, _ := r.Model("m"); s.Versions[0].State != Ready || s.Versions[0].Reason != "" {
		t.Errorf("at the end: %+v", s.Versions)
	}
}

// B22: many models load at once, no more than the threads allow.
func TestConcurrentLoadsAreLimited_A071(t *testing.T) {
	r := newRig(t, func(o *Options) { o.LoadThreads = 3 })
	for i := range 200 {
		r.write(fmt.Sprintf("m%03d/config.pbtxt", i), policy("all {}"))
		r.write(fmt.Sprintf("m%03d/1/file", i), "")
	}
	failed, err := r.LoadAll(t.Context())
	if err != nil || len(failed) != 0 || !r.AllReady() {
		t.Errorf("LoadAll = %v, %v, ready %v", failed, err, r.AllReady())
	}
	if open, _, most := r.b.count(); open != 200 || most > 3 {
		t.Errorf("%d models are open and at most %d loaded at once, want 200 and 3", open, most)
	}
}

// As in Triton, the statistics of a version restart when it is loaded after an unload, also while the old one executes
// a request. A reload keeps them.
func TestStatisticsRestartAfterUnload_E031(t *testing.T) {
	r := newRig(t, nil)
	started, gate := make(chan struct{}, 10), make(chan struct{})
	r.b.execute = func(context.Context) { started <- struct{}{}; <-gate }
	r.write("m/config.pbtxt", policy("all {}"))
	r.write("m/1/file", "")
	r.load("m")
	answered := make(chan error)
	go func() { answered <- r.ask("m") }()
	<-started
	epoch := r.Manager.stats.Snapshots(nil)[0].Epoch
	r.write("m/1/file", "another")
	r.load("m")
	if s := r.Manager.stats.Snapshots(nil); len(s) != 1 || s[0].Epoch != epoch {
		t.Errorf("a reload starts the statistics again: %+v", s)
	}
	r.Unload("m")
	r.load("m")
	gate <- struct{}{}
	if err := <-answered; err != nil {
		t.Error(err)
	}
	close(gate)
	for range 2 {
		if err := r.ask("m"); err != nil {
			t.Error(err)
		}
	}
	if s := r.Manager.stats.Snapshots(nil); len(s) != 1 || s[0].Epoch == epoch || s[0].Success.Count != 2 ||
		s[0].Pending != 0 {
		t.Errorf("statistics %+v; want the 2 successes since the load", s)
	}
	r.until("the old ones are closed", func() bool { open, _, _ := r.b.count(); return open == 1 })
	if s := r.Manager.stats.Snapshots(nil); len(s) != 1 || s[0].Success.Count != 2 {
		t.Errorf("statistics %+v after the old ones have closed; want the 2 successes since the load", s)
	}
}

// A model that is removed and created again while old requests drain has new statistics. The end of the old model does
// not remove them.
func TestStatisticsOfRecreatedModel(t *testing.T) {
	r := newRig(t, nil)
	started, gate := make(chan struct{}, 10), make(chan struct{})
	r.b.execute = func(context.Context) { started <- struct{}{}; <-gate }
	r.write("m/config.pbtxt", policy("all {}"))
	r.write("m/1/file", "")
	r.load("m")
	answered := make(chan error)
	go func() { answered <- r.ask("m") }()
	<-started
	r.rename("m", ".away")
	r.pollAll()
	if err := r.ask("m"); status.CodeOf(err) != status.NotFound {
		t.Errorf("a request while the model is away got %v, want NotFound", err)
	}
	r.rename(".away", "m")
	r.pollAll()
	r.check("back", "m", 1)
	close(gate)
	if err := <-answered; err != nil {
		t.Errorf("the request that ran all the while: %v", err)
	}
	r.until("the old one is closed", func() bool { open, _, _ := r.b.count(); return open == 1 })
	r.Manager.mu.Lock()   // the drain has done its bookkeeping after this and the next
	r.Manager.mu.Unlock() //nolint:staticcheck // empty on purpose: it waits for the one who holds the lock
	if err := r.ask("m"); err != nil {
		t.Error(err)
	}
	for range 2 {
		all := r.Manager.stats.Snapshots(nil)
		if len(all) != 1 || all[0].Success.Count != 1 {
			t.Errorf("statistics %+v, want one version with the success since it came back", all)
		}
	}
}

// A change that waits while its model is forgotten must not load it into an entry that the manager does not know.
func TestForgetDuringLoad(t *testing.T) {
	r := newRig(t, nil)
	over := &Override{Config: `{"backend":"identity","max_batch_size":4,"input":[{"name":"INPUT0",` +
		`"data_type":"TYPE_FP32","dims":[4]}],` +
		`"output":[{"name":"OUTPUT0","data_type":"TYPE_FP32","dims":[4]}]}`, Files: map[string][]byte{"1/file": nil}}
	for range 50 {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := r.Load(t.Context(), "m", over); err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() { r.poller.forgetIfGone("m") })
		}
		wg.Wait()
		_, known := r.Model("m")
		if served := r.VersionReady("m", 1); served != known {
			t.Fatalf("served %v, known %v; want the same", served, known)
		}
	}
}

// A change that polling has started does not load a model that was unloaded on request before the change began.
func TestPollDoesNotUndoUnload(t *testing.T) {
	r := newRig(t, nil)
	r.write("m/config.pbtxt", policy("all {}"))
	r.write("m/1/file", "")
	r.load("m")
	r.Unload("m")
	found, _ := repo.Scan(r.scanOptions())
	if err := r.loadPolled(found["m"], func() (*repo.Model, error) { return found["m"], nil }); err != nil {
		t.Error(err)
	}
	r.check("after the poll's turn", "m")
}

func TestUnfinishedCopyIsNotLoaded_A059_B14(t *testing.T) {
	r := newRig(t, nil)
	r.write("m/config.pbtxt", policy("all {}"))
	r.write("m/1/file", "half")
	found, _ := repo.Scan(r.scanOptions())
	r.write("m/1/file", "the whole file")
	err := r.loadPolled(found["m"], func() (*repo.Model, error) { return r.poller.settled(found["m"]) })
	if status.CodeOf(err) != status.Internal ||
		!strings.Contains(err.Error(), "is being changed") {
		t.Errorf("change = %v, want a refusal", err)
	}
	r.check("changed since the scan", "m")
	r.pollAll()
	r.check("at rest", "m", 1)

	// A copy that pauses for longer than the settle time still has its file open.
	r.o.Settle = time.Minute
	r.write("m/1/file", "half of the next")
	f, err := os.OpenFile(filepath.Join(r.root, "m/1/file"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found, _ = repo.Scan(r.scanOptions())
	for _, step := range []struct {
		rested time.Duration
		loads  bool
	}{{2 * time.Minute, runtime.GOOS != "linux"}, {writtenMost * time.Minute, true}} {
		_, before, _ := r.b.count()
		r.poller.waiting = map[string]pending{"m": {found["m"], time.Now().Add(-step.rested)}}
		next := r.poller.poll(found, true)
		r.wait()
		if _, after, _ := r.b.count(); (after > before) != step.loads || (next > 0) == step.loads {
			t.Errorf("open for writing, at rest for %v: %d loads, next look in %v; want one: %v", step.rested,
				after-before, next, step.loads)
		}
	}
}

// A version that was never in service has no statistics, and so no metrics: neither one that fails to load, nor one
// that failed while the model before it executed its last requests.
func TestFailedVersionsHaveNoStatistics(t *testing.T) {
	r := newRig(t, nil)
	r.write("m/config.pbtxt", policy("all {}"))
	r.write("m/1/broken", "")
	r.write("m/2/file", "")
	versions := func() (all []int64) {
		for _, s := range r.Manager.stats.Snapshots(nil) {
			all = append(all, s.Version)
		}
		slices.Sort(all)
		return all
	}
	if err := r.Load(t.Context(), "m", nil); err == nil || !slices.Equal(versions(), []int64{2}) {
		t.Errorf("a version that failed has statistics: %v, %v", versions(), err)
	}
	began, release := make(chan struct{}), make(chan struct{})
	r.b.execute = func(context.Context) {
		close(began)
		<-release
	}
	asked := make(chan error, 1)
	go func() { asked <- r.ask("m") }()
	<-began
	r.Unload("m")
	r.write("m/2/broken", "")
	if err := r.Load(t.Context(), "m", nil); err == nil {
		t.Error("both versions are broken and the load succeeds")
	}
	close(release)
	if err := <-asked; err != nil {
		t.Error(err)
	}
	r.until("the version that executed a request has no statistics", func() bool { return len(versions()) == 0 })
}

// D056: a load request brings back a model whose process is not started again, or not yet, although its files are
// unchanged.
func TestALoadBringsALostProcessBack(t *testing.T) {
	r := newRig(t, nil)
	r.write("m/config.pbtxt", policy("all {}"))
	r.write("m/1/file", "")
	r.load("m")
	_, first, _ := r.b.count()
	r.load("m")
	if _, loads, _ := r.b.count(); loads != first {
		t.Errorf("an unchanged model is loaded again: %d loads, then %d", first, loads)
	}
	r.b.lost.Store(true)
	r.load("m")
	if _, loads, _ := r.b.count(); loads != first+1 || r.b.lost.Load() {
		t.Errorf("%d loads after the process was lost, want %d", loads, first+1)
	}
	r.b.down.Store(true)
	r.load("m")
	if _, loads, _ := r.b.count(); loads != first+2 || r.b.down.Load() {
		t.Errorf("%d loads after the process was down, want %d", loads, first+2)
	}
	r.check("loaded again", "m", 1)
}

// A048: the files of a version that is to be served decide which backend a model has, not those of a newer one that is
// not.
func TestVersionsThatAreNotServedDecideNothing_A048(t *testing.T) {
	r := newRig(t, nil)
	r.write("m/config.pbtxt", "version_policy { specific { versions: [ 1 ] } }")
	r.write("m/1/model.onnx", "")
	r.write("m/2/.keep", "")
	err := r.Load(t.Context(), "m", nil)
	if err == nil || !strings.Contains(err.Error(), "backend 'onnxruntime'") { // which this server does not have
		t.Errorf("Load = %v, want an error that names the backend of version 1", err)
	}
}
