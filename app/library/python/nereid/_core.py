"""Servers and requests: what both interfaces of this package share."""

import asyncio
import atexit
import contextlib
import ctypes
import functools
import json
import os
import socket
import struct
import weakref
from ctypes import byref, c_bool, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32, c_void_p

import numpy as np

from . import _tensor
from ._library import InvalidArgumentError, c, check, error, make, message

# Python handles signals only between calls of C functions. So no call waits longer than this, in milliseconds.
LONGEST_WAIT = 200


@contextlib.contextmanager
def _options(arguments):
    options = make(c.ServerOptionsNew)
    try:
        for argument in arguments:
            c.ServerOptionsAdd(options, argument.encode())
        yield options
    finally:
        c.ServerOptionsDelete(options)


def open_front(handle, arguments):
    """Opens ports of a server. Returns the pointer for FrontDelete, which closes them."""
    handle.must_run()
    with _options(arguments) as options:
        return make(c.FrontNew, handle.pointer, options)


class Handle:
    """A server of the library. It is stopped when the program ends, and freed after its last call was freed."""

    def __init__(self, arguments):
        with _options(arguments) as options:
            self.pointer = make(c.ServerNew, options)
        self.stopped = False
        _running.add(self)

    def must_run(self):
        if self.stopped:
            raise InvalidArgumentError("the server has stopped")

    def stop(self):
        if not self.stopped:
            self.stopped = True
            check(c.ServerStop(self.pointer))

    def __del__(self):
        if hasattr(self, "pointer"):
            c.ServerDelete(self.pointer)


_running = weakref.WeakSet()


@atexit.register
def _stop_all():
    for handle in list(_running):
        handle.stop()


def _forget_all():
    """Runs in a forked process. It does not have the server's threads: calls into the library would block for ever."""
    for handle in list(_running):
        handle.stopped = True
        handle.__dict__.pop("pointer", None)


os.register_at_fork(after_in_child=_forget_all)


def option(name, value):
    """Returns the arguments of nereid serve for an option of Python: log_verbose=1 is --log-verbose=1. A list gives one
    argument for each element."""
    if value is None:
        return []
    if isinstance(value, bool):
        value = "true" if value else "false"
    values = value if isinstance(value, (list, tuple)) else [value]
    return ["--%s=%s" % (name.replace("_", "-"), v) for v in values]


def load(handle, name, config, files):
    """Loads a model. config is a configuration in JSON or a dict, files maps paths in the model's folder to bytes."""
    parameters = []
    try:
        if config is not None:
            text = config if isinstance(config, str) else json.dumps(config)
            parameters.append(c.ParameterNew(b"config", 0, c_char_p(text.encode())))
        for path, data in (files or {}).items():
            path = path if path.startswith("file:") else "file:" + path
            parameters.append(c.ParameterBytesNew(path.encode(), data, len(data)))
        array = (c_void_p * len(parameters))(*parameters)
        check(c.ServerLoadModelWithParameters(handle.pointer, name.encode(), array, len(parameters)))
    finally:
        for parameter in parameters:
            c.ParameterDelete(parameter)


def metrics(handle):
    """Returns the metrics in Prometheus' text format."""
    made, text, size = c_void_p(), c_void_p(), c_size_t()
    check(c.ServerMetrics(handle.pointer, byref(made)))
    try:
        check(c.MetricsFormatted(made, 0, byref(text), byref(size)))
        return ctypes.string_at(text.value, size.value).decode()
    finally:
        c.MetricsDelete(made)


def ask_json(function, handle, *arguments):
    """Calls a function of the library that returns JSON. Returns the value."""
    return json.loads(message(function, handle.pointer, *arguments))


def ask_bool(function, handle, *arguments):
    """Calls a function of the library that returns a bool."""
    value = c_bool()
    check(function(handle.pointer, *arguments, byref(value)))
    return value.value


# Requests


def text(value):
    """Encodes a text for C, where it may not have a zero byte."""
    data = value.encode()
    if b"\0" in data:
        raise InvalidArgumentError("a text of a request may not have a zero byte: %r" % value)
    return data


def number(name, value, least, bits):
    """Returns value if it is an integer of so many bits from least on. C would cut off other values."""
    if not least <= value < least + (1 << bits):
        raise InvalidArgumentError("%s must be from %d to %d, got: %d" % (name, least, least + (1 << bits) - 1, value))
    return value


