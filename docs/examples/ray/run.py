"""Starts the deployment on this machine, loads it until a replica is added, and kills one under load."""

import json
import os
import pathlib
import signal
import threading
import time
import urllib.request

os.environ.setdefault("RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S", "1")  # 10 by default
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray  # noqa: E402
from ray import serve  # noqa: E402

from deployment import Nereid  # noqa: E402

PORT = int(os.environ.get("PORT", "8000"))
URL = "http://127.0.0.1:%d" % PORT
BODY = json.dumps({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [2], "data": [1.0, 2.0]}]}).encode()
LIMIT = 120  # seconds that a step may take
PERIOD = 10  # seconds in which the rate of two replicas is counted


def ask():
    """Sends a request and returns the process of the replica that answered. Raises OSError if it fails."""
    with urllib.request.urlopen(URL + "/v2/models/slow/infer", BODY, timeout=LIMIT) as answer:
        assert json.load(answer)["outputs"][0]["data"] == [1.0, 2.0]
        return int(answer.headers["nereid-replica"])


class Load:
    """Clients that send one request after another, and try each that fails once more."""

    def __init__(self, clients):
        self.stop, self.lock = threading.Event(), threading.Lock()
        self.seen, self.retried, self.failed = {}, 0, []
        self.threads = [threading.Thread(target=self.run) for _ in range(clients)]
        for t in self.threads:
            t.start()

    def run(self):
        while not self.stop.is_set():
            for attempt in (1, 2):
                try:
                    pid = ask()
                    with self.lock:
                        self.seen[pid] = self.seen.get(pid, 0) + 1
                    break
                except OSError as e:
                    with self.lock:
                        self.retried += attempt == 1
                        if attempt == 2:
                            self.failed.append(str(e))

    def replicas(self):
        with self.lock:
            return set(self.seen)

    def answers(self):
        with self.lock:
            return sum(self.seen.values())

    def end(self):
        self.stop.set()
        for t in self.threads:
            t.join()


def until(condition, what):
    deadline = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.1)


def main():
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=80 << 20, log_to_driver=False,
             logging_level="error")
    serve.start(http_options={"host": "127.0.0.1", "port": PORT}, logging_config={"enable_access_log": False})
    serve.run(Nereid.bind(str(pathlib.Path(__file__).parent.resolve() / "models")))
    load = Load(8)
    try:
        until(load.replicas, "no answer")
        print("replicas at the start:", len(load.replicas()), flush=True)
        begun, before = time.monotonic(), load.answers()
        until(lambda: len(load.replicas()) == 2, "no replica was added")
        one = (load.answers() - before) / (time.monotonic() - begun)
        print("replicas after requests have waited:", len(load.replicas()), flush=True)
        before = load.answers()
        time.sleep(PERIOD)
        print("answers a second: %.1f with one replica, %.1f with two" % (one, (load.answers() - before) / PERIOD),
              flush=True)
        killed = max(load.replicas())
        os.kill(killed, signal.SIGKILL)
        until(lambda: len(load.replicas() - {killed}) == 2, "the killed replica was not replaced")
        print("replicas after one was killed:", len(load.replicas() - {killed}), flush=True)
    finally:
        load.end()
        serve.shutdown()
        ray.shutdown()
    print("requests that failed twice:", len(load.failed), flush=True)
    if os.environ.get("VERBOSE"):
        print("answered:", sum(load.seen.values()), "retried:", load.retried, load.failed[:3])


if __name__ == "__main__":
    main()
