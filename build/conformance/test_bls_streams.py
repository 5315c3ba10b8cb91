"""BLS requests: several responses, also in coroutines, and refused arguments. The answers are Triton's."""

import numpy as np
import tritonclient.http as httpclient

from harness import Server

# Answers its requests when two of them are there.
PAIR = """import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        self.senders = []

    def execute(self, requests):
        self.senders += [r.get_response_sender() for r in requests]
        if len(self.senders) < 2:
            return None
        for n, sender in enumerate(self.senders):
            for _ in range(3):
                sender.send(pb.InferenceResponse([pb.Tensor("OUT", np.array([n], np.int32))]))
            sender.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        self.senders = []
"""
CALLER = """import asyncio

import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    async def one(self, x):
        request = pb.InferenceRequest(model_name="pair", inputs=[x], requested_output_names=["OUT"])
        responses = await request.async_exec(decoupled=True)
        # Iterating stops the loop, so the other request must be sent before.
        responses = list(responses)
        assert not responses[-1].output_tensors() and not responses[-1].has_error()  # the final response is empty
        return [int(pb.get_output_tensor_by_name(r, "OUT").as_numpy()[0]) for r in responses[:-1]]

    async def execute(self, requests):
        out = []
        for r in requests:
            x = pb.Tensor("IN", pb.get_input_tensor_by_name(r, "IN").as_numpy())
            both = await asyncio.gather(self.one(x), self.one(x))
            out.append(pb.InferenceResponse([pb.Tensor("OUT", np.array(sorted(both[0] + both[1]), np.int32))]))
        return out
"""
CONFIG = """backend: "python"
input { name: "IN" data_type: TYPE_INT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: -1 }
"""


def test_coroutines_iterate_streams_of_bls_requests_at_once_D041_D046(tmp_path):
    for name, code, more in (("pair", PAIR, "model_transaction_policy { decoupled: true }"), ("caller", CALLER, "")):
        (tmp_path / "models" / name / "1").mkdir(parents=True)
        (tmp_path / "models" / name / "config.pbtxt").write_text(CONFIG + more)
        (tmp_path / "models" / name / "1/model.py").write_text(code)
    with Server(tmp_path / "models", tmp_path) as s, httpclient.InferenceServerClient(
            s.http, connection_timeout=60, network_timeout=60) as client:
        x = httpclient.InferInput("IN", [1], "INT32")
        x.set_data_from_numpy(np.array([1], np.int32))
        assert client.infer("caller", [x]).as_numpy("OUT").tolist() == [0, 0, 0, 1, 1, 1]


ARGUMENTS = """import numpy as np
import triton_python_backend_utils as pb

WHOLE = {"model_name": "m", "inputs": [], "requested_output_names": ["OUT"]}


class TritonPythonModel:
    def execute(self, requests):
        refused = 0
        for change in (
            *({k: v for k, v in WHOLE.items() if k != missing} for missing in WHOLE),
            {**WHOLE, "inputs": [np.zeros(1)]}, {**WHOLE, "model_version": "1"}, {**WHOLE, "timeout": -1},
        ):
            try:
                pb.InferenceRequest(**change)
            except TypeError:
                refused += 1
        pb.InferenceRequest(**WHOLE)
        return [pb.InferenceResponse([pb.Tensor("OUT", np.array([refused], np.int32))]) for _ in requests]
"""


def test_a_bls_request_without_a_required_argument_is_a_type_error_D032(tmp_path):
    (tmp_path / "models/caller/1").mkdir(parents=True)
    (tmp_path / "models/caller/config.pbtxt").write_text(CONFIG)
    (tmp_path / "models/caller/1/model.py").write_text(ARGUMENTS)
    with Server(tmp_path / "models", tmp_path) as s:
        answer = s.post("/v2/models/caller/infer", {
            "inputs": [{"name": "IN", "datatype": "INT32", "shape": [1], "data": [1]}]})
        assert answer.status == 200 and answer.json["outputs"][0]["data"] == [6]


COUNTS = """import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        for r in requests:
            sender = r.get_response_sender()
            for n in range(4):
                sender.send(pb.InferenceResponse([pb.Tensor("OUT", np.array([n], np.int32))]))
            sender.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
ITERATES = """import numpy as np
import triton_python_backend_utils as pb


def number(response):
    out = pb.get_output_tensor_by_name(response, "OUT")
    return 9 if out is None else int(out.as_numpy()[0])


class TritonPythonModel:
    def execute(self, requests):
        out = []
        for r in requests:
            x = pb.Tensor("IN", pb.get_input_tensor_by_name(r, "IN").as_numpy())
            it = pb.InferenceRequest(model_name="counts", inputs=[x], requested_output_names=["OUT"]).exec(
                decoupled=True)
            seen = [number(next(it))]
            for response in it:
                seen.append(number(response))
                if len(seen) == 3:
                    break
            seen += [number(next(it))] + [number(response) for response in it]
            seen += [number(response) for response in it]
            for response in it:
                seen.append(number(response))
                break
            seen += [number(response) for response in it] + [number(response) for response in it]
            out.append(pb.InferenceResponse([pb.Tensor("OUT", np.array(seen, np.int32))]))
        return out
"""


def test_a_loop_over_responses_goes_on_where_the_last_one_stopped_D041(tmp_path):
    for name, code, more in (
        ("counts", COUNTS, "model_transaction_policy { decoupled: true }"), ("caller", ITERATES, ""),
    ):
        (tmp_path / "models" / name / "1").mkdir(parents=True)
        (tmp_path / "models" / name / "config.pbtxt").write_text(CONFIG + more)
        (tmp_path / "models" / name / "1/model.py").write_text(code)
    with Server(tmp_path / "models", tmp_path) as s:
        answer = s.post("/v2/models/caller/infer", {
            "inputs": [{"name": "IN", "datatype": "INT32", "shape": [1], "data": [4]}]})
        assert answer.status == 200, answer.body
        whole = [0, 1, 2, 3, 9]  # 9: the empty final response
        assert answer.json["outputs"][0]["data"] == 4 * whole
