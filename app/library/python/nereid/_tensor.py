"""Arrays as the server's tensors, and back."""

import ctypes
import enum
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._library import InvalidArgumentError, UnsupportedError


class DataType(enum.IntEnum):
    """Types of tensors, with the numbers of the C API."""

    INVALID = 0
    BOOL = 1
    UINT8 = 2
    UINT16 = 3
    UINT32 = 4
    UINT64 = 5
    INT8 = 6
    INT16 = 7
    INT32 = 8
    INT64 = 9
    FP16 = 10
    FP32 = 11
    FP64 = 12
    BYTES = 13
    BF16 = 14


BYTES, BF16 = int(DataType.BYTES), int(DataType.BF16)
_NUMPY = (None, "?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8")
DTYPES = {i: np.dtype(code) for i, code in enumerate(_NUMPY) if code}
TYPES = {dtype: i for i, dtype in DTYPES.items()}
# The types of arrays over a tensor's memory.
MEMORY = {**DTYPES, BYTES: np.dtype("u1"), BF16: np.dtype("u2")}


def as_input(value):
    """Returns (type, shape, contiguous array with the data). Numbers are not copied, unless value is not contiguous."""
    if isinstance(value, Tensor):
        return int(value.data_type), tuple(value.shape), np.ascontiguousarray(value.data)
    if not isinstance(value, np.ndarray):
        value = _from_dlpack(value) if hasattr(value, "__dlpack__") else np.asarray(value)
    kind = TYPES.get(value.dtype)
    if kind is not None:
        return kind, value.shape, value if value.flags.c_contiguous else np.ascontiguousarray(value)
    if value.dtype.name == "bfloat16":
        return BF16, value.shape, np.ascontiguousarray(value).view("u2")
    if value.dtype.kind in "OSU":
        return BYTES, value.shape, encode(value)
    raise InvalidArgumentError("the server has no type for arrays of %s" % value.dtype)


def _from_dlpack(value):
    """Returns an array over the memory of an object that has DLPack."""
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError) as e:  # of a GPU, or of a type that numpy does not have
        raise InvalidArgumentError("numpy cannot read the input by DLPack: %s" % e) from e


def encode(array):
    """Returns the wire form of BYTES elements: each behind its size in 4 bytes."""
    parts = []
    for element in array.ravel():
        data = bytes(element) if isinstance(element, (bytes, bytearray, memoryview)) else str(element).encode()
        parts += (len(data).to_bytes(4, "little"), data)
    return np.frombuffer(b"".join(parts), "u1")


def decode(data, shape):
    """Returns an array of bytes objects from the wire form of BYTES elements."""
    data, elements, at = bytes(data), [], 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "little")
        elements.append(data[at + 4 : end])
        at = end
    made = np.empty(len(elements), object)
    made[:] = elements
    return made.reshape(shape)


class MemoryType(enum.IntEnum):
    CPU = 0
    CPU_PINNED = 1
    GPU = 2


class DLDeviceType(enum.IntEnum):
    """Devices, with the names and numbers of DLPack."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16


@dataclass
class MemoryBuffer:
    """Memory of a tensor, with the names of Triton's Python interface. It keeps owner, whose memory it is."""

    data_ptr: int
    memory_type: MemoryType
    memory_type_id: int
    size: int  # in bytes
    owner: Any

    @staticmethod
    def from_dlpack(owner):
        if not hasattr(owner, "__dlpack__"):
            raise InvalidArgumentError("Object does not support DLpack protocol")
        array = _from_dlpack(owner)
        if not array.flags.c_contiguous:
            raise InvalidArgumentError("Only contiguous memory is supported")
        return MemoryBuffer(array.ctypes.data, MemoryType.CPU, 0, array.nbytes, owner)

    def _array(self):
        """Returns an array over the bytes, which keeps the owner."""
        if self.memory_type == MemoryType.GPU:
            raise UnsupportedError("memory of a GPU is not supported")
        if self.size == 0:
            return np.empty(0, "u1")
        memory = (ctypes.c_ubyte * self.size).from_address(self.data_ptr)
        memory.owner = self.owner
        return np.frombuffer(memory, "u1")


