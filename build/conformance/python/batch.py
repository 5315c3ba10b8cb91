"""One request of a batch fails and the others succeed. The dynamic batcher built the batch."""

import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        out = []
        for r in requests:
            x = pb.get_input_tensor_by_name(r, "INPUT0").as_numpy()
            if x[0, 0] < 0:
                out.append(pb.InferenceResponse(error=pb.TritonError("below zero", pb.TritonError.INVALID_ARG)))
            else:
                out.append(pb.InferenceResponse([pb.Tensor("OUTPUT0", x * np.float32(2))]))
        return out
