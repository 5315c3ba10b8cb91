"""Serves four models in two replicas, each of which has two of them loaded, and then a fifth."""

import collections
import json
import os
import pathlib
import shutil
import tempfile
import threading
import urllib.error
import urllib.request

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray  # noqa: E402
from ray import serve  # noqa: E402

from deployment import Multiplexed  # noqa: E402
from run import LIMIT, PORT, URL, until  # noqa: E402

MODELS = ["amber", "blue", "cyan", "drab"]
BODY = json.dumps({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [2], "data": [1.0, 2.0]}]}).encode()


def ask(model):
    """Sends a request and returns the process of the replica that answered."""
    header = {"serve_multiplexed_model_id": model}  # Ray's name; without it any replica gets the request
    request = urllib.request.Request(f"{URL}/v2/models/{model}/infer", BODY, header)
    with urllib.request.urlopen(request, timeout=LIMIT) as answer:
        said = json.load(answer)
        assert said["model_name"] == model and said["outputs"][0]["data"] == [1.0, 2.0], said
        return int(answer.headers["nereid-replica"])


def settled():
    """Reports whether each model has one replica, and each replica two models."""
    first = {model: ask(model) for model in MODELS}
    counts = collections.Counter(first.values())
    return sorted(counts.values()) == [2, 2] and all(ask(m) == first[m] for m in 5 * MODELS)


def crowd(models):
    """Asks for all models at the same time, so that they push each other out, and counts the answers."""
    answers, errors = [], []

    def run(model):
        for _ in range(10):
            try:
                answers.append(ask(model))
            except (OSError, AssertionError) as e:
                errors.append(f"{model}: {e}")

    threads = [threading.Thread(target=run, args=[m]) for m in models]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        print(errors[:3], flush=True)
    return len(answers)


def main():
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=80 << 20, log_to_driver=False,
             logging_level="error")
    serve.start(http_options={"host": "127.0.0.1", "port": PORT}, logging_config={"enable_access_log": False})
    slow = pathlib.Path(__file__).parent.resolve() / "models/slow"
    with tempfile.TemporaryDirectory() as repository:
        for model in [*MODELS, "extra"]:
            shutil.copytree(slow, pathlib.Path(repository, model))
        try:
            serve.run(Multiplexed.bind(repository))
            until(settled, "requests of a model do not stay at one replica")
            print("four models, each always answered by the same of two replicas", flush=True)
            print("answers while five models want four places:", crowd([*MODELS, "extra"]), "of 50", flush=True)
            try:
                ask("absent")
            except urllib.error.HTTPError as e:
                print("a model that is not there:", e.code, json.load(e)["error"], flush=True)
        finally:
            serve.shutdown()
            ray.shutdown()


if __name__ == "__main__":
    main()