class Tensor:
    """A tensor in memory of the CPU, with the names of Triton's Python interface. numpy.from_dlpack and those of other
    libraries read it without a copy. data is an array over its bytes, or a MemoryBuffer with them."""

    def __init__(self, data_type, shape, data):
        data = data._array() if isinstance(data, MemoryBuffer) else data
        self.data_type, self.shape, self.data = DataType(data_type), tuple(shape), data

    @property
    def memory_buffer(self):
        """The memory of the tensor, which the buffer keeps."""
        return MemoryBuffer(self.data_ptr, self.memory_type, self.memory_type_id, self.size, self.data)

    @property
    def size(self):
        """The size in bytes."""
        return self.data.nbytes

    @property
    def data_ptr(self):
        return self.data.ctypes.data

    @property
    def memory_type(self):
        return MemoryType.CPU

    memory_type_id = 0

    @classmethod
    def _from_object(cls, value):
        return value if isinstance(value, cls) else cls(*as_input(value))

    @classmethod
    def from_dlpack(cls, value):
        return cls(*as_input(_from_dlpack(value)))

    @classmethod
    def from_string_array(cls, values):
        return cls(*as_input(np.asarray(values, object)))

    from_bytes_array = from_string_array

    def to_bytes_array(self):
        """Returns an array of bytes objects."""
        self._must_be(DataType.BYTES)
        return decode(self.data, self.shape)

    def to_string_array(self):
        """Returns an array of texts."""
        self._must_be(DataType.BYTES)
        texts = [element.decode() for element in decode(self.data, self.shape).ravel()]
        return np.array(texts, str).reshape(self.shape)

    def _must_be(self, kind):
        if self.data_type != kind:
            raise InvalidArgumentError("the tensor has the type %s and not %s" % (self.data_type.name, kind.name))

    def numpy(self):
        """Returns the tensor as an array, without a copy of numbers. BF16 becomes FP32."""
        if self.data_type == DataType.BYTES:
            return self.to_bytes_array()
        if self.data_type == DataType.BF16:
            return (self.data.view("u2").astype("u4") << 16).view("f4").reshape(self.shape)
        return self.data.view(DTYPES[self.data_type]).reshape(self.shape)

    def _numbers(self):
        if self.data_type in (DataType.BYTES, DataType.BF16):
            raise BufferError("numpy has no DLPack for tensors of %s; use numpy()" % self.data_type.name)
        return self.numpy()

    def __dlpack__(self, **options):
        return self._numbers().__dlpack__(**options)

    def __dlpack_device__(self):
        return self._numbers().__dlpack_device__()

    def __array__(self, dtype=None, copy=None):
        return np.array(self.numpy(), dtype, copy=bool(copy)) if dtype or copy else self.numpy()

    def to_host(self):
        return self

    def to_device(self, device):
        """Returns the tensor if it is there: device says CPU, by the names and numbers that Triton's module takes."""
        kind, number = _device(device)
        if kind == MemoryType.GPU or number != 0:
            raise UnsupportedError("Conversion from %s to %s not supported." % ((MemoryType.CPU, 0), (kind, number)))
        return self


def _device(device):
    """Returns (memory type, number) of "cpu", "gpu:1", a MemoryType, or a pair of a MemoryType or DLDeviceType and a
    number."""
    number = 0
    if isinstance(device, tuple):
        device, number = device
    elif isinstance(device, str):
        device, _, text = device.partition(":")
        if text and not text.isdigit():
            raise InvalidArgumentError("a device has a number, not %r" % text)
        number = int(text or 0)
    if isinstance(device, DLDeviceType):
        device = {DLDeviceType.kDLCPU: "cpu", DLDeviceType.kDLCUDA: "gpu"}.get(device, device.name)
    if isinstance(device, str):
        if device.upper() not in MemoryType.__members__:
            raise InvalidArgumentError("the server has no memory of %s" % device)
        return MemoryType[device.upper()], number
    return MemoryType(device), number
