"""The module that models of Triton's Python backend import as ``pb_utils``.

It has all names, behaviours and error texts of the original, which the README of Triton's Python backend documents. It
needs only Python 3.8 or newer and numpy. ``nereid_worker`` sets ``_runtime`` before it imports a model.

Additions to the original: ``empty``, which makes an array that is sent without a copy, ``InferenceRequest.priority``,
and BYTES tensors of numpy's ``str_`` type."""

import enum
import json
import math
import operator
import struct
import sys

import numpy as np

import _nereid_dlpack as _dlpack

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
TRITONSERVER_REQUEST_RELEASE_ALL = 1
TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 2

TRITON_STRING_TO_NUMPY = {
    "TYPE_BOOL": bool,
    "TYPE_UINT8": np.uint8,
    "TYPE_UINT16": np.uint16,
    "TYPE_UINT32": np.uint32,
    "TYPE_UINT64": np.uint64,
    "TYPE_INT8": np.int8,
    "TYPE_INT16": np.int16,
    "TYPE_INT32": np.int32,
    "TYPE_INT64": np.int64,
    "TYPE_FP16": np.float16,
    "TYPE_FP32": np.float32,
    "TYPE_FP64": np.float64,
    "TYPE_STRING": np.object_,
}

# By the numbers of model_config.proto's DataType.
_BYTES, _BF16 = 13, 14
_NUMPY_TYPES = (
    None, np.bool_, np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int16, np.int32, np.int64,
    np.float16, np.float32, np.float64, np.object_,
)  # fmt: skip
_DTYPES = tuple(None if t is None else np.dtype(t) for t in _NUMPY_TYPES) + (np.dtype(np.uint16),)
_CODES = {t: code for code, t in enumerate(_DTYPES[1:14], 1)}

# The module in which the original has its C classes: models and logs show this name.
_C = "c_python_backend_utils"

# The Runtime of nereid_worker; None outside a server.
_runtime = None


def _need_runtime(what):
    if _runtime is None:
        raise TritonModelException(what + " works only inside of a model that a server runs")
    return _runtime


class TritonModelException(Exception):
    """The exception of this module. Models may raise it too."""


# Types


def triton_string_to_numpy(triton_type_string):
    """Returns the numpy type of a configuration's data type, such as "TYPE_FP32"."""
    return TRITON_STRING_TO_NUMPY[triton_type_string]


def triton_to_numpy_type(data_type):
    """Returns the numpy type of a number of model_config.proto's DataType. None: numpy has no such type."""
    return _NUMPY_TYPES[data_type] if 0 < data_type < len(_NUMPY_TYPES) else None


def numpy_to_triton_type(data_type):
    """Returns the number in model_config.proto's DataType of a numpy type. None: there is none."""
    if data_type == np.bytes_:
        return _BYTES
    for code, numpy_type in enumerate(_NUMPY_TYPES):
        if code and data_type == numpy_type:
            return code
    return None


def serialize_byte_tensor(input_tensor):
    """Returns the elements of an array of texts or bytes in C order, each after its length (u32, little-endian).

    Texts become UTF-8. As in the original, the result for an empty array is (), and for an array of another type
    None."""
    if input_tensor.size == 0:
        return ()
    if input_tensor.dtype != np.object_ and input_tensor.dtype.type not in (np.bytes_, np.str_):
        return None
    parts = []
    for element in input_tensor.ravel(order="C").tolist():
        if type(element) is not bytes:
            element = str(element).encode("utf-8")
        parts.append(struct.pack("<I", len(element)))
        parts.append(element)
    return b"".join(parts)


def deserialize_bytes_tensor(encoded_tensor):
    """Returns a 1-D array of bytes objects: the inverse of serialize_byte_tensor."""
    data = bytes(encoded_tensor)
    elements = []
    at, end = 0, len(data)
    length_at = struct.Struct("<I").unpack_from
    while at < end:
        if at + 4 > end:
            raise TritonModelException("Incomplete string length field")
        begin = at + 4
        at = begin + length_at(data, at)[0]
        if at > end:
            raise TritonModelException("String length exceeds available data")
        elements.append(data[begin:at])
    array = np.empty(len(elements), dtype=np.object_)
    array[:] = elements
    return array


