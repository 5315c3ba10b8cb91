"""Arrays as the server's tensors, and back."""

import enum

import numpy as np

from ._library import InvalidArgumentError


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
        value = np.from_dlpack(value) if hasattr(value, "__dlpack__") else np.asarray(value)
    kind = TYPES.get(value.dtype)
    if kind is not None:
        return kind, value.shape, value if value.flags.c_contiguous else np.ascontiguousarray(value)
    if value.dtype.name == "bfloat16":
        return BF16, value.shape, np.ascontiguousarray(value).view("u2")
    if value.dtype.kind in "OSU":
        return BYTES, value.shape, encode(value)
    raise InvalidArgumentError("the server has no type for arrays of %s" % value.dtype)


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


class Tensor:
    """A tensor in memory of the CPU, with the names of Triton's Python interface. numpy.from_dlpack and those of other
    libraries read it without a copy. data is an array over its bytes."""

    def __init__(self, data_type, shape, data):
        self.data_type, self.shape, self.data = DataType(data_type), tuple(shape), data

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
        return cls(*as_input(np.from_dlpack(value)))

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


class MemoryType(enum.IntEnum):
    CPU = 0
    CPU_PINNED = 1
    GPU = 2
