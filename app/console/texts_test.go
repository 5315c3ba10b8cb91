package console

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"nereid/engine/modelconfig"
)

// texts are the texts of the server by kind, as in the page's catalogue of translations.
type texts map[string]map[string]string

func catalogue(t *testing.T) texts {
	b, err := os.ReadFile("../../frontend/src/lib/i18n/server.zh.json")
	if err != nil {
		t.Fatal(err)
	}
	var c texts
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestErrorsHaveAChineseText finds errors of the interface that the page's catalogue lacks, and translations of texts
// that are gone. Formats of arguments alone pass an error of the engine on, which stays English.
func TestErrorsHaveAChineseText(t *testing.T) {
	errors := catalogue(t)["errors"]
	used := map[string]bool{}
	inspect(t, ".", func(path string, n ast.Node) {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) < 1 {
			return
		}
		folder := filepath.Base(filepath.Dir(path))
		var said ast.Expr
		switch name := called(call); {
		case name == "rest.Errorf", name == "Errorf" && folder == "rest":
			said = call.Args[1]
		case folder == "staging" && (name == "invalid" || name == "tooLarge"):
			said = call.Args[0]
		default:
			return
		}
		format, ok := constant(said)
		if !ok || strings.Trim(format, "%vsdq: ") == "" {
			return
		}
		used[format] = true
		if errors[format] == "" {
			t.Errorf("%s: the errors of server.zh.json lack %q", path, format)
		}
	})
	for format := range errors {
		if !used[format] {
			t.Errorf("server.zh.json translates %q, which no error has", format)
		}
	}
}

// engineTexts are the packages of the engine whose errors the page shows most: of loads, of requests, of processes and
// of comparisons. Errors of the other backends stay in English; they mostly have words of libraries and of the system.
var engineTexts = []string{"", "model", "lifecycle", "residency", "sched", "ensemble", "instance", "worker",
	"worker/process", "compare", "repo", "backend/python", "backend/runtime"}

// TestErrorsOfTheEngineHaveAChineseText finds errors of these packages that the catalogue lacks, and translations of
// texts that are gone.
func TestErrorsOfTheEngineHaveAChineseText(t *testing.T) {
	said := catalogue(t)["engine"]
	used := map[string]bool{"[request id: %s] %s": true} // of function invalid of package model
	makes := map[string]bool{"status.Errorf": true, "status.New": true, "invalid": true}
	for _, pkg := range engineTexts {
		folder := filepath.Join("../../engine", pkg)
		inspect(t, folder, func(path string, n ast.Node) {
			call, ok := n.(*ast.CallExpr)
			if !ok || filepath.Dir(path) != folder || !makes[called(call)] || len(call.Args) < 2 {
				return
			}
			format, ok := constant(call.Args[1])
			fixed := verb.ReplaceAllString(format, "")
			if !ok || fixed != format && len(fixed) < 12 { // it would match texts of others
				return
			}
			used[format] = true
			if said[format] == "" {
				t.Errorf("%s: the engine's errors of server.zh.json lack %q", path, format)
			}
		})
	}
	for format := range said {
		if !used[format] {
			t.Errorf("server.zh.json translates %q, which no error of the engine has", format)
		}
	}
	if len(used) < 100 {
		t.Errorf("only %d errors were found", len(used))
	}
}

// reasonTexts are the packages that say why something failed that a person has started (a load test, a tuning, a
// download, a conversion, an import, a candidate), or why a process ended. true: all errors of the package must have a
// translation, but those of options that only a terminal has.
var reasonTexts = map[string]bool{"../command/get": true, "../command/convert": true, "../perf": true,
	"../download": true, "../tune": false, "imports": false, "tuning": false, "conversions": false, "models": false,
	"code": false, "requests": false, "inference": false,
	"../../engine/backend/onnxruntime/onnxfile": false, "../alerts": false, "../../engine/device": false,
	"../../engine/lifecycle": false, "../../engine/shadow": false, "../../engine/worker/process": false}

// terminalTexts are files whose errors only a terminal shows: of the options of nereid perf, and of its report.
var terminalTexts = map[string]bool{"../perf/parse.go": true, "../perf/options.go": true}

// TestReasonsInChineseAreThere finds errors that the catalogue lacks, translations of texts that are gone, and formats
// that match texts of libraries.
func TestReasonsInChineseAreThere(t *testing.T) {
	reasons, there := catalogue(t)["reasons"], map[string]bool{}
	for folder, all := range reasonTexts {
		inspect(t, folder, func(path string, n ast.Node) {
			e, ok := n.(ast.Expr)
			if !ok {
				return
			}
			there[concatenated(e)] = true
			call, ok := n.(*ast.CallExpr)
			if !ok || !all || terminalTexts[path] || called(call) != "fmt.Errorf" && called(call) != "errors.New" {
				return
			}
			format, ok := constant(call.Args[0])
			if ok && len(verb.ReplaceAllString(format, "")) >= 12 && reasons[format] == "" {
				t.Errorf("%s: the reasons of server.zh.json lack %q", path, format)
			}
		})
	}
	for format := range reasons {
		if !there[format] {
			t.Errorf("server.zh.json translates %q, which no reason has", format)
		}
		if fixed := verb.ReplaceAllString(format, ""); fixed != format && len(fixed) < 11 {
			t.Errorf("server.zh.json translates %q, which is too short to be recognized", format)
		}
	}
	if len(reasons) < 40 {
		t.Errorf("only %d reasons are translated", len(reasons))
	}
}

