package lifecycle

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"nereid/engine/modelconfig"
	"nereid/engine/repo"
	"nereid/engine/status"
)

// Random changes, faults, loads, unloads, polls and closes run while clients send requests. The model "steady" is
// changed and broken but never unloaded: no request to it may fail. The model "wild" is also unloaded and removed. At
// the end both are repaired, and the versions in service must be those of the repository. NEREID_SOAK=1 runs ten times
// as many.
func TestRandomOperations(t *testing.T) {
	seeds := uint64(60)
	if os.Getenv("NEREID_SOAK") != "" {
		seeds *= 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { randomLife(t, rand.New(rand.NewPCG(seed, 7))) })
		if t.Failed() {
			return
		}
	}
}

var policies = []string{"all {}", "latest { num_versions: 1 }", "latest { num_versions: 2 }"}

func randomLife(t *testing.T, rng *rand.Rand) {
	r := newRig(t, func(o *Options) { o.LoadThreads = 1 + rng.IntN(3) })
	for _, name := range []string{"steady", "wild"} {
		r.write(name+"/config.pbtxt", policy("all {}"))
		r.write(name+"/1/file", "")
	}
	if failed, err := r.LoadAll(t.Context()); err != nil || len(failed) > 0 {
		t.Fatal(failed, err)
	}
	stop := make(chan struct{})
	var clients, actors sync.WaitGroup
	for _, name := range []string{"steady", "wild"} {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := r.ask(name); err != nil && (name == "steady" || status.CodeOf(err) != status.NotFound) {
					t.Errorf("a request to %s: %v", name, err)
					return
				}
			}
		})
	}
	for range 15 + rng.IntN(15) {
		switch k := rng.IntN(15); {
		case k < 5:
			r.disturb("steady", rng)
		case k < 8:
			r.disturb("wild", rng)
		case k == 8:
			actors.Go(func() { r.Unload("wild") })
		case k == 9:
			r.remove("wild")
		case k == 10:
			name := []string{"steady", "wild"}[rng.IntN(2)]
			actors.Go(func() { _ = r.Load(context.Background(), name, nil) }) // may fail: the model may be broken now
		case k == 11:
			name, file := []string{"steady", "wild"}[rng.IntN(2)], []string{"1/file", "1/broken"}[rng.IntN(2)]
			actors.Go(func() { _ = r.Load(context.Background(), name, overriding(file)) })
		default:
			found, unread := repo.Scan(r.scanOptions())
			r.poller.poll(found, len(unread) == 0)
		}
	}
	if rng.IntN(4) == 0 { // Close in the middle of it
		close(stop)
		clients.Wait()
		r.Close(context.Background())
		actors.Wait()
		return
	}
	actors.Wait()
	for _, name := range []string{"steady", "wild"} {
		r.mend(name, rng)
	}
	r.pollAll()
	r.load("wild") // it may have been unloaded on request
	r.load("steady")
	close(stop)
	clients.Wait()
	for _, name := range []string{"steady", "wild"} {
		r.checkEnd(name)
	}
}

// disturb makes a random change in a model's folder, which may break or repair it.
func (r *rig) disturb(name string, rng *rand.Rand) {
	version := fmt.Sprintf("%s/%d/", name, 1+rng.IntN(3))
	switch rng.IntN(6) {
	case 0:
		r.write(version+"file", fmt.Sprint(rng.Uint64()))
	case 1:
		r.write(version+"broken", "")
	case 2:
		r.remove(version + "broken")
	case 3:
		r.remove(version)
	case 4:
		r.write(name+"/config.pbtxt", "broken: true")
	default:
		r.write(name+"/config.pbtxt", policy(policies[rng.IntN(len(policies))])+fmt.Sprintf("# %d", rng.IntN(3)))
	}
}

// mend repairs a model's folder.
func (r *rig) mend(name string, rng *rand.Rand) {
	for v := range 3 {
		r.remove(fmt.Sprintf("%s/%d/broken", name, v+1))
		if _, err := os.Stat(filepath.Join(r.root, fmt.Sprintf("%s/%d", name, v+1))); err == nil {
			r.write(fmt.Sprintf("%s/%d/file", name, v+1), "")
		}
	}
	r.write(name+"/1/file", "at last")
	r.write(name+"/config.pbtxt", policy(policies[rng.IntN(len(policies))]))
}

// checkEnd compares the versions in service with the repository.
func (r *rig) checkEnd(name string) {
	r.t.Helper()
	src, err := r.find(name)
	if err != nil {
		r.t.Fatal(err)
	}
	m, err := r.Find(name, -1)
	if err != nil {
		r.t.Fatal(err)
	}
	r.check("in the end", name, modelconfig.ChooseVersions(m.Config().GetVersionPolicy(), src.Numbers())...)
	r.until("what drains is closed", func() bool {
		s, _ := r.Model(name)
		return !slices.ContainsFunc(s.Versions, func(v VersionStatus) bool { return v.State == Unloading })
	})
	s, _ := r.Model(name)
	if s.Err != nil {
		r.t.Errorf("in the end %s has the error %v", name, s.Err)
	}
	for _, v := range s.Versions {
		if v.State == Loading || v.State == Ready && (v.Reason != "" || v.Model == nil) || v.State == Unavailable &&
			v.Model != nil {
			r.t.Errorf("in the end version %d of %s is %s %q", v.Version, name, v.State, v.Reason)
		}
	}
	if err := r.ask(name); err != nil {
		r.t.Errorf("in the end a request to %s: %v", name, err)
	}
}
