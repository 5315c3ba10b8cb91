package python_test

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"nereid/engine"
	"nereid/engine/backend/python"
	"nereid/engine/system/glob"
)

// wheel writes a wheel with one module, whose VERSION is the version.
func wheel(t *testing.T, folder, name, version string) {
	t.Helper()
	f, err := os.Create(filepath.Join(folder, fmt.Sprintf("%s-%s-py3-none-any.whl", name, version)))
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	info := fmt.Sprintf("%s-%s.dist-info/", name, version)
	for _, file := range [][2]string{
		{name + ".py", "VERSION = " + strconv.Quote(version) + "\n"},
		{info + "METADATA", fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\n", name, version)},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "RECORD", ""},
	} {
		w, err := z.Create(file[0])
		if err == nil {
			_, err = w.Write([]byte(file[1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// fakeNumpy makes every environment of the test use the interpreter's numpy, so that no test downloads one.
func fakeNumpy(t *testing.T) {
	t.Helper()
	site, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(interpreter(t))), "lib", "python3*",
		"site-packages"))
	if err != nil || len(site) != 1 {
		t.Fatal(site, err)
	}
	t.Setenv("PYTHONPATH", site[0])
}

// usesToy is a model whose output is the first digit of a package's version.
var usesToy = code("import nereid_toy; y = np.array([float(nereid_toy.VERSION[0])], np.float32)", "")

func TestEnvironmentsFromRequirements(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	fakeNumpy(t)
	wheels := t.TempDir()
	for _, version := range []string{"1.0", "2.0", "4.0"} {
		wheel(t, wheels, "nereid_toy", version)
	}
	t.Setenv("PIP_FIND_LINKS", wheels)
	t.Setenv("PIP_NO_INDEX", "1")
	files := map[string]string{
		"one/requirements.txt":   "nereid_toy==1.0\n",
		"two/1/requirements.txt": "nereid_toy==2.0\n",
		"bad/requirements.txt":   "nereid_toy==3.0\n",
	}
	for _, name := range []string{"one", "two", "bad", "none"} {
		files[name+"/config.pbtxt"] = config("")
		files[name+"/1/model.py"] = usesToy
	}
	// For models without requirements: a path relative to the working directory, as users write it.
	venv, err := filepath.Abs(filepath.Dir(filepath.Dir(interpreter(t))))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NEREID_VENV", venv)
	here := t.TempDir()
	t.Chdir(here)
	if err := os.Mkdir("for", 0o700); err != nil {
		t.Fatal(err)
	}
	all := filepath.Join("for", "all.txt")
	if err := os.WriteFile(all, []byte("nereid_toy==4.0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	options := python.Options{Folder: filepath.Join(t.TempDir(), "data[1]"), Requirements: all}
	r := serveIn(t, options, files, func(*engine.Options) {})
	answers := func(t *testing.T, r *rig) {
		t.Helper()
		for name, want := range map[string]float32{"one": 1, "two": 2, "none": 4} {
			if a := r.one(request(name, map[string][]float32{"IN": {0}})); a.err != nil || a.floats("OUT")[0] != want {
				t.Errorf("model %s: %v %v, want %v", name, a.floats("OUT"), a.err, want)
			}
		}
	}
	t.Run("D054 clashing versions together: of the model, of its version, of the server",
		func(t *testing.T) { answers(t, r) })
	t.Run("D054 requirements that cannot be had", func(t *testing.T) {
		s, _ := r.Model("bad")
		if len(s.Versions) != 1 || !strings.Contains(s.Versions[0].Reason, "nereid_toy==3.0") {
			t.Errorf("the reason does not name the package: %+v", s.Versions)
		}
	})
	locks := glob.In(r.folder, "environments/*/requirements.lock")
	if len(locks) != 3 {
		t.Fatalf("lock files %v; want 3", locks)
	}
	if b, err := os.ReadFile(locks[0]); err != nil || !strings.Contains(strings.ReplaceAll(string(b), "-", "_"),
		"nereid_toy==") {
		t.Errorf("the lock file has no toy: %s %v", b, err)
	}
	t.Run("what a model runs in is known", func(t *testing.T) {
		one, ok := r.backend.EnvironmentOf("one")
		if !ok || one.Kind != python.FromRequirements || one.State != python.EnvironmentReady ||
			!strings.HasSuffix(one.Source, "one/requirements.txt") ||
			!strings.HasPrefix(one.Python, one.Folder) || !strings.Contains(strings.ReplaceAll(one.Lock(), "-", "_"),
			"nereid_toy==1.0") {
			t.Errorf("model one: %+v, lock %q", one, one.Lock())
		}
		bad, ok := r.backend.EnvironmentOf("bad")
		if !ok || bad.State != python.EnvironmentFailed || bad.Err == nil {
			t.Errorf("model bad: %+v", bad)
		}
		if said, err := os.ReadFile(bad.LogPath()); err != nil || !strings.Contains(string(said), "nereid_toy==3.0") {
			t.Errorf("the log of what failed: %s, %v", said, err)
		}
		if _, ok := r.backend.EnvironmentOf("unknown"); ok {
			t.Error("a model that was never loaded has an environment")
		}
		if said, err := os.ReadFile(one.LogPath()); err != nil || !strings.Contains(strings.ReplaceAll(string(said),
			"-", "_"), "nereid_toy_1.0") {
			t.Errorf("the log of what was installed: %s, %v", said, err)
		}
	})
	const isBuilt = "the environment of a model is built"
	built := strings.Count(r.log.String(), isBuilt)
	if err := r.Reload(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(r.log.String(), isBuilt); n != built || built != 3 {
		t.Errorf("environments were built %d times, then %d; want 3 and no more", built, n)
	}
	t.Run("D054 a server that is started again has them", func(t *testing.T) {
		r.stop()
		delete(files, "bad/requirements.txt") // otherwise it is tried again
		again := serveIn(t, options, files, func(*engine.Options) {})
		answers(t, again)
		if strings.Contains(again.log.String(), isBuilt) {
			t.Errorf("an environment was built again:\n%s", again.log.String())
		}
	})
}

// pack writes a tar.gz of a folder's files and links.
func pack(t *testing.T, folder, archive string, more ...*tar.Header) {
	t.Helper()
	f, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	g := gzip.NewWriter(f)
	w := tar.NewWriter(g)
	if err := w.AddFS(os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	for _, h := range more {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []interface{ Close() error }{w, g, f} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestExecutionEnvPath(t *testing.T) {
	fakeNumpy(t)
	real, err := filepath.EvalSymlinks(interpreter(t))
	if err != nil {
		t.Fatal(err)
	}
	// An environment whose Python is a script that sets a variable, so that the model knows which one runs it.
	env := t.TempDir()
	script := "#!/bin/sh\nNEREID_TEST_ENV=yes exec " + real + " \"$@\"\n"
	if err := os.Mkdir(filepath.Join(env, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(env, "bin", "python3"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	archives := t.TempDir()
	pack(t, env, filepath.Join(archives, "env.tar.gz"))
	pack(t, env, filepath.Join(archives, "evil.tar.gz"), &tar.Header{Name: "../out", Typeflag: tar.TypeReg,
		Mode: 0o644})
	pack(t, env, filepath.Join(archives, "link.tar.gz"),
		&tar.Header{Name: "out", Linkname: archives, Typeflag: tar.TypeSymlink},
		&tar.Header{Name: "out/written", Typeflag: tar.TypeReg, Mode: 0o644})
	if err := os.WriteFile(filepath.Join(archives, "text.tar.gz"), []byte("no archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	paths := map[string]string{
		"folder": env, "archive": filepath.Join(archives, "env.tar.gz"), "relative": "$$TRITON_MODEL_DIRECTORY/env",
		"evil": filepath.Join(archives, "evil.tar.gz"), "link": filepath.Join(archives, "link.tar.gz"),
		"text": filepath.Join(archives, "text.tar.gz"), "nowhere": "/nowhere/env.tar.gz",
		"empty": archives,
	}
	for name, path := range paths {
		files[name+"/config.pbtxt"] = config(
			fmt.Sprintf(`parameters { key: "EXECUTION_ENV_PATH" value { string_value: %q } }`, path))
		files[name+"/1/model.py"] = code(`y = np.array([os.environ.get("NEREID_TEST_ENV") == "yes"], np.float32)`, "")
	}
	files["relative/env/bin/python3"] = script
	r := serve(t, nil, files)
	if err := os.Chmod(filepath.Join(r.root, "relative", "env", "bin", "python3"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := r.Reload(t.Context(), "relative"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"folder", "archive", "relative"} {
		t.Run("D052 "+name, func(t *testing.T) {
			if a := r.one(request(name, map[string][]float32{"IN": {0}})); a.err != nil || a.floats("OUT")[0] != 1 {
				m, _ := r.Model(name)
				t.Errorf("%v %v, want 1: the model runs in its environment; %+v", a.floats("OUT"), a.err, m.Versions)
			}
		})
	}
	for name, want := range map[string]string{
		"evil": "leads out of the archive", "link": "out/written", "text": "is not an archive that can be unpacked",
		"nowhere": "no such file", "empty": "has no bin/python3",
	} {
		t.Run("D052 D11 "+name, func(t *testing.T) {
			if s, _ := r.Model(name); len(s.Versions) != 1 || !strings.Contains(s.Versions[0].Reason, want) {
				t.Errorf("%+v, want a reason with %q", s.Versions, want)
			}
		})
	}
	for _, path := range []string{filepath.Join(archives, "written"), filepath.Join(r.folder, "environments", "out")} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s was written", path)
		}
	}
}

func TestMissingPythonIsReported(t *testing.T) {
	r := serve(t, map[string]string{"python": "/nowhere/python3"},
		map[string]string{"m/config.pbtxt": config(""), "m/1/model.py": code("y = x", "")})
	if s, _ := r.Model("m"); len(s.Versions) != 1 || !strings.Contains(s.Versions[0].Reason,
		"/nowhere/python3 is not found; install python3 with numpy") {
		t.Errorf("D11 no interpreter: %+v", s.Versions)
	}
	old := filepath.Join(t.TempDir(), "python3")
	script := "#!/bin/sh\nexec " + interpreter(t) + ` -c 'import runpy, sys; sys.version_info = (3, 7, 9)
sys.argv = sys.argv[2:]; runpy.run_path(sys.argv[0], run_name="__main__")' "$@"` + "\n"
	if err := os.WriteFile(old, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	r = serve(t, map[string]string{"python": old}, map[string]string{"m/config.pbtxt": config(""),
		"m/1/model.py": code("y = x", "")})
	if s, _ := r.Model("m"); len(s.Versions) != 1 ||
		!strings.Contains(s.Versions[0].Reason, "is Python 3.7; models need 3.8 or newer") {
		t.Errorf("D11 an old interpreter: %+v", s.Versions)
	}
	// An interpreter without numpy: that of a new venv.
	fake := filepath.Join(t.TempDir(), "python3")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\nexec "+interpreter(t)+" -S \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r = serve(t, map[string]string{"python": fake}, map[string]string{"m/config.pbtxt": config(""),
		"m/1/model.py": code("y = x", "")})
	if s, _ := r.Model("m"); len(s.Versions) != 1 || !strings.Contains(s.Versions[0].Reason, "cannot import numpy") {
		t.Errorf("D11 no numpy: %+v", s.Versions)
	}
	if s, _ := r.Model("m"); !strings.Contains(s.Versions[0].Reason,
		"NumPy is not installed, which model 'm' needs: run 'nereid install python' (100 MB)") {
		t.Errorf("no offer to install numpy: %+v", s.Versions)
	}
}

// The environment with numpy is used where the machine's Python has none, and only there.
func TestManagedEnvironmentWithNumPy(t *testing.T) {
	python3, err := filepath.Abs(interpreter(t))
	if err != nil {
		t.Fatal(err)
	}
	script := func(path, options string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700),
			os.WriteFile(path, []byte("#!/bin/sh\n"+options+" \"$@\"\n"), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name, machine string
		managed       float32
	}{
		{"the machine has none", "exec " + python3 + " -S", 1},
		{"the machine has one", "exec " + python3, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			folder, machine := t.TempDir(), filepath.Join(t.TempDir(), "python3")
			script(machine, tt.machine)
			f, _ := python.FindFramework(python.NumPy)
			env := f.Environment(folder)
			script(filepath.Join(env, "bin", "python3"), "exec "+python3)
			for name, text := range map[string]string{
				"requirements.txt": f.Requirements, ".complete": "", "pyvenv.cfg": "",
			} {
				if err := os.WriteFile(filepath.Join(env, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			options := python.Options{Folder: folder, Settings: map[string]string{"python": machine}}
			r := serveIn(t, options, map[string]string{"m/config.pbtxt": config(""), "m/1/model.py": code(
				"import os; y = np.array([float(os.environ.get('VIRTUAL_ENV', '').endswith('framework-python'))], "+
					"np.float32)", "")}, func(*engine.Options) {})
			a := r.one(request("m", map[string][]float32{"IN": {0}}))
			if a.err != nil || a.floats("OUT")[0] != tt.managed {
				t.Errorf("in the managed environment: %v %v, want %v", a.floats("OUT"), a.err, tt.managed)
			}
		})
	}
}

// The build without CUDA is installed from its index.
func TestInstallFrameworkWithoutCUDA(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	fakeNumpy(t)
	files := t.TempDir()
	for build, version := range map[string]string{"large": "1.0", "cpu": "1.0+cpu"} {
		folder := filepath.Join(files, build, "nereid-toy")
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		wheel(t, folder, "nereid_toy", version)
	}
	index := httptest.NewServer(http.FileServer(http.Dir(files)))
	t.Cleanup(index.Close)
	for _, name := range []string{"PIP_INDEX_URL", "UV_INDEX_URL"} {
		t.Setenv(name, index.URL+"/large/")
	}
	t.Setenv("PIP_FIND_LINKS", "")
	f := python.Framework{Name: "toy", Title: "Toy", Module: "nereid_toy", Requirements: "nereid_toy==1.0\n",
		CPU: python.CPUBuild{Page: index.URL + "/cpu/nereid-toy/", File: "nereid_toy-1.0",
			Requirement: "nereid_toy==1.0+cpu", Index: index.URL + "/cpu/"}}
	folder := t.TempDir()
	if err := python.InstallFramework(t.Context(), folder, interpreter(t), f, io.Discard); err != nil {
		t.Fatal(err)
	}
	lock, err := os.ReadFile(filepath.Join(f.Environment(folder), "requirements.lock"))
	if got := strings.ReplaceAll(string(lock), "-", "_"); err != nil || !strings.Contains(got, "nereid_toy==1.0+cpu") {
		t.Errorf("installed %q, %v; want 1.0+cpu", lock, err)
	}
	if !f.Installed(folder) {
		t.Error("it does not count as installed")
	}
}

// A framework is installed once per version, from any working directory, to which the interpreter's path may be
// relative. An incomplete installation, or one of another version, is replaced.
func TestInstallFramework(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	fakeNumpy(t)
	wheels := t.TempDir()
	wheel(t, wheels, "nereid_toy", "1.0")
	wheel(t, wheels, "nereid_toy", "2.0")
	t.Setenv("PIP_FIND_LINKS", wheels)
	t.Setenv("PIP_NO_INDEX", "1")
	python3, err := filepath.Abs(interpreter(t))
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(here)
	relative, err := filepath.Rel(here, python3)
	if err != nil {
		t.Fatal(err)
	}
	const folder = "data[1]" // relative to the working directory
	toy := func(version string) python.Framework {
		return python.Framework{Name: "toy", Title: "Toy", Module: "nereid_toy",
			Requirements: "nereid_toy==" + version + "\n"}
	}
	for _, tt := range []struct {
		name, version, said, err string
	}{
		{name: "for the first time", version: "1.0", said: "nereid_toy-1.0"},
		{name: "again", version: "1.0"},
		{name: "another version", version: "2.0", said: "nereid_toy-2.0"},
		{name: "one that cannot be had", version: "3.0", err: "Toy cannot be installed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			err := python.InstallFramework(t.Context(), folder, relative, toy(tt.version), &out)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(err.Error(),
					"nereid_toy==3.0") {
					t.Errorf("InstallFramework = %v; want %q, and the package", err, tt.err)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			said := strings.ReplaceAll(out.String(), "nereid-toy", "nereid_toy")
			if tt.said != "" && !strings.Contains(said, tt.said) || tt.said == "" && tt.err == "" && said != "" {
				t.Errorf("the installer said %q; want %q", said, tt.said)
			}
			if got := toy(tt.version).Installed(folder); got != (tt.err == "") {
				t.Errorf("Installed = %v", got)
			}
		})
	}
	if toy("1.0").Installed(folder) {
		t.Error("a version that was replaced counts as installed")
	}
	t.Run("one that uses the packages of another", func(t *testing.T) {
		wheel(t, wheels, "nereid_more", "1.0")
		base := toy("2.0")
		more := python.Framework{Name: "more", Title: "More", Module: "nereid_toy", Requirements: "nereid_more==1.0\n",
			Base: &base}
		if err := python.InstallFramework(t.Context(), folder, relative, more, io.Discard); err != nil {
			t.Fatal(err)
		}
	})
}
