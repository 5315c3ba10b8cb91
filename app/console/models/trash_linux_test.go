package models

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

const nobody = 65534 // a user who is not root

// Whatever prevents a move to the trash, the model is whole afterwards: where it was, in the trash, or in both.
func TestTrashLosesNothing_B23(t *testing.T) {
	for _, tt := range []struct {
		name           string
		prevent        func(t *testing.T, trash *Trash, models string) // of models/m
		fails          bool
		stays, trashed bool // the model is where it was, is in the trash
	}{
		{"nothing", func(*testing.T, *Trash, string) {}, false, false, true},
		{"a file that cannot be copied", func(t *testing.T, _ *Trash, models string) {
			if err := unix.Mkfifo(filepath.Join(models, "m", "pipe"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, true, true, false},
		{"a folder that cannot be renamed", func(t *testing.T, trash *Trash, models string) {
			asNobody(t, filepath.Join(models, "m"), trash.Dir)
			if err := os.Chmod(models, 0o555); err != nil { //nolint:gosec // so that nothing in it can be renamed
				t.Fatal(err)
			}
		}, true, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			other, err := os.MkdirTemp("/dev/shm", "nereid-") //nolint:usetesting // in another file system
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = errors.Join(os.Chmod(other, 0o700), os.RemoveAll(other)) })
			folder, trash := filepath.Join(other, "m"), &Trash{Dir: filepath.Join(t.TempDir(), "trash")}
			err = errors.Join(os.Mkdir(trash.Dir, 0o700), os.MkdirAll(filepath.Join(folder, "1"), 0o755),
				os.WriteFile(filepath.Join(folder, "1/model.onnx"), []byte("good"), 0o644))
			if err != nil {
				t.Fatal(err)
			}
			tt.prevent(t, trash, other)
			item, err := trash.Put("m", folder, folder)
			if (err != nil) != tt.fails {
				t.Errorf("Put: %v", err)
			}
			if left, err := os.ReadDir(trash.Dir); (len(left) == 1) != tt.trashed || err != nil {
				t.Errorf("%v is left, %v", left, err)
			}
			trash.RemoveLeft(slog.New(slog.DiscardHandler)) // the next start
			list, lerr := trash.list()
			if (len(list) == 1) != tt.trashed || lerr != nil {
				t.Errorf("the trash has %+v, %v", list, lerr)
			}
			moved := filepath.Join(trash.Dir, item.ID, "model")
			for at, want := range map[string]bool{folder: tt.stays, moved: tt.trashed} {
				text, err := os.ReadFile(filepath.Join(at, "1/model.onnx"))
				if (err == nil && string(text) == "good") != want {
					t.Errorf("%s: %q, %v; want the model: %t", at, text, err, want)
				}
			}
		})
	}
}

// A process that ended between the copy to another file system and the removal of the original left both. The next
// start finds that the model is in the trash already.
func TestACopyInTheTrashIsNotMadeAgain_B23(t *testing.T) {
	root, err := os.MkdirTemp("/dev/shm", "nereid-") //nolint:usetesting // in another file system
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(os.Chmod(root, 0o700), os.RemoveAll(root)) })
	trash := &Trash{Dir: filepath.Join(t.TempDir(), "trash")}
	replaced, place := filepath.Join(root, ".nereid-ABCDEFGHIJKLMNOP"), filepath.Join(root, "m")
	for _, dir := range []string{trash.Dir, replaced} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(replaced, "x"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	asNobody(t, replaced, trash.Dir)
	if err := os.Chmod(root, 0o555); err != nil { //nolint:gosec // so that nothing in it can be renamed
		t.Fatal(err)
	}
	if _, err := trash.Put("m", replaced, place); err == nil {
		t.Fatal("a folder that cannot be renamed was moved")
	}
	if err := os.Chmod(root, 0o755); err != nil { //nolint:gosec // it can again
		t.Fatal(err)
	}
	trash.RemoveLeft(slog.New(slog.DiscardHandler))
	item, err := trash.Put("m", replaced, place)
	list, lerr := trash.list()
	if err != nil || lerr != nil || len(list) != 1 || list[0] != item || item.From != place || item.SizeBytes != 3 {
		t.Errorf("the trash has %+v, and Put says %+v, %v, %v", list, item, err, lerr)
	}
	if text, err := os.ReadFile(filepath.Join(trash.Dir, item.ID, "model/x")); err != nil || string(text) != "old" {
		t.Errorf("in the trash: %q, %v", text, err)
	}
	if left, err := os.ReadDir(root); err != nil || len(left) != 0 {
		t.Errorf("the repository has %v, %v", left, err)
	}
}

// A process that ended after it had restored a model to another file system, before it removed the copy in the trash,
// left both. The next start removes the copy, unless another model is in the place by then.
func TestARestoredModelDoesNotStayInTheTrash_B23(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs two users")
	}
	for name, another := range map[string]bool{"the same model": false, "another model": true} {
		t.Run(name, func(t *testing.T) {
			trash, file := restoredAndLeft(t)
			if another {
				if err := os.WriteFile(file, []byte("another"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			trash.RemoveLeft(slog.New(slog.DiscardHandler)) // the next start
			list, err := trash.list()
			if err != nil || (len(list) == 1) != another {
				t.Errorf("the trash has %+v, %v; want the model: %t", list, err, another)
			}
			if _, err := os.Stat(file); err != nil {
				t.Error(err)
			}
		})
	}
}

// restoredAndLeft restores a model to another file system by a user who cannot remove the copy in the trash. It returns
// the trash and a file of the model.
func restoredAndLeft(t *testing.T) (trash *Trash, file string) {
	t.Helper()
	root, err := os.MkdirTemp("/dev/shm", "nereid-") //nolint:usetesting // in another file system
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	trash, folder := &Trash{Dir: filepath.Join(t.TempDir(), "trash")}, filepath.Join(root, "m")
	file = filepath.Join(folder, "1/model.onnx")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755),
		os.WriteFile(file, []byte("good"), 0o644)); err != nil {
		t.Fatal(err)
	}
	put, err := trash.Put("m", folder, folder)
	if err != nil {
		t.Fatal(err)
	}
	item, err := trash.get(put.ID)
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(trash.Dir, item.ID)
	// In a folder with this bit, only the owner of a file can rename it.
	if err := errors.Join(os.Chown(filepath.Join(at, "item.json"), nobody, nobody),
		os.Chmod(at, 0o777|os.ModeSticky)); err != nil { //nolint:gosec // see above
		t.Fatal(err)
	}
	asNobody(t, root, trash.Dir)
	err = trash.restore(item)
	if text, rerr := os.ReadFile(file); err == nil || rerr != nil || string(text) != "good" {
		t.Fatalf("restore: %v; the model is %q, %v", err, text, rerr)
	}
	if err := unix.Setfsuid(0); err != nil {
		t.Fatal(err)
	}
	return trash, file
}

// asNobody makes the rest of the test run as a user who is not root and owns these folders.
func asNobody(t *testing.T, own ...string) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	for _, dir := range own {
		for _, d := range []string{dir, filepath.Dir(dir), filepath.Dir(filepath.Dir(dir))} {
			if d == "/dev" || d == "/dev/shm" {
				break
			}
			if err := os.Chown(d, nobody, nobody); err != nil {
				t.Fatal(err)
			}
		}
	}
	runtime.LockOSThread()
	if err := unix.Setfsuid(nobody); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setfsuid(0); err != nil {
			t.Error(err)
		}
		runtime.UnlockOSThread()
	})
}