# Configuration


def _by_name(items, name):
    for item in items:
        if item["name"] == name:
            return item
    return None


def get_input_tensor_by_name(inference_request, name):
    """Returns the request's input with this name, or None."""
    for tensor in inference_request.inputs():
        if tensor.name() == name:
            return tensor
    return None


def get_output_tensor_by_name(inference_response, name):
    """Returns the response's output with this name, or None."""
    for tensor in inference_response.output_tensors():
        if tensor.name() == name:
            return tensor
    return None


def get_input_config_by_name(model_config, name):
    """Returns the entry with this name in the configuration's inputs, or None."""
    return _by_name(model_config.get("input", ()), name)


def get_output_config_by_name(model_config, name):
    """Returns the entry with this name in the configuration's outputs, or None."""
    return _by_name(model_config.get("output", ()), name)


def using_decoupled_model_transaction_policy(model_config):
    """Returns whether the configuration says that the model is decoupled."""
    return model_config.get("model_transaction_policy", {}).get("decoupled", False)


class ModelConfig:
    """The configuration that auto_complete_config completes. A method that contradicts what the configuration says
    raises ValueError."""

    def __init__(self, model_config):
        self._model_config = json.loads(model_config)

    def as_dict(self):
        """Returns the configuration as a dictionary, for reading."""
        return self._model_config

    def set_max_batch_size(self, max_batch_size):
        """Sets max_batch_size, which must not be less than the configuration's."""
        config = self._model_config
        if config["max_batch_size"] > max_batch_size:
            raise ValueError(
                "configuration specified max_batch_size %s, but in auto-complete-config function for model '%s' "
                "specified max_batch_size %s" % (config["max_batch_size"], config["name"], max_batch_size)
            )
        config["max_batch_size"] = max_batch_size

    def set_dynamic_batching(self):
        """Enables dynamic batching, unless the configuration has it."""
        config = self._model_config
        for scheduler in ("sequence_batching", "ensemble_scheduling"):
            if scheduler in config:
                raise ValueError(
                    "Configuration specified scheduling_choice as '%s', but auto-complete-config function for model "
                    "'%s' tries to set scheduling_choice as 'dynamic_batching'" % (scheduler, config["name"])
                )
        config.setdefault("dynamic_batching", {})

    def add_input(self, input):
        """Adds an input: a dictionary with 'name', 'data_type', 'dims' and, as a choice, 'optional'."""
        members = ("name", "data_type", "dims", "optional")
        self._add("input", input, members, "'name', 'data_type', 'dims' and 'optional'")

    def add_output(self, output):
        """Adds an output: a dictionary with 'name', 'data_type' and 'dims'."""
        self._add("output", output, ("name", "data_type", "dims"), "'name', 'data_type' and 'dims'")

    def set_model_transaction_policy(self, transaction_policy_dict):
        """Sets the transaction policy, a dictionary with 'decoupled'."""
        name = self._model_config["name"]
        for member in transaction_policy_dict:
            if member != "decoupled":
                raise ValueError(
                    "model transaction property in auto-complete-config function for model '%s' contains property "
                    "other than 'decoupled'." % name
                )
        policy = self._model_config.setdefault("model_transaction_policy", {})
        if "decoupled" not in transaction_policy_dict:
            return
        if policy.get("decoupled", transaction_policy_dict["decoupled"]) != transaction_policy_dict["decoupled"]:
            raise ValueError(
                "trying to change decoupled property in auto-complete-config for model '%s', which is already set to "
                "'%s'." % (name, policy["decoupled"])
            )
        policy["decoupled"] = transaction_policy_dict["decoupled"]

    def _add(self, kind, tensor, members, named):
        model = self._model_config["name"]
        if any(member not in members for member in tensor):
            raise ValueError(
                "%s '%s' in auto-complete-config function for model '%s' contains property other than %s."
                % (kind, tensor.get("name", ""), model, named)
            )
        for member in ("name", "data_type", "dims"):
            if member not in tensor:
                which = kind if member == "name" else "%s '%s'" % (kind, tensor["name"])
                raise ValueError(
                    "%s in auto-complete-config function for model '%s' is missing '%s' property."
                    % (which, model, member)
                )
        present = _by_name(self._model_config.setdefault(kind, []), tensor["name"])
        if present is None:
            self._model_config[kind].append(tensor)
            return
        if present["data_type"] not in ("TYPE_INVALID", tensor["data_type"]):
            raise ValueError(
                "unable to load model '%s', configuration expects datatype %s for %s '%s', model provides %s"
                % (model, present["data_type"], kind, tensor["name"], tensor["data_type"])
            )
        for member in ("dims", "optional"):
            have, want = present.get(member), tensor.get(member)
            set_here = bool(have) if member == "dims" else have is not None and want is not None
            if set_here and have != want:
                raise ValueError(
                    "model '%s', tensor '%s': the model expects %s %s but the model configuration specifies %s %s"
                    % (model, tensor["name"], member, want, member, have)
                )
        present.update({member: tensor[member] for member in members if member in tensor})


