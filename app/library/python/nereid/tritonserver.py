"""The interface of Triton's in-process Python module, under its names. docs/embed.md says what differs."""

import enum
import queue
import threading
import time
from ctypes import byref, c_uint32, c_void_p
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from . import _core
from ._library import (
    AlreadyExistsError, CancelledError, InternalError, InvalidArgumentError, NotFoundError, TritonError,
    UnavailableError, UnknownError, UnsupportedError,
)
from ._library import c, check
from ._metrics import Metric, MetricFamily, MetricKind
from ._tensor import DataType, DLDeviceType, MemoryBuffer, MemoryType, Tensor

__all__ = ["AlreadyExistsError", "CancelledError", "DLDeviceType", "DataType", "InferenceRequest", "InferenceResponse",
           "InstanceGroupKind", "InternalError", "InvalidArgumentError", "LogFormat", "LogLevel", "LogMessage",
           "MemoryBuffer", "MemoryType", "Metric", "MetricFamily", "MetricFormat", "MetricKind", "Model",
           "ModelBatchFlag", "ModelControlMode", "ModelLoadDeviceLimit", "ModelTxnPropertyFlag", "NotFoundError",
           "Options", "RateLimitMode", "RateLimiterResource", "Server", "Tensor", "TritonError", "UnavailableError",
           "UnknownError", "UnsupportedError"]


class ModelControlMode(enum.IntEnum):
    NONE = 0
    POLL = 1
    EXPLICIT = 2


class RateLimitMode(enum.IntEnum):
    OFF = 0
    EXEC_COUNT = 1


class LogLevel(enum.IntEnum):
    INFO = 0
    WARN = 1
    ERROR = 2
    VERBOSE = 3


class LogFormat(enum.IntEnum):
    DEFAULT = 0
    ISO8601 = 1


class MetricFormat(enum.IntEnum):
    PROMETHEUS = 0


class InstanceGroupKind(enum.IntEnum):
    AUTO = 0
    CPU = 1
    GPU = 2
    MODEL = 3


class ModelBatchFlag(enum.IntFlag):
    UNKNOWN = 1
    FIRST_DIM = 2


class ModelTxnPropertyFlag(enum.IntFlag):
    ONE_TO_ONE = 1
    DECOUPLED = 2


def LogMessage(level, message):  # noqa: N802: its published name
    """Writes a line to the log of the server."""
    check(c.LogMessage(int(level), b"python", 0, message.encode()))


@dataclass
class RateLimiterResource:
    name: str
    count: int
    device: int  # -1: each device


@dataclass
class ModelLoadDeviceLimit:
    kind: InstanceGroupKind
    device: int
    fraction: float


