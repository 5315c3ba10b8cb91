"""Runs the table of cases (cases.py) with the real clients, and compares each answer with that of a real Triton."""

import json
import os
import re
import warnings

import pytest

import cases_control  # noqa: F401 - fills GROUPS
import cases_faults  # noqa: F401 - fills GROUPS
import cases_python
import cases_tls  # noqa: F401 - fills GROUPS
import models
import tls
from cases import GROUPS, RECORD
from harness import REFERENCE, Server

AGAIN = 3
RECORD_AGAIN = "run make conformance-reference RECORD=1"
RECORDING = os.environ.get("REFERENCE") == "record"


class Reference:
    """The answers of a real Triton, by case."""

    def __init__(self):
        self.answers = json.loads(RECORD.read_text()) if RECORD.exists() else {}
        self.fresh = {}
        self.again = []  # cases repeated on a real Triton, with the reason

    def ask(self, case, target):
        """Runs a case and checks its answer.

        A real Triton sometimes crashes independently of the case, or answers too late for the client. It is then
        restarted if necessary and the case is repeated, at most AGAIN times. The end of the run lists the repeated
        cases."""
        servers = [s for s, _ in target.values()] if isinstance(target, dict) else [target]
        for _ in range(AGAIN if REFERENCE else 0):
            self.again += [f"{case.id} (the server had exited before)" for s in servers if s.restart_if_exited()]
            try:
                return self.check(case, case.run(target))
            except Exception as e:
                exited = [s for s in servers if s.restart_if_exited(patience=5)]
                if not exited and isinstance(e, AssertionError):
                    raise
                self.again.append(f"{case.id} ({'the server exited' if exited else repr(e)})")
        self.check(case, case.run(target))

    def check(self, case, got):
        got = json.loads(json.dumps(got))
        if RECORDING:
            self.fresh[case.id] = got
            return
        assert case.id in self.answers, f"{case.id} has no answer of a real Triton; {RECORD_AGAIN}"
        triton = self.answers[case.id]
        if REFERENCE or not case.deviation:
            assert got == triton
            return
        want = json.loads(json.dumps(case.ours(triton)))
        assert want != triton, f"{case.id}: {case.deviation} is no longer a deviation"
        assert got == want

    def save(self):
        if self.fresh:
            known = {c.id for cases in GROUPS.values() for c in cases}
            kept = {k: v for k, v in self.answers.items() if k in known}
            lines = [f"{json.dumps(k)}: {json.dumps(v, sort_keys=True, ensure_ascii=True)}" for k,
                     v in sorted({**kept, **self.fresh}.items())]
            RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")