# Errors and memory


class TritonError:
    """The error of one response: a text and one of the codes below."""

    __module__ = _C

    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED, ALREADY_EXISTS, CANCELLED = range(8)

    __slots__ = ("_message", "_code")

    def __init__(self, message, code=INTERNAL):
        if not isinstance(message, str):
            raise TypeError("TritonError: message must be a str, not " + type(message).__name__)
        self._message, self._code = message, int(code)

    def message(self):
        """Returns the text."""
        return self._message

    def code(self):
        """Returns the code, an int."""
        return self._code

    def __str__(self):
        return self._message


TRITONSERVER_MEMORY_GPU = 0
TRITONSERVER_MEMORY_CPU = 1


class PreferredMemory:
    """The memory in which a BLS request prefers its outputs. They always come in CPU memory."""

    __module__ = _C

    __slots__ = ("_kind", "_device")

    def __init__(self, preferred_memory_type, preferred_device_id=0):
        if preferred_memory_type not in (TRITONSERVER_MEMORY_GPU, TRITONSERVER_MEMORY_CPU):
            raise TypeError("PreferredMemory: the type must be TRITONSERVER_MEMORY_GPU or TRITONSERVER_MEMORY_CPU")
        self._kind = operator.index(preferred_memory_type)
        self._device = _whole("preferred_device_id", preferred_device_id, -(2**63), 2**63 - 1, of="PreferredMemory")


class InferenceTrace:
    """The trace of a request. A model gives it to the BLS requests that it makes for that request."""

    __module__ = _C

    __slots__ = ("_ticket", "_context")

    def __init__(self, ticket=0, context=""):
        self._ticket, self._context = ticket, context

    def get_context(self):
        """Returns the context that an OpenTelemetry propagator extracts, as JSON, or None."""
        return self._context or None


# Tensors


