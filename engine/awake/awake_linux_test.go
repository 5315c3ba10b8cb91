//go:build cgo

package awake

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"nereid/engine/system/affinity"
	"nereid/engine/system/cgroup"
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

// A unit of systemd, or a container that sees the host's groups, is not at the root of what is mounted; neither are the groups
// that it is in.
func TestBounded(t *testing.T) {
	for _, tt := range []struct {
		name   string
		groups string // /proc/self/cgroup
		files  fstest.MapFS
		want   bool
	}{
		{name: "no groups"},
		{name: "a machine without bounds", groups: "0::/user.slice/a.scope\n", files: fstest.MapFS{"user.slice/cpu.max": {Data: []byte("max 100000\n")}, "user.slice/a.scope/cpu.max": {Data: []byte("max 100000\n")}}},
		{name: "a container's own group", groups: "0::/\n", files: fstest.MapFS{"cpu.max": {Data: []byte("150000 100000\n")}}, want: true},
		{name: "a container that sees its path outside", groups: "0::/docker/1\n", files: fstest.MapFS{"cpu.max": {Data: []byte("150000 100000\n")}}, want: true},
		{name: "a unit of systemd", groups: "0::/system.slice/nereid.service\n", files: fstest.MapFS{"system.slice/nereid.service/cpu.max": {Data: []byte("150000 100000\n")}}, want: true},
		{name: "the slice that a unit is in", groups: "0::/system.slice/nereid.service\n",
			files: fstest.MapFS{"system.slice/cpu.max": {Data: []byte("150000 100000\n")}, "system.slice/nereid.service/cpu.max": {Data: []byte("max 100000\n")}}, want: true},
		{name: "another unit", groups: "0::/system.slice/nereid.service\n", files: fstest.MapFS{"system.slice/other.service/cpu.max": {Data: []byte("150000 100000\n")}}},
		{name: "version 1 without bounds", groups: "4:cpu,cpuacct:/a\n0::/\n", files: fstest.MapFS{"cpu/a/cpu.cfs_quota_us": {Data: []byte("-1\n")}, "cpu/cpu.cfs_quota_us": {Data: []byte("-1\n")}}},
		{name: "version 1, its own group", groups: "4:cpu,cpuacct:/a/b\n0::/\n", files: fstest.MapFS{"cpu/a/b/cpu.cfs_quota_us": {Data: []byte("150000\n")}, "cpu/cpu.cfs_quota_us": {Data: []byte("-1\n")}}, want: true},
		{name: "version 1 in a container", groups: "4:cpu,cpuacct:/docker/1\n", files: fstest.MapFS{"cpu/cpu.cfs_quota_us": {Data: []byte("150000\n")}}, want: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			if err := os.CopyFS(root, tt.files); err != nil {
				t.Fatal(err)
			}
			if got := bounded(cgroup.Of([]byte(tt.groups), root, "cpu")); got != tt.want {
				t.Errorf("bounded by %q: %v, want %v", tt.groups, got, tt.want)
			}
		})
	}
}

func TestKeeperThatIsNone(t *testing.T) {
	var k *Keeper
	k.Until(time.Hour)
	k.Close()
	k = &Keeper{cores: []int{0}}
	k.Close() // before the first Until
}
