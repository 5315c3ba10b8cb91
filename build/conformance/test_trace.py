"""Trace and log settings, and the trace files."""

import json
import time

import numpy as np
import pytest
import tritonclient.grpc as tg
import tritonclient.http as th
from tritonclient.utils import InferenceServerException

import models
from harness import REFERENCE, Server, deviates, until

START = {
    "trace_level": ["OFF"],
    "trace_rate": "1000",
    "trace_count": "-1",
    "log_frequency": "0",
    "trace_file": "",
    "trace_mode": "triton",
}
LOG_START = {
    "log_file": "",
    "log_info": True,
    "log_warning": True,
    "log_error": True,
    "log_verbose_level": 0,
    "log_format": "default",
}


class HTTP:
    """Reads and changes the settings over HTTP, as plain values."""

    def __init__(self, server):
        self.client = th.InferenceServerClient(server.http)

    def trace(self, model=None):
        return self.client.get_trace_settings(model)

    def update(self, settings, model=None):
        return self.client.update_trace_settings(model, settings)

    def log(self):
        return self.client.get_log_settings()

    def update_log(self, settings):
        return self.client.update_log_settings(settings)


class GRPC(HTTP):
    """Reads and changes the settings over gRPC, in the same form."""

    def __init__(self, server):
        self.client = tg.InferenceServerClient(server.grpc)

    @staticmethod
    def plain(response):
        out = {}
        for key, v in response.settings.items():
            out[key] = list(v.value) if key == "trace_level" else v.value[0]
        return out

    @staticmethod
    def plain_log(response):
        return {key: getattr(v, v.WhichOneof("parameter_choice")) for key, v in response.settings.items()}

    def trace(self, model=None):
        return self.plain(self.client.get_trace_settings(model))

    def update(self, settings, model=None):
        return self.plain(self.client.update_trace_settings(model, settings))

    def log(self):
        return self.plain_log(self.client.get_log_settings())

    def update_log(self, settings):
        return self.plain_log(self.client.update_log_settings(settings))


@pytest.fixture(params=[HTTP, GRPC], ids=["http", "grpc"])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def own(good, tmp_path_factory):
    """A server whose settings the tests change. Each test restores them."""
    with Server(good, tmp_path_factory.mktemp("trace")) as s:
        yield s


@pytest.fixture
def settings(own, kind):
    return kind(own)


writes_late = pytest.mark.skipif(REFERENCE, reason="Triton writes its file when it ends or a count is full")


@pytest.fixture
def traced(good, tmp_path):
    """A server that traces every request into a file."""
    options = ("level=TIMESTAMPS", "rate=1", f"triton,file={tmp_path}/trace.json")
    with Server(good, tmp_path, *(f"--trace-config={o}" for o in options)) as s:
        yield s


def test_B015_B067_E036_H071_trace_settings_at_the_start(settings):
    assert settings.trace() == START
    assert settings.trace("sums") == START


def test_B015_B067_unknown_model(settings):
    with pytest.raises(InferenceServerException, match="Request for unknown model : nope"):
        settings.trace("nope")
    with pytest.raises(InferenceServerException, match="Request for unknown model : nope"):
        settings.update({"trace_rate": "1"}, "nope")


@pytest.mark.parametrize(
    "change",
    [{"trace_rate": "500"}, {"trace_count": "7"}, {"log_frequency": "3"},
     {"trace_rate": "2", "trace_count": "0", "log_frequency": "1"}],
    ids=["rate", "count", "frequency", "all"],
)
@pytest.mark.parametrize("model", [None, "sums"], ids=["server", "model"])
def test_B015_B067_E037_change_and_clear(settings, change, model):
    assert settings.update(change, model) == {**START, **change}
    assert settings.trace(model) == {**START, **change}
    other = settings.trace() if model else settings.trace("sums")
    assert other == (START if model else {**START, **change})
    assert settings.update({key: None for key in change}, model) == START
    assert settings.trace() == settings.trace("sums") == START


