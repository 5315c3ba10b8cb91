// Command mutants breaks the program on purpose and demands that the tests notice.
//
// The manifest names, one a line, "tag | package | test regexp | what is broken". A mutant is code behind a build tag
// (a pair of files, one with "//go:build TAG", one without). For each line the tests must pass without the tag, match
// at least one test, compile with the tag, and fail with it. A mutant that survives makes the command fail.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	manifest := flag.String("manifest", "build/mutants.txt", "list of mutants")
	only := flag.String("only", "", "tags to try, separated by commas; empty: all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *manifest, *only); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// mutant is one line of the manifest.
type mutant struct{ tag, pkg, tests, what string }

func run(ctx context.Context, manifest, only string) error {
	data, err := os.ReadFile(manifest)
	if err != nil {
		return err
	}
	list, err := parse(string(data))
	if err != nil {
		return fmt.Errorf("%s: %w", manifest, err)
	}
	tags, err := tagsInTree(".")
	if err != nil {
		return err
	}
	if err := compareTags(list, tags); err != nil {
		return err
	}
	caught, survived := 0, 0
	for _, m := range list {
		if only != "" && !slices.Contains(strings.Split(only, ","), m.tag) {
			continue
		}
		begin := time.Now()
		err := try(ctx, m)
		took := time.Since(begin).Round(100 * time.Millisecond)
		if err != nil {
			survived++
			fmt.Printf("FAIL %-28s %s: %v  %v\n", m.tag, m.what, err, took)
			continue
		}
		caught++
		fmt.Printf("ok   %-28s %s  %v\n", m.tag, m.what, took)
	}
	fmt.Printf("%d passed, %d failed\n", caught, survived)
	if survived > 0 {
		return fmt.Errorf("%d mutants were not caught", survived)
	}
	if caught == 0 {
		return errors.New("no mutant was tried")
	}
	return nil
}

// try runs the tests without and with the mutant and returns nil if they noticed it.
func try(ctx context.Context, m mutant) error {
	clean, err := goTest(ctx, m, "")
	if err != nil {
		return err
	}
	if clean.failed > 0 || clean.broken {
		return errors.New("the tests fail without the mutant too")
	}
	if clean.passed == 0 {
		return fmt.Errorf("-run %s matches no test in %s", m.tests, m.pkg)
	}
	broken, err := goTest(ctx, m, m.tag)
	if err != nil {
		return err
	}
	if broken.broken {
		return errors.New("the mutant does not compile")
	}
	if broken.failed == 0 {
		return errors.New("survived: every test passed")
	}
	return nil
}

// result counts the tests of one package; broken says that it did not compile.
type result struct {
	passed, failed int
	broken         bool
}

func goTest(ctx context.Context, m mutant, tag string) (result, error) {
	args := []string{"test", "-json", "-count=1", "-timeout=3m", "-run", m.tests}
	if tag != "" {
		args = append(args, "-tags", tag)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, m.pkg)...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return result{}, err
	}
	return countEvents(out), nil
}

// countEvents counts top-level tests in the output of "go test -json". A package that dies (panic, data race,
// time-out) after it compiled has failed.
func countEvents(out []byte) result {
	var r result
	packageFailed := false
	sc := bufio.NewScanner(bytes.NewReader(out))
	sc.Buffer(make([]byte, 1<<20), 64<<20)
	for sc.Scan() {
		var e struct{ Action, Test, FailedBuild string }
		if json.Unmarshal(sc.Bytes(), &e) != nil {
			continue
		}
		switch {
		case e.Action == "build-fail" || e.FailedBuild != "":
			r.broken = true
		case e.Action == "pass" && e.Test != "":
			r.passed++
		case e.Action == "fail" && e.Test != "":
			r.failed++
		case e.Action == "fail":
			packageFailed = true
		}
	}
	if packageFailed && r.failed == 0 && !r.broken {
		r.failed = 1
	}
	return r
}

// parse reads the manifest. Empty lines and lines that start with # are skipped.
func parse(text string) ([]mutant, error) {
	var list []mutant
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		f := strings.Split(line, " | ")
		if len(f) != 4 || !strings.HasPrefix(f[0], "mutant_") {
			return nil, fmt.Errorf("line %d: %q: want 'mutant_name | package | test regexp | what is broken'", i+1, line)
		}
		for j := range f {
			f[j] = strings.TrimSpace(f[j])
		}
		if _, err := regexp.Compile(f[2]); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		list = append(list, mutant{f[0], f[1], f[2], f[3]})
	}
	return list, nil
}

var buildTag = regexp.MustCompile(`(?m)^//go:build .*$`)
var tagName = regexp.MustCompile(`\bmutant_[a-z0-9_]+`)

// tagsInTree returns the mutant tags that Go files below root know.
func tagsInTree(root string) (map[string]bool, error) {
	tags := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, line := range buildTag.FindAllString(string(data), -1) {
			for _, tag := range tagName.FindAllString(line, -1) {
				tags[tag] = true
			}
		}
		return nil
	})
	return tags, err
}

// compareTags demands that the manifest and the tree know the same mutants.
func compareTags(list []mutant, tags map[string]bool) error {
	var errs []error
	listed := map[string]bool{}
	for _, m := range list {
		listed[m.tag] = true
		if !tags[m.tag] {
			errs = append(errs, fmt.Errorf("%s: in the manifest, but no file has this build tag", m.tag))
		}
	}
	for tag := range tags {
		if !listed[tag] {
			errs = append(errs, fmt.Errorf("%s: a build tag in the tree, but not in the manifest", tag))
		}
	}
	return errors.Join(errs...)
}