class Tensor:
    """An array with a name. The arrays of inputs are views of memory that the server has filled. They may be written
    to, and stay valid as long as something refers to them."""

    __module__ = _C

    __slots__ = ("_name", "_code", "_shape", "_array", "_data")

    def __init__(self, name, numpy_array):
        if not isinstance(name, str):
            raise TypeError("Tensor: name must be a str, not " + type(name).__name__)
        if not isinstance(numpy_array, np.ndarray):
            if isinstance(numpy_array, np.generic):  # the result of a reduction
                numpy_array = np.asarray(numpy_array)
            else:
                raise TypeError("Tensor: numpy_array must be a numpy.ndarray, not " + type(numpy_array).__name__)
        if name == "":
            raise TritonModelException("Tensor name cannot be an empty string.")
        code = _CODES.get(numpy_array.dtype)
        if code is None:
            numpy_array, code = _foreign(numpy_array)
        if not numpy_array.flags.c_contiguous:
            numpy_array = numpy_array.copy(order="C")
        self._name, self._code, self._shape, self._array, self._data = name, code, numpy_array.shape, numpy_array, None

    @classmethod
    def _received(cls, name, code, shape, data):
        """Returns a tensor that the server has sent. data is an ndarray of its bytes."""
        self = cls.__new__(cls)
        self._name, self._code, self._shape, self._array, self._data = name, code, shape, None, data
        return self

    def name(self):
        """Returns the name."""
        return self._name

    def shape(self):
        """Returns the dimensions, a list of ints."""
        return list(self._shape)

    def triton_dtype(self):
        """Returns the data type as a number of model_config.proto's DataType."""
        return self._code

    def is_cpu(self):
        """Returns whether the tensor is in CPU memory, which is always so."""
        return True

    def as_numpy(self):
        """Returns the array; for BYTES an array of bytes objects. Raises for BF16, which numpy does not have."""
        if self._code == _BF16:
            raise TritonModelException(
                "Tensor dtype is BF16 and cannot be converted to NumPy. Use to_dlpack() and from_dlpack() instead."
            )
        return self._numpy()

    def _numpy(self):
        array = self._array
        if array is None:
            if self._code == _BYTES:
                array = deserialize_bytes_tensor(self._data.tobytes()).reshape(self._shape)
                self._data = None
            elif type(self._data) is tuple:  # see _give_away
                array, self._data = self._data[0].copy(), None
            else:
                array = np.ndarray(self._shape, _DTYPES[self._code], self._data)
            self._array = array
        return array

    def _give_away(self):
        # The server reads the array in place, so as_numpy returns a copy from now on.
        self._array, self._data = None, (self._array,)

    def to_dlpack(self):
        """Returns a DLPack capsule on the tensor's memory."""
        if self._code == _BYTES:
            raise TritonModelException("DLPack does not have support for string tensors.")
        try:
            return _dlpack.export(self._numpy(), bool(self._code == _BF16), self)
        except _dlpack.Refused as refused:
            raise TritonModelException(str(refused)) from None

    def __dlpack__(self, stream=None, max_version=None, dl_device=None, copy=None):
        """Returns a DLPack capsule, as array libraries ask for it."""
        if stream is not None:
            raise TritonModelException("DLPack only supports stream=None for a tensor on the CPU.")
        return self.to_dlpack()

    def __dlpack_device__(self):
        """Returns DLPack's device type and number of the CPU."""
        return (1, 0)

    @staticmethod
    def from_dlpack(name, tensor):
        """Returns a tensor on the memory of a DLPack capsule or of an object with __dlpack__, without a copy. Data on
        a GPU is copied to the CPU."""
        if name == "":
            raise TritonModelException("Tensor name cannot be an empty string.")
        try:
            array, bf16 = _dlpack.take(tensor)
        except _dlpack.Refused as refused:
            raise TritonModelException(str(refused)) from None
        made = Tensor(name, array)
        if bf16:
            made._code = _BF16
        return made


def _foreign(array):
    """Converts an array whose type is not in _CODES: another byte order, texts or bfloat16. Returns it with its
    code."""
    kind = array.dtype.kind
    if kind in "SUT":
        return array.astype(np.object_), _BYTES
    if array.dtype.name == "bfloat16":
        return array.view(np.uint16), _BF16
    native = array.dtype.newbyteorder("=")
    if native in _CODES:
        return array.astype(native), _CODES[native]
    raise TritonModelException("NumPy dtype is not supported.")


def empty(shape, dtype):
    """Returns an uninitialised array of numpy type dtype in the memory that is shared with the server. As an output it
    is sent without a copy, so the model must not change it after that. Otherwise it is an ordinary array. The original
    does not have this function."""
    return _need_runtime("empty").empty(shape, np.dtype(dtype))


# Requests and responses


def _parameters_json(parameters):
    if parameters is None:
        return "{}"
    if not isinstance(parameters, dict):
        raise TritonModelException("Expect dict, got " + str(type(parameters)))
    for key, value in parameters.items():
        if not isinstance(key, str):
            raise TritonModelException("Expect parameters keys to have type str, found type " + str(type(key)))
        if not isinstance(value, (bool, int, str)):
            raise TritonModelException(
                "Expect parameters values to have type bool/int/str, found type " + str(type(value))
            )
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            raise TritonModelException("Expect parameters integers of at most 64 bits, '%s' has more" % key)
    return json.dumps(parameters)


def _text(name, value):
    # An element of a BYTES tensor is bytes, which Triton takes as text too.
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise TypeError("InferenceRequest: %s must be text, not %s" % (name, type(value).__name__))
    return value


def _whole(name, value, least, most, of="InferenceRequest"):
    # As in the original, numpy's integers are accepted and floats are not.
    number = operator.index(value)
    if not least <= number <= most:
        raise TypeError("%s: %s must be from %d to %d, not %d" % (of, name, least, most, number))
    return number