@dataclass
class Options:
    """The options of a server. They are checked when it starts."""

    model_repository: Union[str, list] = field(default_factory=list)
    server_id: str = "triton"
    model_control_mode: ModelControlMode = ModelControlMode.NONE
    startup_models: list = field(default_factory=list)
    strict_model_config: bool = False
    rate_limiter_mode: RateLimitMode = RateLimitMode.OFF
    rate_limiter_resources: list = field(default_factory=list)
    pinned_memory_pool_size: int = 1 << 28
    cuda_memory_pool_sizes: dict = field(default_factory=dict)
    cache_config: dict = field(default_factory=dict)
    cache_directory: Optional[str] = None
    min_supported_compute_capability: float = 6.0
    exit_on_error: bool = True
    strict_readiness: bool = True
    exit_timeout: int = 30
    buffer_manager_thread_count: int = 0
    model_load_thread_count: int = 4
    model_load_retry_count: int = 0
    model_namespacing: bool = False
    enable_peer_access: bool = True
    log_file: Optional[str] = None
    log_info: bool = False
    log_warn: bool = False
    log_error: bool = False
    log_format: LogFormat = LogFormat.DEFAULT
    log_verbose: int = 0
    metrics: bool = True
    gpu_metrics: bool = True
    cpu_metrics: bool = True
    metrics_interval: int = 2000
    backend_directory: Optional[str] = None
    repo_agent_directory: Optional[str] = None
    model_load_device_limits: list = field(default_factory=list)
    backend_configuration: dict = field(default_factory=dict)
    host_policies: dict = field(default_factory=dict)
    metrics_configuration: dict = field(default_factory=dict)

    def _arguments(self):
        if not self.model_repository:
            raise InvalidArgumentError("Model repository must be specified.")
        plain = {name: getattr(self, name) for name in (
            "model_repository", "strict_model_config", "cache_directory", "min_supported_compute_capability",
            "exit_on_error", "strict_readiness", "buffer_manager_thread_count", "model_load_thread_count",
            "model_load_retry_count", "model_namespacing", "enable_peer_access", "log_file", "log_info", "log_error",
            "log_verbose", "backend_directory")}
        values = {
            **plain, "id": self.server_id, "load_model": self.startup_models, "log_warning": self.log_warn,
            "model_control_mode": ("none", "poll", "explicit")[self.model_control_mode],
            "rate_limit": ("off", "execution_count")[self.rate_limiter_mode],
            "rate_limit_resource": ["%s:%d%s" % (r.name, r.count, "" if r.device < 0 else ":%d" % r.device)
                                    for r in self.rate_limiter_resources],
            "pinned_memory_pool_byte_size": self.pinned_memory_pool_size,
            "cuda_memory_pool_byte_size": ["%d:%d" % item for item in self.cuda_memory_pool_sizes.items()],
            "exit_timeout_secs": self.exit_timeout, "repoagent_directory": self.repo_agent_directory,
            "log_format": ("default", "ISO8601")[self.log_format], "metrics_interval_ms": self.metrics_interval,
            "allow_gpu_metrics": self.gpu_metrics, "allow_cpu_metrics": self.cpu_metrics,
            "model_load_gpu_limit": ["%d:%g" % (m.device, m.fraction) for m in self.model_load_device_limits],
            "cache_config": _settings(self.cache_config), "backend_config": _settings(self.backend_configuration),
            "host_policy": _settings(self.host_policies), "metrics_config": _settings(self.metrics_configuration),
        }
        return [argument for name, value in values.items() for argument in _core.option(name, value)]


def _settings(by_name):
    return ["%s%s=%s" % (name and name + ",", key, value)
            for name, values in by_name.items() for key, value in values.items()]


