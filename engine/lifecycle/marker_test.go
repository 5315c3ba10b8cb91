package lifecycle

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nereid/engine/repo"
)

// A marker .ready in a model folder replaces the settle time: a file that is written after it is not loaded until the
// marker is written again.
func TestReadyMarker_A059_B14(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Settle = time.Hour })
	look := func() (next time.Duration) {
		found, _ := repo.Scan(r.scanOptions())
		next = r.poller.poll(found, true)
		r.wait()
		return next
	}
	// after writes a file until it is younger than the marker, by the clock of the file system.
	after := func(path, text string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; {
			r.write(path, text)
			if repo.ScanModel(r.root, "m", "").Marker == repo.Copying {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal("no file becomes younger than the marker")
			}
		}
	}
	waits := func(want bool) {
		t.Helper()
		s, _ := r.Model("m")
		if (s.Waits != nil) != want || want && !strings.Contains(s.Waits.Error(), "written after the marker .ready") {
			t.Errorf("the model waits for %v, want that: %v", s.Waits, want)
		}
	}
	r.write("m/config.pbtxt", policy("all {}"))
	r.write("m/1/file", "one")
	if next := look(); next < time.Minute {
		t.Errorf("without a marker the next look is in %v, want the settle time", next)
	}
	r.check("without a marker", "m")
	r.write("m/"+repo.ReadyName, "")
	look()
	r.check("the marker came last", "m", 1)
	waits(false)

	after("m/2/file", "two")
	if next := look(); next != 0 {
		t.Errorf("next look in %v, want none before the marker is written", next)
	}
	r.check("a file came after the marker", "m", 1)
	waits(true)
	r.write("m/"+repo.ReadyName, "")
	look()
	r.check("the marker was written again", "m", 1, 2)
	waits(false)

	after("m/config.pbtxt", policy("latest { num_versions: 1 }"))
	look()
	r.check("the configuration came after the marker", "m", 1, 2)
	waits(true)
	r.load("m") // a load request does not wait for the marker
	r.check("loaded by name", "m", 2)
	waits(false)

	after("m/3/file", "three")
	r.remove("m/" + repo.ReadyName)
	if next := look(); next < time.Minute {
		t.Errorf("with the marker gone the next look is in %v, want the settle time", next)
	}
	r.check("the marker is gone", "m", 2)
	if found, _ := repo.Scan(r.scanOptions()); found["m"].Marker != repo.NoMarker {
		t.Errorf("marker %v", found["m"].Marker)
	}
	if !repo.Ignored(filepath.Base(repo.ReadyName)) {
		t.Error("the marker counts as a file of the model")
	}
}

// A new model with files that were written after its marker is in the index with the reason.
func TestNewModelWaitsForItsMarker_A059_B14(t *testing.T) {
	r := newRig(t, nil)
	r.write("m/"+repo.ReadyName, "")
	r.write("m/config.pbtxt", policy("all {}"))
	for repo.ScanModel(r.root, "m", "").Marker != repo.Copying {
		r.write("m/1/file", "")
	}
	found, _ := repo.Scan(r.scanOptions())
	r.poller.poll(found, true)
	r.wait()
	r.check("copied after the marker", "m")
	if s, known := r.Model("m"); !known || s.Waits == nil || r.AllReady() != true {
		t.Errorf("status %+v, known %v, all ready %v; want a reason, and a server that is ready", s, known,
			r.AllReady())
	}
}