def _correlation(value):
    if value is None:
        raise TypeError("InferenceRequest: correlation_id must be an int or a str, not NoneType")
    if isinstance(value, int):
        return _whole("correlation_id", value, 0, 2**64 - 1)
    if not isinstance(value, str):
        raise TritonModelException("Correlation ID must be integer or string")
    return value


def _optional(name, value, of):
    if value is not None and not isinstance(value, of):
        raise TypeError("InferenceRequest: %s must be of type %s, not %s" % (name, of.__name__, type(value).__name__))
    return value


def _list(name, value):
    if isinstance(value, (str, bytes)):
        raise TypeError("InferenceRequest: %s must be a list, not %s" % (name, type(value).__name__))
    return list(value)


_MISSING = object()


class InferenceRequest:
    """A request to this model, or one that the model makes to another model (BLS).

    The inputs, the names of the requested outputs and the model's name are required. Without them, or with an argument of
    a wrong type or out of its range, a TypeError is raised."""

    __module__ = _C

    __slots__ = (
        "_id", "_correlation", "_inputs", "_outputs", "_model", "_version", "_flags", "_timeout", "_memory", "_trace",
        "_parameters", "_priority", "_ticket", "_state", "_sender", "_release",
    )  # fmt: skip

    def __init__(
        self,
        request_id="",
        correlation_id=0,
        inputs=_MISSING,
        requested_output_names=_MISSING,
        model_name=_MISSING,
        model_version=-1,
        flags=0,
        timeout=0,
        preferred_memory=None,
        trace=None,
        parameters=None,
    ):
        for name, value in (
            ("inputs", inputs), ("requested_output_names", requested_output_names), ("model_name", model_name)
        ):  # fmt: skip
            if value is _MISSING:
                raise TypeError("InferenceRequest: the argument %s is required" % name)
        request_id, model_name = _text("request_id", request_id), _text("model_name", model_name)
        correlation_id = _correlation(correlation_id)
        names = _list("requested_output_names", requested_output_names)
        requested_output_names = [_text("requested_output_names", name) for name in names]
        inputs = _list("inputs", inputs)
        for tensor in inputs:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError("InferenceRequest: an input must be a Tensor, not %s" % type(tensor).__name__)
        for kind, items in (("Input tensor", inputs), ("Requested output name", requested_output_names)):
            for item in items:
                if item is None or item == "":
                    raise TritonModelException(
                        "%s for request with id '%s' and model name '%s' should not be empty."
                        % (kind, request_id, model_name)
                    )
        self._id, self._correlation, self._inputs = request_id, correlation_id, inputs
        self._outputs, self._model = requested_output_names, model_name
        self._version = _whole("model_version", model_version, -(2**63), 2**63 - 1)
        self._flags, self._timeout = _whole("flags", flags, 0, 2**32 - 1), _whole("timeout", timeout, 0, 2**64 - 1)
        self._memory = _optional("preferred_memory", preferred_memory, PreferredMemory)
        self._trace, self._parameters = _optional("trace", trace, InferenceTrace), _parameters_json(parameters)
        self._priority, self._ticket, self._state, self._sender = 0, 0, None, None
        self._release = TRITONSERVER_REQUEST_RELEASE_ALL

    def inputs(self):
        """Returns the inputs, a list of Tensor."""
        return self._inputs

    def requested_output_names(self):
        """Returns the names of the wanted outputs, a set; those of all outputs if the client named none."""
        return set(self._outputs)

    def request_id(self):
        """Returns the client's id of the request, a str; "": none."""
        return self._id

    def correlation_id(self):
        """Returns the sequence's id, an int or a str as the client gave it; 0: the request is in no sequence."""
        return self._correlation

    def model_name(self):
        """Returns the name of the model that the request is for."""
        return self._model

    def model_version(self):
        """Returns the version of the model that the request is for; -1: the latest."""
        return self._version

    def flags(self):
        """Returns the sum of TRITONSERVER_REQUEST_FLAG_SEQUENCE_START and _END, or 0."""
        return self._flags

    def set_flags(self, flags):
        """Sets the flags; see flags."""
        self._flags = _whole("flags", flags, 0, 2**32 - 1)

    def timeout(self):
        """Returns the timeout in microseconds; 0: none."""
        return self._timeout

    def priority(self):
        """Returns the priority level; 0: the model's default."""
        return self._priority

    def parameters(self):
        """Returns the request's parameters, the text of a JSON object."""
        return self._parameters

    def preferred_memory(self):
        """Returns the PreferredMemory, or None."""
        return self._memory

    def trace(self):
        """Returns the request's InferenceTrace, for the BLS requests that are made for this request."""
        if self._trace is None:
            self._trace = InferenceTrace(self._ticket)
        return self._trace

    def is_cancelled(self):
        """Returns whether no client waits for the response any more."""
        return self._state is not None and self._state.cancelled()

    def get_response_sender(self):
        """Returns the InferenceResponseSender; None for a request that the model made itself."""
        if self._sender is not None:
            self._sender._taken = True
        return self._sender

    def set_release_flags(self, flags):
        """Sets what happens to the request when execute returns. With TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, execute
        returns None for the request, and the server schedules it again."""
        if flags not in (TRITONSERVER_REQUEST_RELEASE_ALL, TRITONSERVER_REQUEST_RELEASE_RESCHEDULE):
            raise TritonModelException("Unable to set release flags. Unsupported flag provided: %s" % flags)
        self._release = flags

    def exec(self, decoupled=False):
        """Sends the request, waits and returns the InferenceResponse, or with decoupled=True a ResponseIterator."""
        return _need_runtime("exec").bls(self, decoupled)

    def async_exec(self, decoupled=False):
        """Sends the request and returns a future of exec's result. It is called in a coroutine. Any number of requests
        may be under way at once."""
        return _need_runtime("async_exec").bls_async(self, decoupled)


