"""BLS requests with several responses, in coroutines. The answers are Triton's."""

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
