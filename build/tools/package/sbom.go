package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// component is a part of the program. Format: CycloneDX 1.5, https://cyclonedx.org/docs/1.5/json.
type component struct {
	Type    string `json:"type"`
	BOMRef  string `json:"bom-ref,omitempty"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl,omitempty"`
}

// library returns a component with its package URL.
func library(kind, name, version string) component {
	purl := fmt.Sprintf("pkg:%s/%s@%s", kind, strings.ReplaceAll(name, "@", "%40"), version)
	return component{Type: "library", BOMRef: purl, Name: name, Version: version, PURL: purl}
}

// billOfMaterials lists what the program is made of: Go modules, as the linker recorded them; the packages of the page;
// ONNX Runtime. The programs that are compiled into modules, such as SQLite, are not listed separately.
func billOfMaterials(p *pack) (string, error) {
	info, err := buildinfo.ReadFile(p.program)
	if err != nil {
		return "", err
	}
	parts := []component{library("golang", "std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, library("golang", m.Path, m.Version))
	}
	page, err := pagePackages("frontend/package-lock.json")
	if err != nil {
		return "", err
	}
	runtime, err := os.ReadFile("engine/backend/onnxruntime/lib/libonnxruntime.version")
	if err != nil {
		return "", err
	}
	parts = append(append(parts, page...), library("pypi", "onnxruntime", strings.TrimSpace(string(runtime))))
	slices.SortFunc(parts, func(a, b component) int { return cmp.Compare(a.PURL, b.PURL) })
	bom := map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": parts,
		"metadata": map[string]any{
			"timestamp": p.time.Format(time.RFC3339),
			"component": component{Type: "application", Name: p.name, Version: p.version},
		},
	}
	text, err := json.MarshalIndent(bom, "", " ")
	return string(text) + "\n", err
}

// pagePackages lists the packages that are compiled into the page: those that are not for development alone, and
// Svelte, whose runtime is.
func pagePackages(lock string) ([]component, error) {
	text, err := os.ReadFile(lock)
	if err != nil {
		return nil, err
	}
	var l struct {
		Packages map[string]struct {
			Version string `json:"version"`
			Dev     bool   `json:"dev"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, fmt.Errorf("%s: %w", lock, err)
	}
	var parts []component
	for path, p := range l.Packages {
		if path != "" && (!p.Dev || path == "node_modules/svelte") { // "" is the page itself
			name := path[strings.LastIndex(path, "node_modules/")+len("node_modules/"):]
			parts = append(parts, library("npm", name, p.Version))
		}
	}
	return parts, nil
}
