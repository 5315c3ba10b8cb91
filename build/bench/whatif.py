"""What the prediction for other settings of the batcher is worth: predicted and measured latency of ten settings.

usage: whatif.py [REQUESTS]

A Python model takes 8 ms and 1 ms a row. Its requests are recorded with the settings in service. For each of ten other
settings the server predicts what they would do to the recorded requests. Then the settings are put in service, and
requests come with the same gaps. Prints p50, p99 and mean batch of both, and how many figures were within 10 %. NEREID
is the path of the program.
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "conformance"))
from harness import BINARY, Server  # noqa: E402

MODEL = """
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.008 + 0.001 * len(requests))
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", pb_utils.get_input_tensor_by_name(r, "INPUT").as_numpy())])
                for r in requests]
"""
RATE = 150  # requests a second
# Dynamic, largest batch, preferred sizes, queue delay in microseconds, instances.
IN_SERVICE = (True, 16, [], 0, 2)
OTHERS = [(True, 16, [], 0, 1), (True, 16, [], 0, 3), (True, 16, [], 0, 4), (True, 4, [], 0, 2),
          (True, 8, [], 5_000, 2),
          (True, 16, [], 10_000, 1), (True, 16, [], 20_000, 2), (True, 8, [4, 8], 10_000, 2), (True, 2, [], 0, 2),
          (False, 16, [], 0, 4)]
FIGURES = ("p50Us", "p99Us", "batchMean")


def configuration(dynamic, largest, preferred, delay, instances):
    batcher = f"dynamic_batching {{ preferred_batch_size: {preferred} max_queue_delay_microseconds: {delay} }}" if dynamic else ""
    tensors = "".join(f'{kind} {{ name: "{kind.upper()}" data_type: TYPE_FP32 dims: [ 4 ] }}\n' for kind in ("input", "output"))
    return f'backend: "python"\nmax_batch_size: {largest}\n{tensors}{batcher}\ninstance_group {{ count: {instances} }}\n'


class Case:
    def __init__(self, work):
        self.work, self.model = work, work / "models" / "slow"
        (self.model / "1").mkdir(parents=True)
        (self.model / "1/model.py").write_text(MODEL)
        self.write(IN_SERVICE)

    def write(self, settings):
        (self.model / "config.pbtxt").write_text(configuration(*settings))

    def load(self, server, settings):
        """Puts settings in service and sends the requests."""
        self.write(settings)
        answer = server.request("POST", "/v2/repository/models/slow/load")
        assert answer.status == 200, answer
        subprocess.run([BINARY, "perf", "-u", server.http, "-m", "slow", f"--request-intervals={self.work}/gaps",
                        f"--request-count={self.requests}"], check=True, capture_output=True)

    def gaps(self, requests):
        gaps = random.Random(1)
        self.requests = requests
        (self.work / "gaps").write_text("\n".join(str(round(gaps.expovariate(RATE) * 1e6)) for _ in range(requests)))


def predict(server, settings):
    """Asks what settings would do to the recorded requests. The answer has also how these fared."""
    keys = ("dynamic", "maxBatchSize", "preferredBatchSizes", "maxQueueDelayUs", "instances")
    body = json.dumps({**dict(zip(keys, settings)), "speed": 1})
    answer = server.request("POST", "/api/models/slow/what-if", body, {"X-Nereid": "1"}, server.ui_address)
    assert answer.status == 200, answer
    return answer.json


def main() -> int:
    near = 0
    with tempfile.TemporaryDirectory(prefix="nereid-whatif-") as name:
        case = Case(pathlib.Path(name))
        case.gaps(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
        with Server(case.model.parent, case.work, "--model-control-mode=explicit", "--load-model=slow") as server:
            case.load(server, IN_SERVICE)
            predictions = [predict(server, settings)["other"] for settings in OTHERS]
            for settings, predicted in zip(OTHERS, predictions):
                case.load(server, settings)
                measured = predict(server, settings)["measured"]
                ratios = [predicted[figure] / measured[figure] for figure in FIGURES]
                near += sum(0.9 <= ratio <= 1.1 for ratio in ratios)
                print(settings, *(f"{figure} {predicted[figure]:.2f} of {measured[figure]:.2f}, ratio {ratio:.3f}"
                                  for figure, ratio in zip(FIGURES, ratios)), sep="; ", flush=True)
    print(f"{near} of {len(OTHERS) * len(FIGURES)} figures within 10 %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
