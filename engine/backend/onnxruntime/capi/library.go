package capi

/*
#cgo CFLAGS: -O2 -fexceptions
#cgo LDFLAGS: -ldl
#cgo nocallback nrd_run
#cgo noescape nrd_run
#cgo nocallback nrd_run_bound
#cgo noescape nrd_run_bound
#cgo nocallback nrd_release_value
#cgo nocallback nrd_strings
#cgo noescape nrd_strings
#include "capi.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unsafe"
)

// APIVersion is the version of the C API in use. ONNX Runtime 1.APIVersion is the oldest release that has it.
const APIVersion = C.ORT_API_VERSION

// Error is an error of ONNX Runtime, with its code (OrtErrorCode) and text.
type Error struct {
	Code int
	Msg  string
}

// Error returns the text in Triton's format.
func (e *Error) Error() string { return fmt.Sprintf("onnx runtime error %d: %s", e.Code, e.Msg) }

// Codes of Error, from OrtErrorCode.
const (
	InvalidArgument = C.ORT_INVALID_ARGUMENT
	NotImplemented  = C.ORT_NOT_IMPLEMENTED
)

func check(s *C.OrtStatus) error {
	if s == nil {
		return nil
	}
	err := &Error{int(C.nrd_code(s)), C.GoString(C.nrd_message(s))}
	C.nrd_release_status(s)
	return err
}

// TooOld is the error for a library that lacks the API in use.
type TooOld struct{ Path, Version string }

func (e *TooOld) Error() string {
	return fmt.Sprintf("onnxruntime %s at %s is too old: version 1.%d or newer is needed", e.Version, e.Path,
		APIVersion)
}

// Library is the opened libonnxruntime with its environment.
type Library struct {
	Path    string
	Version string // "1.31.1"
	// Providers are the names of the execution providers that the library was built with. The CPU provider is last.
	Providers []string
	env       *C.OrtEnv

	preload sync.Once
}

// process contains the library of the process. There is only one, because the environment and the state of package
// onnxruntime_go are global.
var process struct {
	sync.Mutex
	library *Library
}

// Open opens libonnxruntime and makes its environment, whose shared thread pool does not spin. The first library stays
// open until the process exits: Open returns it again for the same path or another copy, and fails for another library.
// Open calls only the library's version function before it has checked the version.
// intra and inter are the sizes of the pool for work inside an operator and for operators that run in parallel, 0 for
// the number of cores. Safe for concurrent use.
func Open(path string, intra, inter int) (*Library, error) {
	process.Lock()
	defer process.Unlock()
	if l := process.library; l != nil {
		if l.Path != path && !sameCopy(l.Path, path) {
			return nil, fmt.Errorf("onnxruntime %s from %s is in use already; restart to use %s", l.Version,
				l.Path, path)
		}
		return l, nil
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var reason *C.char
	handle := C.nrd_open(name, &reason)
	if handle == nil {
		defer C.free(unsafe.Pointer(reason))
		return nil, fmt.Errorf("cannot open onnxruntime: %s", C.GoString(reason))
	}
	l := &Library{Path: path, Version: C.GoString(C.nrd_version(handle))}
	if !newEnough(l.Version) {
		C.nrd_close(handle)
		return nil, &TooOld{path, l.Version}
	}
	if C.nrd_use(handle) == 0 {
		C.nrd_close(handle)
		return nil, fmt.Errorf("onnxruntime %s at %s does not have version %d of the C API", l.Version, path,
			APIVersion)
	}
	err := check(C.nrd_env(C.int(intra), C.int(inter), &l.env))
	if err != nil {
		return nil, fmt.Errorf("make the environment of onnxruntime %s at %s: %w", l.Version, path, err)
	}
	if l.Providers, err = providers(); err != nil {
		return nil, fmt.Errorf("list the execution providers of onnxruntime %s at %s: %w", l.Version, path, err)
	}
	process.library = l
	return l, nil
}

// unpacked is the name of a copy that the program unpacked. It has the version and a digest of the bytes.
var unpacked = regexp.MustCompile(`^libonnxruntime-.+-[0-9a-f]{16}\.so$`)

// sameCopy reports whether two paths are copies that have the same bytes. Several servers in one process, one after the
// other, unpack the library into a folder of each.
func sameCopy(a, b string) bool {
	return filepath.Base(a) == filepath.Base(b) && unpacked.MatchString(filepath.Base(a))
}

func providers() ([]string, error) {
	var list **C.char
	var n C.int
	if err := check(C.nrd_providers(&list, &n)); err != nil {
		return nil, err
	}
	defer C.nrd_release_providers(list, n)
	var names []string
	for _, name := range unsafe.Slice(list, int(n)) {
		names = append(names, C.GoString(name))
	}
	return names, nil
}

// Preload opens libraries that providers depend on. Only the first call in the process has an effect; the libraries
// stay open. It returns the error of each library that does not open, by path.
func (l *Library) Preload(paths []string) map[string]error {
	failed := map[string]error{}
	l.preload.Do(func() {
		for _, path := range paths {
			name := C.CString(path)
			if reason := C.nrd_preload(name); reason != nil {
				failed[path] = errors.New(C.GoString(reason))
				C.free(unsafe.Pointer(reason))
			}
			C.free(unsafe.Pointer(name))
		}
	})
	return failed
}

// newEnough reports whether a version such as "1.31.1" is at least 1.APIVersion.
func newEnough(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err1 := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	return err1 == nil && err2 == nil && (a > 1 || a == 1 && b >= APIVersion)
}

// DisableThreads makes sessions use the environment's thread pool. options is an OrtSessionOptions.
func DisableThreads(options unsafe.Pointer) error {
	return check(C.nrd_disable_threads((*C.OrtSessionOptions)(options)))
}

// Profile makes the session of options, an OrtSessionOptions, write the times of its nodes to a file whose path begins
// with prefix.
func Profile(options unsafe.Pointer, prefix string) error {
	name := C.CString(prefix)
	defer C.free(unsafe.Pointer(name))
	return check(C.nrd_profile((*C.OrtSessionOptions)(options), name))
}

// RegisterCustomOps adds a library of custom operators to options, an OrtSessionOptions.
func RegisterCustomOps(options unsafe.Pointer, library string) error {
	name := C.CString(library)
	defer C.free(unsafe.Pointer(name))
	return check(C.nrd_custom_ops((*C.OrtSessionOptions)(options), name))
}

// ErrClosed is returned by a closed runner.
var ErrClosed = errors.New("runner is closed")
