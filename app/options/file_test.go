package options

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// configFile writes a configuration file and returns its option.
func configFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nereid.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func environ(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, p := range pairs {
			if n, v, _ := strings.Cut(p, "="); n == name {
				return v, true
			}
		}
		return "", false
	}
}

func TestTheCommandLineHasPrecedenceOverTheEnvironmentOverTheFile(t *testing.T) {
	file := configFile(t, `
# a comment
id: from-file
http-port: 9000
data-dir: /from/file
onnxruntime-library: /from/file/lib
model-repository: [/file/a, /file/b]
load-model: x
model-control-mode: explicit
allow-anonymous: true
open: false
exit-timeout-secs: 7
sagemaker-port: 9080
`)
	args := []string{"--config-file=" + file, "--http-port=9001", "--model-store=/line", "--load-model=y"}
	c, err := Load(false, args, environ("NEREID_DATA_DIR=/from/env"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		ok   bool
	}{
		{"the file alone", c.Engine.ID == "from-file" && c.ExitTimeout == 7*time.Second &&
			c.Listen.SageMaker.Port == 9080},
		{"the line over the file", c.Listen.HTTP.Port == 9001},
		{"the environment over the file", c.DataDir == "/from/env"},
		{"a list of the line replaces the file's, under both names of the option",
			slices.Equal(c.Engine.Repositories, []string{"/line"}) &&
				slices.Equal(c.Engine.StartupModels, []string{"y"})},
		{"flags", c.Access.AllowAnonymous && !c.OpenBrowser},
		{"the file where the environment says nothing", c.Backends.ONNXRuntime.Library == "/from/file/lib"},
	} {
		if !tt.ok {
			t.Errorf("%s: %+v", tt.name, c)
		}
	}
	var out strings.Builder
	if err := c.Show(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"id: from-file # " + file + ":3", "http-port: 9001 # the command line",
		"data-dir: /from/env # NEREID_DATA_DIR", "model-repository: /line # the command line",
		"# grpc-port: 8001 # default"} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), want) {
			t.Errorf("config show lacks %q:\n%s", want, &out)
		}
	}
}

// What config show prints is a configuration file that means the same.
func TestShownOptionsAreAConfigurationFile(t *testing.T) {
	args := []string{"--id=a: b # c", "--load-model=x", "--load-model=*y", "--model-control-mode=explicit", "--open",
		"--data-dir=/data", "--http-header-forward-pattern=^x-.*", "--log-verbose=2"}
	c, err := Load(false, args, none)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := c.Show(&out); err != nil {
		t.Fatal(err)
	}
	again, err := Load(false, []string{"--config-file=" + configFile(t, out.String())}, none)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for name, want := range c.given {
		if got := again.given[name]; got != want && name != "open" {
			t.Errorf("%s: %q became %q", name, want, got)
		}
	}
	if !again.OpenBrowser || !slices.Equal(again.Engine.StartupModels, []string{"x", "*y"}) {
		t.Errorf("read back: %+v", again)
	}
}

func TestShownOptionsHaveNoSecrets(t *testing.T) {
	c := load(t, "--cache-config=redis,host=h", "--cache-config=redis,password=geheim",
		"--http-restricted-api=health:key=geheim", "--grpc-restricted-protocol=health:key=geheim",
		"--trace-config=opentelemetry,url=http://me:geheim@host/v1/traces")
	var out strings.Builder
	if err := c.Show(&out); err != nil || strings.Contains(out.String(), "geheim") ||
		!strings.Contains(out.String(), "password=...") ||
		!strings.Contains(out.String(), "http://...@host/v1/traces") {
		t.Errorf("%v\n%s", err, &out)
	}
}

func TestFaultsOfAConfigurationFileNameTheirLine(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"unknown key", "id: a\nhttp-prot: 1\n", ":2: unrecognized option 'http-prot'; did you mean http-port?"},
		{"dashes", "--http-port: 1\n", ":1: unrecognized option '--http-port'; did you mean http-port?"},
		{"wrong value", "\nhttp-port: many\n", `:2: --http-port: "many" is not a whole number`},
		{"no value", "id:\n", ":1: id needs a value"},
		{"a mapping", "id: {a: b}\n", ":1: id needs a value"},
		{"an alias", "id: &a x\nlog-file: *a\n", ":2: log-file needs a value"},
		{"twice", "model-repository: a\nmodel-store: b\n", ":2: model-store is there twice"},
		{"a flag that is neither true nor false", "open: perhaps\n", ":1: open: \"perhaps\" is not a boolean"},
		{"help", "help: true\n", ":1: help works only on the command line"},
		{"another file", "config-file: x\n", ":1: config-file works only on the command line"},
		{"a list", "- a\n", ":1: write one option a line"},
		{"no YAML", "id: [\n", "nereid.yaml: "},
		{"two documents", "id: a\n---\nid: b\n", "second document"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Load(false, []string{"--config-file", configFile(t, tt.text), "--data-dir=/d"}, none)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
			}
		})
	}
	for _, text := range []string{"", "# nothing\n", "---\n"} {
		if _, err := Load(false, []string{"--config-file", configFile(t, text), "--data-dir=/d"}, none); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := Load(false, []string{"--config-file=/no/such"}, none); err == nil {
		t.Error("a missing file is no error")
	}
}