@pytest.fixture(scope="module")
def reference():
    r = Reference()
    yield r
    r.save()
    if r.again:
        warnings.warn(f"{len(r.again)} cases were repeated on the real server: {', '.join(r.again)}", stacklevel=1)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A server with the models of the table of cases."""
    work = tmp_path_factory.mktemp("table")
    with Server(models.write_cases(work / "models"), work) as s:
        yield s


@pytest.fixture(scope="module")
def controlled(tmp_path_factory):
    """A server in explicit mode with the models of the table. None is loaded."""
    work = tmp_path_factory.mktemp("controlled")
    with Server(models.write_cases(work / "models"), work, "--model-control-mode=explicit") as s:
        yield s


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """Servers with TLS on gRPC, by name. One of them requires client certificates."""
    work = tmp_path_factory.mktemp("secured")
    repo = models.write_builtin(work / "models", "identity_INT32", "identity",
                                models.identity_python(("INPUT0", "OUTPUT0")),
                                *[[(n, "INT32", [-1])] for n in ("INPUT0", "OUTPUT0")]).parent
    models.write_repeat(repo)
    pki = tls.Certificates(work / "pki")
    with Server(repo, work / "tls",
                *pki.options("grpc")) as one, Server(repo, work / "mutual", *pki.options("grpc", mutual=True)) as two:
        yield {"tls": (one, pki), "mutual": (two, pki)}


@pytest.fixture(scope="module")
def python_models(tmp_path_factory):
    """A server in explicit mode with the Python models."""
    work = tmp_path_factory.mktemp("python")
    with Server(cases_python.write(work / "models"), work, *cases_python.options()) as s:
        yield s


def of(pattern, id):
    """The features (id) that cases prove whose names match."""
    return pattern, id


def group(*names, rules=()):
    """All cases of some groups. The id of a case is preceded by the features and the deviation that it proves."""
    def name(case):
        features = [id for pattern, id in rules if re.search(pattern, case.id)]
        return " ".join(features + ([case.deviation] if case.deviation else []) + [case.id])

    cases = [c for n in names for c in GROUPS[n]]
    idle = [pattern for pattern, _ in rules if not any(re.search(pattern, c.id) for c in cases)]
    assert not idle, f"no case is named {idle}"
    return pytest.mark.parametrize("case", [pytest.param(c, id=name(c)) for c in cases])


@group("types", rules=[of("^http", id="B010 B031 B032"), of("^grpc(-async|-aio)?/", id="B060"), of("stream", id="B061"),
                       of("^(?!http-body)", id="F043")])
def test_B027_I001_types(table, reference, case):
    reference.ask(case, table)


@group("types_json")
def test_B024_B027_B029_B034_types_in_json(table, reference, case):
    reference.ask(case, table)


@group("typed_contents")
def test_B060_F044_typed_contents(table, reference, case):
    reference.ask(case, table)


@group("zero_size", "shapes")
def test_B035_I001_shapes(table, reference, case):
    reference.ask(case, table)


@group("arithmetic", "batches")
def test_B010_B060_values_and_batches(table, reference, case):
    reference.ask(case, table)


@group("outputs")
def test_B025_outputs(table, reference, case):
    reference.ask(case, table)


@group("classification")
def test_A042_B049_classification(table, reference, case):
    reference.ask(case, table)


@group("requests", rules=[of("/id", id="B026"), of("/sequence", id="B045"), of("/(priority|timeout)$", id="B046"),
                          of("parameter", id="B047")])
def test_I017_requests(table, reference, case):
    reference.ask(case, table)


@group("compression")
def test_B037_B038_I004_compression(table, reference, case):
    reference.ask(case, table)


@group("decoupled", rules=[of("responses", id="B061 C053 C054"), of("empty-final", id="B051"), of("unary", id="B059")])
def test_I011_decoupled(table, reference, case):
    reference.ask(case, table)


@group("raw", rules=[of("/json", id="B010 B024 F047"), of("binary-output|binary/(out|mixed)", id="B032"),
                     of("raw-request", id="B033")])
def test_raw_requests(table, reference, case):
    reference.ask(case, table)


@group("edges", rules=[of("generate", id="B011"), of("(FP|INT)", id="B024 B027"), of("BYTES", id="B029"),
                       of("NaN|Infinity", id="B030"), of("parameter", id="B047")])
def test_json_at_its_limits(table, reference, case):
    reference.ask(case, table)


@group("edge_faults")
def test_B021_B024_B029_I002_unusual_invalid_requests(table, reference, case):
    reference.ask(case, table)


@group("faults", rules=[of("16-.*json", id="B028"), of("reserved", id="B048"), of("id-in-the-error", id="C098")])
def test_B021_I002_invalid_requests(table, reference, case):
    reference.ask(case, table)


@group("deviations")
def test_B021_I002_deviations(table, reference, case):
    reference.ask(case, table)


@group("info", rules=[of("health/live", id="B001"), of("health/ready", id="B002"),
                      of("GET .*INT32.*/ready|versions/./ready", id="B003"), of("metadata", id="B007"),
                      of("config ", id="B008"),
                      of("raw/index", id="B013"), of("(POST|DELETE|PUT|PATCH|GET) /", id="B020"),
                      of("nope|versions/9", id="B021")])
def test_information(table, reference, case):
    reference.ask(case, table)


@group("grpc_info", rules=[of("Live|Ready", id="B057"), of("Metadata|Config", id="B058"), of("Statistics", id="B063"),
                           of("Repository", id="B064"), of("unknown", id="B071")])
def test_grpc_information(table, reference, case):
    reference.ask(case, table)


@group("grpc_faults", rules=[of("timeout|priority", id="B046"), of("ModelInfer parameter", id="B047"),
                             of("reserved", id="B048"), of("raw|typed|contents", id="B060")])
def test_B071_grpc_requests(table, reference, case):
    reference.ask(case, table)


@group("grpc_deviations")
def test_B071_grpc_deviations(table, reference, case):
    reference.ask(case, table)


@group("grpc_edges")
def test_B058_B068_B069_B071_versions_metadata_and_methods(table, reference, case):
    reference.ask(case, table)


@group("bodies")
def test_B013_B015_B016_unusual_bodies(table, reference, case):
    reference.ask(case, table)


@group("clients", rules=[of("grpc.*(live|ready)", id="B057"), of("grpc.*(metadata|config)", id="B058"),
                         of("stream/", id="B061"), of("cancelled", id="B072")])
def test_F043_I026_clients(table, reference, case):
    reference.ask(case, table)


@group("tls", rules=[of("grpc/tls/infer", id="H043"), of("mutual/client-shows-none", id="H044"),
                     of("mutual/infer", id="H045")])
def test_B074_F043_I003_tls(secured, reference, case):
    reference.ask(case, secured)


@group("control")
def test_A049_B013_B014_B064_load_and_unload(controlled, reference, case):
    reference.ask(case, controlled)


@group("python_lab", rules=[
    of("/config$", id="D022 D026 D029"), of("/(errors|tensors:input)", id="D025"), of("/types$", id="D027"),
    of("/strings$", id="D028"), of("/(tensors|dlpack)", id="D031"), of("/(told|made)", id="D032"),
    of("/errors$", id="D034"), of("/stream$", id="D036 D041"), of("/(error-|errors$)", id="D037"),
    of("/raises_own", id="D038"), of("/(bls|spawned|coroutines)$", id="D040"), of("/(loading|ready)$", id="D044"),
    of("/logs$", id="D047"), of("/metrics", id="D048"),
])
def test_I018_the_python_module(python_models, reference, case):
    reference.ask(case, python_models)


@group("python_types")
def test_D031_D058_types_in_python(python_models, reference, case):
    reference.ask(case, python_models)


@group("python_returns")
def test_D023_D034_D037_I018_what_execute_returns(python_models, reference, case):
    reference.ask(case, python_models)


@group("python_streams")
def test_D033_D035_D046_I018_streams_of_python_models(python_models, reference, case):
    reference.ask(case, python_models)


@group("python_sequences")
def test_D042_D045_sequences_of_python_models(python_models, reference, case):
    reference.ask(case, python_models)


@group("python_loading", rules=[of("completed", id="D021 D030 I006"), of("breaks-(raises|initialize)", id="D038")])
def test_I018_configurations_of_python_models(python_models, reference, case):
    reference.ask(case, python_models)


def test_the_table_is_large_and_its_ids_are_unique():
    ids = [c.id for cases in GROUPS.values() for c in cases]
    assert len(ids) == len(set(ids)), [i for i in ids if ids.count(i) > 1]
    assert len(ids) >= 250
    if not RECORDING:
        known = sorted(json.loads(RECORD.read_text()))
        assert known == sorted(ids), f"reference.json does not match this table; {RECORD_AGAIN}"
