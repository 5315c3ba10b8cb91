"""The runtime API, built on the driver API. Each device has one primary context, created on first use."""

import ctypes
import enum

from .driver import CUresult as cudaError
from .driver import cuGetErrorString, lib

CUDA_IPC_HANDLE_SIZE = 64


class cudaError_t(enum.IntEnum):
    cudaSuccess = 0
    cudaErrorInvalidValue = 1
    cudaErrorMemoryAllocation = 2
    cudaErrorUnknown = 999

    @classmethod
    def _missing_(cls, value):
        return cls.cudaErrorUnknown


class cudaMemcpyKind(enum.IntEnum):
    cudaMemcpyDefault = 4


class cudaDeviceAttr(enum.IntEnum):
    cudaDevAttrUnifiedAddressing = 41


class cudaIpcMemHandle_t:
    def __init__(self):
        self.reserved = ctypes.create_string_buffer(CUDA_IPC_HANDLE_SIZE)

    def getPtr(self):
        return ctypes.addressof(self.reserved)


class cudaStream_t:
    def __init__(self, device):
        self.device, self.value = device, ctypes.c_void_p()

    def getPtr(self):
        return self.value.value


_contexts = {}
_device = 0


def _in(device, call, *args):
    """Runs a driver call in the device's context."""
    if device not in _contexts:
        context = ctypes.c_void_p()
        status = lib.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        if status != 0:
            return cudaError_t(status)
        _contexts[device] = context
    lib.cuCtxPushCurrent_v2(_contexts[device])
    try:
        return cudaError_t(call(*args))
    finally:
        lib.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))


def cudaGetErrorString(error):
    return cuGetErrorString(cudaError(int(error)))


def cudaGetDevice():
    return cudaError_t.cudaSuccess, _device


def cudaSetDevice(device):
    global _device
    _device = device
    return (cudaError_t.cudaSuccess,)


def cudaDeviceGetAttribute(attribute, device):
    return cudaError_t.cudaSuccess, int(attribute == cudaDeviceAttr.cudaDevAttrUnifiedAddressing)


def cudaMalloc(size):
    at = ctypes.c_uint64()
    return _in(_device, lib.cuMemAlloc_v2, ctypes.byref(at), ctypes.c_size_t(size)), at.value


def cudaFree(at):
    return (_in(_device, lib.cuMemFree_v2, ctypes.c_uint64(at)),)


def cudaIpcGetMemHandle(at):
    handle = cudaIpcMemHandle_t()
    return _in(_device, lib.cuIpcGetMemHandle, handle.reserved, ctypes.c_uint64(at)), handle


def cudaStreamCreate():
    stream = cudaStream_t(_device)
    return _in(_device, lib.cuStreamCreate, ctypes.byref(stream.value), 0), stream


def cudaStreamDestroy(stream):
    return (_in(stream.device, lib.cuStreamDestroy_v2, stream.value),)


def cudaStreamSynchronize(stream):
    return (_in(stream.device, lib.cuStreamSynchronize, stream.value),)


def cudaMemcpyAsync(to, source, size, kind, stream):
    """One side must be a device address, the other a host address, bytes or a ctypes array."""
    if isinstance(to, int) and _on_device(to):
        host = source if isinstance(source, bytes) else ctypes.c_void_p(source)
        return (_in(stream.device, lib.cuMemcpyHtoDAsync_v2, ctypes.c_uint64(to), host, ctypes.c_size_t(size),
                    stream.value),)
    host = ctypes.c_void_p(to) if isinstance(to, int) else to
    return (_in(stream.device, lib.cuMemcpyDtoHAsync_v2, host, ctypes.c_uint64(source), ctypes.c_size_t(size),
                stream.value),)


def _on_device(at):
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    return _in(_device, lib.cuMemGetAddressRange_v2, ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(at)) == 0
