package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	leadingID = regexp.MustCompile(`^[A-I][0-9]{3}(?:[ _/,+:]|$)`)
	pyTest    = regexp.MustCompile(
		`(?m)^\s*(?:async\s+)?def (test\w*)|id=["']([A-I][0-9]{3}[^"']*)["']|ids=\[([^\]]*)\]`)
	jsTest = regexp.MustCompile("\\b(?:test|it|describe|step)(?:\\.\\w+)*\\(\\s*[\"'`]([^\"'`\n]*)")
)

// sourceNames collects the names of tests from the sources below root:
//   - Go: test functions, and strings in test files that begin with a feature's id (the names of subtests);
//   - Python: test functions and parameter ids;
//   - JavaScript and TypeScript: the titles of test, it, describe and step.
func sourceNames(root string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			return skipFolder(path == root, base, "features") // the examples in this program's own tests prove nothing
		}
		var found []string
		switch {
		case strings.HasSuffix(base, "_test.go"):
			found, err = goNames(path)
		case strings.HasPrefix(base, "test_") && strings.HasSuffix(base, ".py"):
			found, err = matches(path, pyTest)
		case isJSTest(path, base):
			found, err = matches(path, jsTest)
		}
		names = append(names, found...)
		return err
	})
	return names, err
}

// skipFolder returns fs.SkipDir for folders that hold no sources, and for the one named also.
func skipFolder(isRoot bool, name, also string) error {
	if !isRoot && (strings.HasPrefix(name, ".") ||
		slices.Contains([]string{"node_modules", "dist", "testdata", also}, name)) {
		return fs.SkipDir
	}
	return nil
}

func isJSTest(path, base string) bool {
	switch filepath.Ext(base) {
	case ".ts", ".js", ".mjs":
	default:
		return false
	}
	return strings.Contains(base, ".test.") || strings.Contains(base, ".spec.") ||
		strings.Contains(filepath.ToSlash(path), "/e2e/")
}

func goNames(path string) ([]string, error) {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var names []string
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			for _, prefix := range []string{"Test", "Fuzz", "Example"} {
				if n.Recv == nil && strings.HasPrefix(n.Name.Name, prefix) {
					names = append(names, n.Name.Name)
				}
			}
		case *ast.BasicLit:
			if s, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && leadingID.MatchString(s) {
				names = append(names, fmt.Sprintf("%s (%s)", s, filepath.Base(path)))
			}
		}
		return true
	})
	return names, nil
}

func matches(path string, re *regexp.Regexp) ([]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range re.FindAllStringSubmatch(string(data), -1) {
		names = append(names, strings.TrimSpace(strings.Join(m[1:], " ")))
	}
	return names, nil
}