class InferenceResponse:
    """A response to a request: outputs or an error, with parameters."""

    __module__ = _C

    __slots__ = ("_tensors", "_error", "_parameters")

    def __init__(self, output_tensors=(), error=None, parameters=None):
        for tensor in output_tensors:
            if tensor is None:
                raise TritonModelException("Output tensor for inference response should not be empty.")
            if not isinstance(tensor, Tensor):
                raise TypeError(
                    "InferenceResponse: output_tensors must be Tensor objects, not " + type(tensor).__name__
                )
        if error is not None and not isinstance(error, TritonError):
            raise TypeError("InferenceResponse: error must be a TritonError, not " + type(error).__name__)
        self._tensors, self._error, self._parameters = list(output_tensors), error, _parameters_json(parameters)

    def output_tensors(self):
        """Returns the outputs, a list of Tensor."""
        return self._tensors

    def has_error(self):
        """Returns whether the response is an error."""
        return self._error is not None

    def error(self):
        """Returns the TritonError, or None."""
        return self._error

    def parameters(self):
        """Returns the response's parameters, the text of a JSON object."""
        return self._parameters


class InferenceResponseSender:
    """Sends the responses of one request; may be used from any thread and after execute has returned."""

    __module__ = _C

    __slots__ = ("_runtime", "_ticket", "_outputs", "_state", "_sent", "_closed", "_taken", "_awaited")

    def __init__(self, runtime, ticket, outputs, state):
        self._runtime, self._ticket, self._outputs, self._state = runtime, ticket, outputs, state
        self._sent, self._closed = 0, False
        self._taken = False  # the model has it
        self._awaited = None  # an event that is set when something has been sent

    def send(self, response=None, flags=0):
        """Sends a response. The flag TRITONSERVER_RESPONSE_COMPLETE_FINAL says that it is the last one; then response
        may be None."""
        if flags not in (0, TRITONSERVER_RESPONSE_COMPLETE_FINAL):
            raise TritonModelException("Unable to send response. Unsupported flag provided.")
        if flags == 0 and response is None:
            raise TritonModelException(
                "Inference Response object must be provided when the response flags is set to zero."
            )
        self._runtime.send(self, response, flags)

    def is_cancelled(self):
        """Returns whether no client waits for the response any more."""
        return self._state is not None and self._state.cancelled()

    def _count(self, response, final):
        """Checks and counts a response. The caller holds the runtime's lock for senders."""
        if not self._runtime.decoupled:
            if response is not None and self._sent:
                raise TritonModelException(
                    "Unable to send response. Non-decoupled model cannot send more than one response."
                )
            if response is None and final and not self._sent:
                raise TritonModelException(
                    "Unable to send response. Non-decoupled model cannot send complete final before sending a response."
                )
        if self._closed:
            raise TritonModelException("Unable to send response. Response sender has been closed.")
        self._closed = final
        self._sent += 1


