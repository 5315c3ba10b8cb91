package main

import (
	"cmp"
	"context"
	"hash/crc32"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// changed returns the mutants of packages that changed since the base, at most n of them. The base is the merge base
// with origin/main, or else the last tag. Without a base, every package counts as changed. Which n are taken depends on
// the commit, so that all have their turn.
func changed(ctx context.Context, list []mutant, n int) ([]mutant, error) {
	head := git(ctx, "rev-parse", "HEAD")
	base := git(ctx, "merge-base", "HEAD", "origin/main")
	if base == "" || base == head {
		base = git(ctx, "describe", "--tags", "--abbrev=0", "HEAD^")
	}
	packages := map[string]bool{}
	for file := range strings.Lines(git(ctx, "diff", "--name-only", base)) {
		packages[path.Dir(strings.TrimSpace(file))] = true
	}
	type ranked struct {
		mutant
		rank uint32
	}
	var taken []ranked
	for _, m := range list {
		text, err := os.ReadFile(m.patch)
		if err != nil {
			return nil, err
		}
		if base == "" || slices.ContainsFunc(patchedFile.FindAllStringSubmatch(string(text), -1),
			func(f []string) bool { return packages[path.Dir(f[1])] }) {
			taken = append(taken, ranked{m, crc32.ChecksumIEEE([]byte(head + m.name))})
		}
	}
	slices.SortFunc(taken, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	var out []mutant
	for _, r := range taken[:min(n, len(taken))] {
		out = append(out, r.mutant)
	}
	return out, nil
}

// git returns what a git command prints, or "" if it fails.
func git(ctx context.Context, args ...string) string {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
