"""The interface of Triton's module tritonfrontend, under its names: front ends for a server of nereid.tritonserver.

    server = tritonserver.Server(model_repository="models").start(wait_until_ready=True)
    with KServeHttp(server, KServeHttp.Options(port=8000)), KServeGrpc(server):
        ...

docs/embed.md says what differs.
"""

import dataclasses
import enum
import json

from . import _core, tritonserver
from ._library import InvalidArgumentError, c

__all__ = ["FeatureGroup", "KServeGrpc", "KServeHttp", "Metrics", "Protocols", "RestrictedFeatures"]


class Protocols(enum.Enum):
    """What a front end may restrict."""

    HEALTH = "health"
    METADATA = "metadata"
    INFERENCE = "inference"
    SHM_MEMORY = "shared-memory"
    MODEL_CONFIG = "model-config"
    MODEL_REPOSITORY = "model-repository"
    STATISTICS = "statistics"
    TRACE = "trace"
    LOGGING = "logging"


@dataclasses.dataclass
class FeatureGroup:
    """Calls that need a header with a value."""

    key: str
    value: str
    protocols: list

    def __post_init__(self):
        wrong = [p for p in self.protocols if not isinstance(p, Protocols)]
        if wrong:
            raise InvalidArgumentError("these are not members of Protocols: %s" % wrong)


class RestrictedFeatures:
    """Groups of calls. A call belongs to at most one."""

    def __init__(self, groups=()):
        self.feature_groups = []
        for group in groups:
            self.add_feature_group(group)

    def add_feature_group(self, group):
        taken = {p for g in self.feature_groups for p in g.protocols} & set(group.protocols)
        if taken:
            raise InvalidArgumentError("a protocol belongs to one group only: %s" % sorted(p.value for p in taken))
        self.feature_groups.append(group)

    def create_feature_group(self, key, value, protocols):
        self.add_feature_group(FeatureGroup(key, value, protocols))

    def __repr__(self):
        return json.dumps([{**vars(g), "protocols": [p.value for p in g.protocols]} for g in self.feature_groups])

    def _values(self):
        return ["%s:%s=%s" % (",".join(p.value for p in g.protocols), g.key, g.value) for g in self.feature_groups]


class _Front:
    """A front end, which start opens. Used as a context manager it is open inside the with statement."""

    def __init__(self, server, options=None):
        if options is None:
            options = self.Options()
        if not isinstance(options, self.Options):
            raise InvalidArgumentError("options must be of the type %s" % self.Options.__qualname__)
        if not isinstance(server, tritonserver.Server):
            raise InvalidArgumentError("server must be a tritonserver.Server")
        self._server, self._options, self._open = server, options, None

    def start(self):
        if self._open is not None:
            raise tritonserver.AlreadyExistsError("the front end is running")
        options = {**self._ON, **{_OPTIONS[self._NAME].get(name, self._NAME + "_" + name): value
                                  for name, value in vars(self._options).items()}}
        arguments = [a for name, value in options.items() if name for a in _core.option(name, _plain(value))]
        self._open = _core.open_front(self._server._running, arguments)

    def stop(self):
        """Waits for the requests under way, at most for 30 seconds, and closes the port."""
        front, self._open = self._open, None
        if front is not None:
            c.FrontDelete(front)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def __del__(self):
        if getattr(self, "_open", None) is not None:
            self.stop()


# The options of nereid serve, where their names are not the member's behind the front end's. "" has no effect.
_OPTIONS = {
    "http": {"reuse_port": "reuse_http_port", "restricted_protocols": "http_restricted_api"},
    "grpc": {
        "reuse_port": "reuse_grpc_port", "use_mutual_auth": "grpc_use_ssl_mutual",
        "keepalive_time_ms": "grpc_keepalive_time", "keepalive_timeout_ms": "grpc_keepalive_timeout",
        "http2_min_recv_ping_interval_without_data_ms": "grpc_http2_min_recv_ping_interval_without_data",
        "max_connection_age_ms": "grpc_max_connection_age",
        "max_connection_age_grace_ms": "grpc_max_connection_age_grace",
        "infer_compression_level": "grpc_infer_response_compression_level",
        "forward_header_pattern": "grpc_header_forward_pattern", "restricted_protocols": "grpc_restricted_protocol",
    },
    "metrics": {"thread_count": ""},
}


def _plain(value):
    """Returns the value of an option as _core.option takes it. An empty text and False are defaults; one option for TLS
    must not even be named."""
    if isinstance(value, RestrictedFeatures):
        return value._values()
    if isinstance(value, GrpcCompressionLevel):
        return ("none", "low", "medium", "high")[value]
    return None if value is False or value == "" else value


def _must_be_a_port(options):
    if not 0 <= options.port <= 65535:
        raise InvalidArgumentError("a port is from 0 to 65535, got: %d" % options.port)


class GrpcCompressionLevel(enum.IntEnum):
    NONE = 0
    LOW = 1
    MED = 2
    HIGH = 3


class KServeHttp(_Front):
    """HTTP with the KServe protocol."""

    _NAME, _ON = "http", {"allow_http": True}

    @dataclasses.dataclass
    class Options:
        address: str = "0.0.0.0"
        port: int = 8000
        reuse_port: bool = False
        thread_count: int = 8
        header_forward_pattern: str = ""
        restricted_protocols: RestrictedFeatures = dataclasses.field(default_factory=RestrictedFeatures)

        __post_init__ = _must_be_a_port


class KServeGrpc(_Front):
    """gRPC with the KServe protocol."""

    _NAME, _ON = "grpc", {"allow_grpc": True}
    Grpc_compression_level = GrpcCompressionLevel

    @dataclasses.dataclass
    class Options:
        address: str = "0.0.0.0"
        port: int = 8001
        reuse_port: bool = False
        use_ssl: bool = False
        server_cert: str = ""
        server_key: str = ""
        root_cert: str = ""
        use_mutual_auth: bool = False
        keepalive_time_ms: int = 7_200_000
        keepalive_timeout_ms: int = 20_000
        keepalive_permit_without_calls: bool = False
        http2_max_pings_without_data: int = 2
        http2_min_recv_ping_interval_without_data_ms: int = 300_000
        http2_max_ping_strikes: int = 2
        max_connection_age_ms: int = 0
        max_connection_age_grace_ms: int = 0
        infer_compression_level: GrpcCompressionLevel = GrpcCompressionLevel.NONE
        infer_allocation_pool_size: int = 8
        forward_header_pattern: str = ""
        restricted_protocols: RestrictedFeatures = dataclasses.field(default_factory=RestrictedFeatures)

        def __post_init__(self):
            _must_be_a_port(self)
            self.infer_compression_level = GrpcCompressionLevel(self.infer_compression_level)


class Metrics(_Front):
    """Metrics in Prometheus' text format, at /metrics."""

    _NAME, _ON = "metrics", {"allow_metrics": True}

    @dataclasses.dataclass
    class Options:
        address: str = "0.0.0.0"
        port: int = 8002
        thread_count: int = 8

        __post_init__ = _must_be_a_port


# In Triton a front end is the member Server of the class that has its options.
KServeHttp.Server, KServeGrpc.Server = KServeHttp, KServeGrpc
