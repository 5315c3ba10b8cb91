"""An iterative sequence: a request is rescheduled until it was executed INPUT0 times."""

import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        self.left = 0
        self.seen = []

    def execute(self, requests):
        out = []
        for r in requests:
            n = int(pb.get_input_tensor_by_name(r, "INPUT0").as_numpy().ravel()[0])
            if r.flags() & pb.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START or not self.left:
                self.left, self.seen = n, []
            self.seen.append(r.flags())
            self.left -= 1
            if self.left > 0:
                r.set_release_flags(pb.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
                out.append(None)
                continue
            out.append(pb.InferenceResponse([pb.Tensor("OUTPUT0", np.array([self.seen], np.float32))]))
        return out