class Settings:
    """The optional parts of a request."""

    __slots__ = ("request_id", "flags", "correlation_id", "priority", "timeout", "parameters", "outputs")

    def __init__(self, request_id=None, flags=0, correlation_id=None, priority=0, timeout=0, parameters=None,
                 outputs=None):
        self.request_id, self.flags, self.correlation_id = request_id, flags, correlation_id
        self.priority, self.timeout, self.parameters, self.outputs = priority, timeout, parameters, outputs

    def apply(self, q):
        if self.request_id:
            check(c.RequestSetId(q, text(self.request_id)))
        if self.flags:
            check(c.RequestSetFlags(q, number("flags", self.flags, 0, 32)))
        if isinstance(self.correlation_id, str):
            check(c.RequestSetCorrelationIdString(q, text(self.correlation_id)))
        elif self.correlation_id is not None:
            check(c.RequestSetCorrelationId(q, number("correlation_id", self.correlation_id, 0, 64)))
        if self.priority:
            check(c.RequestSetPriorityUInt64(q, number("priority", self.priority, 0, 64)))
        if self.timeout:
            check(c.RequestSetTimeoutMicroseconds(q, number("timeout", self.timeout, 0, 64)))
        for name in self.outputs or ():
            check(c.RequestAddRequestedOutput(q, text(name)))
        for name, value in (self.parameters or {}).items():
            set_parameter(q, text(name), value)


def set_parameter(q, name, value):
    if isinstance(value, bool):
        check(c.RequestSetBoolParameter(q, name, value))
    elif isinstance(value, int):
        check(c.RequestSetIntParameter(q, name, number("a parameter", value, -(1 << 63), 64)))
    elif isinstance(value, float):
        check(c.RequestSetDoubleParameter(q, name, value))
    elif isinstance(value, str):
        check(c.RequestSetStringParameter(q, name, text(value)))
    else:
        raise InvalidArgumentError("the parameter %s must be a bool, an int, a float or a str" % name.decode())


_words = [struct.Struct("=%dq" % n) for n in range(256)]
_names = {}  # by name: the address of its text, and the buffer that keeps it


def _name(name):
    """Returns the address of a name, and what keeps it valid for ever. A program uses few names."""
    if len(_names) > 10000:
        raise InvalidArgumentError("the program has used more than 10000 names of inputs")
    kept = ctypes.create_string_buffer(text(name))
    return _names.setdefault(name, (ctypes.addressof(kept), kept))  # another thread may have been first


def pack(inputs):
    """Returns inputs in the form of NEREID_RequestAddInputs, and the arrays that they point to."""
    words, kept = [], []
    for name, value in inputs.items():
        kind, shape, data = _tensor.as_input(value)
        kept.append(data)
        address = (_names.get(name) or _name(name))[0]
        words += (address, kind, _address(data), data.nbytes, len(shape), *shape)
    if len(words) < 256:
        return _words[len(words)].pack(*words), kept
    return struct.pack("=%dq" % len(words), *words), kept


def _address(array):
    try:
        return ctypes.addressof(c_char.from_buffer(array))
    except (TypeError, ValueError):  # it is read-only or empty
        return array.__array_interface__["data"][0]


class Call:
    """A request that was sent."""

    __slots__ = ("handle", "pointer", "done")

    def __init__(self, handle, model, version, inputs, settings=None, fd=-1, tag=0):
        self.pointer, self.handle, self.done = None, handle, False
        handle.must_run()
        words, kept = pack(inputs)
        made = c_void_p()
        check(c.RequestNew(byref(made), handle.pointer, model, version))
        q = made.value
        try:
            check(c.RequestAddInputs(q, words, len(kept)))
            if settings is not None:
                settings.apply(q)
        except BaseException:
            c.RequestDelete(q)
            raise
        check(c.CallNew(byref(made), handle.pointer, q, fd, tag))
        self.pointer = made.value

    @classmethod
    def of(cls, handle, pointer):
        call = cls.__new__(cls)
        call.pointer, call.handle, call.done = pointer, handle, False
        return call

    def next(self, wait=True):
        """Returns the next response; None after the last one, or without wait if there is none yet."""
        if self.done:
            return None
        pointer = c_void_p()
        while True:
            result = c.CallNext(self.pointer, LONGEST_WAIT if wait else 0, byref(pointer))
            if result > 0:
                return Answer(pointer.value, result == 2)
            if result == 0:
                self.done = True
                return None
            if not wait:
                return None

    def cancel(self):
        c.CallCancel(self.pointer)

    def __del__(self):
        if self.pointer:
            c.CallDelete(self.pointer)


_RESULT_WORDS = 128
_free_results = []  # memory for results of Infer that is not in use: (array of words, its address)


def _result_memory():
    try:
        return _free_results.pop()  # the list is shared by all threads: its methods are atomic
    except IndexError:
        words = (c_int64 * _RESULT_WORDS)()
        return words, ctypes.addressof(words)


