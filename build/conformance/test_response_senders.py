"""Python models that are not decoupled and use response senders. The answers are Triton's."""

import queue

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

from harness import REFERENCE, Server

CODE = """import threading
import time

import numpy as np
import triton_python_backend_utils as pb

FINAL = pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            kind = int(pb.get_input_tensor_by_name(request, "KIND").as_numpy()[0])
            sender = request.get_response_sender()
            if kind == 0:
                threading.Thread(target=self.late, args=(sender,), daemon=True).start()
            elif kind == 2:
                sender.send(self.response(2))
                self.open = sender
            elif kind == 3:
                self.open.send(flags=FINAL)  # that of the request before
                sender.send(self.response(3), flags=FINAL)
            else:
                sender.send(self.response(1))
                sender.send(self.response(2))  # fails
        return [None] * len(requests)

    def late(self, sender):
        time.sleep(0.3)  # execute has returned
        sender.send(self.response(7))
        sender.send(flags=FINAL)

    def response(self, n):
        return pb.InferenceResponse([pb.Tensor("OUT", np.array([n], np.int32))])
"""
CONFIG = """backend: "python"
input { name: "KIND" data_type: TYPE_INT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    work = tmp_path_factory.mktemp("senders")
    for name, more in (("single", ""), ("batching", "dynamic_batching { }")):
        (work / "models" / name / "1").mkdir(parents=True)
        (work / "models" / name / "config.pbtxt").write_text(CONFIG + more)
        (work / "models" / name / "1/model.py").write_text(CODE)
    with Server(work / "models", work) as s:
        yield s


@pytest.mark.parametrize("model", ["single", "batching"])
@pytest.mark.parametrize("kind, want", [(0, 7), (1, 1)])
def test_first_response_counts_also_after_execute_has_returned_D035(server, model, kind, want):
    answers = queue.Queue()
    with grpcclient.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        x = grpcclient.InferInput("KIND", [1], "INT32")
        x.set_data_from_numpy(np.array([kind], np.int32))
        client.async_stream_infer(model, [x])
        result, error = answers.get(timeout=60)
    assert error is None
    assert result.as_numpy("OUT").tolist() == [want]


@pytest.mark.skipif(REFERENCE, reason="Triton fails the request")
def test_a_second_response_does_not_undo_the_first_over_HTTP_DV89(server):
    with httpclient.InferenceServerClient(server.http) as client:
        x = httpclient.InferInput("KIND", [1], "INT32")
        x.set_data_from_numpy(np.array([1], np.int32))
        assert client.infer("single", [x]).as_numpy("OUT").tolist() == [1]


@pytest.mark.skipif(REFERENCE, reason="not asked of a real Triton")
def test_a_response_counts_whose_final_flag_comes_after_execute_has_returned_D035(server):
    with httpclient.InferenceServerClient(server.http) as client:
        for kind in (2, 3, 2):
            x = httpclient.InferInput("KIND", [1], "INT32")
            x.set_data_from_numpy(np.array([kind], np.int32))
            assert client.infer("single", [x]).as_numpy("OUT").tolist() == [kind]
