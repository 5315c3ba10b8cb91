"""The functions of libtritonserver.so, by ctypes."""

import ctypes
import os
import pathlib
from ctypes import POINTER, byref, c_bool, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p


class TritonError(Exception):
    """An error of the server. Its classes are those of the C API's codes."""


class UnknownError(TritonError):
    pass


class InternalError(TritonError):
    pass


class NotFoundError(TritonError):
    pass


class InvalidArgumentError(TritonError):
    pass


class UnavailableError(TritonError):
    pass


class UnsupportedError(TritonError):
    pass


class AlreadyExistsError(TritonError):
    pass


class CancelledError(TritonError):
    pass


# By the numbers of the C API.
CODES = (UnknownError, InternalError, NotFoundError, InvalidArgumentError, UnavailableError, UnsupportedError,
         AlreadyExistsError, CancelledError)

FOLDER = pathlib.Path(__file__).resolve().parent / "lib"
PROGRAM = os.environ.get("NEREID_PROGRAM") or str(FOLDER / "nereid")

# What a function takes. Each returns an error, unless it is in _OTHERS.
_P, _S, _I64, _U64, _U32 = c_void_p, c_char_p, c_int64, c_uint64, c_uint32
_OUT = POINTER(c_void_p)
_FUNCTIONS = {
    "TRITONSERVER_ServerOptionsNew": [_OUT],
    "TRITONSERVER_ServerOptionsDelete": [_P],
    "TRITONSERVER_ServerNew": [_OUT, _P],
    "TRITONSERVER_ServerStop": [_P],
    "TRITONSERVER_ServerDelete": [_P],
    "TRITONSERVER_ServerIsLive": [_P, POINTER(c_bool)],
    "TRITONSERVER_ServerIsReady": [_P, POINTER(c_bool)],
    "TRITONSERVER_ServerMetadata": [_P, _OUT],
    "TRITONSERVER_ServerModelIndex": [_P, _U32, _OUT],
    "TRITONSERVER_ServerModelMetadata": [_P, _S, _I64, _OUT],
    "TRITONSERVER_ServerModelStatistics": [_P, _S, _I64, _OUT],
    "TRITONSERVER_ServerModelConfig": [_P, _S, _I64, _U32, _OUT],
    "TRITONSERVER_ServerModelIsReady": [_P, _S, _I64, POINTER(c_bool)],
    "TRITONSERVER_ServerModelBatchProperties": [_P, _S, _I64, POINTER(_U32), _P],
    "TRITONSERVER_ServerModelTransactionProperties": [_P, _S, _I64, POINTER(_U32), _P],
    "TRITONSERVER_ServerLoadModelWithParameters": [_P, _S, POINTER(c_void_p), _U64],
    "TRITONSERVER_ServerUnloadModel": [_P, _S],
    "TRITONSERVER_ServerUnloadModelAndDependents": [_P, _S],
    "TRITONSERVER_ServerRegisterModelRepository": [_P, _S, POINTER(c_void_p), _U32],
    "TRITONSERVER_ServerPollModelRepository": [_P],
    "TRITONSERVER_ServerUnregisterModelRepository": [_P, _S],
    "TRITONSERVER_ServerMetrics": [_P, _OUT],
    "TRITONSERVER_MetricsFormatted": [_P, c_int, POINTER(c_void_p), POINTER(c_size_t)],
    "TRITONSERVER_MetricsDelete": [_P],
    "TRITONSERVER_MetricFamilyNew": [_OUT, c_int, _S, _S],
    "TRITONSERVER_MetricFamilyDelete": [_P],
    "TRITONSERVER_MetricNew": [_OUT, _P, POINTER(c_void_p), _U64],
    "TRITONSERVER_MetricDelete": [_P],
    "TRITONSERVER_MetricValue": [_P, POINTER(c_double)],
    "TRITONSERVER_MetricIncrement": [_P, c_double],
    "TRITONSERVER_MetricSet": [_P, c_double],
    "TRITONSERVER_MessageSerializeToJson": [_P, POINTER(c_void_p), POINTER(c_size_t)],
    "TRITONSERVER_MessageDelete": [_P],
    "TRITONSERVER_LogMessage": [c_int, _S, c_int, _S],
    "TRITONSERVER_InferenceRequestNew": [_OUT, _P, _S, _I64],
    "TRITONSERVER_InferenceRequestDelete": [_P],
    "TRITONSERVER_InferenceRequestSetId": [_P, _S],
    "TRITONSERVER_InferenceRequestSetFlags": [_P, _U32],
    "TRITONSERVER_InferenceRequestSetCorrelationId": [_P, _U64],
    "TRITONSERVER_InferenceRequestSetCorrelationIdString": [_P, _S],
    "TRITONSERVER_InferenceRequestSetPriorityUInt64": [_P, _U64],
    "TRITONSERVER_InferenceRequestSetTimeoutMicroseconds": [_P, _U64],
    "TRITONSERVER_InferenceRequestAddRequestedOutput": [_P, _S],
    "TRITONSERVER_InferenceRequestSetStringParameter": [_P, _S, _S],
    "TRITONSERVER_InferenceRequestSetIntParameter": [_P, _S, _I64],
    "TRITONSERVER_InferenceRequestSetBoolParameter": [_P, _S, c_bool],
    "TRITONSERVER_InferenceRequestSetDoubleParameter": [_P, _S, c_double],
    "TRITONSERVER_InferenceResponseError": [_P],
    "TRITONSERVER_InferenceResponseDelete": [_P],
    "TRITONSERVER_InferenceResponseModel": [_P, POINTER(_S), POINTER(_I64)],
    "TRITONSERVER_InferenceResponseId": [_P, POINTER(_S)],
    "TRITONSERVER_InferenceResponseParameterCount": [_P, POINTER(_U32)],
    "TRITONSERVER_InferenceResponseParameter": [_P, _U32, POINTER(_S), POINTER(c_int), POINTER(c_void_p)],
    "NEREID_RequestAddInputs": [_P, _S, _U32],
    "NEREID_Infer": [_P, _S, _I64, _S, _U32, _I64, _P, _U64],
    "NEREID_FrontNew": [_OUT, _P, _P],
    "NEREID_CallNew": [_OUT, _P, _P, c_int, _U64],
}
_OTHERS = {
    "TRITONSERVER_ErrorCode": (c_int, [_P]),
    "TRITONSERVER_ErrorMessage": (_S, [_P]),
    "TRITONSERVER_ErrorDelete": (None, [_P]),
    "TRITONSERVER_ParameterNew": (_P, [_S, c_int, _P]),
    "TRITONSERVER_ParameterBytesNew": (_P, [_S, _P, _U64]),
    "TRITONSERVER_ParameterDelete": (None, [_P]),
    "NEREID_ResponseOutputs": (_U64, [_P, _P, _U64]),
    "NEREID_CallNext": (c_int, [_P, _I64, _OUT]),
    "NEREID_CallCancel": (None, [_P]),
    "NEREID_CallDelete": (None, [_P]),
    "NEREID_FrontDelete": (None, [_P]),
    "NEREID_ServerOptionsAdd": (None, [_P, _S]),
}
# These are called for each request and return at once, so the interpreter's lock is kept.
_QUICK = ("RequestNew", "RequestAddInputs", "ResponseOutputs", "ResponseError", "ResponseDelete")


