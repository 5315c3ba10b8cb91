package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// stage is one step of "make test".
type stage struct {
	name    string
	timeout time.Duration
	env     []string
	argv    []string
	// parse turns the log, and the report that the command wrote, into tests. nil: the command itself is one test.
	parse func(s *stage, log []byte) ([]test, error)
	// onDemand stages run only when -only names them.
	onDemand bool
}

const python = ".cache/venv/bin/python"

// noTrimpath is for commands that read what cgo made. With -trimpath, Go's build cache may return what it made in
// another checkout, and its lines name files there. They fail when that checkout is deleted.
const noTrimpath = "export GOFLAGS=${GOFLAGS//-trimpath/}\n"

const vet = noTrimpath + "go vet ./..."

// The linter remembers the paths of files, so each checkout needs a cache.
const lint = noTrimpath + `export GOLANGCI_LINT_CACHE=$PWD/.cache/golangci-lint
.cache/bin/golangci-lint run ./... &&
if [ -e .cache/cuda/env ]; then
	. .cache/cuda/env && .cache/bin/golangci-lint run --build-tags cuda ./engine/device/... ./app/backends
fi`

// cudaTests are those of the build with the tag cuda, on a driver that they compile themselves. They are skipped where
// the tag cannot be used; make setup-cuda says why.
const cudaTests = `if [ -e .cache/cuda/env ]; then
	. .cache/cuda/env
	GOFLAGS=${GOFLAGS//-trimpath/} go vet -tags cuda ./engine/backend/onnxruntime || exit 1
	exec go test -json -count=1 -tags cuda -ldflags "$ldflags" ./engine/device/cuda
fi
echo '{"Action":"skip","Package":"nereid/engine/device/cuda","Test":"TestCopies"}'`

// stages returns all stages in order. Their limits stop only what hangs: each is several times what the stage takes on
// two cores. logs is the folder for logs and reports. full asks for the long cases at full length, with fuzzTime for
// each fuzz target.
func stages(logs string, full bool, fuzzTime time.Duration) []stage {
	reports := absolute(logs)
	path := func(name string) string { return filepath.Join(reports, name) }
	soakLength, soakLimit := "short", 20*time.Minute
	if full {
		soakLength, soakLimit = "full", 90*time.Minute
	}
	frontend := npm("frontend", "test",
		"--reporter=default", "--reporter=junit", "--outputFile.junit="+path("frontend.xml"))
	frontend.parse = fromJUnit(reports)
	h2spec := goTest("h2spec", 20*time.Minute, "-count=1", "-run", "^TestH2Spec$", "./engine/grpcapi/h2")
	h2spec.env = []string{"H2SPEC=" + absolute(".cache/bin/h2spec")}
	small := pytest("frameworks", reports, "frameworks", 20*time.Minute,
		"NEREID_FRAMEWORK_NAMES=openvino fil tensorflow pytorch",
		"NEREID_FRAMEWORKS=.cache/frameworks-small",
		"NEREID_FRAMEWORK_PYTHON=/usr/bin/python3")
	// PyTorch of Debian is older than exported programs. OneFlow has 4.5 GB, and two more versions of a framework 2 GB.
	small.argv = append(small.argv, "-k", "not OneFlow and not exported and not inductor and not path and not "+
		"single_result and not unsupported and not conflicting and not nvidia")
	// Programs in C with the library whose C code the address sanitizer watches.
	sanitized := pytest("sanitized", reports, "not frameworks", 20*time.Minute,
		"NEREID_LIBRARY=build/bin/sanitized/libtritonserver.so")
	sanitized.argv = append(sanitized.argv, "-k", "test_embed and not D081")
	all := []stage{
		{name: "gofmt", timeout: 5 * time.Minute, argv: []string{"bash", "-c",
			`bad=$(git ls-files -co --exclude-standard -- '*.go' | xargs gofmt -l); echo "$bad"; [ -z "$bad" ]`}},
		{name: "vet", timeout: 30 * time.Minute, argv: []string{"bash", "-c", vet}},
		{name: "lint", timeout: 30 * time.Minute, argv: []string{"bash", "-c", lint}},
		goTest("unit", 20*time.Minute, "-short", "./..."),
		goTest("go", time.Hour, "-race", "-timeout", "30m", "-skip", "^Test(H2Spec|Real.*)$", "./..."),
		{name: "cuda", timeout: 20 * time.Minute, argv: []string{"bash", "-c", cudaTests}, parse: fromGo},
		goTest("allocations", 20*time.Minute, "-run", "Alloc", "./engine/..."), // the race detector allocates too
		npm("check", "check"),
		frontend,
		pytest("conformance", reports, "not soak and not desktop and not frameworks and not fleet and not convert",
			40*time.Minute),
		sanitized,
		{name: "e2e", timeout: 30 * time.Minute, argv: []string{python, "build/conformance/e2e.py"},
			env: []string{"NEREID_SHOTS=" + path("e2e")}, parse: fromSteps},
		{name: "firefox", timeout: 30 * time.Minute, parse: fromSteps,
			argv: []string{python, "build/conformance/e2e.py", "firefox"},
			env:  []string{"NEREID_SHOTS=" + path("firefox")}},
		pytest("desktop", reports, "desktop", 20*time.Minute, "SHOTS="+path("desktop")),
		pytest("soak", reports, "soak", soakLimit, "NEREID_SOAK="+soakLength),
		h2spec,
		{name: "mutants", timeout: 40 * time.Minute, parse: fromSteps,
			argv: []string{"go", "run", "./build/tools/mutants", "-changed", "4"}},
		fuzz("fuzz-short", 5*time.Second),
		small,
		{name: "features", timeout: 10 * time.Minute, argv: []string{"go", "run", "./build/tools/features"}},
		{name: "compatibility", timeout: 10 * time.Minute,
			argv: []string{"go", "run", "./build/tools/features", "-compatibility", "check"}},
	}
	for i := range all {
		all[i].onDemand = all[i].name == "unit" // a part of "go"
	}
	if full {
		all = append(all, longStages(reports, fuzzTime)...)
	}
	return all
}

