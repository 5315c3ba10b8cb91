"""The driver API. Each function returns a tuple whose first element is the status."""

import ctypes
import enum
import os

lib = ctypes.CDLL(os.environ["FAKE_CUDA_LIBRARY"])
lib.cuInit(0)


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_INVALID_DEVICE = 101
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_OTHER = 999

    @classmethod
    def _missing_(cls, value):
        return cls.CUDA_ERROR_OTHER


def cuGetErrorString(error):
    text = ctypes.c_char_p()
    lib.cuGetErrorString(int(error), ctypes.byref(text))
    return CUresult.CUDA_SUCCESS, text.value


def cuDeviceGet(ordinal):
    device = ctypes.c_int()
    return CUresult(lib.cuDeviceGet(ctypes.byref(device), ordinal)), device.value


def cuDevicePrimaryCtxGetState(device):
    flags, active = ctypes.c_uint(), ctypes.c_int()
    status = lib.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active))
    return CUresult(status), flags.value, active.value
