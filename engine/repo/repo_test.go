package repo

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"nereid/engine/status"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func scan(t *testing.T, roots ...string) map[string]*Model {
	t.Helper()
	m, err := Scan(Options{Roots: roots})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestScanFindsModelsAndVersions(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/a/config.pbtxt", "")
	for _, v := range []string{"1", "12", "007", "0", "-3", "x", "3.5", ".5", "99999999999999999999"} {
		write(t, root+"/a/"+v+"/model.onnx", "m")
	}
	write(t, root+"/b/labels.txt", "")
	write(t, root+"/.git/1/model.onnx", "")
	write(t, root+"/file", "")
	got := scan(t, root)
	if len(got) != 2 || got["a"] == nil || got["b"] == nil {
		t.Fatalf("models = %v, want a and b", got)
	}
	if v := got["a"].Numbers(); !slices.Equal(v, []int64{1, 12}) {
		t.Errorf("versions of a = %v, want [1 12]", v)
	}
	if got["a"].Config == "" || got["b"].Config != "" {
		t.Errorf("configs = %q, %q; want one for a only", got["a"].Config, got["b"].Config)
	}
}

func TestChangesAreSeen(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, dir string)
		want   bool
	}{
		{"nothing", func(*testing.T, string) {}, false},
		{"swap file", func(t *testing.T, d string) { write(t, d+"/.config.pbtxt.swp", "x") }, false},
		{"copy under way", func(t *testing.T, d string) { write(t, d+"/1/model.onnx.part", "x") }, false},
		{"same size and time, other inode", func(t *testing.T, d string) {
			info, err := os.Stat(d + "/1/model.onnx")
			if err != nil {
				t.Fatal(err)
			}
			write(t, d+"/1/new", "n")
			if err := os.Chtimes(d+"/1/new", info.ModTime(), info.ModTime()); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(d+"/1/new", d+"/1/model.onnx"); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"new version", func(t *testing.T, d string) { write(t, d+"/2/model.onnx", "n") }, true},
		{"version removed", func(t *testing.T, d string) {
			if err := os.RemoveAll(d + "/1"); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"label file", func(t *testing.T, d string) { write(t, d+"/labels.txt", "a") }, true},
		{"file deep inside", func(t *testing.T, d string) { write(t, d+"/1/assets/x/y", "a") }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root+"/m/config.pbtxt", "")
			write(t, root+"/m/1/model.onnx", "m")
			before := scan(t, root)["m"]
			tt.change(t, root+"/m")
			if got := !before.Equal(scan(t, root)["m"]); got != tt.want {
				t.Errorf("changed = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestDuplicateNamesAreRefused(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	write(t, a+"/m/1/model.onnx", "")
	write(t, b+"/m/1/model.onnx", "")
	if err := scan(t, a, b)["m"].Err; err == nil || status.CodeOf(err) != status.InvalidArg {
		t.Errorf("Err = %v, want InvalidArg", err)
	}
}

func TestAbsentRepositoryIsAnError(t *testing.T) {
	if _, err := Scan(Options{Roots: []string{filepath.Join(t.TempDir(), "nope")}}); err == nil {
		t.Error("Scan of an absent repository passes")
	}
}

func TestLinkLoopEnds(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/m/1/model.onnx", "")
	if err := os.Symlink(root+"/m", root+"/m/1/loop"); err != nil {
		t.Fatal(err)
	}
	if m := scan(t, root)["m"]; m.Err == nil {
		t.Error("a link loop is no error")
	}
}

func TestCheckName(t *testing.T) {
	for _, name := range []string{"", ".", "..", "../x", "a/b", `a\b`, ".hidden", "a\x00b", "a\nb", string(make([]byte, 300))} {
		if CheckName(name) == nil {
			t.Errorf("CheckName(%q) passes", name)
		}
	}
	for _, name := range []string{"a", "resnet-50", "-rf", "$(x)", "模型", "%2e%2e"} {
		if err := CheckName(name); err != nil {
			t.Errorf("CheckName(%q) = %v", name, err)
		}
	}
}

func TestWatchTellsOfANewFile(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/m/1/model.onnx", "")
	ctx, cancel := context.WithCancel(t.Context())
	c := Watch(ctx, []string{root}, time.Millisecond, slog.New(slog.DiscardHandler))
	write(t, root+"/m/2/model.onnx", "")
	if _, ok := <-c; !ok {
		t.Error("channel closed before the context ended")
	}
	cancel()
	for range c { // drains, and ends because Watch closes it
	}
}
