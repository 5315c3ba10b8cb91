"""The deployment of docs/examples/ray under the real Ray Serve of make test-fleet."""

import contextlib
import subprocess

import numpy as np
import pytest
import tritonclient.http as th
from tritonclient.utils import InferenceServerException

from fleet import EXAMPLES, environment, lines, promised, run
from harness import ROOT, free_port, until

pytestmark = pytest.mark.fleet

EXAMPLE = EXAMPLES / "ray"


@pytest.fixture(scope="module")
def env(packages):
    return environment("ray", PYTHONPATH=f"{packages}:{EXAMPLE}", RAY_USAGE_STATS_ENABLED="0")


def test_a_replica_is_added_when_requests_wait_and_replaced_when_it_is_killed(env):
    printed = run(["python", EXAMPLE / "run.py"], {**env, "PORT": str(free_port())}, limit=500)
    ours = [line for line in lines(printed) if line.startswith(("replicas", "requests"))]  # Ray prints lines too
    assert ours == lines(promised("ray"))


def test_models_are_multiplexed_onto_replicas(env):
    printed = run(["python", EXAMPLE / "multiplexed.py"], {**env, "PORT": str(free_port())}, limit=500)
    assert [line for line in lines(printed) if line in lines(promised("ray", 1))] == lines(promised("ray", 1))


SERVE = """
import sys
import ray
from ray import serve
from deployment import Nereid
ray.init(num_cpus=2, include_dashboard=False, object_store_memory=80 << 20, log_to_driver=False)
serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[2])})
serve.run(Nereid.bind(sys.argv[1]))
sys.stdin.read()
serve.shutdown()
ray.shutdown()
"""


def test_tritonclient_works_through_a_replica(env, tmp_path):
    port = free_port()
    (tmp_path / "models").mkdir()
    for name in ("identity_fp32", "identity_bytes"):
        (tmp_path / "models" / name).symlink_to(ROOT / "models-sample" / name)
    with open(tmp_path / "log", "w") as log:
        served = subprocess.Popen(["python", "-c", SERVE, tmp_path / "models", str(port)], env=env,
                                  stdin=subprocess.PIPE, stdout=log, stderr=log)
    try:
        with th.InferenceServerClient(f"127.0.0.1:{port}", network_timeout=60, connection_timeout=60) as client:
            def ready():
                assert served.poll() is None, (tmp_path / "log").read_text()
                with contextlib.suppress(OSError):
                    return client.is_model_ready("identity_fp32")

            until(ready, 120, "no replica", (tmp_path / "log").read_text)
            for name, x in (("identity_fp32", np.arange(32, dtype=np.float32).reshape(2, 16)),
                            ("identity_bytes", np.array([["a", "é", ""] + 13 * ["x"]], dtype=np.object_))):
                about = client.get_model_metadata(name)
                tensor = th.InferInput("INPUT0", x.shape, about["inputs"][0]["datatype"])
                for binary in (True, False):
                    tensor.set_data_from_numpy(x, binary_data=binary)
                    said = client.infer(name, [tensor], request_compression_algorithm="gzip" if binary else None,
                                        response_compression_algorithm="gzip" if binary else None).as_numpy("OUTPUT0")
                    wanted = x if name == "identity_fp32" else np.array([[t.encode() for t in x[0]]], object)
                    assert (said == wanted).all()
            with pytest.raises(InferenceServerException, match="unknown model"):
                client.get_model_metadata("absent")
    finally:
        served.stdin.close()
        served.wait(120)
