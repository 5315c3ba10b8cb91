"""Python functions as models, with the interface of PyTriton: docs/embed.md.

The server runs in this process and opens its ports, or it is one of another process. The server's process of a bound
model (_bound_model.py) connects to this one, and a thread here calls the function. There is a thread for each function
that was bound."""

import base64
import dataclasses
import enum
import json
import logging
import os
import pathlib
import queue
import re
import secrets
import shutil
import socket
import sys
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.request
from multiprocessing.connection import Listener
from multiprocessing.reduction import ForkingPickler
from multiprocessing.util import Finalize
from typing import Any, Optional

import numpy as np

from . import _core
from ._library import UnavailableError, UnknownError
from ._tensor import TYPES, DataType
from .decorators import PyTritonValidationError, TritonContext, current

LOGGER = logging.getLogger("nereid.triton")


# What a model may have, under PyTriton's names


@dataclasses.dataclass(frozen=True)
class Tensor:
    """An input or output. shape is without the batch dimension; dtype object or bytes is text."""

    shape: tuple
    dtype: Any
    name: Optional[str] = None
    optional: bool = False


class DeviceKind(enum.Enum):
    KIND_AUTO = "KIND_AUTO"
    KIND_CPU = "KIND_CPU"
    KIND_GPU = "KIND_GPU"


class TimeoutAction(enum.Enum):
    REJECT = "REJECT"
    DELAY = "DELAY"


@dataclasses.dataclass
class QueuePolicy:
    timeout_action: TimeoutAction = TimeoutAction.REJECT
    default_timeout_microseconds: int = 0
    allow_timeout_override: bool = False
    max_queue_size: int = 0

    def config(self):
        return {**dataclasses.asdict(self), "timeout_action": self.timeout_action.value}


@dataclasses.dataclass
class DynamicBatcher:
    max_queue_delay_microseconds: int = 0
    preferred_batch_size: Optional[list] = None
    preserve_ordering: bool = False
    priority_levels: int = 0
    default_priority_level: int = 0
    default_queue_policy: Optional[QueuePolicy] = None
    priority_queue_policy: Optional[dict] = None

    def config(self):
        made = {name: getattr(self, name) for name in (
            "max_queue_delay_microseconds", "preserve_ordering", "priority_levels", "default_priority_level")}
        if self.preferred_batch_size:
            made["preferred_batch_size"] = self.preferred_batch_size
        if self.default_queue_policy:
            made["default_queue_policy"] = self.default_queue_policy.config()
        if self.priority_queue_policy:
            made["priority_queue_policy"] = {str(k): p.config() for k, p in self.priority_queue_policy.items()}
        return made


@dataclasses.dataclass
class WarmupInput:
    """An input of the requests that a model gets before it is ready. It needs zero_data or random_data."""

    dtype: Any
    shape: tuple
    zero_data: Optional[bool] = False
    random_data: Optional[bool] = False
    input_data_file: Optional[str] = None

    def config(self):
        if self.input_data_file:
            raise PyTritonValidationError("input_data_file is not supported; use zero_data or random_data")
        if not (self.zero_data or self.random_data):
            raise PyTritonValidationError("an input for a warmup needs zero_data or random_data")
        return {"data_type": _type(self), "dims": list(self.shape),
                **({"zero_data": True} if self.zero_data else {"random_data": True})}


@dataclasses.dataclass
class ModelWarmup:
    name: str
    batch_size: int
    inputs: dict
    count: int

    def config(self):
        return {**vars(self), "inputs": {name: i.config() for name, i in self.inputs.items()}}


@dataclasses.dataclass
class ModelConfig:
    batching: bool = True
    max_batch_size: int = 4
    batcher: Optional[DynamicBatcher] = dataclasses.field(default_factory=DynamicBatcher)
    response_cache: bool = False
    decoupled: bool = False
    model_warmup: Optional[list] = None


class TritonConfig(dict):
    """Options of nereid serve, with underscores. The environment may have them as PYTRITON_TRITON_CONFIG_<NAME>."""

    PREFIX = "PYTRITON_TRITON_CONFIG_"

    def __init__(self, **options):
        super().__init__(options)

    @classmethod
    def from_env(cls):
        return cls(**{name[len(cls.PREFIX):].lower(): value for name, value in os.environ.items()
                      if name.startswith(cls.PREFIX)})


