// Command mutants breaks the program on purpose and demands that the tests notice.
//
// A mutant is a patch, build/mutants/NAME.patch, with lines before the diff that say what it proves:
//
//	# package: ./engine/sched
//	# tests: TestRandomSchedules
//	# broken: a request runs although its timeout has expired
//
// The pair of package and tests may be repeated. The patch is applied to copies of the files, which "go test -overlay"
// uses in place of the originals. For each pair the tests must pass without the patch, match at least one test, compile
// with the patch, and fail with it. A patch that does not apply and a mutant that no test notices make the command
// fail.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
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
	folder := flag.String("patches", "build/mutants", "folder of the patches")
	only := flag.String("only", "", "names of mutants to try, separated by commas; empty: all")
	some := flag.Int("changed", 0, "try at most this many, of packages that changed since origin/main or the last tag")
	apply := flag.Bool("apply", false, "only check that every patch applies")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *folder, *only, *some, *apply); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// mutant is one patch.
type mutant struct {
	name   string
	patch  string // the file
	proofs []proof
	broken string // what the patch breaks, for people
}

// proof names the tests that must notice a mutant.
type proof struct{ pkg, tests string }

func run(ctx context.Context, folder, only string, some int, applyOnly bool) error {
	list, err := readMutants(folder)
	if err != nil {
		return err
	}
	if names := strings.Split(only, ","); only != "" {
		list = slices.DeleteFunc(list, func(m mutant) bool { return !slices.Contains(names, m.name) })
	}
	if some > 0 {
		if list, err = changed(ctx, list, some); err != nil {
			return err
		}
		if len(list) == 0 {
			fmt.Println("ok   no package with mutants has changed")
			return nil
		}
	}
	if len(list) == 0 {
		return errors.New("no mutant was tried")
	}
	passed, failed := 0, 0
	for _, m := range list {
		begin := time.Now()
		n, errs := try(ctx, m, applyOnly)
		passed, failed = passed+n, failed+len(errs)
		took := time.Since(begin).Round(100 * time.Millisecond)
		for _, err := range errs {
			fmt.Printf("FAIL %-28s %s: %v  %v\n", m.name, m.broken, err, took)
		}
		if len(errs) == 0 {
			fmt.Printf("ok   %-28s %s  %v\n", m.name, m.broken, took)
		}
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		return fmt.Errorf("%d mutants were not noticed", failed)
	}
	return nil
}

// try applies a mutant to copies and runs its tests with and without it. It returns the number of pairs that noticed
// the mutant, and one error for each pair that did not.
func try(ctx context.Context, m mutant, applyOnly bool) (noticed int, errs []error) {
	copies, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return 0, []error{err}
	}
	defer os.RemoveAll(copies)
	overlay, err := applyTo(ctx, m.patch, ".", copies)
	if err != nil {
		return 0, []error{err}
	}
	if applyOnly {
		return 1, nil
	}
	for _, p := range m.proofs {
		if err := tryOne(ctx, p, overlay); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.pkg, err))
			continue
		}
		noticed++
	}
	return noticed, errs
}

// tryOne returns nil if the tests pass without the overlay and fail with it.
func tryOne(ctx context.Context, p proof, overlay string) error {
	clean, err := goTest(ctx, p, "")
	switch {
	case err != nil:
		return err
	case clean.failed > 0 || clean.broken:
		return errors.New("the tests fail without the mutant too")
	case clean.passed == 0:
		return fmt.Errorf("-run %s matches no test", p.tests)
	}
	mutated, err := goTest(ctx, p, overlay)
	switch {
	case err != nil:
		return err
	case mutated.broken:
		return errors.New("the mutant does not compile")
	case mutated.failed == 0:
		return errors.New("survived: every test passed")
	}
	return nil
}

// applyTo applies a patch to copies of the files below root that it names. It returns the overlay file for the go
// command, which lies beside the copies.
func applyTo(ctx context.Context, patch, root, copies string) (overlay string, err error) {
	text, err := os.ReadFile(patch)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for _, m := range patchedFile.FindAllStringSubmatch(string(text), -1) {
		from, err := filepath.Abs(filepath.Join(root, m[1]))
		if err != nil {
			return "", err
		}
		to := filepath.Join(copies, m[1])
		data, err := os.ReadFile(from)
		if err != nil {
			return "", fmt.Errorf("%s no longer applies: %w", patch, err)
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, data, 0o600)); err != nil {
			return "", err
		}
		replace[from] = to
	}
	if len(replace) == 0 {
		return "", fmt.Errorf("%s changes no file", patch)
	}
	absolute, err := filepath.Abs(patch)
	if err != nil {
		return "", err
	}
	// Outside a repository git apply changes the files below the folder where it runs.
	cmd := exec.CommandContext(ctx, "git", "apply", absolute)
	cmd.Dir = copies
	cmd.Env = append(os.Environ(), "GIT_DIR="+filepath.Join(copies, "none"), "GIT_CEILING_DIRECTORIES="+copies)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s no longer applies: %s", patch, bytes.TrimSpace(out))
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(copies, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o600)
}

var patchedFile = regexp.MustCompile(`(?m)^--- a/(.+)$`)

// result counts the tests of one package. broken: the package did not compile.
type result struct {
	passed, failed int
	broken         bool
}

func goTest(ctx context.Context, p proof, overlay string) (result, error) {
	args := []string{"test", "-json", "-count=1", "-timeout=3m", "-run", p.tests}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, p.pkg)...)
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

// readMutants reads the patches of a folder in the order of their names.
func readMutants(folder string) ([]mutant, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.patch"))
	if err != nil {
		return nil, err
	}
	var list []mutant
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		m := mutant{name: strings.TrimSuffix(filepath.Base(path), ".patch"), patch: path}
		if err := m.readHeader(string(data)); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		list = append(list, m)
	}
	return list, nil
}

// readHeader reads the lines before the diff.
func (m *mutant) readHeader(text string) error {
	head, _, ok := strings.Cut(text, "\n--- a/")
	if !ok {
		return errors.New("no diff with paths a/ and b/")
	}
	pkg := ""
	for line := range strings.Lines(head) {
		key, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "# "), ": ")
		if !ok {
			continue
		}
		switch key {
		case "package":
			pkg = value
		case "tests":
			if _, err := regexp.Compile(value); err != nil || pkg == "" {
				return fmt.Errorf("tests: %q without a package before it, or not a regular expression", value)
			}
			m.proofs = append(m.proofs, proof{pkg, value})
			pkg = ""
		case "broken":
			m.broken = value
		}
	}
	if len(m.proofs) == 0 || m.broken == "" || pkg != "" {
		return errors.New(`the lines before the diff must have "# package: ", "# tests: " and "# broken: "`)
	}
	return nil
}