def test_E037_a_model_inherits_unset_settings_from_the_server(settings):
    settings.update({"trace_rate": "5"}, "sums")
    settings.update({"trace_rate": "9", "trace_count": "4"})
    assert settings.trace("sums") == {**START, "trace_rate": "5", "trace_count": "4"}
    settings.update({"trace_rate": None, "trace_count": None})
    assert settings.update({"trace_rate": None}, "sums") == START


def test_B015_B067_level_without_a_file(settings):
    with pytest.raises(InferenceServerException,
                       match="Attempting to set invalid trace setting :trace file name is not given"):
        settings.update({"trace_level": ["TIMESTAMPS"]})
    assert settings.trace() == START


@pytest.mark.parametrize(
    "change,text",
    [
        ({"trace_rate": "x"}, "Unable to parse 'trace_rate', got: x"),
        ({"trace_rate": "99999999999"},
         "Unable to parse 'trace_rate', value is out of range \\[ 0, 4294967295 \\], got: 99999999999"),
        ({"trace_count": "x"}, "Unable to parse 'trace_count', got: x"),
        ({"log_frequency": "x"}, "Unable to parse 'log_frequency', got: x"),
        ({"trace_level": ["OFF", "TENSORS"]}, "Expect only one trace level 'OFF' is specified"),
    ],
    ids=["rate", "rate range", "count", "frequency", "off and on"],
)
def test_B015_B067_malformed(settings, change, text):
    with pytest.raises(InferenceServerException, match=text):
        settings.update(change)
    assert settings.trace() == START


def test_A20_trace_file_cannot_be_set(settings, tmp_path):
    there = tmp_path / "there"
    there.write_text("precious")
    for name in ("/etc/nereid-trace", "../trace", str(tmp_path / "x"), str(there), "/dev/null"):
        with pytest.raises(InferenceServerException,
                           match="trace file location can not be updated through network protocol"):
            settings.update({"trace_file": name})
        with pytest.raises(InferenceServerException):
            settings.update({"trace_file": name}, "sums")
    assert settings.trace() == settings.trace("sums") == START
    assert list(tmp_path.iterdir()) == [there] and there.read_text() == "precious"


def test_R7_DV45_unknown_trace_level_and_setting(settings):
    for change, name in (({"trace_level": ["BAD"]}, "trace_level"), ({"nosuch": "1"}, "nosuch")):
        refused = None
        try:
            settings.update(change)
        except InferenceServerException as e:
            refused = str(e)
        assert deviates(refused is None, refused is not None and name in refused)
    assert settings.trace() == START


def test_B016_B067_E048_I015_log_settings(settings):
    assert settings.log() == LOG_START


@pytest.mark.parametrize(
    "change",
    [{"log_info": False}, {"log_warning": False}, {"log_error": False}, {"log_verbose_level": 2},
     {"log_format": "ISO8601"}],
    ids=lambda c: next(iter(c)),
)
def test_B016_B067_E045_change_log_settings(settings, change):
    assert settings.update_log(change) == {**LOG_START, **change}
    assert settings.log() == {**LOG_START, **change}
    assert settings.update_log({key: LOG_START[key] for key in change}) == LOG_START


def test_A20_log_file_cannot_be_set(settings, tmp_path):
    there = tmp_path / "there"
    there.write_text("precious")
    for name in ("/etc/nereid-log", "../log", str(tmp_path / "x"), str(there), "/dev/null"):
        with pytest.raises(InferenceServerException,
                           match="log file location can not be updated through network protocol"):
            settings.update_log({"log_file": name})
    assert settings.log() == LOG_START
    assert list(tmp_path.iterdir()) == [there] and there.read_text() == "precious"


def test_R7_DV46_unknown_log_setting(own):
    a = own.post("/v2/logging", {"nosuch": 1})
    if deviates(False, True):
        assert a.status == 400 and "'nosuch'" in a.error
    else:
        assert (a.status, a.json) == (200, LOG_START)


