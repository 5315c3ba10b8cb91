package engine_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"nereid/engine"
	"nereid/engine/backend/builtin"
	"nereid/engine/repo"
)

// many is the number of models in the tests of this file.
const many = 500

// manyModels makes a repository of identity models with labels and two versions.
func manyModels(tb testing.TB) string {
	root := tb.TempDir()
	for i := range many {
		dir := fmt.Sprintf("%s/model_%03d", root, i)
		write(tb, dir+"/config.pbtxt", oneVersion)
		write(tb, dir+"/labels.txt", "cat\ndog\n")
		write(tb, dir+"/1/weights.bin", "1")
		write(tb, dir+"/2/weights.bin", "2")
	}
	return root
}

func startMany(tb testing.TB, root string) *engine.Engine {
	e, err := engine.New(engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{root}, Backends: builtin.All()},
	})
	if err != nil {
		tb.Fatal(err)
	}
	if err := e.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	if failed := e.StartFailures(); len(failed) > 0 {
		tb.Fatal(failed[0])
	}
	return e
}

// cpu is the process's CPU time so far.
func cpu(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The bounds for 500 models: the start is what comes on top of the models' own loading.
const (
	startBound = 3 * time.Second
	pollBound  = 50 * time.Millisecond // of CPU
	indexBound = 50 * time.Millisecond
)

// TestManyModelsStayWithinBounds holds a repository of 500 models to its bounds; on a busy machine the best of several
// tries counts.
func TestManyModelsStayWithinBounds(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if raceEnabled {
		t.Log("the race detector multiplies all times; make bench and the test without it measure them")
	}
	root := manyModels(t)
	begin, used := time.Now(), cpu(t)
	e := startMany(t, root)
	took, used := time.Since(begin), cpu(t)-used
	defer e.Close(t.Context())
	slow := time.Duration(1)
	if raceEnabled {
		slow = 10
	}
	if used > startBound*slow { // the time on the clock depends on what else runs; the benchmark measures it
		t.Errorf("the start took %v of CPU, want at most %v", used, startBound*slow)
	}
	best := func(f func()) time.Duration {
		least := time.Hour
		for range 5 {
			begin := cpu(t)
			f()
			least = min(least, cpu(t)-begin)
		}
		return least
	}
	var first map[string]*repo.Model
	poll := best(func() {
		found, _ := repo.Scan(repo.Options{Roots: []string{root}})
		if len(found) != many {
			t.Fatalf("%d models", len(found))
		}
		for name, m := range first {
			if !m.Equal(found[name]) {
				t.Fatalf("%s changed", name)
			}
		}
		first = found
	})
	index := best(func() {
		if n := len(e.RepositoryIndex(false)); n != many {
			t.Fatalf("%d rows", n)
		}
	})
	t.Logf("start %v, %v of CPU, a poll %v of CPU, an index %v", took, used, poll, index)
	if poll > pollBound*slow || index > indexBound*slow {
		t.Errorf("a poll took %v of CPU, want at most %v; an index %v, want at most %v", poll, pollBound*slow, index,
			indexBound*slow)
	}
}

func BenchmarkManyModels(b *testing.B) {
	root := manyModels(b)
	b.Run("start", func(b *testing.B) {
		for b.Loop() {
			startMany(b, root).Close(b.Context())
		}
	})
	b.Run("poll", func(b *testing.B) {
		begin := cpu(b)
		for b.Loop() {
			repo.Scan(repo.Options{Roots: []string{root}})
		}
		b.ReportMetric(float64(cpu(b)-begin)/float64(b.N)/1e6, "cpu-ms/poll")
	})
	b.Run("index", func(b *testing.B) {
		e := startMany(b, root)
		defer e.Close(b.Context())
		for b.Loop() {
			e.RepositoryIndex(false)
		}
	})
}
