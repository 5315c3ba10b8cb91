package lifecycle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nereid/engine/infer"
	"nereid/engine/residency"
	"nereid/engine/status"
	"nereid/engine/tensor"
)

const shadowedConfig = `backend: "identity" max_batch_size: 0
	input { name: "INPUT0" data_type: TYPE_INT32 dims: 2 } output { name: "OUTPUT0" data_type: TYPE_INT32 dims: 2 }
	version_policy { specific { versions: 1 } }`

// newShadowed returns a rig that serves version 1 of model m; versions 2 and 3 are in the repository.
func newShadowed(t *testing.T, edit func(*Options)) (*rig, Shadows) {
	t.Helper()
	r := newRig(t, edit)
	r.b.size = 100
	for _, v := range []string{"1", "2", "3"} {
		writeFile(t, filepath.Join(r.root, "m", v, "file"), v)
	}
	writeFile(t, filepath.Join(r.root, "m", "config.pbtxt"), shadowedConfig)
	if err := r.Load(t.Context(), "m", nil); err != nil {
		t.Fatal(err)
	}
	return r, ShadowsOf(r.Manager)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestCandidateGetsCopiesOfRequests(t *testing.T) {
	r, s := newShadowed(t, nil)
	o := ShadowOptions{Version: 2, Percent: 50, WhenBusy: true}
	if err := s.Start(t.Context(), "m", o); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		q := infer.New()
		q.ModelName = "m"
		q.Inputs = append(q.Inputs, tensor.Tensor{Name: "INPUT0", DataType: tensor.Int32, Shape: []int64{2},
			Data: []byte{1, 0, 0, 0, 2, 0, 0, 0}})
		m, err := r.Acquire("m", -1)
		if err != nil || m.Version() != 1 {
			t.Fatalf("Acquire = %v, %v, want version 1", m, err)
		}
		if err := m.Infer(q); err != nil {
			t.Fatal(err)
		}
		resp, err := q.Next(t.Context())
		if err != nil || resp.Err != nil {
			t.Fatal(err, resp.Err)
		}
		resp.Release()
		q.Release()
	}
	got, _ := s.Status("m")
	for got.Compared < 10 && t.Context().Err() == nil {
		got, _ = s.Status("m")
	}
	if got.Seen != 20 || got.Agreed != 10 || got.Dropped+got.Skipped+got.Failed != 0 || got.Served != 1 ||
		len(got.Outputs) != 1 || got.Outputs[0].Rule != "equal" || got.Flagged() {
		t.Errorf("status = %+v", got)
	}
	if _, err := r.Find("m", 2); status.CodeOf(err) != status.NotFound {
		t.Errorf("Find of the candidate = %v, want NotFound", err)
	}
}

// A candidate ends with the version whose requests it gets, with its own files, and on request, and says why.
func TestCandidateEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(r *rig, s Shadows) error
		want string
	}{
		{"unload", func(r *rig, _ Shadows) error { r.Unload("m"); return nil }, "the version in service was unloaded"},
		{"evict", func(r *rig, _ Shadows) error { return r.Evict("m") }, "the version in service was unloaded"},
		{"reload", func(r *rig, _ Shadows) error {
			writeFile(r.t.(*testing.T), filepath.Join(r.root, "m", "1", "file"), "another file")
			return r.Load(r.t.Context(), "m", nil)
		}, "the version in service was unloaded, evicted or loaded again"},
		{"load the candidate", func(r *rig, _ Shadows) error { return r.LoadVersion(r.t.Context(), "m", 2) },
			"the candidate is in service"},
		{"remove the candidate", func(r *rig, _ Shadows) error {
			if err := os.RemoveAll(filepath.Join(r.root, "m", "2")); err != nil {
				return err
			}
			return r.Load(r.t.Context(), "m", nil)
		}, "the files of the candidate changed or were removed"},
		{"discard", func(_ *rig, s Shadows) error { return s.Discard("m", "discarded") }, "discarded"},
		{"promote", func(r *rig, s Shadows) error { return s.Promote(r.t.Context(), "m") }, "promoted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, s := newShadowed(t, nil)
			if err := s.Start(t.Context(), "m", ShadowOptions{Version: 2, Percent: 100}); err != nil {
				t.Fatal(err)
			}
			if open, _, _ := r.b.count(); open != 2 {
				t.Fatalf("%d models are loaded, want 2", open)
			}
			if err := tt.end(r, s); err != nil {
				t.Fatal(err)
			}
			if got, ok := s.Status("m"); !ok || !strings.HasPrefix(got.Ended, tt.want) {
				t.Errorf("the candidate ended: %q, want %q", got.Ended, tt.want)
			}
			if err := s.Discard("m", ""); status.CodeOf(err) != status.NotFound {
				t.Errorf("a second end = %v, want NotFound", err)
			}
			serving := len(r.inService("m"))
			r.until("the candidate is closed", func() bool {
				open, _, _ := r.b.count()
				return open == serving ||
					tt.name == "evict" && open == 0
			})
		})
	}
}

