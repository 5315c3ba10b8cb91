"""Backend libraries that answer after an execution, call other models, and are loaded again and again."""

import os
import pathlib
import queue

import numpy as np
import pytest
import tritonclient.grpc as grpcclient

from harness import REFERENCE, Server, until
from test_triton_backends import infer, library, model

pytestmark = pytest.mark.skipif(REFERENCE, reason="needs a folder with the reference's own backends")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("triton")
    models, backends = folder / "models", folder / "backends"
    for name in ("identity_test", "stream_test", "calls_test"):
        library(name, backends / name, "-pthread")
    model(models, "plain", "identity_test", dims="-1")
    model(models, "calls", "calls_test")
    model(models, "step", "identity_test")
    (models / "chain/1").mkdir(parents=True)
    (models / "chain/config.pbtxt").write_text("""platform: "ensemble"
        input { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } output { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }
        ensemble_scheduling { step { model_name: "step" model_version: -1
            input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" } } }""")
    (models / "stream/1").mkdir(parents=True)
    (models / "stream/config.pbtxt").write_text('backend: "stream_test"\n')
    with Server(models, folder, f"--backend-directory={backends}", "--model-control-mode=explicit",
                *(f"--load-model={name}" for name in ("plain", "calls", "stream"))) as s:
        yield s


class Stream:
    """A gRPC stream of the model that counts."""

    def __init__(self, server):
        self.answers = queue.Queue()
        self.client = grpcclient.InferenceServerClient(server.grpc)
        self.client.start_stream(lambda result, error: self.answers.put((result, error)))

    def ask(self, count):
        tensor = grpcclient.InferInput("IN", [1], "FP32")
        tensor.set_data_from_numpy(np.array([count], np.float32))
        self.client.async_stream_infer("stream", [tensor], enable_empty_final_response=True)

    def next(self):
        """The next value; None: the stream of the request has ended."""
        result, error = self.answers.get(timeout=60)
        assert error is None, error
        final = result.get_response().parameters["triton_final_response"].bool_param
        return None if final else float(result.as_numpy("OUT")[0])


def test_D076_a_library_completes_the_configuration(server):
    config = server.get("/v2/models/stream/config").json
    assert config["input"][0]["name"] == "IN" and config["model_transaction_policy"]["decoupled"]


def test_D076_responses_after_the_execution(server):
    stream = Stream(server)
    for count in (0, 1, 500):
        stream.ask(count)
        assert [stream.next() for _ in range(count + 1)] == [*range(count), None]
    stream.client.stop_stream()


def test_D076_a_library_sees_that_a_request_is_cancelled(server):
    stream = Stream(server)
    stream.ask(1_000_000)
    assert stream.next() == 0
    stream.client.stop_stream(cancel_requests=True)
    until(lambda: "the stream was cancelled" in server.log(), 60, "not cancelled", server.log)


def test_D076_a_library_calls_another_model(server):
    for values in ([1.5], list(range(10_000)), [3, 4]):
        answer = infer(server, "calls", values)
        assert answer.status == 200, answer.body
        assert answer.json["outputs"][0]["data"] == values
        assert answer.json["parameters"]["gauge"] == values[0] / 2
    metrics = server.request("GET", "/metrics", address=server.metrics).body.decode()
    assert "\ncalls_test_total 3\n" in metrics
    assert "\n# TYPE calls_test_last gauge\n" in metrics and "\ncalls_test_last 1.5\n" in metrics
    assert '\ncalls_test_sizes_bucket{le="2"} 0\ncalls_test_sizes_bucket{le="+Inf"} 1\n' in metrics


def test_D076_a_library_controls_other_models(server):
    def ask(what, name):
        return infer(server, "calls", [1], parameters={what: name})

    def ready(name):
        answer = ask("ready", name)
        assert answer.status == 200, answer.body
        return answer.json["parameters"]["ready"]

    def gone(name):
        until(lambda: server.state(name) == "UNAVAILABLE", 60, f"{name} is not unloaded", server.log)
        return not ready(name)

    assert ready("plain") and not ready("step") and not ready("nobody")
    assert ask("load", "chain").json["parameters"]["ready"] and ready("step")
    assert ask("unload_all", "chain").status == 200 and gone("chain") and gone("step")
    assert ask("load", "chain").json["parameters"]["ready"] and ask("load", "step").json["parameters"]["ready"]
    assert server.state("step") == server.state("chain") == "READY"
    assert ask("unload", "chain").status == 200 and gone("chain") and ready("step")
    assert ask("unload", "step").status == 200 and gone("step")
    assert ask("unload", "step").status == 200, "a model that is not loaded"
    refused = ask("load", "nobody")
    assert refused.status == 500 and "nobody" in refused.error, refused.body
    assert infer(server, "calls", [2]).status == 200


def test_D076_nothing_is_left_after_loads(server):
    def used():
        descriptors = len(os.listdir(f"/proc/{server.process.pid}/fd"))
        tasks = pathlib.Path(f"/proc/{server.process.pid}/task").iterdir()
        children = {child for t in tasks for child in (t / "children").read_text().split()}
        commands = [pathlib.Path(f"/proc/{child}/cmdline").read_bytes() for child in children]
        return descriptors, sum(b"\0triton\0" in c for c in commands)

    def cycle():
        assert server.post("/v2/repository/models/plain/load").status == 200
        assert infer(server, "plain", [1]).status == 200
        assert server.post("/v2/repository/models/plain/unload").status == 200
        until(lambda: server.state("plain") == "UNAVAILABLE", 60, "not unloaded", server.log)

    cycle()
    until(lambda: used()[1] == 2, 60, "processes are left", server.log)
    descriptors, children = used()
    for _ in range(20):
        cycle()
    until(lambda: used()[1] == children and used()[0] <= descriptors + 2, 60,
          "processes or descriptors are left", server.log)
    server.post("/v2/repository/models/plain/load")
