"""Keeps a sum for each open sequence."""

import numpy as np

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        responses = []
        for request in requests:
            value, start, end, sequence = (
                pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel()[0]
                for name in ("value", "START", "END", "CORRID")
            )
            total = int(value) if start else self.sums.get(int(sequence), 0) + int(value)
            if end:
                self.sums.pop(int(sequence), None)
            else:
                self.sums[int(sequence)] = total
            responses.append(
                pb_utils.InferenceResponse([pb_utils.Tensor("sum", np.array([[total]], dtype=np.int64))])
            )
        return responses
