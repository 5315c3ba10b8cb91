"""A backend library that answers without outputs: by a response that has none, or by the final flag alone."""

import queue

import numpy as np
import pytest
import tritonclient.grpc as grpcclient

from harness import REFERENCE, Server
from test_triton_backends import infer, library, model

pytestmark = pytest.mark.skipif(REFERENCE, reason="needs a folder with the reference's own backends")

RESPONSE, FLAG, BOTH = 0, 1, 2


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("triton")
    models, backends = folder / "models", folder / "backends"
    library("empty_test", backends / "empty_test")
    model(models, "once", "empty_test")
    model(models, "stream", "empty_test", "model_transaction_policy { decoupled: true }")
    with Server(models, folder, f"--backend-directory={backends}") as s:
        yield s


@pytest.mark.parametrize("how", [RESPONSE, BOTH])
def test_D076_a_response_without_outputs_is_an_answer(server, how):
    answer = infer(server, "once", [how], id="seven")
    assert answer.status == 200, answer.body
    assert answer.json == {"id": "seven", "model_name": "once", "model_version": "1", "outputs": []}
    with grpcclient.InferenceServerClient(server.grpc) as client:
        got = client.infer("once", [tensor(how)]).get_response()
    assert got.model_name == "once" and not got.outputs


def test_D076_the_final_flag_alone_is_no_answer(server):
    answer = infer(server, "once", [FLAG])
    assert answer.status == 500 and "sent no response" in answer.error, answer.body


@pytest.mark.parametrize("how, wants_end, count", [
    (RESPONSE, False, 1), (RESPONSE, True, 1), (FLAG, False, 0), (FLAG, True, 1), (BOTH, False, 1), (BOTH, True, 2)])
def test_D076_a_stream_has_the_responses_without_outputs(server, how, wants_end, count):
    answers = queue.Queue()
    with grpcclient.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer("stream", [tensor(how)], enable_empty_final_response=wants_end)
        client.stop_stream()  # waits for the end
    got = [answers.get_nowait() for _ in range(answers.qsize())]
    assert [error for _, error in got] == [None] * count
    finals = [r.get_response().parameters["triton_final_response"].bool_param for r, _ in got]
    assert finals == [False] * (count - 1) + [how == RESPONSE or wants_end] * min(count, 1), got


def tensor(how):
    t = grpcclient.InferInput("IN", [1], "FP32")
    t.set_data_from_numpy(np.array([how], np.float32))
    return t
