"""A backend written in Python: OUTPUT is INPUT times the number in the file factor.txt of the version.

docs/write-a-backend.md explains it.
"""

import json
import os

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        """Completes a model's configuration. config.pbtxt only needs the name of the backend."""
        config.set_max_batch_size(8)
        config.add_input({"name": "INPUT", "data_type": "TYPE_FP32", "dims": [-1]})
        config.add_output({"name": "OUTPUT", "data_type": "TYPE_FP32", "dims": [-1]})
        config.set_dynamic_batching()
        return config

    def initialize(self, args):
        """Called once for each instance. args["model_repository"] is the model's folder."""
        name = json.loads(args["model_config"])["name"]
        path = os.path.join(args["model_repository"], args["model_version"], "factor.txt")
        try:
            with open(path) as f:
                self.factor = float(f.read())
        except (OSError, ValueError) as e:
            raise pb_utils.TritonModelException(f"model {name}: {path} must hold a number: {e}")

    def execute(self, requests):
        """Answers each request of a batch, in order."""
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy()
            out = pb_utils.Tensor("OUTPUT", (x * self.factor).astype(x.dtype))
            responses.append(pb_utils.InferenceResponse([out]))
        return responses
