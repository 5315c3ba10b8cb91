package engine_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"nereid/engine"
	"nereid/engine/status"
)

// A model folder with invalid content is refused with the reason. Another model stays in service, and polling goes on.
func TestInvalidFoldersAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		put  func(dir string) error // dir/config.pbtxt and dir/1 are there
		want string                 // in the reason
	}{
		{"B7 a loop of links", func(dir string) error { return os.Symlink(dir, dir+"/1/again") }, "nested more than"},
		{"B7 a link to itself", func(dir string) error { return os.Symlink(dir+"/1/x", dir+"/1/x") },
			"too many levels of symbolic links"},
		{"B7 a pipe in place of the model", func(dir string) error {
			return syscall.Mkfifo(dir+"/1/model.onnx", 0o600)
		}, "is a pipe"},
		{"B7 a pipe in place of the configuration", func(dir string) error {
			return errors.Join(os.Remove(dir+"/config.pbtxt"), syscall.Mkfifo(dir+"/config.pbtxt", 0o600))
		}, "is a pipe"},
		{"B7 a socket", func(dir string) error {
			l, err := net.Listen("unix", dir+"/1/s")
			if err == nil {
				l.(*net.UnixListener).SetUnlinkOnClose(false)
				err = l.Close()
			}
			return err
		}, "is a socket"},
		{"B7 a link to a device", func(dir string) error { return os.Symlink("/dev/zero", dir+"/1/model.onnx") },
			"is a device"},
		{"B7 a folder in place of the configuration", func(dir string) error {
			return errors.Join(os.Remove(dir+"/config.pbtxt"), os.Mkdir(dir+"/config.pbtxt", 0o755))
		}, "Could not determine backend"},
		{"B2 a configuration of 50 MB", func(dir string) error {
			return os.WriteFile(dir+"/config.pbtxt", []byte(strings.Repeat("# comment\n", 5<<20)), 0o644)
		}, "is larger than"},
		{"B2 a configuration that is no text", func(dir string) error {
			return os.WriteFile(dir+"/config.pbtxt", []byte("\x00\xff\x00"), 0o644)
		}, "config.pbtxt:1:1: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root, ch := repository(t), newChanges()
			e := start(t, engine.Options{
				ModelOptions: engine.ModelOptions{
					Repositories: []string{root}, Settle: time.Millisecond,
					Events: engine.EventListener{Changed: ch.note},
				},
				Mode: engine.ModePoll, PollInterval: 5 * time.Millisecond,
			})
			staged := t.TempDir() + "/bad"
			write(t, staged+"/config.pbtxt", identityConfig)
			if err := errors.Join(os.Mkdir(staged+"/1", 0o755), tt.put(staged)); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(staged, root+"/bad"); err != nil {
				t.Skip("the folders are on different file systems")
			}
			// These links have an absolute target, which must be in the new place.
			if strings.HasPrefix(tt.name, "B7 a loop") || strings.HasPrefix(tt.name, "B7 a link to itself") {
				if err := os.RemoveAll(root + "/bad/1"); err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(os.Mkdir(root+"/bad/1", 0o755), tt.put(root+"/bad")); err != nil {
					t.Fatal(err)
				}
			}
			ch.until(t, "the reason in the index", func() bool {
				m, _ := e.Model("bad")
				return m.Err != nil && strings.Contains(m.Err.Error(), tt.want)
			})
			if _, err := ask(e, request(1, 3)); err != nil {
				t.Errorf("the other model: %v", err)
			}
			write(t, root+"/more/config.pbtxt", identityConfig)
			write(t, root+"/more/1/.keep", "")
			ch.until(t, "polling to go on", func() bool { return slices.Contains(ready(e), "more:1") })
		})
	}
}

// Requests for invalid model names are refused, and change nothing.
func TestInvalidNamesAreRefused(t *testing.T) {
	outside := t.TempDir()
	root := filepath.Join(outside, "models")
	write(t, root+"/id/config.pbtxt", identityConfig)
	write(t, root+"/id/1/.keep", "")
	write(t, outside+"/x/config.pbtxt", identityConfig)
	write(t, outside+"/x/1/.keep", "")
	overrides := filepath.Join(outside, "overrides")
	if err := os.Mkdir(overrides, 0o700); err != nil {
		t.Fatal(err)
	}
	e := start(t, engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{root}, OverrideFolder: overrides},
		Mode:         engine.ModeExplicit, StartupModels: []string{"id"},
	})
	before := files(t, outside)
	for _, name := range []string{"", "..", "../x", "a/../../x", `..\x`, "%2e%2e", "%252e", outside + "/x", "a\x00b",
		strings.Repeat("x", 5000), "-rf", "$(x)", ".hidden"} {
		t.Run("B3 "+name[:min(len(name), 20)], func(t *testing.T) {
			for _, p := range []engine.LoadParameters{{},
				{ConfigJSON: `{"backend":"identity"}`, Files: map[string][]byte{"1/x": []byte("x")}}} {
				if len(p.Files) > 0 && (name == "%2e%2e" || name == "%252e" || name == "-rf" || name == "$(x)") {
					continue // names like any other, for a model that comes with the request
				}
				if err := e.LoadModel(t.Context(), name, p); err == nil || status.CodeOf(err) == status.Unavailable {
					t.Errorf("LoadModel(%.40q) = %v", name, err)
				}
			}
			if err := e.UnloadModel(t.Context(), name, true); err != nil {
				t.Errorf("UnloadModel(%.40q) = %v, want nothing to unload", name, err)
			}
			r := request(1, 1)
			r.ModelName = name
			if _, err := ask(e, r); err == nil {
				t.Errorf("Infer(%.40q) answers", name)
			}
			if _, known := e.Model(name); known {
				t.Errorf("%.40q is known as a model", name)
			}
		})
	}
	if after := files(t, outside); !slices.Equal(after, before) {
		t.Errorf("files were touched: %v, before %v", after, before)
	}
	if _, err := ask(e, request(1, 2)); err != nil {
		t.Error(err)
	}
}

