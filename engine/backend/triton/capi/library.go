package capi

/*
#cgo CFLAGS: -O2 -D_GNU_SOURCE
#cgo linux LDFLAGS: -ldl
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"nereid/engine/status"
)

// Function is a function of the API.
type Function struct {
	Symbol
	Built bool // it does what Triton's does; otherwise it answers that it is not supported
}

// Functions returns all functions of the API, by name.
func Functions() (all []Function) {
	var n C.size_t
	first := C.nt_functions(&n)
	for _, f := range unsafe.Slice(first, n) {
		all = append(all, Function{Symbol{C.GoString(f.name), uintptr(f.address)}, bool(f.built)})
	}
	return all
}

// Library is an opened backend library. It stays until the process ends: libraries with threads cannot be unloaded
// safely.
type Library struct{ entries C.nt_entries }

// Open opens a backend library. It finds the API under each of the sonames. Without sonames it names no library, and
// finds the API because the stub is global. Errors: InvalidArg with the loader's text, or when it is not a backend.
func Open(path string, sonames []string) (*Library, error) {
	handle, err := openLibrary(path, sonames)
	if err != nil {
		return nil, status.Errorf(status.InvalidArg, "the backend library %s cannot be opened: %w", path, err)
	}
	l := &Library{}
	C.nt_find_entries(handle, &l.entries)
	if l.entries.execute == nil {
		return nil, status.Errorf(status.InvalidArg,
			"%s is not a backend: it has no function TRITONBACKEND_ModelInstanceExecute", path)
	}
	return l, nil
}

// openLibrary opens a library that finds the API under each of the sonames.
func openLibrary(path string, sonames []string) (unsafe.Pointer, error) {
	var symbols []Symbol
	for _, f := range Functions() {
		symbols = append(symbols, f.Symbol)
	}
	if len(sonames) == 0 {
		sonames = []string{"libtritonserver.so"}
	}
	for _, name := range sonames {
		if err := openStub(name, symbols); err != nil {
			return nil, err
		}
	}
	return open(path, false)
}

// openStub opens the object with a soname, which stays.
func openStub(soname string, symbols []Symbol) error {
	fd, err := unix.MemfdCreate(soname, unix.MFD_CLOEXEC)
	if err != nil {
		return status.Errorf(status.Internal, "no memory for the C API: %w", err)
	}
	f := os.NewFile(uintptr(fd), soname)
	defer f.Close()
	if _, err := f.Write(Stub(soname, symbols)); err != nil {
		return status.Errorf(status.Internal, "the C API cannot be written: %w", err)
	}
	if _, err := open(fmt.Sprintf("/proc/self/fd/%d", fd), true); err != nil {
		return status.Errorf(status.Internal, "the C API cannot be opened as %s: %w", soname, err)
	}
	return nil
}

func open(path string, global bool) (unsafe.Pointer, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var why *C.char
	handle := C.nt_open(name, C.bool(global), &why)
	if handle == nil {
		defer C.free(unsafe.Pointer(why))
		return nil, fmt.Errorf("%s", C.GoString(why))
	}
	return handle, nil
}

// goError returns the Go form of an error, which it deletes.
func goError(e C.error) error {
	if e == nil {
		return nil
	}
	defer C.nt_delete_error(e)
	return status.New(status.Code(e.code), C.GoString(e.text))
}

// GlibcVersion returns the version of the C library that runs: "2.36".
func GlibcVersion() string { return C.GoString(C.nt_glibc()) }
