"""Invalid return values of execute. The first number of INPUT0 selects one."""

import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        n = int(pb.get_input_tensor_by_name(requests[0], "INPUT0").as_numpy()[0])
        good = pb.InferenceResponse([pb.Tensor("OUTPUT0", np.ones(1, np.float32))])
        if n == 1:
            return None
        if n == 2:
            return []
        if n == 3:
            return [good, good]
        if n == 4:
            return [5]
        if n == 5:
            return good
        if n == 6:
            return [None]
        if n == 7:  # a response sender in a model that is not decoupled
            requests[0].get_response_sender().send(good, flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            return None
        if n == 8:
            sender = requests[0].get_response_sender()
            sender.send(good)
            try:
                sender.send(good)
            except pb.TritonModelException as e:
                pb.Logger.log_info(str(e))
            sender.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            return [None]
        if n == 9:
            return (good,)
        return [good]