def test_B016_DV47_DV48_log_settings_of_the_wrong_type(own):
    a = own.post("/v2/logging", {"log_info": "x"})
    assert (a.status, a.error) == (deviates(500, 400), "attempt to access JSON non-boolean as boolean")
    a = own.post("/v2/logging", {"log_format": "BAD"})
    assert (a.status, a.error) == (deviates(503, 400), "invalid argument for --log_format, got: BAD")


def test_E045_logging_can_be_disabled(own):
    def loads():
        return own.log().count("Started HTTPService")  # written only at the start: shows that the log is readable

    assert loads() >= 1
    own.post("/v2/logging", {"log_info": False, "log_warning": False, "log_error": False})
    size = len(own.log())
    for _ in range(5):
        own.post("/v2/repository/models/nope/load")
    assert len(own.log()) == size
    own.post("/v2/logging", {"log_info": True, "log_warning": True, "log_error": True})


def infer(client, module, request_id):
    a = np.arange(16, dtype=np.int32).reshape(1, 16)
    inputs = [module.InferInput(n, a.shape, "INT32") for n in ("INPUT0", "INPUT1")]
    for i in inputs:
        i.set_data_from_numpy(a)
    return client.infer("sums", inputs, request_id=request_id)


def elements(path, n):
    """Waits until the file has n traces, and returns its elements."""

    def read():
        if not path.exists():
            return None
        text = path.read_text()
        found = json.loads(text) if text else []  # valid JSON from the first trace on
        return found if sum("model_name" in e for e in found) >= n else None

    return until(read, 60, "the traces are not written")


def summary(elements):
    """Groups a trace file by id, as Triton's trace_summary.py does: model, version, and the timestamps by name."""
    out = {}
    for e in elements:
        t = out.setdefault(e["id"], {"at": {}})
        t.update({k: e[k] for k in ("model_name", "model_version", "request_id", "parent_id") if k in e})
        for s in e.get("timestamps", []):
            t["at"][s["name"]] = s["ns"]
    return out


SPANS = [
    ("REQUEST_START", "REQUEST_END"),
    ("QUEUE_START", "COMPUTE_START"),
    ("COMPUTE_START", "COMPUTE_END"),
    ("COMPUTE_START", "COMPUTE_INPUT_END"),
    ("COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START"),
    ("COMPUTE_OUTPUT_START", "COMPUTE_END"),
]


@writes_late
def test_E038_E039_E044_I015_trace_file(traced, tmp_path):
    before = time.time_ns()
    with th.InferenceServerClient(traced.http) as c:
        infer(c, th, "over-http")
    with tg.InferenceServerClient(traced.grpc) as c:
        infer(c, tg, 'a "quoted"\nid')
    by_id = summary(elements(tmp_path / "trace.json", 2))
    assert len(by_id) == 2
    (_, over_http), (_, over_grpc) = sorted(by_id.items())
    assert (over_http["request_id"], over_grpc["request_id"]) == ("over-http", 'a "quoted"\nid')
    front = {
        "over-http": [("HTTP_RECV_START", "HTTP_RECV_END"), ("HTTP_SEND_START", "HTTP_SEND_END"),
                      ("HTTP_RECV_START", "HTTP_SEND_END")],
        'a "quoted"\nid': [("GRPC_WAITREAD_START", "GRPC_WAITREAD_END"), ("GRPC_SEND_START", "GRPC_SEND_END")],
    }
    for t in by_id.values():
        assert (t["model_name"], t["model_version"]) == ("sums", 1) and "parent_id" not in t
        for start, end in SPANS + front[t["request_id"]]:
            assert t["at"][start] <= t["at"][end], (start, end, t["at"])
        assert before - 10**9 < t["at"]["REQUEST_START"] < time.time_ns() + 10**9