class _DecoupledSender(InferenceResponseSender):
    """The sender of a decoupled model's request. When nothing refers to it any more, nobody can end the request."""

    __module__ = _C

    __slots__ = ("_problem",)  # the text of an exception of code that had it, or None

    def __init__(self, runtime, ticket, outputs, state):
        super().__init__(runtime, ticket, outputs, state)
        self._problem = None

    def __del__(self):
        if not self._closed:
            self._runtime.dropped.put((self._ticket, self._sent, self._problem))


_DecoupledSender.__name__ = _DecoupledSender.__qualname__ = "InferenceResponseSender"


class ResponseIterator:
    """The responses of a BLS request with decoupled=True, in order.

    A loop goes on where the last one stopped. After the end of the responses the next loop begins with the first again."""

    __module__ = _C

    __slots__ = ("_call", "_seen", "_at")

    def __init__(self, call):
        self._call, self._seen, self._at = call, [], 0

    def __iter__(self):
        if self._at == len(self._seen) and self._call.finished():
            self._at = 0
        return self

    def __next__(self):
        if self._at == len(self._seen):
            response = self._call.next()
            if response is None:
                raise StopIteration("Iteration is done for the responses.")
            self._seen.append(response)
        self._at += 1
        return self._seen[self._at - 1]

    def cancel(self):
        """Cancels the request: no more responses are wanted."""
        self._call.cancel()


# Calls to the server


def get_model_dir():
    """Returns the folder of the model's version."""
    return _need_runtime("get_model_dir").model_dir


def load_model(model_name, config="", files=None):
    """Loads a model. The server must be in explicit mode. files maps names to contents, as in a load request."""
    if files is not None and not isinstance(files, dict):
        raise TritonModelException(
            "failed to load model '%s', files should be a dictionary of file paths and file contents" % model_name
        )
    _need_runtime("load_model").load_model(model_name, config, files or {})


def unload_model(model_name, unload_dependents=False):
    """Unloads a model. The server must be in explicit mode."""
    _need_runtime("unload_model").unload_model(model_name, bool(unload_dependents))


def is_model_ready(model_name, model_version=""):
    """Returns whether a version of a model takes requests; "": any version."""
    version = str(model_version)
    runtime = _need_runtime("is_model_ready")
    if version and not (version.isascii() and version.isdigit() and int(version) > 0):
        raise TritonModelException(
            "Failed to check model readiness: %sfailed to get model version from specified version string '%s' "
            "(details: stol), version should be an integral value > 0" % (runtime.said, version)
        )
    return runtime.is_model_ready(model_name, version)


class LogLevel(enum.IntEnum):
    """The levels of Logger.log."""

    INFO, WARNING, ERROR, VERBOSE = 1, 2, 3, 0


class Logger:
    """Writes lines to the server's log, with the file and line of the caller."""

    LogLevel = LogLevel
    INFO, WARNING, ERROR, VERBOSE = LogLevel.INFO, LogLevel.WARNING, LogLevel.ERROR, LogLevel.VERBOSE

    @staticmethod
    def log(message, level=LogLevel.INFO):
        """Logs a message at a level."""
        if not isinstance(level, LogLevel):
            raise TypeError("Logger.log: level must be one of LogLevel, not " + type(level).__name__)
        _log(level, message)

    @staticmethod
    def log_info(message):
        """Logs a message at the level INFO."""
        _log(LogLevel.INFO, message)

    @staticmethod
    def log_warn(message):
        """Logs a message at the level WARNING."""
        _log(LogLevel.WARNING, message)

    @staticmethod
    def log_error(message):
        """Logs a message at the level ERROR."""
        _log(LogLevel.ERROR, message)

    @staticmethod
    def log_verbose(message):
        """Logs a message at the level VERBOSE, if the server logs that level."""
        _log(LogLevel.VERBOSE, message)


