package desktop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAutostart(t *testing.T) {
	home := t.TempDir()
	env := func(all map[string]string) func(string) string { return func(k string) string { return all[k] } }
	a, err := NewAutostart(env(map[string]string{"HOME": home}), "/srv/my models", "/opt/nereid desktop",
		"--model-repository=./a b", `--id=50% "$x"\`)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(home, ".config/autostart/nereid.desktop"); a.Path != want || a.On() {
		t.Fatalf("the entry is %s (on: %v), want %s", a.Path, a.On(), want)
	}
	if err := a.Set(false); err != nil {
		t.Errorf("turning off what is off: %v", err)
	}
	if err := a.Set(true); err != nil || !a.On() {
		t.Fatalf("Set(true) = %v, on %v", err, a.On())
	}
	b, err := os.ReadFile(a.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"[Desktop Entry]\n", "\nType=Application\n", "\nPath=/srv/my models\n",
		"\n" + `Exec="/opt/nereid desktop" "--model-repository=./a b" "--id=50%% \\"\\$x\\"\\\\"` + "\n"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the entry has no %q:\n%s", want, b)
		}
	}
	if err := a.Set(false); err != nil || a.On() {
		t.Errorf("Set(false) = %v, on %v", err, a.On())
	}
	if _, err := os.Stat(a.Path); !os.IsNotExist(err) {
		t.Errorf("the entry is still there: %v", err)
	}

	if err := os.WriteFile(a.Path, []byte("[Desktop Entry]\nExec=other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, on := range []bool{true, false} {
		if err := a.Set(on); err == nil || !strings.Contains(err.Error(), "not this program's") {
			t.Errorf("Set(%v) over another program's entry = %v", on, err)
		}
	}

	if b, err := NewAutostart(env(map[string]string{"HOME": home, "XDG_CONFIG_HOME": "/etc/mine"}), "/"); err != nil ||
		b.Path != "/etc/mine/autostart/nereid.desktop" {
		t.Errorf("XDG_CONFIG_HOME: %v, %v", b, err)
	}
	if _, err := NewAutostart(env(nil), "/"); err == nil {
		t.Error("without a home there is a place all the same")
	}
}
