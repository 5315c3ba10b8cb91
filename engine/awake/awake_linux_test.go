//go:build cgo

package awake

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"nereid/engine/affinity"
)

// idlers returns the states, as /proc has them, of this process's threads of the kernel's idle class.
func idlers(t *testing.T) string {
	t.Helper()
	all, err := filepath.Glob("/proc/self/task/*/stat")
	if err != nil {
		t.Fatal(err)
	}
	states := ""
	for _, path := range all {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		text := string(b)
		f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
		if f[38] == "5" { // the policy: SCHED_IDLE
			states += f[0]
		}
	}
	return states
}

// waitFor waits until the idle threads have those states.
func waitFor(t *testing.T, want string) {
	t.Helper()
	for idlers(t) != want {
		if t.Context().Err() != nil {
			t.Fatalf("the idle threads are %q, want %q", idlers(t), want)
		}
		runtime.Gosched()
	}
}

func TestKeeper(t *testing.T) {
	cores, err := affinity.Cores()
	if err != nil {
		t.Fatal(err)
	}
	if New(len(cores)-1) != nil {
		t.Error("there is a Keeper for more cores than it may have")
	}
	k := &Keeper{cores: cores} // as New makes it, also in a control group whose CPU time is bounded
	if s := idlers(t); s != "" {
		t.Errorf("there are idle threads %q before the first Until", s)
	}
	k.Until(time.Hour)
	waitFor(t, strings.Repeat("R", len(cores)))
	k.Until(0)
	waitFor(t, strings.Repeat("S", len(cores)))
	k.Until(time.Hour)
	waitFor(t, strings.Repeat("R", len(cores)))
	k.Close()
	waitFor(t, "")
}

func TestKeeperThatIsNone(t *testing.T) {
	var k *Keeper
	k.Until(time.Hour)
	k.Close()
	k = &Keeper{cores: []int{0}}
	k.Close() // before the first Until
}