class Server:
    """A server in this process, which start makes."""

    def __init__(self, options=None, **kwargs):
        self.options = Options(**kwargs) if options is None else options
        self._handle = None

    def start(self, wait_until_ready=False, polling_interval=0.1, timeout=None):
        """Starts the server and returns it. The models of the start are loaded then."""
        if self._handle is not None:
            raise InvalidArgumentError("Server already started")
        self._handle = _core.Handle(self.options._arguments())
        if wait_until_ready:
            _wait(self.ready, polling_interval, timeout)
            if not self.ready():
                raise UnavailableError("Timeout before ready")
        return self

    @property
    def _running(self):
        if self._handle is None:
            raise InvalidArgumentError("Server not started")
        return self._handle

    def stop(self):
        handle, self._handle = self._running, None
        handle.stop()

    def live(self):
        return _core.ask_bool(c.ServerIsLive, self._running)

    def ready(self):
        return _core.ask_bool(c.ServerIsReady, self._running)

    def metadata(self):
        return _core.ask_json(c.ServerMetadata, self._running)

    def model(self, model_name, model_version=-1):
        return Model(self, model_name, model_version)

    def models(self, exclude_not_ready=False):
        index = _core.ask_json(c.ServerModelIndex, self._running, int(exclude_not_ready))
        return ModelDictionary(self, [
            Model(self, m["name"], int(m.get("version") or -1), m.get("state"), m.get("reason")) for m in index])

    def load(self, model_name, parameters=None):
        """Loads a model. parameters are those of the C API: config, and files by names that begin with file:."""
        parameters = dict(parameters or {})
        config = parameters.pop("config", None)
        wrong = [name for name in parameters if not name.startswith("file:")]
        if wrong:
            raise InvalidArgumentError("load has no parameter %s, only config and file:<path>" % ", ".join(wrong))
        _core.load(self._running, model_name, config, parameters)
        return self.model(model_name)

    def unload(self, model, unload_dependents=False, wait_until_unloaded=False, polling_interval=0.1, timeout=None):
        name = model if isinstance(model, str) else model.name
        function = c.ServerUnloadModelAndDependents if unload_dependents else c.ServerUnloadModel
        check(function(self._running.pointer, name.encode()))
        if wait_until_unloaded:
            _wait(lambda: all(m.name != name for m in self.models(True).values()), polling_interval, timeout)

    def register_model_repository(self, repository_path, name_mapping=None):
        """Adds a repository. name_mapping has other names for models, by the names of their folders."""
        parameters = [c.ParameterNew(folder.encode(), 0, name.encode())
                      for folder, name in (name_mapping or {}).items()]
        try:
            array = (c_void_p * len(parameters))(*parameters)
            check(c.ServerRegisterModelRepository(self._running.pointer, str(repository_path).encode(), array,
                                                  len(parameters)))
        finally:
            for parameter in parameters:
                c.ParameterDelete(parameter)

    def unregister_model_repository(self, repository_path):
        check(c.ServerUnregisterModelRepository(self._running.pointer, str(repository_path).encode()))

    def poll_model_repository(self):
        """Has nothing to do in poll mode, because the server finds changes by itself. In other modes it is an error."""
        check(c.ServerPollModelRepository(self._running.pointer))

    def metrics(self, metric_format=MetricFormat.PROMETHEUS):
        if not self.options.metrics:
            raise UnsupportedError("metrics are disabled: see Options.metrics")
        return _core.metrics(self._running)


def _wait(condition, interval, timeout):
    end = None if timeout is None else time.monotonic() + timeout
    while not condition() and (end is None or time.monotonic() < end):
        time.sleep(interval)


class ModelDictionary(dict):
    """Models by (name, version). A name alone finds the version that the version policy prefers."""

    def __init__(self, server, models):
        super().__init__({(m.name, m.version): m for m in models})
        self._server = server

    def __missing__(self, key):
        if any(name == key for name, _ in self):
            return Model(self._server, key)
        raise KeyError("Unknown Model: %s" % (key,))


class Model:
    """A model of a server. state and reason are those of the moment when the server listed it."""

    def __init__(self, server, name, version=-1, state=None, reason=None):
        self._handle = server._running
        self.name, self.version, self.state, self.reason = name, version, state, reason

    def __repr__(self):
        return str({"name": self.name, "version": self.version, "state": self.state})

    def create_request(self, **kwargs):
        kwargs.pop("model", None)
        return InferenceRequest(self, **kwargs)

    def infer(self, inference_request=None, raise_on_error=True, **kwargs):
        """Sends a request and returns an iterator of its responses."""
        request = inference_request or self.create_request(**kwargs)
        return ResponseIterator(self, request, raise_on_error)

    def async_infer(self, inference_request=None, raise_on_error=True, **kwargs):
        """Sends a request in a coroutine and returns an asynchronous iterator of its responses."""
        request = inference_request or self.create_request(**kwargs)
        return AsyncResponseIterator(self, request, raise_on_error)

    @property
    def _at(self):
        return self._handle, self.name.encode(), self.version

    def ready(self):
        return _core.ask_bool(c.ServerModelIsReady, *self._at)

    def metadata(self):
        return _core.ask_json(c.ServerModelMetadata, *self._at)

    def statistics(self):
        return _core.ask_json(c.ServerModelStatistics, *self._at)

    def config(self, config_version=1):
        return _core.ask_json(c.ServerModelConfig, *self._at, config_version)

    def batch_properties(self):
        return ModelBatchFlag(self._flags(c.ServerModelBatchProperties))

    def transaction_properties(self):
        return ModelTxnPropertyFlag(self._flags(c.ServerModelTransactionProperties))

    def _flags(self, function):
        flags = c_uint32()
        check(function(self._handle.pointer, self.name.encode(), self.version, byref(flags), None))
        return flags.value


