package console

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestErrorsHaveAChineseText finds errors of the interface that the page's catalogue lacks, and translations of texts
// that are gone. Formats of arguments alone pass an error of the engine on, which stays English.
func TestErrorsHaveAChineseText(t *testing.T) {
	b, err := os.ReadFile("../../frontend/src/lib/i18n/server.zh.json")
	if err != nil {
		t.Fatal(err)
	}
	var catalogue map[string]string
	if err := json.Unmarshal(b, &catalogue); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	err = filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			format, ok := errorFormat(n)
			if !ok || strings.Trim(format, "%vsdq: ") == "" {
				return true
			}
			used[format] = true
			if catalogue[format] == "" {
				t.Errorf("%s: frontend/src/lib/i18n/server.zh.json lacks %q", path, format)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for format := range catalogue {
		if !used[format] {
			t.Errorf("server.zh.json translates %q, which no error has", format)
		}
	}
}

// errorFormat returns the format of a call of rest.Errorf with a constant one.
func errorFormat(n ast.Node) (string, bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) < 2 {
		return "", false
	}
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		if of, ok := f.X.(*ast.Ident); !ok || of.Name != "rest" || f.Sel.Name != "Errorf" {
			return "", false
		}
	case *ast.Ident: // in package rest
		if f.Name != "Errorf" {
			return "", false
		}
	default:
		return "", false
	}
	return constant(call.Args[1])
}

// constant returns the value of string literals that are added up.
func constant(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil
	case *ast.BinaryExpr:
		x, okX := constant(e.X)
		y, okY := constant(e.Y)
		return x + y, okX && okY
	}
	return "", false
}