def _log(level, message):
    if isinstance(message, bytes):
        message = message.decode(errors="replace")
    elif not isinstance(message, str):
        raise TypeError("Logger: the message must be a str, not " + type(message).__name__)
    caller = sys._getframe(2)
    if _runtime is None:
        sys.stderr.write(message + "\n")
        return
    _runtime.log(int(level), message, caller.f_code.co_filename, caller.f_lineno)


class MetricFamily:
    """A family of metrics that the model makes. It must outlive its metrics."""

    __module__ = _C

    COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"

    def __init__(self, name, description, kind):
        if kind not in (self.COUNTER, self.GAUGE, self.HISTOGRAM):
            raise TypeError("MetricFamily: kind must be COUNTER, GAUGE or HISTOGRAM, not %r" % (kind,))
        self._kind = kind
        self._runtime = _need_runtime("MetricFamily")
        self._id = self._runtime.ask(
            "Error when creating MetricFamily: ",
            {"op": "family_new", "name": name, "description": description, "kind": kind},
        )["family"]

    def Metric(self, labels=None, buckets=None):
        """Returns a metric with these labels. A histogram needs buckets, a list of upper bounds."""
        if labels is not None and not isinstance(labels, dict):
            raise TritonModelException("Failed to create metric. Labels must be a dictionary.")
        if buckets is not None and not isinstance(buckets, list):
            raise TritonModelException("Failed to create metric. Buckets must be a list.")
        if self._kind == self.HISTOGRAM and buckets is None:
            raise TritonModelException("Failed to create metric. Missing required buckets.")
        if self._kind != self.HISTOGRAM and buckets is not None:
            raise TritonModelException("Failed to create metric. Unexpected buckets found.")
        limits = [float(b) for b in buckets or []]
        return Metric(self, {str(k): str(v) for k, v in (labels or {}).items()}, limits)

    def __del__(self):
        if getattr(self, "_id", None) is not None:
            self._runtime.later({"op": "family_delete", "family": self._id})


class Metric:
    """One metric of a family. MetricFamily.Metric makes it."""

    __module__ = _C

    def __init__(self, family, labels, buckets):
        self._family, self._runtime = family, family._runtime
        buckets = [b if math.isfinite(b) else str(b) for b in buckets]  # JSON has no infinities
        self._id = self._runtime.ask(
            "Error when creating Metric: ",
            {"op": "metric_new", "family": family._id, "labels": labels, "buckets": buckets},
        )["metric"]

    def increment(self, value):
        """Adds value to a counter or gauge. It may be negative only for a gauge."""
        self._change(1, value, "increment", (MetricFamily.COUNTER, MetricFamily.GAUGE))

    def set(self, value):
        """Sets a gauge."""
        self._change(2, value, "set", (MetricFamily.GAUGE,))

    def observe(self, value):
        """Adds an observation to a histogram."""
        self._change(3, value, "observe", (MetricFamily.HISTOGRAM,))

    def value(self):
        """Returns the value of a counter or gauge, a float."""
        prefix = "Failed to get metric value: "
        if self._family._kind == MetricFamily.HISTOGRAM:
            raise TritonModelException(
                prefix + self._runtime.said + "TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Value"
            )
        return float(self._runtime.ask(prefix, {"op": "metric_value", "metric": self._id})["value"])

    def _change(self, op, value, verb, kinds):
        prefix = "Failed to %s metric value: " % verb
        kind = self._family._kind
        if kind not in kinds:
            raise TritonModelException(
                "%s%sTRITONSERVER_METRIC_KIND_%s does not support %s"
                % (prefix, self._runtime.said, kind.upper(), verb.capitalize())
            )
        value = float(value)
        if kind == MetricFamily.COUNTER and value < 0:
            raise TritonModelException(
                prefix
                + self._runtime.said
                + "TRITONSERVER_METRIC_KIND_COUNTER can only be incremented monotonically by non-negative values."
            )
        self._runtime.metric(self._id, op, value)

    def __del__(self):
        if getattr(self, "_id", None) is not None:
            self._runtime.later({"op": "metric_delete", "metric": self._id})