@dataclass
class InferenceRequest:
    """A request. Inputs are arrays, lists, Tensors or objects with DLPack. It may be sent several times."""

    model: Model
    request_id: Optional[str] = None
    flags: int = 0
    correlation_id: Union[int, str, None] = None
    priority: int = 0
    timeout: int = 0  # microseconds
    inputs: dict = field(default_factory=dict)
    parameters: dict = field(default_factory=dict)
    output_memory_type: Any = None
    response_queue: Any = None

    def _send(self, kind):
        kind_of_memory = self.output_memory_type
        if isinstance(kind_of_memory, (tuple, list)):
            kind_of_memory = kind_of_memory[0]
        if kind_of_memory not in (None, MemoryType.CPU, "cpu", "CPU"):
            raise UnsupportedError("outputs are in memory of the CPU; output_memory_type is %s" % (kind_of_memory,))
        settings = _core.Settings(self.request_id, self.flags, self.correlation_id, self.priority, self.timeout,
                                  self.parameters)
        return kind(self.model._handle, self.model.name.encode(), self.model.version, self.inputs, settings)


@dataclass
class InferenceResponse:
    """A response. One that only says that a decoupled model has sent its last response has no outputs."""

    model: Model
    request_id: Optional[str] = None
    parameters: dict = field(default_factory=dict)
    outputs: dict = field(default_factory=dict)
    error: Optional[TritonError] = None
    classification_label: Optional[str] = None
    final: bool = False

    @classmethod
    def _of(cls, model, request, answer):
        if answer is None:
            return cls(model, request.request_id, final=True)
        problem = answer.error()
        if problem is not None:
            made = cls(model, request.request_id, error=problem, final=answer.final)
            problem.args += (made,)
            return made
        answered = Model.__new__(Model)
        answered.__dict__.update(model.__dict__)
        answered.name, answered.version = answer.model()
        outputs = {name: Tensor(kind, shape, array) for name, kind, shape, array in answer.tensors()}
        return cls(answered, answer.id(), answer.parameters(), outputs, final=answer.final)


class ResponseIterator:
    """The responses to a request, each of which also goes into the request's response_queue."""

    def __init__(self, model, request, raise_on_error):
        self._model, self._request, self._raise = model, request, raise_on_error
        self._call, self._final, self._ahead = request._send(_core.Call), False, None
        if request.response_queue is not None:
            self._ahead = queue.SimpleQueue()
            threading.Thread(target=self._fetch, daemon=True).start()

    def _fetch(self):
        final = False
        while not final:
            response = InferenceResponse._of(self._model, self._request, self._call.next())
            final = response.final
            self._ahead.put(response)
            self._request.response_queue.put(response)

    def __iter__(self):
        return self

    def __next__(self):
        if self._final:
            raise StopIteration
        if self._ahead is not None:
            response = self._ahead.get()
        else:
            response = InferenceResponse._of(self._model, self._request, self._call.next())
        self._final = response.final
        if response.error is not None and self._raise:
            raise response.error
        return response

    def cancel(self):
        self._call.cancel()


class AsyncResponseIterator:
    """ResponseIterator for coroutines. response_queue is an asyncio.Queue, and gets what the iterator returns."""

    def __init__(self, model, request, raise_on_error):
        self._model, self._request, self._raise = model, request, raise_on_error
        self._call, self._final = request._send(_core.AsyncCall), False

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self._final:
            raise StopAsyncIteration
        response = InferenceResponse._of(self._model, self._request, await self._call.next())
        self._final = response.final
        if self._final:
            self._call.close()
        if self._request.response_queue is not None:
            self._request.response_queue.put_nowait(response)
        if response.error is not None and self._raise:
            raise response.error
        return response

    def cancel(self):
        self._call.cancel()
