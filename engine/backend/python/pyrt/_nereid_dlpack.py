"""Converts numpy arrays to DLPack capsules and back, also of type bfloat16, which numpy does not have.

The structures and rules are those of dlpack.h (dmlc/dlpack), the unversioned DLManagedTensor. A capsule named
"dltensor" has one consumer, which renames it to "used_dltensor" and calls the deleter when it no longer needs the
memory."""

import ctypes
import weakref

import numpy as np

_INT, _UINT, _FLOAT, _BFLOAT, _BOOL = 0, 1, 2, 4, 6
_CPU, _CUDA, _CUDA_HOST = 1, 2, 3
_CODES = {"i": _INT, "u": _UINT, "f": _FLOAT, "b": _BOOL}
_KINDS = {_INT: "i", _UINT: "u", _FLOAT: "f"}

_FRESH, _USED = b"dltensor", b"used_dltensor"


class Refused(Exception):
    """A capsule or object that cannot be imported; the text is for the model's author."""


class _Device(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


def _function(name, result, *arguments):
    function = getattr(ctypes.pythonapi, name)
    # A separate prototype: all code in the process shares the attributes of ctypes.pythonapi's functions.
    return ctypes.PYFUNCTYPE(result, *arguments)(ctypes.cast(function, ctypes.c_void_p).value)


_capsule_is = _function("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_capsule_get = _function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_capsule_rename = _function("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)


def export(array, bf16, owner):
    """Returns a capsule on the array's memory. The array and owner live as long as the capsule or its consumer. bf16:
    the array's 16-bit elements are bfloat16."""
    if not hasattr(np.ndarray, "__dlpack__"):
        raise Refused("DLPack needs numpy 1.22 or newer; this is %s" % np.__version__)
    if not array.flags.c_contiguous:
        array = array.copy(order="C")
    # numpy makes the capsule, because its destructor and deleter are not written in Python. Both may be called while
    # the consumer raises an exception, and Python code cannot run then. numpy does not export read-only memory, bool
    # or bfloat16. So it gets the memory as writable, and the elements as numbers of the same size.
    memory = (ctypes.c_uint8 * array.nbytes).from_address(array.ctypes.data)
    strides = (ctypes.c_int64 * max(array.ndim, 1))(*(s // array.itemsize for s in array.strides))
    memory.owner = array, strides, owner
    capsule = np.ndarray(array.shape, "u1" if array.dtype.kind == "b" else array.dtype, memory).__dlpack__()
    tensor = _Managed.from_address(_capsule_get(capsule, _FRESH)).tensor
    tensor.dtype.code = _BFLOAT if bf16 else _CODES[array.dtype.kind]
    tensor.strides = strides  # numpy leaves them out, which newer versions of DLPack forbid
    return capsule


def take(source):
    """Returns (array, bf16) on the memory of a capsule, or of an object with __dlpack__ and __dlpack_device__."""
    if type(source).__name__ != "PyCapsule":
        source = _capsule_of(source)
    if not _capsule_is(source, _FRESH):
        raise Refused("the DLPack capsule was used already: each can be taken once")
    address = _capsule_get(source, _FRESH)
    managed = _Managed.from_address(address)
    tensor = managed.tensor
    _check_device(tensor.device.device_type)
    dtype, bf16 = _numpy_type(tensor.dtype)
    shape = tuple(tensor.shape[: tensor.ndim])
    _check_strides(tensor, shape)
    # From here on this module must call the deleter.
    _capsule_rename(source, _USED)
    size = dtype.itemsize
    for dimension in shape:
        size *= dimension
    memory = (ctypes.c_uint8 * size).from_address((tensor.data or 0) + tensor.byte_offset) if size else bytearray()
    if managed.deleter:
        if size:
            weakref.finalize(memory, _Deleter(managed.deleter), address).atexit = False
        else:
            _Deleter(managed.deleter)(address)
    return np.ndarray(shape, dtype, memory), bf16


def _capsule_of(source):
    if not hasattr(source, "__dlpack__") or not hasattr(source, "__dlpack_device__"):
        raise Refused(
            "Provided tensor is not supported. Tensor must be a DLPack capsule         or have `__dlpack__` and "
            "`__dlpack_device__` attributes"  # with the spaces of the original's text
        )
    device = source.__dlpack_device__()[0]
    if int(device) == _CUDA:
        if not hasattr(source, "cpu"):
            raise Refused("DLPack capsule passed pointer to memory allocated on GPU device, when GPU is not available")
        source = source.cpu()
    else:
        _check_device(device)
    return source.__dlpack__()


def _check_device(device):
    if int(device) == _CUDA:
        raise Refused("DLPack capsule passed pointer to memory allocated on GPU device, when GPU is not available")
    if int(device) not in (_CPU, _CUDA_HOST):
        raise Refused("DLDevice type %d is not support by Python backend." % device)


def _numpy_type(dtype):
    if dtype.lanes != 1:
        raise Refused("DLPack tensors with several lanes per element are not supported.")
    if dtype.code == _BFLOAT:
        if dtype.bits != 16:
            raise Refused("Expected BF16 tensor to have 16 bits, but had: %d" % dtype.bits)
        return np.dtype(np.uint16), True
    if dtype.code == _BOOL and dtype.bits == 8:
        return np.dtype(np.bool_), False
    if dtype.code in _KINDS and dtype.bits in (8, 16, 32, 64) and (dtype.code, dtype.bits) != (_FLOAT, 8):
        return np.dtype("%s%d" % (_KINDS[dtype.code], dtype.bits // 8)), False
    raise Refused('DType code "%d" is not supported.' % dtype.code)


def _check_strides(tensor, shape):
    if not tensor.strides or 0 in shape:
        return
    wanted = 1
    for i in reversed(range(len(shape))):
        if shape[i] != 1 and tensor.strides[i] != wanted:
            raise Refused(
                "DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in C-Order are "
                "supported."
            )
        wanted *= shape[i]