// longStages are the parts of "make soak" that "make test" lacks or has only in short: many connections and mutated
// inputs in Go tests, memory over cycles of loading and unloading, bounds in time, and each fuzz target for fuzzTime.
func longStages(reports string, fuzzTime time.Duration) []stage {
	goSoak := goTest("soak-go", time.Hour, "-timeout", "40m", "-run",
		"TestA(7|8|21|24)|TestAllocatedMemory|TestLoadCycles|TestManyRequests|TestHalfValidFramesEndTheProcess|"+
			"TestKill$|TestKilledServerLeavesNoProcesses", "./engine/...", "./store")
	goSoak.env = []string{"NEREID_SOAK=full"}
	return []stage{
		goSoak,
		pytest("bounds", reports, "bounds", 20*time.Minute, "NEREID_SOAK=full"),
		fuzz("fuzz", fuzzTime),
	}
}

// fuzz runs each fuzz target for a while.
func fuzz(name string, each time.Duration) stage {
	return stage{name: name, timeout: 100*each + 30*time.Minute, parse: fromSteps,
		argv: []string{"go", "run", "./build/tools/fuzz", "-time", each.String()}}
}

// absolute returns a path that also holds in the folders of packages, where Go runs their tests.
func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

func goTest(name string, timeout time.Duration, args ...string) stage {
	return stage{name: name, timeout: timeout, parse: fromGo, argv: append([]string{"go", "test", "-json"}, args...)}
}

// pytest runs the conformance tests that a mark selects.
func pytest(name, reports, mark string, timeout time.Duration, env ...string) stage {
	return stage{
		name: name, timeout: timeout, env: env, parse: fromJUnit(reports),
		argv: []string{python, "-m", "pytest", "build/conformance", "-q", "-m", mark,
			"--junitxml", filepath.Join(reports, name+".xml")},
	}
}

func npm(name, script string, args ...string) stage {
	argv := []string{"npm", "--prefix", "frontend", "run", "--silent", script, "--"}
	return stage{name: name, timeout: 20 * time.Minute, argv: append(argv, args...)}
}

func fromGo(_ *stage, log []byte) ([]test, error) { return goTests(bytes.NewReader(log)) }

func fromSteps(_ *stage, log []byte) ([]test, error) { return stepTests(log), nil }

func fromJUnit(reports string) func(*stage, []byte) ([]test, error) {
	return func(s *stage, _ []byte) ([]test, error) { return junitTests(filepath.Join(reports, s.name+".xml")) }
}

// run runs the stage and returns its tests. The error says why the tests cannot be trusted: the command could not
// start, ran past its limit, left no report, or failed although no test did.
func (s *stage) run(ctx context.Context, logs string) ([]test, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	path := filepath.Join(logs, s.name+".log")
	log, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, s.argv[0], s.argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), s.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	runErr := cmd.Run()
	if ctx.Err() != nil {
		runErr = fmt.Errorf("stopped after %v", s.timeout)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if s.parse == nil {
		t := test{name: s.name, result: passed}
		if runErr != nil {
			t.result, t.output = failed, tail(string(text), 60)
		}
		return []test{t}, nil
	}
	tests, err := s.parse(s, text)
	switch {
	case err != nil:
		return tests, errors.Join(runErr, err)
	case runErr != nil && count(tests, failed) == 0:
		return tests, fmt.Errorf("%s: %w, although no test failed",
			strings.Join(s.argv[:min(4, len(s.argv))], " "), runErr)
	case len(tests) == 0:
		return tests, errors.New("ran no test")
	}
	return tests, nil
}

func count(tests []test, o outcome) int {
	n := 0
	for _, t := range tests {
		if t.result == o {
			n++
		}
	}
	return n
}

// tail returns the last n lines of s.
func tail(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
