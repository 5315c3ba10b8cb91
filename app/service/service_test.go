package service_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"nereid/app/options"
	"nereid/app/service"
)

func environ(values map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := values[name]; return v, ok }
}

func TestStatesReachTheSocketOfTheServiceManager(t *testing.T) {
	folder, err := os.MkdirTemp("", "n") //nolint:usetesting // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	for _, name := range []string{filepath.Join(folder, "s"), "@nereid-" + filepath.Base(folder)} {
		l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		n := service.FromEnvironment(environ(map[string]string{"NOTIFY_SOCKET": name}), 7)
		for _, state := range []string{"READY=1", service.Stopping(35 * time.Second), service.Reloading()} {
			if err := n.Send(state); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 200)
			if got, err := l.Read(b); err != nil || string(b[:got]) != state {
				t.Errorf("%s got %q, %v, want %q", name, b[:got], err, state)
			}
		}
	}
}

// A manager that reads nothing must not keep the server from stopping.
func TestSendGivesUpWhenTheManagerReadsNothing(t *testing.T) {
	name := "@nereid-full-" + filepath.Base(t.TempDir()) + strconv.Itoa(os.Getpid())
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := service.FromEnvironment(environ(map[string]string{"NOTIFY_SOCKET": name}), 7)
	for n.Send("WATCHDOG=1") == nil { // until the socket is full
	}
	if err := n.Send("STOPPING=1"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Send to a full socket = %v, want a deadline", err)
	}
}

func TestTheWatchdogIntervalIsHalfItsTimeout(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  map[string]string
		want time.Duration
	}{
		{"no manager", nil, 0},
		{"no watchdog", map[string]string{"NOTIFY_SOCKET": "/s"}, 0},
		{"on", map[string]string{"NOTIFY_SOCKET": "/s", "WATCHDOG_USEC": "4000000"}, 2 * time.Second},
		{"ours", map[string]string{"NOTIFY_SOCKET": "/s", "WATCHDOG_USEC": "4000000", "WATCHDOG_PID": "7"},
			2 * time.Second},
		{"another process's", map[string]string{"NOTIFY_SOCKET": "/s", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "8"}, 0},
		{"nonsense", map[string]string{"NOTIFY_SOCKET": "/s", "WATCHDOG_USEC": "-x"}, 0},
	} {
		n := service.FromEnvironment(environ(tt.env), 7)
		if got := n.WatchdogInterval(); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	var none *service.Notifier
	if err := none.Send("READY=1"); err != nil {
		t.Error(err)
	}
}

// In an image that is being built, install writes the unit of this program and keeps a configuration; uninstall removes
// only the unit.
func TestTheServiceIsInstalledIntoAnImage(t *testing.T) {
	root := t.TempDir()
	exe := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(exe, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	s := service.System{Root: root, Out: &out}
	read := func(path string) string {
		b, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	const unit, config = "etc/systemd/system/nereid.service", "etc/nereid/nereid.yaml"
	for range 2 {
		if err := s.Install(exe); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(read(unit), "\nExecStart=/usr/local/bin/nereid serve --config-file=") {
			t.Errorf("the unit starts another program:\n%s", read(unit))
		}
		if info, err := os.Stat(filepath.Join(root, "usr/local/bin/nereid")); err != nil || info.Mode() != 0o755 {
			t.Errorf("the program: %v, %v", info, err)
		}
		if err := os.WriteFile(filepath.Join(root, config), []byte(read(config)+"id: changed\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(read(config), "id: changed"); got != 2 {
		t.Errorf("the second installation replaced the configuration: %d changes of 2 are there", got)
	}
	if s.Status() || !strings.Contains(out.String(), "installed: "+root) {
		t.Errorf("status: %s", &out)
	}
	if err := s.Uninstall(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, unit)); err == nil {
		t.Error("the unit is still there")
	}
	read(config)
	if err := s.Uninstall(); err == nil {
		t.Error("a second uninstall is no error")
	}
}

func TestTheServiceOfAPackageIsLeftToIt(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "usr/lib/systemd/system"), 0o755); err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(root, "usr/lib/systemd/system/nereid.service")
	if err := os.WriteFile(unit, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s := service.System{Root: root, Out: &strings.Builder{}}
	if err := s.Install("/usr/bin/nereid"); err == nil {
		t.Error("install over a package is no error")
	}
	if err := s.Uninstall(); err == nil {
		t.Error("uninstall of a package's service is no error")
	}
}

// The configuration file that is installed is read without a fault, and each option in its comments too.
func TestTheInstalledConfigurationIsValid(t *testing.T) {
	text, err := os.ReadFile("nereid.yaml")
	if err != nil {
		t.Fatal(err)
	}
	commented := strings.NewReplacer("# model-", "model-", "# http-", "http-", "# grpc-", "grpc-").Replace(string(text))
	for _, text := range []string{string(text), commented + "allow-anonymous: true\n"} {
		file := filepath.Join(t.TempDir(), "nereid.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := options.Load(false, []string{"--config-file=" + file}, environ(nil))
		if err != nil || c.DataDir != "/var/lib/nereid" {
			t.Errorf("%v, data in %q", err, c.DataDir)
		}
	}
}