@dataclasses.dataclass
class TritonSecurityConfig:
    """Which endpoints need a token, in the header triton-access-token. Without a token, one is made."""

    access_token: Optional[str] = None
    restricted_endpoints: Optional[list] = None

    def __post_init__(self):
        if self.access_token is None:
            self.access_token = secrets.token_urlsafe(32)
        if self.restricted_endpoints is None:
            self.restricted_endpoints = ["shared-memory", "model-repository", "statistics", "trace", "logging"]

    def options(self):
        if not self.restricted_endpoints:
            return {}
        value = "%s:triton-access-token=%s" % (",".join(self.restricted_endpoints), self.access_token)
        return {"http_restricted_api": value, "grpc_restricted_protocol": value}


# Requests


class Request(dict):
    """The inputs of a request by name, with its parameters."""

    def __init__(self, inputs, parameters, requested_output_names):
        super().__init__(inputs)
        self.parameters, self.requested_output_names, self.span = parameters, requested_output_names, None

    @property
    def data(self):
        return self


class _Model:
    """A bound model."""

    def __init__(self, name, version, functions, inputs, outputs, config, strict):
        self.model_name, self.model_version, self.functions, self.strict = name, version, functions, strict
        self.inputs, self.outputs = _named(inputs, "INPUT_%d"), _named(outputs, "OUTPUT_%d")
        self.config = config
        self.batching, self.max_batch_size, self.batcher = config.batching, config.max_batch_size, config.batcher
        self.decoupled = config.decoupled
        self.free = queue.SimpleQueue()
        for function in functions:
            self.free.put(function)

    def triton_config(self, address, key):
        def tensor(t):
            return {"name": t.name, "data_type": _type(t), "dims": list(t.shape)}

        made = {
            "name": self.model_name, "backend": "python", "max_batch_size": self.max_batch_size if self.batching else 0,
            "input": [{**tensor(t), "optional": t.optional} for t in self.inputs],
            "output": [tensor(t) for t in self.outputs],
            "instance_group": [{"kind": "KIND_CPU", "count": len(self.functions)}],
            "version_policy": {"specific": {"versions": [self.model_version]}},
            "parameters": {"bound_address": {"string_value": address}, "bound_key": {"string_value": key.hex()}},
            "response_cache": {"enable": self.config.response_cache},
            "model_transaction_policy": {"decoupled": self.decoupled},
            "model_warmup": [w.config() for w in self.config.model_warmup or ()],
        }
        if self.batching and self.batcher is not None:
            made["dynamic_batching"] = self.batcher.config()
        return made

    def check(self, outputs):
        """Returns the outputs of a request as arrays."""
        if not isinstance(outputs, dict):
            raise PyTritonValidationError(
                "a bound function returns a list with a dict of outputs for each request, and it returned a %s in it"
                % type(outputs).__name__)
        outputs = {name: np.asarray(value) for name, value in outputs.items()}
        expected = {t.name: t for t in self.outputs}
        for name, array in outputs.items() if self.strict else ():
            if name not in expected:
                raise PyTritonValidationError("the function returned the output %s, which was not bound" % name)
            have, shape = array.shape[int(self.batching):], expected[name].shape
            if len(have) != len(shape) or any(e not in (-1, h) for h, e in zip(have, shape)):
                raise PyTritonValidationError("the output %s has the shape %s, and %s was bound" % (name, have, shape))
            if _type(Tensor(shape, array.dtype)) != _type(expected[name]):
                raise PyTritonValidationError("the output %s has the type %s, and %s was bound" % (
                    name, array.dtype, np.dtype(expected[name].dtype)))
        return {name: a.astype(object) if a.dtype.kind in "SU" else a for name, a in outputs.items()}


def _named(tensors, pattern):
    return [t if t.name else dataclasses.replace(t, name=pattern % n) for n, t in enumerate(tensors, 1)]


def _type(tensor):
    dtype = np.dtype(tensor.dtype)
    if dtype.kind in "OSU":
        return "TYPE_STRING"
    if dtype not in TYPES:
        raise PyTritonValidationError("the server has no type for arrays of %s" % dtype)
    return "TYPE_" + DataType(TYPES[dtype]).name