// TestFaultsHaveAChineseText finds faults and advice of package modelconfig that the catalogue lacks. Advice that is
// not one constant is found only if it has a constant format.
func TestFaultsHaveAChineseText(t *testing.T) {
	faults := catalogue(t)["faults"]
	all := remarks(t) // and the constants of the package
	inspect(t, "../../engine/modelconfig", func(path string, n ast.Node) {
		if e, ok := n.(ast.Expr); ok {
			if s, ok := constant(e); ok {
				all = append(all, s)
			}
		}
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return
		}
		var said []ast.Expr
		switch name := called(call); {
		case (name == "c.err" || name == "c.warn") && len(call.Args) > 2:
			said = call.Args[1:3]
		case (name == "p.fault" || name == "p.wrong") && len(call.Args) > 3:
			said = call.Args[2:4]
		}
		for _, e := range said {
			if f, ok := e.(*ast.CallExpr); ok && called(f) == "fmt.Sprintf" {
				e = f.Args[0]
			}
			if s, ok := constant(e); ok && s != "" && s != "%s" && faults[s] == "" {
				t.Errorf("%s: the faults of server.zh.json lack %q", path, s)
			}
		}
	})
	sources := strings.Join(all, "\n")
	for format := range faults {
		for _, part := range verb.Split(format, -1) {
			if !strings.Contains(sources, part) {
				t.Errorf("server.zh.json translates %q, which no fault has", format)
			}
		}
	}
}

// TestRemarksHaveAChineseText finds remarks of backends on parameters that the catalogue lacks.
func TestRemarksHaveAChineseText(t *testing.T) {
	faults := catalogue(t)["faults"]
	all := remarks(t)
	for _, s := range all {
		if faults[s] == "" {
			t.Errorf("the faults of server.zh.json lack %q", s)
		}
	}
	if len(all) < 4 {
		t.Errorf("only %d remarks were found", len(all))
	}
}

// remarks returns the formats of what backends say about parameters. The texts of errors are left out.
func remarks(t *testing.T) (all []string) {
	inspect(t, "../../engine/backend", func(path string, n ast.Node) {
		if filepath.Base(path) != "parameters.go" {
			return
		}
		var said ast.Expr
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if named(n.Key) == "Text" {
				said = n.Value
			}
		case *ast.CallExpr:
			if called(n) == "refuse" {
				said = n.Args[1]
			}
		}
		if _, is := said.(*ast.CallExpr); said == nil || is || concatenated(said) == "%v" {
			return
		}
		all = append(all, "parameter %q "+concatenated(said))
	})
	return all
}

// TestHelpHasAChineseText finds help of the configuration editor that the catalogue lacks, and translations of help
// that is gone. Defaults of one word, such as false, are the same in all languages or have a translation.
func TestHelpHasAChineseText(t *testing.T) {
	help := catalogue(t)["help"]
	there := map[string]bool{}
	for _, f := range modelconfig.Describe() {
		said := []string{f.Doc, f.Default, f.Support}
		for _, v := range f.Values {
			said = append(said, v.Doc)
		}
		for _, s := range said {
			there[s] = true
			if strings.Contains(s, " ") && help[s] == "" {
				t.Errorf("the help of server.zh.json lacks %q, of %s", s, f.Path)
			}
		}
	}
	for s := range help {
		if !there[s] {
			t.Errorf("server.zh.json translates %q, which no help has", s)
		}
	}
}

// TestEventsHaveAChineseText finds texts of events that the catalogue lacks: constants, and all formats of alerts.
func TestEventsHaveAChineseText(t *testing.T) {
	events := catalogue(t)["events"]
	found := map[string]int{}
	want := func(path, format string) {
		if verb.ReplaceAllString(format, "") == "" || format == "nereid %s" {
			return
		}
		found[filepath.Base(path)]++
		if events[format] == "" {
			t.Errorf("%s: the events of server.zh.json lack %q", path, format)
		}
	}
	inspect(t, "../alerts/alert.go", func(path string, n ast.Node) {
		if call, ok := n.(*ast.CallExpr); ok && called(call) == "fmt.Sprintf" {
			format, _ := constant(call.Args[0])
			want(path, format)
		}
	})
	inspect(t, "..", func(path string, n ast.Node) {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return
		}
		if s, ok := lit.Type.(*ast.SelectorExpr); !ok || s.Sel.Name != "Event" || named(s.X) != "history" {
			return
		}
		for _, e := range lit.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok && named(kv.Key) == "Text" {
				want(path, concatenated(kv.Value))
			}
		}
	})
	if found["alert.go"] == 0 || len(found) < 2 {
		t.Errorf("texts of events were found in %v", found)
	}
}

var verb = regexp.MustCompile(`%[.\d]*[a-z]`)

// inspect calls f for each node of the Go files below a folder, without tests.
func inspect(t *testing.T, root string, f func(path string, n ast.Node)) {
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			f(path, n)
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// named returns an identifier's name, "" for another expression.
func named(e ast.Expr) string {
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// called returns the function of a call as in the source: f, or x.f.
func called(call *ast.CallExpr) string {
	if s, ok := call.Fun.(*ast.SelectorExpr); ok {
		return named(s.X) + "." + s.Sel.Name
	}
	return named(call.Fun)
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

// concatenated returns the format of added strings, with %s for what is not constant.
func concatenated(e ast.Expr) string {
	if s, ok := constant(e); ok {
		return s
	}
	if sum, ok := e.(*ast.BinaryExpr); ok {
		return concatenated(sum.X) + concatenated(sum.Y)
	}
	return "%s"
}
