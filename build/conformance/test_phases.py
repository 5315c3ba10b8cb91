"""The phases of a request in statistics and metrics: each has at least the time that the test made it last."""

import threading
import time

import numpy as np
import tritonclient.http as th

import models
from harness import Server, until
from test_metrics import samples, scrape

# A Python model that returns its input as soon as the file "open" is there.
GATE = """
import os, time
import triton_python_backend_utils as pb_utils

HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class TritonPythonModel:
    def execute(self, requests):
        open(os.path.join(HERE, "inside"), "w").close()
        while not os.path.exists(os.path.join(HERE, "open")):
            time.sleep(0.01)
        return [pb_utils.InferenceResponse([pb_utils.Tensor(
            "OUT", pb_utils.get_input_tensor_by_name(r, "IN").as_numpy())]) for r in requests]
"""
PHASES = ("queue", "compute_input", "compute_infer", "compute_output")


def test_E006_E007_E008_E009_each_phase_has_its_time(tmp_path):
    """The first of two requests is held in execute, the second in the queue, both for a time that the test measures."""
    repo = tmp_path / "models"
    models.write(repo / "gate/1/model.py", GATE)
    tensors = models.tensors("input", [("IN", "FP32", [-1])]) + models.tensors("output", [("OUT", "FP32", [-1])])
    models.write(repo / "gate/config.pbtxt",
                 'backend: "python"\n' + tensors + "instance_group [ { kind: KIND_CPU count: 1 } ]\n")
    with Server(repo, tmp_path) as s:
        i = th.InferInput("IN", [1 << 20], "FP32")
        i.set_data_from_numpy(np.ones(1 << 20, np.float32))

        def infer():
            with th.InferenceServerClient(s.http, network_timeout=600, connection_timeout=600) as c:
                c.infer("gate", [i])

        labels = '{model="gate",version="1"}'
        requests = [threading.Thread(target=infer) for _ in range(2)]
        requests[0].start()
        until((repo / "inside").exists, 60, "the first request is not in execute", s.log)
        requests[1].start()
        waiting = "nv_inference_pending_request_count" + labels
        until(lambda: samples(scrape(s))[waiting] == 1, 60, "no request waits", s.log)
        begin = time.monotonic()
        until(lambda: time.monotonic() - begin > 0.3, 60, "no clock")
        held = time.monotonic() - begin
        (repo / "open").touch()
        for r in requests:
            r.join()
        stats = s.get("/v2/models/gate/stats").json["model_stats"][0]["inference_stats"]
        metrics = samples(scrape(s))
        for phase in PHASES:
            assert stats[phase]["ns"] > 0 and stats[phase]["count"] == 2, phase
            assert metrics[f"nv_inference_{phase}_duration_us{labels}"] == stats[phase]["ns"] // 1000, phase
        for phase in ("queue", "compute_infer"):
            assert stats[phase]["ns"] >= held * 1e9, (phase, held)
        assert sum(stats[p]["ns"] for p in PHASES) <= stats["success"]["ns"]

