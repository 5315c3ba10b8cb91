"""Nereid: serve models inside a Python program, and Python functions as models.

    import numpy as np
    import nereid

    with nereid.Server(model_repository="models") as server:
        out = server.models()["m"].infer(inputs={"x": np.zeros((1, 16), np.float32)})
        print(out["y"])

nereid.tritonserver has the interface of Triton's in-process module, nereid.triton that of PyTriton.
docs/embed.md is the manual.
"""

from . import _core
from ._library import (
    AlreadyExistsError, CancelledError, InternalError, InvalidArgumentError, NotFoundError, TritonError,
    UnavailableError, UnknownError, UnsupportedError,
)
from ._library import c, check
from ._tensor import DataType, Tensor

__all__ = ["AlreadyExistsError", "CancelledError", "DataType", "InternalError", "InvalidArgumentError", "Model",
           "NotFoundError", "Response", "Server", "Tensor", "TritonError", "UnavailableError", "UnknownError",
           "UnsupportedError"]


class Response(dict):
    """The outputs of a response, as arrays by name. Arrays of numbers are over the server's memory, without a copy;
    BYTES are arrays of bytes objects, and BF16 becomes FP32. Each array has DLPack for other libraries."""

    __slots__ = ("_answer",)

    def __init__(self, answer):
        self._answer = answer
        for name, kind, shape, array in answer.tensors():
            if kind in (13, 14):  # BYTES, BF16
                array = Tensor(kind, shape, array).numpy()
            self[name] = array

    @property
    def id(self):
        return self._answer.id()

    @property
    def parameters(self):
        return self._answer.parameters()

    @property
    def model_version(self):
        return self._answer.model()[1]


def _response(answer):
    problem = answer.error()
    if problem is not None:
        raise problem
    return Response(answer)


def _only(answer):
    if answer is None:
        raise InternalError("the model has sent no response")
    return _response(answer)


class Model:
    """A model of a server. Its methods may be called from any thread.

    The settings of a request are keywords: request_id, flags, correlation_id, priority, timeout (microseconds),
    parameters (a dict) and outputs (the names of those to compute)."""

    def __init__(self, handle, name, version):
        self._handle, self.name, self.version, self._encoded = handle, name, version, name.encode()

    def _call(self, kind, inputs, settings):
        settings = _core.Settings(**settings) if settings else None
        return kind(self._handle, self._encoded, self.version, inputs, settings)

    def infer(self, inputs, **settings):
        """Sends a request and returns its response. Of a decoupled model it is the first one; see stream."""
        if settings:
            return _only(self._call(_core.Call, inputs, settings).next())
        return _only(_core.infer(self._handle, self._encoded, self.version, inputs))

    def stream(self, inputs, **settings):
        """Sends a request and returns an iterator of its responses. Dropping the iterator cancels the request."""
        return self._stream(self._call(_core.Call, inputs, settings))

    def _stream(self, call):
        while (answer := call.next()) is not None:
            yield _response(answer)

    async def async_infer(self, inputs, **settings):
        """Is infer for coroutines. When its task is cancelled, so is the request."""
        call = self._call(_core.AsyncCall, inputs, settings)
        try:
            return _only(await call.next())
        finally:
            call.close()

    async def async_stream(self, inputs, **settings):
        """Is stream for coroutines."""
        call = self._call(_core.AsyncCall, inputs, settings)
        try:
            while (answer := await call.next()) is not None:
                yield _response(answer)
        finally:
            call.close()

    @property
    def _at(self):
        return self._handle, self._encoded, self.version

    def ready(self):
        return _core.ask_bool(c.ServerModelIsReady, *self._at)

    def metadata(self):
        return _core.ask_json(c.ServerModelMetadata, *self._at)

    def config(self):
        return _core.ask_json(c.ServerModelConfig, *self._at, 1)

    def statistics(self):
        return _core.ask_json(c.ServerModelStatistics, *self._at)


class Server:
    """A server in this process. It is ready when it is made. Use it as a context manager, or call stop.

    model_repository is a folder or a list of them. A front end is opened for each port that is given. All other options
    of nereid serve are keywords with underscores: log_verbose=1, model_control_mode="explicit", load_model=["a"]. The
    log on standard error has warnings and errors, with log_info=True also information."""

    def __init__(self, model_repository, *, http_port=None, grpc_port=None, metrics_port=None, **options):
        folders = model_repository if isinstance(model_repository, (list, tuple)) else [model_repository]
        arguments = _core.option("model-repository", folders)
        for front, port in (("http", http_port), ("grpc", grpc_port), ("metrics", metrics_port)):
            if port is not None:
                arguments += ["--allow-%s=true" % front, "--%s-port=%d" % (front, port)]
        for name, value in {"log_info": False, "strict_model_config": False, **options}.items():
            arguments += _core.option(name, value)
        self._handle = _core.Handle(arguments)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Waits for the requests under way, at most for the exit timeout, and stops the server."""
        self._handle.stop()

    def live(self):
        return _core.ask_bool(c.ServerIsLive, self._handle)

    def ready(self):
        return _core.ask_bool(c.ServerIsReady, self._handle)

    def model(self, name, version=-1):
        """Returns a model, also one that is not loaded yet. version -1 is what the version policy prefers."""
        return Model(self._handle, name, version)

    def models(self):
        """Returns the models that are ready, by name."""
        index = _core.ask_json(c.ServerModelIndex, self._handle, 1)
        return {entry["name"]: self.model(entry["name"]) for entry in index}

    def load(self, name, config=None, files=None):
        """Loads a model, in explicit model control mode. config is a dict, or JSON, and replaces that of the folder.
        files maps paths such as "1/model.onnx" to bytes and replaces the folder."""
        _core.load(self._handle, name, config, files)
        return self.model(name)

    def unload(self, name, dependents=False):
        """Unloads a model, with dependents also those that an ensemble uses."""
        function = c.ServerUnloadModelAndDependents if dependents else c.ServerUnloadModel
        check(function(self._handle.pointer, name.encode()))

    def metadata(self):
        return _core.ask_json(c.ServerMetadata, self._handle)

    def metrics(self):
        """Returns the metrics in Prometheus' text format."""
        return _core.metrics(self._handle)
