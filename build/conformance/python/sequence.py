"""Returns the sum of a sequence, its START and END controls, and the flags and correlation id of the request."""

import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        out = []
        for r in requests:
            x = float(pb.get_input_tensor_by_name(r, "INPUT0").as_numpy().ravel()[0])
            start = int(pb.get_input_tensor_by_name(r, "START").as_numpy().ravel()[0])
            end = int(pb.get_input_tensor_by_name(r, "END").as_numpy().ravel()[0])
            key = int(pb.get_input_tensor_by_name(r, "CORRID").as_numpy().ravel()[0])
            self.sums[key] = x + (0 if start else self.sums.get(key, 0))
            y = np.array([[self.sums[key], start, end, r.flags(), r.correlation_id()]], np.float32)
            out.append(pb.InferenceResponse([pb.Tensor("OUTPUT0", y)]))
        return out
