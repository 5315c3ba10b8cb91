// Command fuzz runs each fuzz target of the module for a while. It builds the test program of each package once. Then
// it runs as many targets side by side as there are cores, each on one. It fails if one of them fails. Go keeps new
// inputs in its build cache, so the next run continues there. It keeps failing inputs in the testdata/fuzz folder of
// the package.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	each := flag.Duration("time", 30*time.Second, "how long to run each target")
	only := flag.String("only", "", "regexp of the targets to run; empty: all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *each, *only); err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

// target is one fuzz function.
type target struct{ pkg, name string }

func run(ctx context.Context, each time.Duration, only string) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	targets, err := find(".")
	if err != nil {
		return err
	}
	targets = slices.DeleteFunc(targets, func(t target) bool { return !wanted.MatchString(t.name) })
	dir, err := os.MkdirTemp("", "fuzz")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	programs, err := build(ctx, targets, dir)
	if err != nil {
		return err
	}
	passed, failed := 0, 0
	for r := range sideBySide(ctx, targets, programs, each) {
		switch {
		case ctx.Err() != nil: // it was stopped
			continue
		case r.ok:
			passed++
		default:
			failed++
		}
		fmt.Print(r.text)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 || passed == 0 {
		return errors.New("not every target passed, or none ran")
	}
	return nil
}

// program is the test program of a package.
type program struct {
	path  string
	dir   string // of the package
	cache string // where Go keeps new inputs
}

// build builds the test programs of all targets in dir. It returns them by package.
func build(ctx context.Context, targets []target, dir string) (map[string]program, error) {
	cache, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
	if err != nil {
		return nil, err
	}
	programs := map[string]program{}
	for _, t := range targets {
		if _, ok := programs[t.pkg]; ok {
			continue
		}
		name, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.ImportPath}}", t.pkg).Output()
		if err != nil {
			return nil, fmt.Errorf("go list %s: %w", t.pkg, err)
		}
		p := program{
			path:  filepath.Join(dir, strconv.Itoa(len(programs))),
			dir:   filepath.FromSlash(t.pkg),
			cache: filepath.Join(strings.TrimSpace(string(cache)), "fuzz", strings.TrimSpace(string(name))),
		}
		// -fuzz makes Go compile the packages so that the fuzzer sees which code an input reaches.
		out, err := exec.CommandContext(ctx, "go", "test", "-c", "-fuzz=.", "-o", p.path, t.pkg).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("building the tests of %s: %w\n%s", t.pkg, err, out)
		}
		programs[t.pkg] = p
	}
	return programs, nil
}

// result is what a target has to say.
type result struct {
	ok   bool
	text string
}

// sideBySide runs the targets, as many at once as there are cores. It yields their results as they end. Once ctx is
// done, it starts no more.
func sideBySide(ctx context.Context, targets []target, programs map[string]program, each time.Duration) <-chan result {
	next, results := make(chan target), make(chan result)
	var workers sync.WaitGroup
	for range runtime.NumCPU() {
		workers.Go(func() {
			for t := range next {
				results <- try(ctx, t, programs[t.pkg], each)
			}
		})
	}
	go func() {
		for _, t := range targets {
			if ctx.Err() == nil {
				next <- t
			}
		}
		close(next)
		workers.Wait()
		close(results)
	}()
	return results
}

// try runs one target, once more if Go's fuzzer itself crashes.
func try(ctx context.Context, t target, p program, each time.Duration) result {
	out, err := fuzz(ctx, t, p, each)
	again := ""
	if err != nil && fuzzerCrashed(out) {
		again = fmt.Sprintf("     %s %s: Go's fuzzer crashed itself; running it again\n", t.pkg, t.name)
		out, err = fuzz(ctx, t, p, each)
	}
	if err != nil && !endedByTime(out) {
		return result{false, fmt.Sprintf("%sFAIL %s %s\n%s%v\n", again, t.pkg, t.name, out, err)}
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return result{true, fmt.Sprintf("%sok   %s %s: %s\n", again, t.pkg, t.name, lines[max(0, len(lines)-2)])}
}

// fuzz runs one target.
func fuzz(ctx context.Context, t target, p program, each time.Duration) ([]byte, error) {
	// By default Go spends up to a minute on making each new input smaller. On a busy machine it then does nothing
	// else.
	cmd := exec.CommandContext(ctx, p.path, "-test.run=^$", "-test.fuzz=^"+t.name+"$", "-test.fuzztime="+each.String(),
		"-test.fuzzminimizetime=1s", "-test.fuzzcachedir="+p.cache, "-test.parallel=1")
	cmd.Dir = p.dir
	return cmd.CombinedOutput()
}

// fuzzerCrashed reports whether Go's fuzzer itself panicked and found nothing. It does so when the coverage maps of its
// processes differ in length (internal/fuzz, diffCoverage).
func fuzzerCrashed(out []byte) bool {
	return strings.Contains(string(out), "panic: the number of coverage bits changed") &&
		!strings.Contains(string(out), "Failing input written to")
}

// endedByTime reports whether Go's fuzzer found nothing and names the end of its own time as the failure. The end
// reaches its two contexts one after the other, and it suppresses the error only once both have it (internal/fuzz,
// CoordinateFuzzing, stop).
func endedByTime(out []byte) bool {
	return timeOver.Match(out) && !strings.Contains(string(out), "Failing input written to")
}

var timeOver = regexp.MustCompile(`--- FAIL: Fuzz\w+ \([0-9.]+s\)\n    context deadline exceeded\n`)

var fuzzFunc = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(\w+ \*testing\.F\)`)

// find returns the fuzz targets in the test files below root, sorted.
func find(root string) ([]target, error) {
	var targets []target
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range fuzzFunc.FindAllSubmatch(data, -1) {
			targets = append(targets, target{"./" + filepath.ToSlash(filepath.Dir(path)), string(m[1])})
		}
		return nil
	})
	sort.Slice(targets, func(i, j int) bool {
		return targets[i].pkg+targets[i].name < targets[j].pkg+targets[j].name
	})
	return targets, err
}