func TestCandidateIsRefused(t *testing.T) {
	r, s := newShadowed(t, nil)
	start := func(version int64, percent float64) error {
		return s.Start(t.Context(), "m", ShadowOptions{Version: version, Percent: percent})
	}
	if err := start(2, 0); status.CodeOf(err) != status.InvalidArg {
		t.Errorf("0 %% = %v", err)
	}
	if err := start(4, 1); status.CodeOf(err) != status.NotFound {
		t.Errorf("a version that is not there = %v", err)
	}
	if err := start(1, 1); err == nil || !strings.Contains(err.Error(), "is in service") {
		t.Errorf("the version in service = %v", err)
	}
	writeFile(t, filepath.Join(r.root, "m", "3", "broken"), "")
	if err := start(3, 1); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("a broken version = %v", err)
	}
	if err := s.Start(t.Context(), "nobody", ShadowOptions{Version: 1, Percent: 1}); err == nil {
		t.Error("an unknown model has a candidate")
	}
	writeFile(t, filepath.Join(r.root, "m", "config.pbtxt"),
		shadowedConfig+`parameters { key: "a" value: { string_value: "b" } }`)
	if err := start(2, 1); err == nil || !strings.Contains(err.Error(), "load the model first") {
		t.Errorf("a configuration that is not in service = %v", err)
	}
	writeFile(t, filepath.Join(r.root, "m", "config.pbtxt"), shadowedConfig+" sequence_batching {}")
	if err := r.Load(t.Context(), "m", nil); err != nil {
		t.Fatal(err)
	}
	if err := start(2, 1); status.CodeOf(err) != status.Unsupported || !strings.Contains(err.Error(), "sequences") {
		t.Errorf("a model with sequences = %v", err)
	}
}

// The budget of models' memory has the candidate too.
func TestCandidateCountsAsMemory(t *testing.T) {
	used := func(r *rig) int64 { return r.memory.Used()[residency.Host] }
	r, s := newShadowed(t, func(o *Options) { o.Residency = residency.Budget{Host: 1000} })
	if err := s.Start(t.Context(), "m", ShadowOptions{Version: 2, Percent: 100}); err != nil {
		t.Fatal(err)
	}
	if got := used(r); got != 200 {
		t.Errorf("%d bytes are in use with a candidate, want 200", got)
	}
	if err := s.Discard("m", "discarded"); err != nil {
		t.Fatal(err)
	}
	r.until("the candidate's memory is released", func() bool { return used(r) == 100 })

	r, s = newShadowed(t, func(o *Options) { o.Residency = residency.Budget{Host: 150} })
	if err := s.Start(t.Context(), "m", ShadowOptions{Version: 2, Percent: 100}); status.CodeOf(err) !=
		status.Unavailable {
		t.Errorf("a candidate that does not fit = %v, want Unavailable", err)
	}
	if _, there := s.Status("m"); there || len(r.inService("m")) != 1 || used(r) != 100 {
		t.Errorf("after that %d bytes are in use, versions %v serve", used(r), r.inService("m"))
	}
}