// files lists all below a folder.
func files(t *testing.T, root string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		all = append(all, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Load requests with paths outside the model's folder and with invalid configurations are refused. The model stays in
// service, and no files are left.
func TestInvalidOverridesAreRefused(t *testing.T) {
	overrides := t.TempDir()
	e := start(t, engine.Options{
		ModelOptions: engine.ModelOptions{Repositories: []string{repository(t)}, OverrideFolder: overrides},
		Mode:         engine.ModeExplicit, StartupModels: []string{"id"},
	})
	const good = `{"backend":"identity","max_batch_size":8,"input":[{"name":"INPUT0","data_type":"TYPE_FP32",` +
		`"dims":[4]}],"output":[{"name":"OUTPUT0","data_type":"TYPE_FP32","dims":[4]}]}`
	deep := strings.Repeat("d/", 200) + "x"
	for _, tt := range []struct {
		name, config, file, want string
	}{
		{"B4 up", good, "../../x", "must be a path inside the model folder"},
		{"B4 absolute", good, "/abs", "must be a path inside the model folder"},
		{"B4 up after a version", good, "1/../../x", "must be a path inside the model folder"},
		{"B4 a folder", good, "1/", "must be a path inside the model folder"},
		{"B4 nothing", good, "", "must be a path inside the model folder"},
		{"B4 NUL", good, "1/a\x00b", "must be a path inside the model folder"},
		{"B4 too deep", good, deep, ""},
		{"B4 a long path", good, strings.Repeat("d/", 3000) + "x", "from model repository: file override"},
		{"B4 a long name", good, "1/" + strings.Repeat("a", 300), "from model repository: file override"},
		{"B5 no configuration", "", "1/x", "must have the parameter 'config'"},
		{"B5 not JSON", "{bad", "1/x", "config:1:2"},
		{"DV96 a name without quotes", `{backend:"identity"}`, "1/x", "config:1:2"},
		{"B5 another model's", strings.Replace(good, "{", `{"name":"other",`, 1), "1/x",
			"unexpected directory name 'id' for model 'other'"},
		{"B5 a backend that is not there", `{"backend":"nosuch"}`, "1/x", "unable to find backend library"},
		{"I006 a platform that is none", `{"platform":"nosuch"}`, "1/x", "unexpected platform type 'nosuch' for id"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := engine.LoadParameters{ConfigJSON: tt.config, Files: map[string][]byte{tt.file: []byte("x")}}
			err := e.LoadModel(t.Context(), "id", p)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("LoadModel = %v, want %q", err, tt.want)
			}
			if _, err := ask(e, request(1, 1)); err != nil {
				t.Errorf("the model does not serve on: %v", err)
			}
			left, err := os.ReadDir(overrides)
			if err != nil || len(left) != 0 {
				t.Errorf("left of the override: %v, %v", left, err)
			}
		})
	}
	t.Run("B6 10000 files", func(t *testing.T) {
		p := engine.LoadParameters{ConfigJSON: good, Files: map[string][]byte{}}
		for i := range 10_000 {
			p.Files["1/"+strings.Repeat("f", 1+i%50)+"/"+strings.Repeat("x", 1+i/50)] = nil
		}
		err := e.LoadModel(t.Context(), "id", p)
		if err == nil {
			if err = e.UnloadModel(t.Context(), "id", false); err != nil {
				t.Fatal(err)
			}
			t.Fatal("10000 files were taken")
		}
		left, rerr := os.ReadDir(overrides)
		if status.CodeOf(err) != status.InvalidArg && status.CodeOf(err) != status.Internal ||
			!strings.Contains(err.Error(), "files") || rerr != nil || len(left) != 0 {
			t.Errorf("LoadModel = %v; left %v, %v", err, left, rerr)
		}
	})
}
