package triton

import (
	"debug/elf"
	"strconv"
	"strings"

	"nereid/engine/status"
)

// dependencies are what a library needs, from its file.
type dependencies struct {
	api   []string // the names under which it looks for Triton's API
	glibc string   // the newest version of the C library that it needs: "2.34"; "": none is named
	// executions and responses: it has the functions to report these.
	executions, responses bool
}

// serverLibrary is how the names of the library with Triton's API begin. Some packages rename it.
const serverLibrary = "libtritonserver"

// dependenciesOf reads a library's file. Errors: InvalidArg for a file that is not a library of this kind of machine.
func dependenciesOf(path string) (d dependencies, err error) {
	f, err := elf.Open(path)
	if err != nil {
		return d, status.Errorf(status.InvalidArg, "%s is not a library of Linux: %w", path, err)
	}
	defer f.Close()
	needed, err := f.ImportedLibraries()
	if err != nil {
		return d, status.Errorf(status.InvalidArg, "what %s needs cannot be read: %w", path, err)
	}
	for _, name := range needed {
		if strings.HasPrefix(name, serverLibrary) {
			d.api = append(d.api, name)
		}
	}
	symbols, err := f.ImportedSymbols()
	if err != nil {
		return d, status.Errorf(status.InvalidArg, "what %s needs cannot be read: %w", path, err)
	}
	for _, s := range symbols {
		d.executions = d.executions || s.Name == "TRITONBACKEND_ModelInstanceReportBatchStatistics"
		d.responses = d.responses || s.Name == "TRITONBACKEND_ModelInstanceReportResponseStatistics"
	}
	if f.SectionByType(elf.SHT_GNU_VERSYM) == nil {
		return d, nil // it names no version of any library
	}
	versions, err := f.DynamicVersionNeeds()
	if err != nil {
		return d, status.Errorf(status.InvalidArg, "what %s needs cannot be read: %w", path, err)
	}
	for _, library := range versions {
		for _, v := range library.Needs {
			if text, ok := strings.CutPrefix(v.Dep, "GLIBC_"); ok && newer(text, d.glibc) {
				d.glibc = text
			}
		}
	}
	return d, nil
}

// newer reports whether version a is newer than b. "" is older than all others.
func newer(a, b string) bool {
	for a != "" {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		m, err := strconv.Atoi(x)
		if err != nil {
			return false // GLIBC_PRIVATE
		}
		n, _ := strconv.Atoi(y) // "" counts as 0
		if m != n {
			return m > n
		}
	}
	return false
}

// check returns an error that says what this machine lacks for the library.
func (d dependencies) check(path, have string) error {
	if newer(d.glibc, have) {
		return status.Errorf(status.InvalidArg, "the backend library %s needs glibc %s, and this machine has %s; "+
			"use a library that was built for an older system, or run the server on a newer one", path, d.glibc, have)
	}
	return nil
}
