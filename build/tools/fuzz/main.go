// Command fuzz runs each fuzz target of the module for a while, one after the other, each on all cores. It fails if one
// of them fails. Go keeps new inputs in its build cache, so the next run continues there. It keeps failing inputs in
// the testdata/fuzz folder of the package.
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
	"sort"
	"strconv"
	"strings"
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
	passed, failed := 0, 0
	for _, t := range targets {
		if !wanted.MatchString(t.name) {
			continue
		}
		out, err := fuzz(ctx, t, each)
		if err != nil && fuzzerCrashed(out) {
			fmt.Printf("     %s %s: Go's fuzzer crashed itself; running it again\n", t.pkg, t.name)
			out, err = fuzz(ctx, t, each)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !endedByTime(out) {
			failed++
			fmt.Printf("FAIL %s %s\n%s\n", t.pkg, t.name, out)
			continue
		}
		passed++
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		fmt.Printf("ok   %s %s: %s\n", t.pkg, t.name, lines[max(0, len(lines)-3)])
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 || passed == 0 {
		return errors.New("not every target passed, or none ran")
	}
	return nil
}

// fuzz runs one target.
func fuzz(ctx context.Context, t target, each time.Duration) ([]byte, error) {
	// By default Go spends up to a minute on making each new input smaller. On a busy machine it then does nothing
	// else.
	return exec.CommandContext(ctx, "go", "test", "-run=^$", "-fuzz=^"+t.name+"$", "-fuzztime="+each.String(),
		"-fuzzminimizetime=1s", "-parallel="+strconv.Itoa(runtime.NumCPU()), t.pkg).CombinedOutput()
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
