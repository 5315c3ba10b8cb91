package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	only := flag.String("only", "", "stages to run, separated by commas; empty: all")
	soak := flag.Bool("soak", false, "run the long cases at full length")
	fuzzTime := flag.Duration("fuzztime", 10*time.Minute, "with -soak: how long each fuzz target runs")
	logs := flag.String("logs", ".cache/test-logs", "folder for logs and reports")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := runAll(ctx, *logs, splitList(*only), *soak, *fuzzTime)
	if err != nil {
		fmt.Fprintln(os.Stderr, "runtests:", err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

// runAll runs the chosen stages, prints one line for each and the summary line, and reports whether all passed.
func runAll(ctx context.Context, logs string, only []string, soak bool, fuzzTime time.Duration) (bool, error) {
	logs, err := filepath.Abs(logs)
	if err != nil {
		return false, err
	}
	results := filepath.Join(logs, "results")
	if len(only) == 0 { // a complete run proves everything again
		_ = os.RemoveAll(results)
	}
	if err := os.MkdirAll(results, 0o755); err != nil {
		return false, err
	}
	list := stages(logs, soak, fuzzTime)
	if unknown := unknownStages(list, only); len(unknown) > 0 {
		return false, fmt.Errorf("no stage named %s; there are %s", strings.Join(unknown, ", "), stageNames(list))
	}
	var all []test
	start := time.Now()
	for i := range list {
		s := &list[i]
		if !slices.Contains(only, s.name) && (len(only) > 0 || s.onDemand) {
			continue
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if s.name == "features" {
			s.argv = append(s.argv, "-results", results)
		}
		_ = os.Remove(filepath.Join(logs, s.name+".xml"))
		begin := time.Now()
		tests, err := s.run(ctx, logs)
		if err != nil {
			log, _ := os.ReadFile(filepath.Join(logs, s.name+".log"))
			output := fmt.Sprintf("%v\n%s", err, tail(string(log), 60))
			tests = append(tests, test{name: s.name, result: failed, output: output})
		}
		printStage(s.name, tests, time.Since(begin), logs)
		all = append(all, tests...)
		if err := writeResults(filepath.Join(results, s.name+".tsv"), commit(), tests); err != nil {
			return false, err
		}
	}
	fmt.Printf("%-12s %v\n", "total", time.Since(start).Round(time.Second))
	p, f, sk := count(all, passed), count(all, failed), count(all, skipped)
	line := fmt.Sprintf("%d passed, %d failed", p, f)
	if sk > 0 {
		line += fmt.Sprintf(", %d skipped", sk)
	}
	fmt.Println(line + repeats(all))
	return f == 0 && p > 0, nil
}

// printStage prints one line for the stage, then its failed and skipped tests.
func printStage(name string, tests []test, took time.Duration, logs string) {
	mark := "ok  "
	if count(tests, failed) > 0 {
		mark = "FAIL"
	}
	fmt.Printf("%s %-12s %4d passed %3d failed %3d skipped%s  %v\n", mark, name, count(tests, passed),
		count(tests, failed), count(tests, skipped), repeats(tests), took.Round(100*time.Millisecond))
	shown := 0
	for _, t := range tests {
		switch t.result {
		case failed:
			if shown++; shown > 20 {
				continue
			}
			fmt.Printf("     --- failed: %s\n%s\n", t.name, indent(tail(t.output, 60)))
		case skipped:
			fmt.Printf("     --- skipped: %s: %s\n", t.name, strings.Join(strings.Fields(tail(t.output, 2)), " "))
		}
	}
	if shown > 0 {
		fmt.Printf("     the whole log: %s\n", filepath.Join(logs, name+".log"))
	}
}

// repeats says how often tests repeated something for a fault of their tools or of the machine, if they did.
func repeats(tests []test) string {
	n := 0
	for _, t := range tests {
		n += t.again
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d repeats", n)
}

func indent(s string) string { return "     " + strings.ReplaceAll(s, "\n", "\n     ") }

// commit is the one that is checked out, or "" outside a repository.
func commit() string {
	out, _ := exec.Command("git", "rev-parse", "HEAD").Output()
	return strings.TrimSpace(string(out))
}

// writeResults writes what the features check reads: the commit, then "outcome<TAB>name" for each test of a stage.
func writeResults(path, commit string, tests []test) error {
	var b strings.Builder
	b.WriteString(commit + "\n")
	for _, t := range tests {
		fmt.Fprintf(&b, "%s\t%s\n", t.result, strings.ReplaceAll(t.name, "\n", " "))
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

func splitList(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

func stageNames(list []stage) string {
	var names []string
	for _, s := range list {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}

func unknownStages(list []stage, only []string) []string {
	var unknown []string
	for _, o := range only {
		if !slices.ContainsFunc(list, func(s stage) bool { return s.name == o }) {
			unknown = append(unknown, o)
		}
	}
	return unknown
}
