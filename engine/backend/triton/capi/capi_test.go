package capi

import (
	"bytes"
	"debug/elf"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

// Triton's library exports 283 names; a library that is bound at once needs all of them.
func TestD076AllNamesExist(t *testing.T) {
	all := Functions()
	if len(all) != 283 {
		t.Errorf("there are %d functions, want 283", len(all))
	}
	for i, f := range all {
		if f.Address == 0 {
			t.Errorf("%s has no address", f.Name)
		}
		if i > 0 && all[i-1].Name >= f.Name {
			t.Errorf("%s comes after %s", f.Name, all[i-1].Name)
		}
	}
}

// The linker's own reader finds each symbol of a stub at its address.
func TestStub(t *testing.T) {
	symbols := []Symbol{{"one", 0x1234}, {"two", 1 << 40}}
	f, err := elf.NewFile(bytes.NewReader(Stub("libtritonserver-1.so", symbols)))
	if err != nil {
		t.Fatal(err)
	}
	dynamic := f.Progs[1]
	if dynamic.Type != elf.PT_DYNAMIC {
		t.Fatalf("the second segment is %v", dynamic.Type)
	}
	if got := hash("printf"); got != 0x077905a6 { // the example of the System V ABI
		t.Errorf("the hash of printf is %#x", got)
	}
	if err := openStub("libtritonserver-1.so", symbols); err != nil {
		t.Fatal(err)
	}
}

// A library that is not a backend is refused, and so is a file that does not exist.
func TestOpenRefuses(t *testing.T) {
	for path, want := range map[string]string{
		"libm.so.6":               "has no function TRITONBACKEND_ModelInstanceExecute",
		"/nowhere/libtriton_x.so": "/nowhere/libtriton_x.so: cannot open shared object file",
	} {
		_, err := Open(path, []string{"libtritonserver.so"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%q) is %v, want %q", path, err, want)
		}
	}
	names := Functions()
	if !slices.ContainsFunc(names, func(f Function) bool { return f.Built && f.Name == "TRITONBACKEND_ResponseSend" }) {
		t.Error("TRITONBACKEND_ResponseSend is not built")
	}
}

var update = flag.Bool("update", false, "write the table of functions into the documentation")

// The page for users lists each function with its state.
func TestD076TheTableOfFunctionsIsRight(t *testing.T) {
	const path, marker = "../../../../docs/triton-backends.md", "writes what follows -->\n"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, _, ok := strings.Cut(string(page), marker)
	if !ok {
		t.Fatalf("%s has no line with %q", path, marker)
	}
	text += marker + "\n| function | state |\n|---|---|\n"
	for _, f := range Functions() {
		state := "built"
		if !f.Built {
			state = "not supported"
		}
		text += "| `" + f.Name + "` | " + state + " |\n"
	}
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if text != string(page) {
		t.Errorf("%s is not up to date; run this test with -update", path)
	}
}
