"""Backend libraries that stream in an execution, fill a slow client's queue, or break the rules of the C API."""

import pathlib
import queue
import threading

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
    library("burst_test", backends / "burst_test", "-pthread")
    library("faults_test", backends / "faults_test", "-pthread")
    model(models, "faulty", "faults_test")
    model(models, "burst", "burst_test", "model_transaction_policy { decoupled: true }")
    with Server(models, folder, f"--backend-directory={backends}", "--model-control-mode=explicit",
                "--load-model=*") as s:
        yield s


class Burst:
    """A gRPC stream with one request for count responses. The client reads when open is set."""

    def __init__(self, server, apart, count, reads=True):
        self.answers, self.open = queue.Queue(), threading.Event()
        if reads:
            self.open.set()
        self.client = grpcclient.InferenceServerClient(server.grpc)
        self.client.start_stream(self.take)
        tensor = grpcclient.InferInput("IN", [2], "FP32")
        tensor.set_data_from_numpy(np.array([apart, count], np.float32))
        self.client.async_stream_infer("burst", [tensor], enable_empty_final_response=True)

    def take(self, result, error):
        self.open.wait()
        self.answers.put((result, error))

    def next(self):
        """The next value; None: the stream has ended."""
        result, error = self.answers.get(timeout=30)
        assert error is None, error
        final = result.get_response().parameters["triton_final_response"].bool_param
        return None if final else float(result.as_numpy("OUT")[0])

    def all(self):
        return list(iter(self.next, None))


def test_D076_responses_come_during_the_execution(server):
    burst = Burst(server, 0, 0)
    assert burst.next() == 0
    burst.client.stop_stream(cancel_requests=True)
    until(lambda: "the burst was cancelled" in server.log(), 60, "not cancelled", server.log)


def test_D076_an_execution_may_send_more_than_waits_for_a_client(server):
    burst = Burst(server, 0, 160)
    assert burst.all() == list(range(160))
    burst.client.stop_stream()


def test_D076_a_slow_client_does_not_stop_the_streams_of_others(server):
    slow = Burst(server, 1, 500, reads=False)
    until(lambda: "500 responses were sent" in server.log(), 60, "not sent", server.log)
    fast = Burst(server, 1, 3)
    assert fast.all() == [0, 1, 2]
    fast.client.stop_stream()
    slow.open.set()
    assert slow.all() == list(range(500))
    slow.client.stop_stream()


def processes(server):
    """The process IDs of the processes with backend libraries."""
    tasks = pathlib.Path(f"/proc/{server.process.pid}/task").iterdir()
    children = {child for t in tasks for child in (t / "children").read_text().split()}
    return {c for c in children if b"\0triton\0" in pathlib.Path(f"/proc/{c}/cmdline").read_bytes()}


@pytest.mark.parametrize("cause", [4, 5])
def test_D076_a_library_that_releases_a_request_wrongly(server, cause):
    before = processes(server)
    for _ in range(50):
        answer = infer(server, "faulty", [cause])
        assert answer.status == 503 and answer.error == "the request is refused", answer.body
    assert processes(server) == before, "a process has ended"
    if cause == 5:
        assert "the second release is refused" in server.log()


def test_D076_a_backend_is_finalized_after_its_model_fails_to(server):
    assert server.post("/v2/repository/models/faulty/unload").status == 200
    until(lambda: "the backend is finalized" in server.log(), 60, "not finalized", server.log)
    assert "the model does not finalize" in server.log()
    assert server.post("/v2/repository/models/faulty/load").status == 200
