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
	// parse turns the log (and what the command left behind) into tests; nil: the command itself is one test.
	parse func(s *stage, log []byte) ([]test, error)
}

// cudaTests are those of the build with the tag cuda, on a driver that they compile themselves. Where the tag cannot be
// used, which make setup-cuda explains, they are skipped.
const cudaTests = `if [ -e .cache/cuda/env ]; then . .cache/cuda/env; go vet -tags cuda ./engine/backend/onnxruntime || exit 1; exec go test -json -count=1 -tags cuda -ldflags "$ldflags" ./engine/device/cuda; fi
echo '{"Action":"skip","Package":"nereid/engine/device/cuda","Test":"TestCopies"}'`

const python = ".cache/venv/bin/python"

// stages returns all stages in order. Their limits only stop what hangs: each is several times what the stage takes on two
// cores, because other work may run beside it. logs is the folder for logs and reports; soakFull asks for the long cases at
// full length, with fuzzTime for each fuzz target.
func stages(logs string, soakFull bool, fuzzTime time.Duration) []stage {
	junit := func(name string) string { return filepath.Join(logs, name+".xml") }
	fromJUnit := func(s *stage, _ []byte) ([]test, error) { return junitTests(junit(s.name)) }
	pytest := func(name, mark string, timeout time.Duration, env ...string) stage {
		return stage{
			name: name, timeout: timeout, env: env, parse: fromJUnit,
			argv: []string{python, "-m", "pytest", "build/conformance", "-q", "-m", mark, "--junitxml", junit(name)},
		}
	}
	soakLength, soakLimit := "short", 20*time.Minute
	if soakFull {
		soakLength, soakLimit = "full", 90*time.Minute
	}
	abs := func(p string) string {
		a, err := filepath.Abs(p)
		if err != nil {
			return p
		}
		return a
	}
	npm := func(name, script string, args ...string) stage {
		return stage{name: name, timeout: 20 * time.Minute, argv: append([]string{"npm", "--prefix", "frontend", "run", "--silent", script, "--"}, args...)}
	}
	frontendTest := npm("frontend", "test", "--reporter=default", "--reporter=junit", "--outputFile.junit="+abs(junit("frontend")))
	frontendTest.parse = fromJUnit
	e2e := stage{name: "e2e", timeout: 30 * time.Minute, argv: []string{python, "build/conformance/e2e.py"},
		env:   []string{"NEREID_SHOTS=" + abs(filepath.Join(logs, "e2e"))},
		parse: func(_ *stage, log []byte) ([]test, error) { return stepTests(log), nil }}

	all := []stage{
		{name: "gofmt", timeout: 5 * time.Minute, argv: []string{"bash", "-c",
			`files=$(git ls-files -co --exclude-standard -- '*.go'); bad=$(gofmt -l $files); echo "$bad"; [ -z "$bad" ]`}},
		{name: "vet", timeout: 30 * time.Minute, argv: []string{"go", "vet", "./..."}},
		// Its cache remembers where files lie: one that other checkouts share names files that are gone.
		// Without -trimpath: with it Go's build cache gives what cgo made in another checkout, which may be gone by now.
		{name: "lint", timeout: 30 * time.Minute, argv: []string{"bash", "-c", `export GOLANGCI_LINT_CACHE=$PWD/.cache/golangci-lint GOFLAGS=${GOFLAGS//-trimpath/}
			.cache/bin/golangci-lint run ./... &&
			if [ -e .cache/cuda/env ]; then . .cache/cuda/env && .cache/bin/golangci-lint run --build-tags cuda ./engine/device/... ./app; fi`}},
		{name: "go", timeout: time.Hour, argv: []string{"go", "test", "-race", "-json", "-timeout", "30m", "./..."},
			parse: func(_ *stage, log []byte) ([]test, error) { return goTests(bytes.NewReader(log)) }},
		{name: "cuda", timeout: 20 * time.Minute, argv: []string{"bash", "-c", cudaTests},
			parse: func(_ *stage, log []byte) ([]test, error) { return goTests(bytes.NewReader(log)) }},
		{name: "allocations", timeout: 20 * time.Minute, argv: []string{"go", "test", "-json", "-run", "Alloc", "./engine/..."},
			parse: func(_ *stage, log []byte) ([]test, error) { return goTests(bytes.NewReader(log)) }}, // no use under the race detector
		npm("check", "check"),
		frontendTest,
		pytest("conformance", "not soak and not desktop and not frameworks", 40*time.Minute),
		e2e,
		pytest("desktop", "desktop", 20*time.Minute, "SHOTS="+abs(filepath.Join(logs, "desktop"))),
		pytest("soak", "soak", soakLimit, "NEREID_SOAK="+soakLength),
		{name: "rows", timeout: 10 * time.Minute, argv: []string{"go", "run", "./build/tools/rows"}},
		{name: "compatibility", timeout: 10 * time.Minute, argv: []string{"go", "run", "./build/tools/rows", "-compatibility", "check"}},
	}
	if soakFull {
		all = append(all, longStages(fuzzTime)...)
	}
	return all
}

// longStages are the parts of "make soak" that "make test" has not, or only short: the connection and mutant counts of
// the Go tests, memory over cycles of loading and unloading, and each fuzz target for fuzzTime.
func longStages(fuzzTime time.Duration) []stage {
	return []stage{
		{name: "soak-go", timeout: time.Hour, env: []string{"NEREID_SOAK=full"},
			argv:  []string{"go", "test", "-json", "-timeout", "40m", "-run", "TestA(7|8|21|24)|TestAllocatedMemory|TestLoadCycles|TestManyRequests|TestWildWorker", "./engine/..."},
			parse: func(_ *stage, log []byte) ([]test, error) { return goTests(bytes.NewReader(log)) }},
		{name: "fuzz", timeout: 100*fuzzTime + 30*time.Minute, argv: []string{"go", "run", "./build/tools/fuzz", "-time", fuzzTime.String()},
			parse: func(_ *stage, log []byte) ([]test, error) { return stepTests(log), nil }},
	}
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
		return tests, fmt.Errorf("%s: %w, although no test failed", strings.Join(s.argv[:min(4, len(s.argv))], " "), runErr)
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
