//go:build cuda && linux && amd64

package cuda

/*
#cgo LDFLAGS: -lcuda -ldl
#include <cuda.h>
#include <stdint.h>
#include <string.h>

// In the archive that build/setup/cuda.py makes.
extern int nereid_cuda_open(const char **why);

static CUresult ipc_open(CUdeviceptr *p, const void *handle) {
	CUipcMemHandle h;
	memcpy(&h, handle, sizeof h);
	return cuIpcOpenMemHandle(p, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

// Copies and waits. Host addresses are numbers, because they may be of C memory, of a mapping or of Go memory. No
// copy is running when the call returns.
static CUresult copy(CUdeviceptr p, uintptr_t host, size_t n, void *stream, int to_device) {
	CUresult queued = to_device ? cuMemcpyHtoDAsync(p, (const void *)host, n, stream)
	                            : cuMemcpyDtoHAsync((void *)host, p, n, stream);
	CUresult done = cuStreamSynchronize(stream);
	return queued != CUDA_SUCCESS ? queued : done;
}

static CUresult copy_within(CUdeviceptr to, CUdeviceptr from, size_t n, void *stream) {
	return cuMemcpyDtoDAsync(to, from, n, stream);
}

static CUresult pin(uintptr_t *p, size_t n) {
	void *at = NULL;
	CUresult r = cuMemHostAlloc(&at, n, CU_MEMHOSTALLOC_PORTABLE);
	*p = (uintptr_t)at;
	return r;
}
static CUresult unpin(uintptr_t p) { return cuMemFreeHost((void *)p); }
*/
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"unsafe"

	"gorgonia.org/cu"

	"nereid/engine/gpumem"
	"nereid/engine/shm"
)

// Result is an error of CUDA's driver, a CUresult, with the driver's text.
type Result int

const (
	invalidValue  Result = C.CUDA_ERROR_INVALID_VALUE
	noDevice      Result = C.CUDA_ERROR_NO_DEVICE
	invalidDevice Result = C.CUDA_ERROR_INVALID_DEVICE
)

// Error returns the driver's text: "invalid argument".
func (r Result) Error() string {
	var text *C.char
	if C.cuGetErrorString(C.CUresult(r), &text) != 0 || text == nil {
		return fmt.Sprintf("CUDA error %d", int(r))
	}
	return C.GoString(text)
}

// Name returns CUDA's name: "CUDA_ERROR_INVALID_VALUE".
func (r Result) Name() string {
	var name *C.char
	if C.cuGetErrorName(C.CUresult(r), &name) != 0 || name == nil {
		return fmt.Sprintf("CUDA_ERROR_%d", int(r))
	}
	return C.GoString(name)
}

func result(r C.CUresult) error {
	if r == C.CUDA_SUCCESS {
		return nil
	}
	return Result(r)
}

// of turns an error of package cu into a Result. Its type there is an integer type that is not exported.
func of(err error) error {
	cause := err
	for next := err; next != nil; next = errors.Unwrap(next) {
		cause = next
	}
	if v := reflect.ValueOf(cause); v.IsValid() && v.CanInt() {
		return Result(v.Int())
	}
	return err
}

// load loads the driver's library and initializes CUDA. It is not safe for concurrent use.
func load() error {
	var why *C.char
	switch r := C.nereid_cuda_open(&why); {
	case r < 0:
		return fmt.Errorf("NVIDIA's driver cannot be loaded: %s", C.GoString(why))
	case r != C.CUDA_SUCCESS:
		return Result(r)
	}
	return nil
}

// openHandle maps the memory behind a handle into the current context.
func openHandle(handle *[shm.HandleSize]byte) (cu.DevicePtr, error) {
	var p C.CUdeviceptr
	err := result(C.ipc_open(&p, unsafe.Pointer(handle)))
	return cu.DevicePtr(p), err
}

func closeHandle(p cu.DevicePtr) error { return result(C.cuIpcCloseMemHandle(C.CUdeviceptr(p))) }

// copyAt copies host to or from device memory and waits.
func copyAt(p cu.DevicePtr, host []byte, s cu.Stream, toDevice bool) error {
	if len(host) == 0 {
		return nil
	}
	to := C.int(0)
	if toDevice {
		to = 1
	}
	address := C.uintptr_t(uintptr(unsafe.Pointer(unsafe.SliceData(host))))
	r := C.copy(C.CUdeviceptr(p), address, C.size_t(len(host)), unsafe.Pointer(s.C()), to)
	runtime.KeepAlive(host)
	return result(r)
}

// copyWithin copies within a device and waits.
func copyWithin(list []gpumem.Copy, s cu.Stream) error {
	var failed error
	for _, c := range list {
		if c.Size == 0 {
			continue
		}
		r := C.copy_within(C.CUdeviceptr(c.To), C.CUdeviceptr(c.From), C.size_t(c.Size), unsafe.Pointer(s.C()))
		if failed = result(r); failed != nil {
			break
		}
	}
	// Wait also after an error: copies may be queued.
	done := result(C.cuStreamSynchronize(C.CUstream(unsafe.Pointer(s.C()))))
	return cmp.Or(failed, done)
}

// pin allocates page-locked memory of the host, for all contexts.
func pin(n int) (uintptr, error) {
	var p C.uintptr_t
	err := result(C.pin(&p, C.size_t(n)))
	return uintptr(p), err
}

func unpin(p uintptr) error { return result(C.unpin(C.uintptr_t(p))) }

func allocate(n int) (uintptr, error) {
	var p C.CUdeviceptr
	err := result(C.cuMemAlloc(&p, C.size_t(n)))
	return uintptr(p), err
}

func release(p uintptr) error { return result(C.cuMemFree(C.CUdeviceptr(p))) }
