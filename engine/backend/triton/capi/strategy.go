package capi

/*
#include <stdlib.h>
#include "strategy.h"
#include "shim.h"
*/
import "C"

import (
	"encoding/binary"
	"errors"
	"unsafe"

	"nereid/engine/infer"
	"nereid/engine/status"
)

// Strategy is an initialized batching strategy. Its methods are called one at a time.
type Strategy struct {
	c *C.nt_strategy
	m *C.TRITONBACKEND_Model
}

// OpenStrategy opens the library of a batching strategy and initializes it for a model of a backend. Errors: InvalidArg
// for a file that is not such a library, and those of the library.
func OpenStrategy(path string, sonames []string, backend string, s Setup) (*Strategy, error) {
	handle, err := openLibrary(path, sonames)
	if err != nil {
		return nil, status.Errorf(status.InvalidArg, "the batching strategy %s cannot be opened: %w", path, err)
	}
	x := &Strategy{c: (*C.nt_strategy)(C.must_have(C.calloc(1, C.sizeof_nt_strategy)))} // freed when the process exits
	if !C.nt_find_strategy(handle, x.c) {
		return nil, status.Errorf(status.InvalidArg,
			"%s does not define all required custom batching functions for model %s", path, s.Name)
	}
	var t texts
	defer t.free()
	b := C.nt_new_backend(t.of(backend), t.of(""), t.of("{}"))
	x.m = C.nt_new_model(b, t.of(s.Name), t.of(s.Folder), C.uint64_t(s.Version), t.of(s.Config), false)
	return x, goError(C.nt_strategy_initialize(x.c, x.m))
}

// Include asks for requests until one is refused, and returns how many joined the batch. If begin is set or no batch is
// open, it first begins a batch. Errors are those of the library; a request that causes one is refused.
func (s *Strategy) Include(begin bool, records []byte) (n int, err error) {
	var errs []error
	if begin {
		errs = append(errs, s.End())
	}
	if !s.c.open {
		errs = append(errs, goError(C.nt_strategy_begin(s.c)))
	}
	for ; len(records) >= 8; n++ {
		size := binary.LittleEndian.Uint64(records)
		if records = records[8:]; size == 0 || size > uint64(len(records)) {
			return n, status.New(status.Internal, "the record of a request is damaged")
		}
		var included C.bool
		failed := goError(C.nt_strategy_include(s.c, (*C.char)(unsafe.Pointer(unsafe.SliceData(records))),
			C.uint64_t(size), &included))
		errs = append(errs, failed)
		if !included {
			break
		}
		records = records[size:]
	}
	return n, errors.Join(errs...)
}

// End ends the batch, if there is one.
func (s *Strategy) End() error { return goError(C.nt_strategy_end(s.c)) }

// Close ends the batch and finalizes the strategy.
func (s *Strategy) Close() error { return errors.Join(s.End(), goError(C.nt_strategy_finalize(s.c))) }

// AppendRecord appends a request for a Strategy in another process. That process sees the values of inputs of at most
// 8 KiB.
func AppendRecord(b []byte, r *infer.Request) []byte {
	w := recordWriter{b: b, alone: true}
	w.request(1, r, nil)
	return w.b
}
