"""The metrics that a model creates are on the server's metrics page while the model is loaded."""

import re

import numpy as np
import tritonclient.http as th

from harness import Server

MODEL = '''
import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        self.family = pb.MetricFamily(name="seen_total", description="Requests seen", kind=pb.MetricFamily.COUNTER)
        self.seen = self.family.Metric(labels={"model": args["model_name"], "instance": "a \\"b\\""})

    def execute(self, requests):
        self.seen.increment(len(requests))
        inputs = [pb.get_input_tensor_by_name(r, "IN").as_numpy() for r in requests]
        return [pb.InferenceResponse([pb.Tensor("OUT", x)]) for x in inputs]
'''

CONFIG = '''backend: "python"
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
'''


def test_E027_D048_a_models_own_metrics(tmp_path):
    version = tmp_path / "repository" / "m" / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(MODEL)
    (version.parent / "config.pbtxt").write_text(CONFIG)
    with Server(tmp_path / "repository", tmp_path, "--model-control-mode=explicit",
                "--load-model=m") as s, th.InferenceServerClient(s.http) as c:
        i = th.InferInput("IN", [1], "FP32")
        i.set_data_from_numpy(np.ones([1], np.float32))
        for n in range(1, 4):
            c.infer("m", [i])
            text = s.request("GET", "/metrics", address=s.metrics).body.decode()
            assert "# HELP seen_total Requests seen\n# TYPE seen_total counter\n" in text
            line = re.search(r"^seen_total\{(.*)\} (\S+)$", text, re.M)
            assert set(line[1].split(",")) == {'model="m"', 'instance="a \\"b\\""'} and float(line[2]) == n
            assert f'nv_inference_request_success{{model="m",version="1"}} {n}' in text
        c.unload_model("m")
        while c.is_model_ready("m"):
            pass
        deadline = 2000
        while "seen_total{" in s.request("GET", "/metrics", address=s.metrics).body.decode():
            deadline -= 1
            assert deadline, "the metric is still there after the unload"
