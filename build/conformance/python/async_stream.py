"""A decoupled model whose execute is a coroutine."""

import asyncio

import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    async def execute(self, requests):
        for r in requests:
            sender = r.get_response_sender()
            for i in range(int(pb.get_input_tensor_by_name(r, "IN").as_numpy().ravel()[0])):
                await asyncio.sleep(0.001)
                sender.send(pb.InferenceResponse([pb.Tensor("OUT", np.array([i], np.int32))]))
            sender.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
