"""Runs the table of cases (cases.py) with the real clients, and compares each answer with that of a real Triton."""

import json
import os
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


def group(*names):
    return pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for n in names for c in GROUPS[n]])


@group("types")
def test_B010_B027_B031_B032_B060_F043_I001_types(table, reference, case):
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


@group("requests")
def test_B026_B045_B046_B047_I017_requests(table, reference, case):
    reference.ask(case, table)


@group("compression")
def test_B037_B038_I004_compression(table, reference, case):
    reference.ask(case, table)


@group("decoupled")
def test_B051_B059_B061_C053_C054_I011_decoupled(table, reference, case):
    reference.ask(case, table)


@group("raw")
def test_B010_B024_B032_B033_F047_raw_requests(table, reference, case):
    reference.ask(case, table)


@group("edges")
def test_B011_B024_B027_B029_B030_B047_json_at_its_limits(table, reference, case):
    reference.ask(case, table)


@group("edge_faults")
def test_B021_B024_B029_I002_unusual_invalid_requests(table, reference, case):
    reference.ask(case, table)


@group("faults")
def test_B021_B028_B048_C098_I002_invalid_requests(table, reference, case):
    reference.ask(case, table)


@group("deviations")
def test_B021_I002_deviations(table, reference, case):
    reference.ask(case, table)


@group("info")
def test_B001_B002_B003_B007_B008_B013_B020_B021_information(table, reference, case):
    reference.ask(case, table)


@group("grpc_info")
def test_B057_B058_B063_B064_B071_grpc_information(table, reference, case):
    reference.ask(case, table)


@group("grpc_faults")
def test_B046_B047_B048_B060_B071_grpc_requests(table, reference, case):
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


@group("clients")
def test_B057_B058_B061_B072_F043_I026_clients(table, reference, case):
    reference.ask(case, table)


@group("tls")
def test_B074_F043_I003_tls(secured, reference, case):
    reference.ask(case, secured)


@group("control")
def test_A049_B013_B014_B064_load_and_unload(controlled, reference, case):
    reference.ask(case, controlled)


@group("python_lab")
def test_D022_D025_D026_D027_D028_D029_D031_D032_D034_D036_D037_D038_D040_D041_D044_D047_D048_I018_the_module(
    python_models, reference, case
):
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


@group("python_loading")
def test_D021_D030_D038_I006_I018_configurations_of_python_models(python_models, reference, case):
    reference.ask(case, python_models)


def test_the_table_is_large_and_its_ids_are_unique():
    ids = [c.id for cases in GROUPS.values() for c in cases]
    assert len(ids) == len(set(ids)), [i for i in ids if ids.count(i) > 1]
    assert len(ids) >= 250
    if not RECORDING:
        known = sorted(json.loads(RECORD.read_text()))
        assert known == sorted(ids), f"reference.json does not match this table; {RECORD_AGAIN}"
