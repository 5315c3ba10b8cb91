"""Backend libraries that release a request to be scheduled again: the steps of an iterative sequence."""

import queue

import numpy as np
import pytest
import tritonclient.grpc as grpcclient

from harness import REFERENCE, Server
from test_triton_backends import infer, library, model

pytestmark = pytest.mark.skipif(REFERENCE, reason="needs a folder with the reference's own backends")

STEPS = "sequence_batching { iterative_sequence: true max_sequence_idle_microseconds: 60000000 %s }\n"
STATE = ('state { input_name: "COUNT_IN" output_name: "COUNT_OUT" data_type: TYPE_FP32 dims: [ 1 ] '
         'initial_state { name: "zero" data_type: TYPE_FP32 dims: [ 1 ] zero_data: true } }')


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("triton")
    models, backends = folder / "models", folder / "backends"
    library("steps_test", backends / "steps_test")
    model(models, "once", "steps_test", STEPS % STATE, dims="1")
    model(models, "stream", "steps_test", "model_transaction_policy { decoupled: true }\n" + STEPS % "", dims="1")
    model(models, "plain", "steps_test", dims="1")
    with Server(models, folder, f"--backend-directory={backends}") as s:
        yield s


def test_D076_steps_have_a_state_and_one_answer(server):
    for count in (1, 2, 40):
        answer = infer(server, "once", [count])
        assert answer.status == 200, answer.body
        assert answer.json["outputs"][0]["data"] == [count]
    stats = server.get("/v2/models/once/stats").json["model_stats"][0]
    assert stats["inference_stats"]["success"]["count"] == 3 and stats["execution_count"] == 43


def test_D076_steps_send_responses(server):
    answers = queue.Queue()
    with grpcclient.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for count in (1, 3, 200):
            tensor = grpcclient.InferInput("IN", [1], "FP32")
            tensor.set_data_from_numpy(np.array([count], np.float32))
            client.async_stream_infer("stream", [tensor])
            got = []
            while len(got) < count:
                result, error = answers.get(timeout=60)
                assert error is None, error
                got.append(float(result.as_numpy("OUT")[0]))
            assert got == list(range(1, count + 1))
        client.stop_stream()


def test_D076_an_execution_that_fails_after_it_gave_its_request_back_is_an_error(server):
    for _ in range(20):  # make test-shim notices memory that is used after it was freed
        answer = infer(server, "once", [-1])
        assert answer.status == 400 and "no steps back" in answer.error, answer.body
    assert infer(server, "once", [2]).json["outputs"][0]["data"] == [2]


def test_D076_a_step_of_a_model_without_sequences_fails(server):
    answer = infer(server, "plain", [2])
    assert answer.status == 500 and "has no iterative_sequence" in answer.error, answer.body
