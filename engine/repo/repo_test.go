package repo

import (
	"context"
	"errors"
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
	m, unread := Scan(Options{Roots: roots})
	if len(unread) > 0 {
		t.Fatal(unread)
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
		{"copy of unsaved text", func(t *testing.T, d string) { write(t, d+"/#config.pbtxt#", "x") }, false},
		{"copy under way", func(t *testing.T, d string) { write(t, d+"/1/model.onnx.part", "x") }, false},
		{"B15 same size and time, other inode", func(t *testing.T, d string) {
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
		{"saved request", func(t *testing.T, d string) { write(t, d+"/requests/one.json", "{}") }, false},
		{"new version", func(t *testing.T, d string) { write(t, d+"/2/model.onnx", "n") }, true},
		{"version removed", func(t *testing.T, d string) {
			if err := os.RemoveAll(d + "/1"); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"permissions mended", func(t *testing.T, d string) {
			if err := os.Chmod(d+"/1/model.onnx", 0o600); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"B15 modification time in 1970", func(t *testing.T, d string) {
			if err := os.Chtimes(d+"/1/model.onnx", time.Unix(0, 0), time.Unix(0, 0)); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"B15 modification time in the future", func(t *testing.T, d string) {
			if err := os.Chtimes(d+"/1/model.onnx", time.Now(), time.Now().AddDate(100, 0, 0)); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"B15 another hard link", func(t *testing.T, d string) {
			info, err := os.Stat(d + "/1/model.onnx")
			if err != nil {
				t.Fatal(err)
			}
			write(t, d+"/../other", "o")
			if err := errors.Join(os.Chtimes(d+"/../other", info.ModTime(), info.ModTime()),
				os.Remove(d+"/1/model.onnx"),
				os.Link(d+"/../other", d+"/1/model.onnx")); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"B15 a folder renamed over the version", func(t *testing.T, d string) {
			write(t, d+"/.next/model.onnx", "m")
			if err := errors.Join(os.RemoveAll(d+"/1"), os.Rename(d+"/.next", d+"/1")); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"link put in place of a file", func(t *testing.T, d string) {
			write(t, d+"/../elsewhere", "m")
			if err := errors.Join(os.Remove(d+"/1/model.onnx"),
				os.Symlink(d+"/../elsewhere", d+"/1/model.onnx")); err != nil {
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

// A model whose name was registered, or that is in the preferred repository, is taken before folders of its name.
func TestRegisteredNamesArePreferred_A024(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	write(t, a+"/m/1/model.onnx", "")
	write(t, b+"/m/1/model.onnx", "")
	write(t, b+"/x/1/model.onnx", "")
	for _, tt := range []struct {
		name string
		o    Options
		want string
	}{
		{"another name than its folder's", Options{Names: map[string]map[string][]string{b: {"x": {"m"}, "m": {"y"}}}},
			b + "/x"},
		{"one of two names", Options{Names: map[string]map[string][]string{b: {"x": {"z", "m"}, "m": {"y"}}}},
			b + "/x"},
		{"the name of its folder", Options{Names: map[string]map[string][]string{b: {"m": {"m"}}}}, b + "/m"},
		{"a preferred repository", Options{Preferred: b}, b + "/m"},
		{"a repository that yields", Options{Yielding: a}, b + "/m"},
	} {
		for _, roots := range [][]string{{a, b}, {b, a}} {
			tt.o.Roots = roots
			if found, _ := Scan(tt.o); found["m"].Err != nil || found["m"].Folder != tt.want {
				t.Errorf("%s: %s, %v; want %s", tt.name, found["m"].Folder, found["m"].Err, tt.want)
			}
		}
	}
}

func TestOneUnreadableRepositoryDoesNotHideTheOthers(t *testing.T) {
	good, absent, file := t.TempDir(), filepath.Join(t.TempDir(), "nope"), filepath.Join(t.TempDir(), "file")
	write(t, good+"/m/1/model.onnx", "")
	write(t, file, "")
	models, unread := Scan(Options{Roots: []string{absent, good, file}})
	if len(models) != 1 || models["m"] == nil || models["m"].Err != nil {
		t.Errorf("models = %v, want m", models)
	}
	if len(unread) != 2 || unread[absent] == nil || unread[file] == nil {
		t.Errorf("unread = %v, want %s and %s", unread, absent, file)
	}
}

// An unmounted repository leaves an empty folder on the parent file system. It must not count as a repository without
// models.
func TestAnUnmountedRepositoryIsUnread_B16(t *testing.T) {
	full, empty, emptied := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, full+"/m/1/model.onnx", "")
	write(t, emptied+"/n/1/model.onnx", "")
	o := Options{Roots: []string{full, empty, emptied}, Devices: map[string]uint64{}}
	if _, unread := Scan(o); len(unread) != 0 || len(o.Devices) != 2 {
		t.Fatalf("unread %v, devices %v; want the two that have models", unread, o.Devices)
	}
	if err := os.RemoveAll(emptied + "/n"); err != nil {
		t.Fatal(err)
	}
	if _, unread := Scan(o); len(unread) != 0 {
		t.Errorf("emptied in place: unread %v, want none", unread)
	}
	o.Devices[full]++ // as if another file system were mounted
	o.Devices[emptied]++
	models, unread := Scan(o)
	if len(unread) != 1 || unread[emptied] == nil || models["m"] == nil {
		t.Errorf("on other file systems: unread %v, models %v; want the empty one unread", unread, models)
	}
}

func TestARepositoryListedTwiceIsReadOnce(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/m/1/model.onnx", "")
	if err := scan(t, root, root+"/.", root+"/")["m"].Err; err != nil {
		t.Errorf("Err = %v, want none", err)
	}
}

func TestInvalidNamesAreRefused(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/a\nb/1/model.onnx", "")
	if m := scan(t, root)["a\nb"]; m == nil || status.CodeOf(m.Err) != status.InvalidArg {
		t.Errorf("a folder with a line break in its name = %+v, want it with InvalidArg", m)
	}
}

func TestFingerprintsWithAndWithoutTheConfiguration(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/m/config.pbtxt", "a")
	write(t, root+"/m/configs/other.pbtxt", "a")
	write(t, root+"/m/labels.txt", "a")
	look := func(config string) *Model { return ScanModel(root, "m", config) }
	plain, other := look(""), look("other")
	write(t, root+"/m/config.pbtxt", "ab")
	if p, o := look(""), look("other"); p.Shared == plain.Shared || p.Rest != plain.Rest || o.Rest == other.Rest {
		t.Errorf("config.pbtxt changed: %+v and with --model-config-name %+v; want only the former's rest unchanged", p,
			o)
	}
	plain = look("")
	write(t, root+"/m/labels.txt", "ab")
	if p := look(""); p.Shared == plain.Shared || p.Rest == plain.Rest {
		t.Errorf("labels changed: %+v, was %+v; want both prints changed", p, plain)
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
	long := string(make([]byte, 300))
	for _, name := range []string{"", ".", "..", "../x", "a/b", `a\b`, ".hidden", "a\x00b", "a\nb", long, " ",
		"\u200b", "\u00a0\u2060"} {
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

// Linux reports changes long before the next poll. Other systems may not.
func TestWatchReportsANewFile_A058(t *testing.T) {
	for name, file := range map[string]string{"a version's file": "/m/2/model.onnx", "a marker": "/m/" + ReadyName} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root+"/m/1/model.onnx", "")
			ctx, cancel := context.WithCancel(t.Context())
			c := Watch(ctx, []string{root}, time.Hour, slog.New(slog.DiscardHandler))
			again := time.NewTicker(10 * time.Millisecond) // Watch may not look yet when the file is written first
			defer again.Stop()
			late := time.After(time.Minute)
		wait:
			for {
				write(t, root+file, "")
				select {
				case _, ok := <-c:
					if !ok {
						t.Error("channel closed before the context ended")
					}
					break wait
				case <-again.C:
				case <-late:
					t.Error("no report of " + file)
					break wait
				}
			}
			cancel()
			for range c { // drains, and ends because Watch closes it
			}
		})
	}
}

// A file with a constant modification time is overwritten by one of the same size.
func TestOverwrittenFilesWithConstantTimes_B15(t *testing.T) {
	for name, at := range map[string]time.Time{"1970": time.Unix(0, 0), "the future": time.Now().AddDate(10, 0, 0),
		"1980": time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)} {
		t.Run("B15 "+name, func(t *testing.T) {
			root := t.TempDir()
			path := root + "/m/1/model.onnx"
			put := func(text string) {
				t.Helper()
				f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := f.WriteString(text); err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(f.Close(), os.Chtimes(path, at, at)); err != nil {
					t.Fatal(err)
				}
			}
			write(t, path, "")
			put("old")
			before := scan(t, root)["m"]
			if !before.Equal(scan(t, root)["m"]) {
				t.Fatal("nothing changed, and it looks so")
			}
			deadline := time.Now().Add(time.Minute)
			for before.Equal(scan(t, root)["m"]) { // the clock of change times is coarse
				put("new")
				if time.Now().After(deadline) {
					t.Fatal("a change of the content is not seen")
				}
			}
		})
	}
}
