"""A backend library that is slow, and reports statistics, memory and an execution policy."""

import numpy as np
import pytest
import tritonclient.grpc as grpcclient

from harness import REFERENCE, Server, until
from test_triton_backends import infer, library, model

pytestmark = pytest.mark.skipif(REFERENCE, reason="needs a folder with the reference's own backends")

HONEST, BLAMES, BOASTS, SILENT = range(4)
MS = 1_000_000


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("triton")
    models, backends = folder / "models", folder / "backends"
    library("reports_test", backends / "reports_test")
    library("identity_test", backends / "identity_test")
    model(models, "plain", "identity_test")
    for name in ("slow", "wrong"):
        model(models, name, "reports_test")
    model(models, "stream", "reports_test", "model_transaction_policy { decoupled: true }")
    with Server(models, folder, f"--backend-directory={backends}") as s:
        yield s


def statistics(server, name):
    return server.get(f"/v2/models/{name}/stats").json["model_stats"][0]


def durations(stats):
    return {phase: (stats[f"compute_{phase}"]["count"], stats[f"compute_{phase}"]["ns"])
            for phase in ("input", "infer", "output")}


def test_D076_the_statistics_are_those_that_a_library_reports(server):
    for _ in range(3):
        assert infer(server, "slow", [40.0, HONEST]).json["outputs"][0]["data"] == [40, HONEST]
    stats = statistics(server, "slow")
    assert (stats["inference_count"], stats["execution_count"]) == (3, 3)
    times = durations(stats["inference_stats"])
    assert times["input"] == (3, 3 * MS) and times["output"] == (3, 6 * MS), "the reported phases, to the nanosecond"
    assert times["infer"][0] == 3 and times["infer"][1] >= 3 * 37 * MS
    success = stats["inference_stats"]["success"]
    assert success["count"] == 3 and success["ns"] >= 3 * 40 * MS
    (batch,) = stats["batch_stats"]
    assert batch["batch_size"] == 5 and durations(batch) == times
    metrics = server.request("GET", "/metrics", address=server.metrics).body.decode()
    assert '\nnv_inference_exec_count{model="slow",version="1"} 3\n' in metrics
    assert f'\nnv_inference_compute_output_duration_us{{model="slow",version="1"}} {6000}\n' in metrics
    assert "a report failed" not in server.log()


def test_D076_a_library_says_whether_a_request_succeeded(server):
    assert infer(server, "wrong", [10.0, BLAMES]).status == 200
    stats = statistics(server, "wrong")
    assert (stats["inference_stats"]["success"]["count"], stats["inference_stats"]["fail"]["count"]) == (0, 1)
    assert infer(server, "wrong", [10.0, BOASTS]).status == 500
    stats = statistics(server, "wrong")
    assert (stats["inference_stats"]["success"]["count"], stats["inference_stats"]["fail"]["count"]) == (1, 1)
    metrics = server.request("GET", "/metrics", address=server.metrics).body.decode()
    assert '\nnv_inference_request_failure{model="wrong",reason="BACKEND",version="1"} 1\n' in metrics


def test_D076_DV97_what_a_library_does_not_report(server):
    """Its executions are not counted if it could report them. Requests always are."""
    before = statistics(server, "slow")
    assert infer(server, "slow", [1.0, SILENT]).status == 200
    stats = statistics(server, "slow")
    assert stats["execution_count"] == before["execution_count"]
    assert stats["inference_stats"]["success"]["count"] == before["inference_stats"]["success"]["count"] + 1
    assert infer(server, "plain", [1.0]).status == 200
    stats = statistics(server, "plain")
    assert (stats["execution_count"], stats["inference_stats"]["success"]["count"]) == (1, 1)


def test_D076_the_responses_of_a_stream_are_those_that_a_library_reports(server):
    def ask(what):
        answers = []
        with grpcclient.InferenceServerClient(server.grpc) as client:
            client.start_stream(lambda result, error: answers.append((result, error)))
            tensor = grpcclient.InferInput("IN", [2], "FP32")
            tensor.set_data_from_numpy(np.array([20, what], np.float32))
            client.async_stream_infer("stream", [tensor])
            client.stop_stream()
        return answers[0]

    assert ask(HONEST)[0] is not None and ask(BOASTS)[1] is not None
    until(lambda: statistics(server, "stream")["execution_count"] == 2, 30, "not counted", server.log)
    stats = statistics(server, "stream")
    counts = [stats["inference_stats"][what]["count"] for what in ("success", "fail")]
    assert counts == [1, 1], "the final response came before the report of its request"
    first, second = stats["response_stats"]["0"], stats["response_stats"]["1"]
    assert first["success"]["count"] == first["fail"]["count"] == 1
    assert (first["compute_output"]["count"], first["compute_output"]["ns"]) == (2, 4 * MS)
    assert (second["empty_response"]["count"], second["empty_response"]["ns"]) == (2, 6 * MS)
    assert "a report failed" not in server.log()