@pytest.mark.skipif(REFERENCE, reason="Triton's trace of such a request has only times")
def test_E041_a_refused_request_has_the_id_and_the_version_that_it_asked_for(traced, tmp_path):
    wrong = np.zeros((1, 16), np.int32)
    for module, address in ((th, traced.http), (tg, traced.grpc)):
        given = module.InferInput("X", wrong.shape, "INT32")
        given.set_data_from_numpy(wrong)
        with module.InferenceServerClient(address) as client, pytest.raises(InferenceServerException, match="'X'"):
            client.infer("sums", [given], model_version="1", request_id=module.__name__)
    traces = summary(elements(tmp_path / "trace.json", 2))
    assert {t["request_id"] for t in traces.values()} == {th.__name__, tg.__name__}
    assert {t["model_version"] for t in traces.values()} == {1}
    assert not any("REQUEST_START" in t["at"] for t in traces.values())


@writes_late
def test_E040_tensors(good, tmp_path):
    options = ("level=TIMESTAMPS", "level=TENSORS", "rate=1", f"triton,file={tmp_path}/t")
    with Server(good, tmp_path, *(f"--trace-config={o}" for o in options)) as s:
        with th.InferenceServerClient(s.http) as c:
            infer(c, th, "")
        found = elements(tmp_path / "t", 1)
    tensors = {(e["activity"], e["tensor"]["name"]): e["tensor"] for e in found if "activity" in e}
    row = [str(i) for i in range(16)]
    for activity in ("TENSOR_QUEUE_INPUT", "TENSOR_BACKEND_INPUT"):
        for name in ("INPUT0", "INPUT1"):
            t = tensors[activity, name]
            assert (t["dtype"], t["shape"], t["data"].split(",")) == ("INT32", "1,16", row)
    outputs = {name: t for (activity, name), t in tensors.items() if activity == "TENSOR_BACKEND_OUTPUT"}
    assert outputs["OUTPUT0"]["data"].split(",") == [str(2 * i) for i in range(16)]


