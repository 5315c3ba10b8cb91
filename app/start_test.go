package app

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"nereid/app/access"
	"nereid/app/datadir"
	"nereid/app/options"
	"nereid/store"
)

func TestASecondStartOnTheSameDataFolderIsRefused(t *testing.T) {
	dir := t.TempDir()
	first, err := datadir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = datadir.Open(dir)
	if err == nil || !strings.Contains(err.Error(), "pid "+strconv.Itoa(os.Getpid())) ||
		!strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("second start = %v, want a refusal that names the holder and the cure", err)
	}
	first.Close()
	again, err := datadir.Open(dir)
	if err != nil {
		t.Fatalf("after the first is gone: %v", err)
	}
	again.Close()
}

func TestTritonserverStartsWithATemporaryDataFolder(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	taken := t.TempDir()
	first, err := datadir.Open(filepath.Join(taken, "nereid"))
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	unset := func(string) (string, bool) { return "", false }
	home := func(dir string) func(string) (string, bool) {
		return func(name string) (string, bool) { return dir, name == "XDG_DATA_HOME" }
	}
	for _, tc := range []struct {
		name     string
		asTriton bool
		home     string // HOME
		lookup   func(string) (string, bool)
		args     []string
		refused  string // part of the error
	}{
		{name: "HOME is not set", asTriton: true, lookup: unset},
		{name: "HOME cannot be written", asTriton: true, home: "/proc", lookup: unset},
		{name: "another server has the default folder", asTriton: true, lookup: home(taken)},
		{name: "a folder asked for is never replaced", asTriton: true, lookup: home(taken),
			args: []string{"--data-dir=/proc/x"}, refused: "--data-dir"},
		{name: "nereid keeps its history or says why not", home: "/proc", lookup: unset, refused: "--data-dir"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("HOME", tc.home)
			c, err := options.Load(tc.asTriton, tc.args, tc.lookup)
			if err != nil {
				t.Fatal(err)
			}
			s := &server{c: c, log: slog.New(slog.DiscardHandler)}
			err = s.openData(t.Context())
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) {
					t.Fatalf("openData = %v, want a refusal with %q", err, tc.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(s.warnings) != 1 || !strings.Contains(s.warnings[0].Text, s.data.Path) ||
				!strings.Contains(s.warnings[0].Text, "--data-dir") {
				t.Errorf("warnings = %v, want one that names the folder and the option", s.warnings)
			}
			if c.DataDir != s.data.Path || !strings.HasPrefix(s.data.Path, os.TempDir()) {
				t.Errorf("data folder %q, configuration says %q", s.data.Path, c.DataDir)
			}
			s.data.Close()
			if _, err := os.Stat(s.data.Path); !os.IsNotExist(err) {
				t.Errorf("the temporary folder stays: %v", err)
			}
		})
	}
}

func TestATemporaryDataFolderWithRemovedModelsStays(t *testing.T) {
	d, err := datadir.OpenTemporary()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(d.Path) })
	if err := os.MkdirAll(d.Join("trash/one"), 0o700); err != nil {
		t.Fatal(err)
	}
	d.Close()
	if _, err := os.Stat(d.Join("trash/one")); err != nil {
		t.Errorf("a removed model is gone with the folder: %v", err)
	}
}

func TestBusyPortNamesItsHolderAndAFreeOne(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	busy := l.Addr().(*net.TCPAddr).Port
	c := load(t, "--http-port="+strconv.Itoa(busy), "--grpc-port=0", "--metrics-port=0", "--ui-port=0")
	_, err = c.Listen.Open()
	if err == nil {
		t.Fatal("listens on a busy port")
	}
	for _, want := range []string{"HTTP service", l.Addr().String() + "' already in use", "pid " +
		strconv.Itoa(os.Getpid()), "--http-port="} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

func TestBusyPortsOfPlatformsNameTheirHolder_G026(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for option, more := range map[string][]string{
		"--modelmesh-address": nil,
		"--catalog-peer":      {"--catalog=https://127.0.0.1:1", "--catalog-token-file=" + token},
	} {
		c := load(t, append(more, option+"="+l.Addr().String(), "--model-repository="+modelRepository(t),
			"--http-port=0", "--grpc-port=0", "--metrics-port=0", "--ui-port=0")...)
		err := Serve(t.Context(), c, io.Discard)
		if err == nil {
			t.Fatal(option + " listens on a busy port")
		}
		for _, want := range []string{l.Addr().String() + "' already in use", "pid " + strconv.Itoa(os.Getpid()),
			option + "=127.0.0.1:", " (free now)"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is missing in: %v", want, err)
			}
		}
	}
}

