// Command licenses collects the licences of everything in the program and writes app/licenses/licenses.txt.gz. Run it
// after make build, because it reads the modules, frontend/node_modules and the wheel of ONNX Runtime.
package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// tagSets are the build tags of the program: plain, with the window, and with CUDA.
var tagSets = []string{"", "desktop,production,webkit2_41", "cuda"}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense)([.-].*)?$`)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

// texts maps the text of a licence to the names of what it covers.
type texts map[string][]string

func (t texts) add(name, words string) {
	words = strings.TrimSpace(strings.ReplaceAll(words, "\r\n", "\n"))
	if !slices.Contains(t[words], name) {
		t[words] = append(t[words], name)
	}
}

func run() error {
	all := texts{}
	if err := errors.Join(all.goModules(), all.page("frontend"), all.onnxRuntime(".cache/onnxruntime")); err != nil {
		return err
	}
	var plain bytes.Buffer
	words := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		slices.Sort(all[a])
		slices.Sort(all[b])
		return cmp.Or(strings.Compare(all[a][0], all[b][0]), strings.Compare(a, b))
	})
	for _, w := range words {
		fmt.Fprintf(&plain, "== %s\n\n%s\n\n", strings.Join(all[w], ", "), w)
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err = z.Write(plain.Bytes()); err == nil {
		err = z.Close()
	}
	if err != nil {
		return err
	}
	fmt.Printf("%d licences, %d bytes, packed %d\n", len(words), plain.Len(), packed.Len())
	return os.WriteFile("app/licenses/licenses.txt.gz", packed.Bytes(), 0o644)
}

// folder adds the licence files of a folder.
func (t texts) folder(name, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	found := false
	for _, e := range entries {
		if !e.Type().IsRegular() || !licenceFile.MatchString(e.Name()) {
			continue
		}
		words, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		t.add(name, string(words))
		found = true
	}
	if !found {
		return fmt.Errorf("%s has no licence in %s", name, dir)
	}
	return nil
}

func (t texts) goModules() error {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	words, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "LICENSE"))
	if err != nil {
		return err
	}
	t.add("Go", string(words))
	for _, tags := range tagSets {
		out, err := exec.Command("go", "list", "-e", "-deps", "-tags", tags, "-f",
			"{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Dir}}{{end}}{{end}}", ".").Output()
		if err != nil {
			return fmt.Errorf("go list with tags %q: %w", tags, err)
		}
		for line := range strings.Lines(string(out)) {
			if name, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
				if err := t.folder(name, dir); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// page adds what the page is made of: its dependencies with theirs, and Svelte, whose runtime is compiled in.
func (t texts) page(dir string) error {
	seen := map[string]bool{}
	var visit func(name string) error
	visit = func(name string) error {
		if seen[name] {
			return nil
		}
		seen[name] = true
		at := filepath.Join(dir, "node_modules", name)
		p, err := readPackage(filepath.Join(at, "package.json"))
		if err != nil {
			return err
		}
		if err := t.folder(name, at); err != nil {
			if p.License == "" {
				return err
			}
			t.add(name, "License: "+p.License+", as its package.json says; it comes without the words.")
		}
		for _, d := range p.dependencies() {
			if strings.HasPrefix(d, "@types/") { // not compiled in
				continue
			}
			if err := visit(d); err != nil {
				return err
			}
		}
		return nil
	}
	own, err := readPackage(filepath.Join(dir, "package.json"))
	if err != nil {
		return err
	}
	for _, name := range append(own.dependencies(), "svelte") {
		if err := visit(name); err != nil {
			return err
		}
	}
	return nil
}

// npmPackage is what is read of a package.json.
type npmPackage struct {
	License      string            `json:"license"`
	Dependencies map[string]string `json:"dependencies"`
}

func (p *npmPackage) dependencies() []string { return slices.Sorted(maps.Keys(p.Dependencies)) }

func readPackage(path string) (p npmPackage, err error) {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// onnxRuntime adds the library's licence and those of what it is made of, out of its wheel.
func (t texts) onnxRuntime(dir string) error {
	wheels, err := fs.Glob(os.DirFS(dir), "onnxruntime-*.whl")
	if err != nil || len(wheels) == 0 {
		return fmt.Errorf("no wheel of onnxruntime in %s: %v; run make build", dir, err)
	}
	z, err := zip.OpenReader(filepath.Join(dir, wheels[len(wheels)-1]))
	if err != nil {
		return err
	}
	defer z.Close()
	for _, name := range []string{"onnxruntime/LICENSE", "onnxruntime/ThirdPartyNotices.txt"} {
		f, err := z.Open(name)
		if err != nil {
			return err
		}
		words, err := io.ReadAll(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		t.add("ONNX Runtime", string(words))
	}
	return nil
}