@pytest.mark.skipif(REFERENCE, reason="needs the identity backend")
def test_E043_activities_of_the_identity_backend(tmp_path):
    """The configuration is from Triton's test of custom spans."""
    model = tmp_path / "models/custom_identity_int32"
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(
        'backend: "identity"\nmax_batch_size: 1024\n'
        "input [{ name: \"INPUT0\" data_type: TYPE_INT32 dims: [ -1 ] }]\noutput [{ name: \"OUTPUT0\" data_type: "
        "TYPE_INT32 dims: [ -1 ] }]\n"
        'instance_group [{ kind: KIND_CPU }]\nparameters [{ key: "enable_custom_tracing" value: { string_value: "true" '
        '} }, '
        '{ key: "nested_span_count" value: { string_value: "6" } }, { key: "single_activity_frequency" value: { '
        'string_value: "3" } }]\n'
    )
    options = ("level=TIMESTAMPS", "rate=1", f"triton,file={tmp_path}/t")
    with Server(tmp_path / "models", tmp_path, *(f"--trace-config={o}" for o in options)) as s:
        body = {"inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1, 2], "data": [1, 2]}]}
        assert s.post("/v2/models/custom_identity_int32/infer", body).status == 200
        names = [m["name"] for e in elements(tmp_path / "t", 1) for m in e.get("timestamps", [])]
    custom = [n for n in names if n.startswith("CUSTOM_")]
    single = "CUSTOM_SINGLE_ACTIVITY"
    assert custom == [
        "CUSTOM_ACTIVITY_START", "CUSTOM_ACTIVITY_END", single,
        "CUSTOM_ACTIVITY0_START", single, "CUSTOM_ACTIVITY1_START", "CUSTOM_ACTIVITY2_START", "CUSTOM_ACTIVITY3_START",
        single,
        "CUSTOM_ACTIVITY4_START", "CUSTOM_ACTIVITY5_START", *(f"CUSTOM_ACTIVITY{i}_END" for i in range(5, -1, -1)),
    ]
    assert names.index("REQUEST_START") < names.index(custom[0])
    assert names.index(custom[-1]) < names.index("REQUEST_END")


@writes_late
def test_E038_log_frequency_and_count(traced, tmp_path, kind):
    settings = kind(traced)
    settings.update({"log_frequency": "2"})
    with th.InferenceServerClient(traced.http) as c:
        for _ in range(3):
            infer(c, th, "")
    assert len(summary(elements(tmp_path / "trace.json.0", 2))) == 2
    assert len(summary(elements(tmp_path / "trace.json.1", 1))) == 1
    settings.update({"log_frequency": None, "trace_count": "2"})
    with th.InferenceServerClient(traced.http) as c:
        for _ in range(4):
            infer(c, th, "")
    assert len(summary(elements(tmp_path / "trace.json.2", 2))) == 2
    assert settings.trace()["trace_count"] == "0"
    assert not (tmp_path / "trace.json.3").exists() and not (tmp_path / "trace.json").exists()


@writes_late
def test_E037_only_one_model_is_traced(traced, tmp_path):
    with th.InferenceServerClient(traced.http) as c:
        c.update_trace_settings(settings={"trace_level": ["OFF"]})
        infer(c, th, "no")
        c.update_trace_settings("sums", {"trace_level": ["TIMESTAMPS"]})
        infer(c, th, "yes")
        c.update_trace_settings("sums", {"trace_level": None})
        infer(c, th, "no")
    assert [t["request_id"] for t in summary(elements(tmp_path / "trace.json", 1)).values()] == ["yes"]


BLS_TRACED = (
    "    def execute(self, requests):\n        out = []\n        for r in requests:\n"
    '            x = pb.get_input_tensor_by_name(r, "INPUT0")\n'
    '            for trace in (r.trace(), None):\n'
    '                q = pb.InferenceRequest(model_name="inner", requested_output_names=["OUTPUT0"], inputs=[x], '
    'request_id="traced" if trace else "not", trace=trace)\n'
    "                a = q.exec()\n"
    '            out.append(pb.InferenceResponse([pb.Tensor("OUTPUT0", pb.get_output_tensor_by_name(a, '
    '"OUTPUT0").as_numpy())]))\n'
    "        return out\n"
)


@writes_late
def test_D043_bls_calls_are_part_of_the_trace(tmp_path):
    """A BLS call with the request's trace becomes its child. A call without it is not part of the trace."""
    repo = tmp_path / "models"
    for name, code in (("outer", BLS_TRACED), ("inner", models.identity_python(("INPUT0", "OUTPUT0")))):
        io = models.tensors("input", [("INPUT0", "FP32", [-1])]) + models.tensors("output", [("OUTPUT0", "FP32", [-1])])
        models.write(repo / name / "config.pbtxt", 'backend: "python"\n' + io)
        models.write(repo / name / "1/model.py", models.PYTHON_HEAD + code)
    options = ("level=TIMESTAMPS", "rate=1", f"triton,file={tmp_path}/t")
    with Server(repo, tmp_path, *(f"--trace-config={o}" for o in options)) as s:
        with th.InferenceServerClient(s.http) as c:
            x = th.InferInput("INPUT0", [2], "FP32")
            x.set_data_from_numpy(np.array([1, 2], np.float32))
            c.update_trace_settings("inner", {"trace_rate": "1000000"})  # without a parent it is not traced
            c.infer("outer", [x], request_id="mine")
        by_id = summary(elements(tmp_path / "t", 2))
    outer = {i: t for i, t in by_id.items() if t["model_name"] == "outer"}
    inner = [t for t in by_id.values() if t["model_name"] == "inner"]
    assert len(outer) == 1 and len(inner) == 1, by_id
    (parent, mine), child = outer.popitem(), inner[0]
    assert mine["request_id"] == "mine" and "parent_id" not in mine
    assert child["parent_id"] == parent and child["request_id"] in ("traced", ""), child
    for start, end in SPANS:
        assert child["at"][start] <= child["at"][end]
    around, within = mine["at"], child["at"]
    assert around["COMPUTE_START"] <= within["REQUEST_START"] <= within["REQUEST_END"] <= around["COMPUTE_END"]