// Each option of the table can be in the file.
func TestEveryOptionIsKnownToTheConfigurationFile(t *testing.T) {
	byName := byName(Default(false).table())
	for name, o := range byName {
		if name == "help" || name == FileOption {
			continue
		}
		settings, err := byName.decodeFile("f", []byte(name+": true\n"))
		if err != nil || len(settings) != 1 || settings[0].name != name {
			t.Errorf("%s (%s): %v %v", name, o.arg, settings, err)
		}
	}
}

func TestReloadSaysWhatNeedsARestart(t *testing.T) {
	file := configFile(t, "log-verbose: 0\nid: a\n")
	c, err := Load(false, []string{"--config-file=" + file, "--data-dir=/d"}, none)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("log-verbose: 2\nid: b\nhttp-port: 9000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	next, restart, err := c.Reload()
	if err != nil || next.Log.Settings.Verbose != 2 || !slices.Equal(restart, []string{"id", "http-port"}) {
		t.Errorf("%v, restart %v, %+v", err, restart, next)
	}
	if err := os.WriteFile(file, []byte("id: [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Reload(); err == nil {
		t.Error("a damaged file is no error")
	}
}

// Whatever the file has, it is read or refused, and each setting belongs to an option.
func FuzzConfigFile(f *testing.F) {
	for _, s := range []string{"id: a\n", "model-repository: [a, b]\n", "a: &x [*x]\n", "? [a]\n: b\n", "---\n...\n",
		"id: !!binary aGk=\n", "<<: {id: a}\n", "\xff", "id: |\n  a\n  b\n"} {
		f.Add([]byte(s))
	}
	byName := byName(Default(false).table())
	f.Fuzz(func(t *testing.T, data []byte) {
		settings, err := byName.decodeFile("file", data)
		for _, s := range settings {
			if !byName.has(s.name) {
				t.Errorf("%q: %+v of no option, %v", data, s, err)
			}
		}
	})
}

func TestEdgeSetsWhatIsNotGiven(t *testing.T) {
	file := configFile(t, `
edge: true
request-memory-limit: 1GiB
backend-config: onnxruntime,intra_op_thread_count=3
`)
	c, err := Load(false, []string{"--config-file=" + file, "--keep-requests=7"}, environ())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"model-memory-budget=1GiB", "model-load-thread-count=1",
		"backend-config=onnxruntime,enable-global-threadpool=1", "history-max-bytes=64MiB", "log-file-max-bytes=16MiB"}
	if got := c.Edge(); !slices.Equal(got, want) {
		t.Errorf("--edge says that it set %v, want %v", got, want)
	}
	if c.Engine.Residency.Host != 1<<30 || c.Engine.LoadThreads != 1 || c.History.MaxBytes != 64<<20 {
		t.Errorf("what is not given: %d, %d, %d", c.Engine.Residency.Host, c.Engine.LoadThreads, c.History.MaxBytes)
	}
	if c.RequestMemory != 1<<30 || c.Requests.Keep != 7 {
		t.Errorf("what is given: %d, %d", c.RequestMemory, c.Requests.Keep)
	}
	var shown strings.Builder
	if err := c.Show(&shown); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"model-memory-budget: 1GiB", "edge: true"} {
		if !strings.Contains(shown.String(), line) {
			t.Errorf("config show does not say %q:\n%s", line, shown.String())
		}
	}
	if !strings.Contains(shown.String(), "# --edge\n") {
		t.Errorf("config show does not say what --edge set:\n%s", shown.String())
	}
	same, err := Load(false, []string{"--edge", "--backend-config=onnxruntime,enable-global-threadpool=0"}, environ())
	if err != nil || slices.ContainsFunc(same.Edge(), func(s string) bool { return strings.HasPrefix(s, "backend") }) {
		t.Errorf("a given key of a backend: --edge set %v, %v", same.Edge(), err)
	}
	plain, err := Load(false, nil, environ())
	if err != nil || len(plain.Edge()) > 0 || plain.Engine.Residency.Host != 0 || plain.History.MaxBytes != 1<<30 {
		t.Errorf("without --edge: %v, %v, %d", err, plain.Edge(), plain.Engine.Residency.Host)
	}
}