class _Local:
    """A server in this process."""

    def __init__(self, options, folder):
        options = dict(options)
        repository = options.pop("model_repository", None) or os.path.join(folder, "models")
        os.makedirs(repository, exist_ok=True)
        arguments = _core.option("model_repository", str(repository))
        arguments += ["--backend-config=python,python=" + sys.executable]
        for name, value in options.items():
            arguments += _core.option(name, value)
        self._handle = _core.Handle(arguments)

    def load(self, name, config, files):
        _core.load(self._handle, name, config, files)

    def ready(self):
        return _core.ask_bool(_core.c.ServerIsReady, self._handle)

    def stop(self):
        self._handle.stop()


# A proxy cannot reach a server of this machine.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class _Remote:
    """A server of another process, over HTTP."""

    def __init__(self, url, token, timeout):
        self._url, self._headers = url, {"triton-access-token": token} if token else {}
        self._loaded = []
        until = time.monotonic() + timeout
        while not self.ready():
            if time.monotonic() > until:
                raise UnavailableError("no server is ready at %s" % url)
            time.sleep(0.1)

    def _call(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        try:
            with _OPENER.open(urllib.request.Request(self._url + path, data, self._headers)) as answer:
                return answer.read()
        except urllib.error.HTTPError as e:
            raise UnknownError("%s%s: %d: %s" % (self._url, path, e.code, e.read().decode(errors="replace"))) from None

    def load(self, name, config, files):
        files = {"file:" + path: base64.b64encode(data).decode() for path, data in files.items()}
        self._call("/v2/repository/models/%s/load" % name, {"parameters": {"config": config, **files}})
        self._loaded.append(name)

    def ready(self):
        try:
            self._call("/v2/health/ready")
            return True
        except (OSError, UnknownError):
            return False

    def stop(self):
        for name in self._loaded:
            try:
                self._call("/v2/repository/models/%s/unload" % name, {})
            except (OSError, UnknownError) as e:
                LOGGER.warning("the model %s stays at the server: %s", name, e)


class _Binder:
    """Binds functions as models of a server, which _connect returns."""

    def __init__(self, workspace):
        self._workspace = workspace and os.path.abspath(workspace)  # for processes with another working folder
        self._models, self._context = {}, TritonContext()
        self._lock, self._ended = threading.RLock(), threading.Event()
        self._server = self._bound = None

    def bind(self, model_name, infer_func, inputs, outputs, model_version=1, config=None, strict=False):
        """Makes a model of a function, or of several that run at the same time. When the server runs, the model is
        ready at the return."""
        if not re.match(r"^[a-zA-Z0-9._-]+$", model_name or ""):
            raise PyTritonValidationError(
                "the name of a model has letters, digits, dots, underscores and dashes: %r" % model_name)
        functions = list(infer_func) if isinstance(infer_func, (list, tuple)) else [infer_func]
        model = _Model(model_name, model_version, functions, inputs, outputs, config or ModelConfig(), strict)
        with self._lock:
            if model_name in self._models:
                raise PyTritonValidationError("the model %s is bound already" % model_name)
            for function in functions:
                self._context.model_configs[function] = model
            self._models[model_name] = model
            if self._server is not None:
                self._load(model)

    def run(self):
        """Connects to the server, and returns when all models are ready."""
        with self._lock:
            if self._server is not None:
                return
            self._ended.clear()
            if self._workspace is not None:
                os.makedirs(self._workspace, exist_ok=True)
            self._folder = tempfile.mkdtemp(prefix="nereid-", dir=self._workspace)
            # At the end of the program it comes after that of the socket in the folder, whose priority is 0.
            self._remove = Finalize(self, shutil.rmtree, (self._folder,), {"ignore_errors": True}, exitpriority=-1)
            try:
                self._bound = _Bound(os.path.join(self._folder, "socket"), self._models, self._context)
                self._server = self._connect()
                for model in self._models.values():
                    self._load(model)
            except BaseException:
                self._close()
                raise

    connect = run

    def _load(self, model):
        source = pathlib.Path(__file__).with_name("_bound_model.py").read_bytes()
        config = json.dumps(model.triton_config(self._bound.address, self._bound.key))
        files = {"%d/model.py" % model.model_version: source}
        self._server.load(model.model_name, config, files)
        LOGGER.info("the function is served as model %s", model.model_name)

    def serve(self, monitoring_period_s=10.0):
        """Serves until stop is called on another thread, or until the program is interrupted."""
        self.run()
        try:
            while not self._ended.wait(monitoring_period_s):
                pass
        except KeyboardInterrupt:
            LOGGER.info("interrupted")
        self.stop()

    def stop(self):
        """Stops the server, or unloads the models from that of another process. It returns whether there was one. The
        functions are not bound any more, so that others may have their names."""
        with self._lock:
            was = self._close()
            if was:
                self._models.clear()
            return was

    def _close(self):
        """Ends what run has made. It returns whether there was a server."""
        with self._lock:
            server, self._server = self._server, None
            bound, self._bound = self._bound, None
            if server is not None:
                server.stop()
            if bound is not None:
                bound.close()
                self._remove()
            self._ended.set()
            return server is not None

    def is_alive(self):
        server = self._server  # another thread may stop
        return server is not None and server.ready()

    def is_connected(self):
        return self._server is not None

    def __enter__(self):
        self.run()
        return self

    def __exit__(self, *_):
        self.stop()


class Triton(_Binder):
    """A server with bound functions. As a context manager it serves inside the with statement."""

    def __init__(self, *, config=None, workspace=None, security_config=None):
        super().__init__(workspace)
        self._config = {"allow_http": True, "allow_grpc": True, "allow_metrics": True, "log_info": False,
                        **TritonConfig.from_env(), **(config or {})}
        self._security = security_config or TritonSecurityConfig()

    def _connect(self):
        return _Local({"strict_model_config": False, **self._security.options(), **self._config,
                       "model_control_mode": "explicit"}, self._folder)

    def get_access_token(self):
        return self._security.access_token


class RemoteTriton(_Binder):
    """Binds functions of this process as models of a Triton of another process of this machine. url is that of its HTTP
    service; without a port it is 8000. The models are unloaded at the end."""

    def __init__(self, url, workspace=None, access_token=None):
        super().__init__(workspace)
        scheme, _, rest = url.rpartition("://")
        if scheme not in ("", "http"):
            raise PyTritonValidationError("a remote server is reached over HTTP, and the URL is %s" % url)
        self._url = "http://" + (rest if ":" in rest else rest.rstrip("/") + ":8000").rstrip("/")
        self._token = access_token

    def _connect(self):
        return _Remote(self._url, self._token, 120)


class _Bound:
    """Takes the connections of models' processes. There is a thread for each, and one that accepts them."""

    def __init__(self, address, models, context):
        self.address, self.key = address, secrets.token_bytes(32)
        self._models, self._context, self._closed = models, context, False
        self._listener = Listener(address, "AF_UNIX", backlog=64, authkey=self.key)
        self._thread = threading.Thread(target=self._accept, name="nereid", daemon=True)
        self._thread.start()

    def close(self):
        self._closed = True
        with socket.socket(socket.AF_UNIX) as wake:  # closing alone does not end accept
            wake.connect(self.address)
        self._thread.join()
        self._listener.close()

    def _accept(self):
        while not self._closed:
            try:
                connection = self._listener.accept()
            except Exception:  # a process that ended too early, or close
                if self._closed:
                    return
                time.sleep(0.01)  # too many open files must not make it spin
                continue
            threading.Thread(target=self._serve, args=(connection,), name="nereid", daemon=True).start()

    def _serve(self, connection):
        with connection:
            model = self._models[connection.recv()]
            function = model.free.get()  # that of a process that ended is free when it has returned
            try:
                with current(model, self._context):
                    while True:
                        _answer(connection, model, function)
            except (EOFError, OSError):
                pass  # the process has ended
            finally:
                model.free.put(function)


def _answer(connection, model, function):
    """Takes requests, calls the function, and sends what it returns: for each request a dict, or one text for all. A
    decoupled model sends several of these, and None at the end."""
    for data in _answers(model, function, [Request(*r) for r in connection.recv()]):
        connection.send_bytes(data)
    if model.decoupled:
        connection.send(None)


def _answers(model, function, requests):
    """Calls the function. It may raise any error, also those that a connection raises."""
    try:
        result = function(requests)
        for part in result if model.decoupled and hasattr(result, "__next__") else [result]:
            yield ForkingPickler.dumps(_checked(model, requests, part))
    except Exception:
        yield ForkingPickler.dumps(traceback.format_exc())


def _checked(model, requests, result):
    result = list(result)
    if len(result) != len(requests):
        raise PyTritonValidationError("the function returned %d results for %d requests" % (len(result), len(requests)))
    return [model.check(outputs) for outputs in result]
