package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBackupCommand(t *testing.T) {
	dir := t.TempDir()
	run := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		var out, err bytes.Buffer
		if code := Main(append([]string{"nereid"}, args...), &out, &err); code != want {
			t.Fatalf("nereid %s ends with %d, want %d: %s%s", strings.Join(args, " "), code, want, out.String(),
				err.String())
		}
		return out.String(), err.String()
	}
	r := runServer(t, "", "--data-dir="+dir)
	run(0, "token", "create", "--name=laptop", "--data-dir="+dir)
	file := filepath.Join(t.TempDir(), "b.db")
	t.Run("G027 while the server runs", func(t *testing.T) {
		if out, _ := run(0, "backup", "--data-dir="+dir, file); !strings.Contains(out, "bytes of "+dir) {
			t.Errorf("it says %q", out)
		}
		if _, err := run(1, "backup", "--data-dir="+dir, file); !strings.Contains(err, "exists already") {
			t.Errorf("a second one into the same file: %q", err)
		}
		if _, err := run(1, "restore", "--data-dir="+dir, file); !strings.Contains(err, "in use by another nereid") {
			t.Errorf("a restore under the server's feet: %q", err)
		}
	})
	t.Run("G027 restored elsewhere", func(t *testing.T) {
		other := filepath.Join(t.TempDir(), "new")
		run(0, "restore", "--data-dir="+other, file)
		if out, _ := run(0, "token", "list", "--data-dir="+other); !strings.Contains(out, "laptop") {
			t.Errorf("the token is not there: %q", out)
		}
	})
	t.Run("G027 files and folders with relative names", func(t *testing.T) {
		t.Chdir(filepath.Dir(file))
		run(0, "restore", "--data-dir=relative", filepath.Base(file))
		run(0, "backup", "--data-dir=relative", "again.db")
		if out, _ := run(0, "token", "list", "--data-dir=relative"); !strings.Contains(out, "laptop") {
			t.Errorf("the token is not there: %q", out)
		}
	})
	t.Run("G027 restored in place, once the server is stopped", func(t *testing.T) {
		r.shutdown()
		run(0, "token", "revoke", "--data-dir="+dir, "laptop")
		out, _ := run(0, "restore", "--data-dir="+dir, file)
		_, aside, _ := strings.Cut(strings.TrimSpace(out), "what it had is in ")
		if _, err := os.Stat(aside); err != nil {
			t.Errorf("what was there is not kept: %q", out)
		}
		if out, _ := run(0, "token", "list", "--data-dir="+dir); !strings.Contains(out, "laptop") {
			t.Errorf("the token is not back: %q", out)
		}
	})
	for _, args := range [][]string{{"backup"}, {"restore", "a", "b"}, {"backup", "--nosuch", "x"}} {
		run(1, args...)
	}
	if out, _ := run(0, "restore", "--help"); !strings.Contains(out, "nereid restore [--data-dir=<folder>] <file>") {
		t.Errorf("help: %q", out)
	}
}

func TestLicencesCommand_G025(t *testing.T) {
	var out, err bytes.Buffer
	if code := Main([]string{"nereid", "licenses"}, &out, &err); code != 0 || !strings.Contains(out.String(), "== ") ||
		!strings.Contains(out.String(), "google.golang.org/grpc") {
		t.Errorf("it ends with %d and says %.200q %q", code, out.String(), err.String())
	}
}