class _Functions:
    """The functions, by their names without TRITONSERVER_, Inference and NEREID_."""

    def __init__(self):
        os.environ.setdefault("NEREID_PROGRAM", PROGRAM)
        path = os.environ.get("NEREID_LIBRARY") or str(FOLDER / "libtritonserver.so")
        waits, quick = ctypes.CDLL(path), ctypes.PyDLL(path)
        for name, arguments in _FUNCTIONS.items():
            self._add(waits, quick, name, c_void_p, arguments)
        for name, (result, arguments) in _OTHERS.items():
            self._add(waits, quick, name, result, arguments)

    def _add(self, waits, quick, name, result, arguments):
        short = name.removeprefix("TRITONSERVER_").removeprefix("NEREID_").removeprefix("Inference")
        function = getattr(quick if short in _QUICK else waits, name)
        function.restype, function.argtypes = result, arguments
        setattr(self, short, function)


c = _Functions()


def check(e):
    """Raises the error of a function."""
    if e:
        problem = error(e)
        c.ErrorDelete(e)
        raise problem


def error(e):
    """Returns an error of the C API as an exception. The error stays its owner's."""
    return CODES[c.ErrorCode(e)](c.ErrorMessage(e).decode(errors="replace"))


def make(function, *arguments):
    """Returns the pointer that a function stores into its first argument."""
    pointer = c_void_p()
    check(function(byref(pointer), *arguments))
    return pointer.value


def message(function, *arguments):
    """Returns the JSON text of a function whose last argument takes a message."""
    pointer, text, size = c_void_p(), c_void_p(), c_size_t()
    check(function(*arguments, byref(pointer)))
    try:
        check(c.MessageSerializeToJson(pointer, byref(text), byref(size)))
        return ctypes.string_at(text.value, size.value).decode()
    finally:
        c.MessageDelete(pointer)
