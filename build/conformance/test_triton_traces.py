"""Backend libraries that report activities to traces, make traced calls with a raw input, and log verbose lines."""

import pytest

from harness import REFERENCE, Server, until
from test_trace import SPANS, elements, summary
from test_triton_backends import infer, library, model

pytestmark = pytest.mark.skipif(REFERENCE, reason="needs a folder with the reference's own backends")


def start(tmp_path, *options):
    models, backends = tmp_path / "models", tmp_path / "backends"
    for name in ("identity_test", "traced_test"):
        library(name, backends / name, "-pthread")
    model(models, "plain", "identity_test")
    model(models, "traced", "traced_test")
    return Server(models, tmp_path, f"--backend-directory={backends}", *options)


def test_D076_activities_and_calls_of_a_library_are_in_the_trace(tmp_path):
    options = ("level=TIMESTAMPS", "rate=1", f"triton,file={tmp_path}/t")
    with start(tmp_path, *(f"--trace-config={o}" for o in options)) as server:
        server.post("/v2/models/plain/trace/setting", {"trace_rate": "1000000"})  # without a parent it is not traced
        answer = infer(server, "traced", [1, 2], id="mine")
        assert answer.json["outputs"][0]["data"] == [1, 2], answer.body
        assert "trace 1 of traced 1, request mine, context ''" in server.log()
        by_id = summary(elements(tmp_path / "t", 2))
    (parent,) = [i for i, t in by_id.items() if t["model_name"] == "traced"]
    (child,) = [t for t in by_id.values() if t["model_name"] == "plain"]
    at, call = by_id[parent]["at"], child["at"]
    assert by_id[parent]["request_id"] == "mine" and child["parent_id"] == parent
    for first, second in SPANS:
        assert call[first] <= call[second]
    assert at["COMPUTE_START"] <= at["OWN_START"] <= call["REQUEST_START"]
    assert call["REQUEST_END"] <= at["OWN_END"] <= at["COMPUTE_END"]


@pytest.mark.parametrize("verbose", [0, 1])
def test_D076_a_library_without_trace_and_its_verbose_lines(tmp_path, verbose):
    with start(tmp_path, f"--log-verbose={verbose}") as server:
        answer = infer(server, "traced", [3])
        assert answer.json["outputs"][0]["data"] == [3], answer.body
        assert infer(server, "plain", [1]).status == 200
        if verbose:
            until(lambda: "a verbose line" in server.log(), 30, "no verbose line", server.log)
        assert ("a verbose line" in server.log()) == ("verbose lines are logged" in server.log()) == bool(verbose)
