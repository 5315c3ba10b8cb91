package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestVersionsOfPackagesCanBeCompared(t *testing.T) {
	day := time.Date(2026, 11, 23, 5, 0, 0, 0, time.UTC)
	for described, want := range map[string]string{
		"v0.2.0": "0.2.0", "0.2.0-5-gabc-dirty": "0.2.0.5.gabc.dirty", "fc6b363": "0.1.0+git20261123.fc6b363",
		"dev": "0.1.0+git20261123.dev", "12ab": "0.1.0+git20261123.12ab",
	} {
		if got := packageVersion(described, day); got != want {
			t.Errorf("%s: %s, want %s", described, got, want)
		}
	}
}

// The bill of materials lists the modules of the program that is packed, here this test, and what the page is made of.
func TestTheBillOfMaterialsListsModulesAndThePage(t *testing.T) {
	t.Chdir("../../..")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parts, err := pagePackages("frontend/package-lock.json")
	if err != nil || !strings.Contains(purls(parts), "pkg:npm/svelte@") ||
		!strings.Contains(purls(parts), "pkg:npm/%40codemirror/view@") ||
		strings.Contains(purls(parts), "pkg:npm/vitest@") {
		t.Errorf("%v: %s", err, purls(parts))
	}
	if _, err := os.Stat("engine/backend/onnxruntime/lib/libonnxruntime.version"); err != nil {
		t.Fatal("make setup-onnxruntime first: ", err)
	}
	text, err := billOfMaterials(&pack{name: "nereid", version: "1", program: exe})
	var bom struct {
		Format     string      `json:"bomFormat"`
		Components []component `json:"components"`
	}
	if err != nil || json.Unmarshal([]byte(text), &bom) != nil || bom.Format != "CycloneDX" ||
		!strings.Contains(purls(bom.Components), "pkg:golang/std@") ||
		!strings.Contains(purls(bom.Components), "pkg:pypi/onnxruntime@") {
		t.Errorf("%v: %s", err, text)
	}
}

func purls(parts []component) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.PURL + "\n")
	}
	return b.String()
}

// An archive depends on contents, modes and the time that is given, and on nothing else of the files.
func TestTwoArchivesOfOneBuildAreEqual(t *testing.T) {
	var archives [2][]byte
	for i := range archives {
		source := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(source, []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(source, time.Time{}, time.Unix(int64(i)*1e9, 0)); err != nil {
			t.Fatal(err)
		}
		p := &pack{name: "nereid", version: "1", arch: "amd64", out: t.TempDir(), time: time.Unix(1700000000, 0)}
		if err := p.tarball([]file{{path: "/usr/bin/nereid", source: source, mode: 0o755}}); err != nil {
			t.Fatal(err)
		}
		var err error
		if archives[i], err = os.ReadFile(filepath.Join(p.out, "nereid-1-linux-amd64.tar.gz")); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same content differ")
	}
	z, err := gzip.NewReader(bytes.NewReader(archives[0]))
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(z)
	head, err := r.Next()
	if err != nil || head.Name != "nereid-1-linux-amd64/bin/nereid" || head.Mode != 0o755 {
		t.Fatalf("%v, %+v", err, head)
	}
	if text, err := io.ReadAll(r); err != nil || string(text) != "content" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestCompressedPagesAreComplete(t *testing.T) {
	page := filepath.Join(t.TempDir(), "x.1")
	if err := os.WriteFile(page, []byte(".TH X\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	packed, err := compress(page)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(strings.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(z); err != nil || string(text) != ".TH X\n" {
		t.Errorf("%q, %v", text, err)
	}
}