func TestASecondServerPutsTheGUIOnAFreePort_F6(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	busy := l.Addr().(*net.TCPAddr).Port
	lookup := func(name string) (string, bool) { return t.TempDir(), name == "NEREID_DATA_DIR" }
	ports := []string{"--http-address=127.0.0.1", "--grpc-address=127.0.0.1", "--http-port=0", "--grpc-port=0",
		"--metrics-port=0"}
	for _, asTriton := range []bool{false, true} {
		c, err := options.Load(asTriton, ports, lookup)
		if err != nil {
			t.Fatal(err)
		}
		c.Listen.UI.Port = busy // as 8003 is for the second one
		var log bytes.Buffer
		s := &server{c: c, log: slog.New(slog.NewTextHandler(&log, nil)), fronts: &fronts{}}
		if err := s.openListeners(); err != nil {
			t.Fatalf("the GUI keeps the server from starting: %v", err)
		}
		defer s.fronts.listeners.Close()
		if p := s.fronts.listeners["ui"].Addr().(*net.TCPAddr).Port; p == busy || p == 0 ||
			!strings.Contains(log.String(), fmt.Sprintf("port %d is in use", busy)) {
			t.Errorf("the GUI is on port %d, and the log says %q", p, log.String())
		}
		c, err = options.Load(asTriton, append(ports, "--ui-port="+strconv.Itoa(busy)), lookup)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Listen.Open(); err == nil || !strings.Contains(err.Error(), "--ui-port=") {
			t.Errorf("a busy port that was asked for: %v, want a refusal", err)
		}
	}
	if _, err := options.Load(false, []string{"--http-port=8003"}, lookup); err != nil {
		t.Errorf("the port of the GUI cannot be given to HTTP: %v", err)
	}
}

// The GUI would otherwise take the port before the service to which the user gave it.
func TestAPortThatIsGivenWinsOverTheDefaultOfTheGUI(t *testing.T) {
	c := load(t, "--http-port=0", "--grpc-port=0", "--metrics-port=0", "--kiosk")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c.Listen.UI.Port, c.Listen.Kiosk.Port = free, free
	listeners, err := c.Listen.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer listeners.Close()
	if p := listeners["kiosk"].Addr().(*net.TCPAddr).Port; p != free {
		t.Errorf("the public page is on port %d, want %d", p, free)
	}
	if p := listeners["ui"].Addr().(*net.TCPAddr).Port; p == free || p == 0 {
		t.Errorf("the GUI is on port %d, want another one than that of the public page", p)
	}
}

// Without its tokens a server with another folder would be open.
func TestTritonserverReplacesNoFolderWithTokens_H14(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, "nereid")
	lookup := func(name string) (string, bool) { return home, name == "XDG_DATA_HOME" }
	first, err := datadir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	for file, content := range map[string]string{access.FileName: `{"tokens":[{"id":"a"}]}`, store.FileName: "?"} {
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := options.Load(true, nil, lookup)
		if err != nil {
			t.Fatal(err)
		}
		s := &server{c: c, log: slog.New(slog.DiscardHandler)}
		if err := s.openData(t.Context()); err == nil {
			t.Errorf("with %s another folder takes its place", file)
			s.data.Close()
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRepositoriesThatCannotBeServedAreRefusedWithTheReason(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, path, want string }{
		{"S3 without a bucket", "s3://", "names no bucket"},
		{"HDFS without a folder", "hdfs://namenode", "names no name node and folder"},
		{"other storage", "https://host/models", "https:// is not supported"},
		{"missing", "/nonexistent/models", "failed to stat file /nonexistent/models: no such file or directory; " +
			"correct --model-repository, or make the folder"},
		{"a file", file, "is not a folder"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &server{c: load(t, "--model-repository="+tc.path), log: slog.New(slog.DiscardHandler),
				data: &datadir.Dir{Path: t.TempDir()}}
			if err := s.openRepositories(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("openRepositories = %v, want %q in it", err, tc.want)
			}
		})
	}
}

// A common mistake: --model-repository names a model instead of the folder of models.
func TestAModelFolderIsNotARepository(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files map[string]string
		warns bool
	}{
		{"a configuration", map[string]string{"config.pbtxt": "", "1/x": ""}, true},
		{"a version with a model file", map[string]string{"1/model.onnx": ""}, true},
		{"models", map[string]string{"a/config.pbtxt": "", "a/1/model.onnx": ""}, false},
		{"a model whose name is a number", map[string]string{"7/config.pbtxt": "", "7/1/model.onnx": ""}, false},
		{"nothing", map[string]string{"README": ""}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := writeFiles(t, t.TempDir(), tt.files)
			s := &server{c: load(t, "--model-repository="+path), log: slog.New(slog.DiscardHandler),
				data: &datadir.Dir{Path: t.TempDir()}}
			if err := s.openRepositories(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := len(s.warnings) > 0; got != tt.warns {
				t.Fatalf("warnings %v, want some: %v", s.warnings, tt.warns)
			}
			if want := "--model-repository=" + filepath.Dir(path); tt.warns &&
				!strings.HasSuffix(s.warnings[0].Text, want) {
				t.Errorf("the warning is %q, want %q at its end", s.warnings[0].Text, want)
			}
		})
	}
}

func TestPortZeroTakesFreeOnes(t *testing.T) {
	all, err := load(t, "--http-port=0", "--grpc-port=0", "--metrics-port=0", "--ui-port=0").Listen.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	if len(all) != 4 {
		t.Errorf("%d listeners, want 4", len(all))
	}
}

func TestAHistoryThatCannotBeOpenedDoesNotStopTheServer(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/"+store.FileName, 0o700); err != nil { // a folder where the database should be
		t.Fatal(err)
	}
	s := &server{c: load(t), log: slog.New(slog.DiscardHandler), data: &datadir.Dir{Path: dir}}
	if err := s.openStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer s.store.Close() // in memory
	if len(s.warnings) != 1 || !strings.Contains(s.warnings[0].Text, "kept in memory") {
		t.Errorf("warnings = %v, want one that says where the history is", s.warnings)
	}
}