def infer(handle, model, version, inputs):
    """Sends a request and returns its first response, or None. It does in one call of C what a Call does in several."""
    handle.must_run()
    words, kept = pack(inputs)
    result = _result_memory()
    check(c.Infer(handle.pointer, model, version, words, len(kept), LONGEST_WAIT, result[1], _RESULT_WORDS))
    open_call, response, used = result[0][:3]
    if not response:
        _free_results.append(result)
        return Call.of(handle, open_call).next() if open_call else None
    answer = Answer(response)
    if 0 <= used <= _RESULT_WORDS - 3:
        answer.words = result[0][3 : 3 + used]
    _free_results.append(result)
    if open_call:
        Call.of(handle, open_call)  # a decoupled model: the other responses are dropped
    return answer


@functools.lru_cache(256)
def _bytes_type(size):
    return c_char * size


class Answer:
    """A response of the library. Its arrays are views of its memory, and keep it."""

    __slots__ = ("pointer", "words", "final")

    def __init__(self, pointer, final=True):
        self.pointer, self.words, self.final = pointer, None, final

    def __del__(self):
        c.ResponseDelete(self.pointer)

    def error(self):
        if self.words is not None:
            return None
        e = c.ResponseError(self.pointer)
        return error(e) if e else None

    def tensors(self):
        """Returns (name, type, shape, array) of each output, with the bytes of BYTES and the bits of BF16."""
        words = self.words
        if words is None:
            words = (c_int64 * c.ResponseOutputs(self.pointer, None, 0))()
            c.ResponseOutputs(self.pointer, words, len(words))
            words = self.words = words[:]
        found, at = [], 0
        while at < len(words):
            name, kind, data, size, dims = words[at : at + 5]
            shape = words[at + 5 : at + 5 + dims]
            at += 5 + dims
            found.append((c_char_p(name).value.decode(), kind, shape, self._array(kind, shape, data, size)))
        return found

    def _array(self, kind, shape, data, size):
        dtype = _tensor.MEMORY[kind]
        if size == 0:
            return np.empty(0 if kind == _tensor.BYTES else shape, dtype)
        memory = _bytes_type(size).from_address(data)
        memory.answer = self
        array = np.frombuffer(memory, dtype)
        return array if kind == _tensor.BYTES else array.reshape(shape)

    def model(self):
        """Returns the name and the version of the model that answered."""
        name, version = c_char_p(), c_int64()
        check(c.ResponseModel(self.pointer, byref(name), byref(version)))
        return name.value.decode(), version.value

    def id(self):
        text = c_char_p()
        check(c.ResponseId(self.pointer, byref(text)))
        return text.value.decode()

    def parameters(self):
        count, name, kind, value = c_uint32(), c_char_p(), c_int(), c_void_p()
        check(c.ResponseParameterCount(self.pointer, byref(count)))
        values = {}
        for i in range(count.value):
            check(c.ResponseParameter(self.pointer, i, byref(name), byref(kind), byref(value)))
            if kind.value == 0:
                found = ctypes.string_at(value.value).decode()
            else:
                found = (None, c_int64, c_bool, c_double)[kind.value].from_address(value.value).value
            values[name.value.decode()] = found
        return values


class Bell:
    """Wakes an event loop when a response has arrived: the library writes the tag of the call to a socket."""

    def __init__(self, loop):
        self.receiver, self.sender = socket.socketpair()
        self.receiver.setblocking(False)
        self.waiting, self.last, self.rest = {}, 0, b""  # events by tag, the last tag, a part of a tag
        loop.add_reader(self.receiver, self._ring)

    def _ring(self):
        data = self.rest + self.receiver.recv(65536)
        whole = len(data) // 8 * 8
        self.rest = data[whole:]
        for (tag,) in struct.iter_unpack("=Q", data[:whole]):
            event = self.waiting.get(tag)
            if event is not None:
                event.set()


_bells = weakref.WeakKeyDictionary()  # by event loop


class AsyncCall:
    """A Call for the running event loop."""

    def __init__(self, handle, model, version, inputs, settings):
        loop = asyncio.get_running_loop()
        bell = _bells.get(loop)
        if bell is None:
            bell = _bells[loop] = Bell(loop)
        self._bell, self._event = bell, asyncio.Event()
        bell.last += 1
        self._tag = bell.last
        bell.waiting[self._tag] = self._event
        try:
            self._call = Call(handle, model, version, inputs, settings, bell.sender.fileno(), self._tag)
        except BaseException:
            self.close()
            raise

    async def next(self):
        """Returns the next response, None after the last one."""
        while True:
            self._event.clear()
            answer = self._call.next(wait=False)
            if answer is not None or self._call.done:
                return answer
            await self._event.wait()

    def cancel(self):
        self._call.cancel()

    def close(self):
        """The loop does not wait for the call any more."""
        self._bell.waiting.pop(self._tag, None)

    __del__ = close
