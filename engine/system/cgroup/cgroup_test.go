package cgroup

import (
	"os"
	"slices"
	"testing"
	"testing/fstest"
)

func TestFiles(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"version 2", "0::/pod/c\n", []string{"/r/pod/c/second", "/r/pod/second", "/r/second"}},
		{"version 2, at the root of what is mounted", "0::/\n", []string{"/r/second"}},
		{"version 1", "5:cpu,cpuacct:/c\n4:memory:/d\n0::/\n", []string{"/r/cpu/c/first", "/r/cpu/first"}},
		{"version 1 of another controller", "4:memory:/d\n0::/c\n", []string{"/r/c/second", "/r/second"}},
		{"a path that leads out", "0::/../../c\n", []string{"/r/c/second", "/r/second"}},
		{"no groups", "", []string{"/r/second"}},
		{"something else", "a\nb:c\n", []string{"/r/second"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Of([]byte(tt.text), "/r", "cpu").Files("first", "second"); !slices.Equal(got, tt.want) {
				t.Errorf("Of(%q).Files = %q, want %q", tt.text, got, tt.want)
			}
		})
	}
}

func TestMemory(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		files      fstest.MapFS // below what is mounted
		have, left int64        // of 9000, of which 8000 are free
	}{
		{"version 2, the group's own bound", "0::/pod/c\n", fstest.MapFS{"pod/c/memory.max": {Data: []byte("1000\n")},
			"pod/memory.max": {Data: []byte("5000\n")}}, 1000, 1000},
		{"version 2, a bound further out", "0::/pod/c\n", fstest.MapFS{"pod/c/memory.max": {Data: []byte("max\n")},
			"pod/memory.max": {Data: []byte("5000\n")}, "pod/memory.current": {Data: []byte("3000\n")}}, 5000, 2000},
		{"version 2, a wider group that is fuller", "0::/pod/c\n",
			fstest.MapFS{"pod/c/memory.max": {Data: []byte("1000\n")}, "pod/c/memory.current": {Data: []byte("100\n")},
				"pod/memory.max": {Data: []byte("5000\n")}, "pod/memory.current": {Data: []byte("4800\n")}}, 1000, 200},
		{"version 2, the container's path from outside", "0::/kubepods/x\n",
			fstest.MapFS{"memory.max": {Data: []byte("3000\n")}}, 3000, 3000},
		{"version 2, above the machine's", "0::/c\n", fstest.MapFS{"c/memory.max": {Data: []byte("1000000\n")},
			"c/memory.current": {Data: []byte("999000\n")}}, 9000, 8000},
		{"version 2, over its bound", "0::/c\n", fstest.MapFS{"c/memory.max": {Data: []byte("1000\n")},
			"c/memory.current": {Data: []byte("1100\n")}}, 1000, 0},
		{"version 1", "5:cpu,cpuacct:/c\n4:memory:/c\n0::/\n",
			fstest.MapFS{"memory/c/memory.limit_in_bytes": {Data: []byte("2000\n")},
				"memory/c/memory.usage_in_bytes": {Data: []byte("500\n")},
				"memory/memory.limit_in_bytes":   {Data: []byte("9223372036854771712\n")}}, 2000, 1500},
		{"version 1, the container's path from outside", "4:memory:/docker/y\n",
			fstest.MapFS{"memory/memory.limit_in_bytes": {Data: []byte("4000\n")}}, 4000, 4000},
		{"no groups", "", nil, 9000, 8000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			if err := os.CopyFS(root, tt.files); err != nil {
				t.Fatal(err)
			}
			if have, left := Of([]byte(tt.text), root, "memory").Memory(9000, 8000); have != tt.have ||
				left != tt.left {
				t.Errorf("Of(%q).Memory(9000, 8000) = %d, %d; want %d, %d", tt.text, have, left, tt.have, tt.left)
			}
		})
	}
}
