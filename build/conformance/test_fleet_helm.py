"""The chart of docs/examples/helm, rendered by the real helm. No cluster is here."""

import os
import re
import subprocess

import pytest
import tritonclient.http as th

from fleet import EXAMPLES, environment, lines, promised, run
from harness import BINARY, ROOT, Server
from test_fleet_kserve import parsed, strict

pytestmark = pytest.mark.fleet

CHART = EXAMPLES / "helm"
SETTINGS = {
    "defaults": [],
    "several": ["replicas=3", "service.type=LoadBalancer", "service.annotations.a=b", "models.controlMode=none"],
    "bucket": ["models.repository=s3://bucket/models", "models.volume=null", "envFrom[0].secretRef.name=keys",
               "env[0].name=AWS_REGION", "env[0].value=eu", "imagePullSecrets[0].name=pull"],
    "gpus": ["gpus=2", "tolerations[0].key=nvidia.com/gpu", "tolerations[0].operator=Exists", "nodeSelector.a=b"],
    "autoscaled": ["autoscaling.enabled=true", "metrics.podMonitor=true", "args={--log-verbose=1}",
                   "models.controlMode=explicit", "models.load={digits}"],
}


@pytest.fixture(scope="module")
def env():
    made = environment("kserve")
    assert (ROOT / ".cache/bin/helm").exists(), "run make test-fleet"
    return {**made, "PATH": str(ROOT / ".cache/bin") + os.pathsep + made["PATH"]}


def rendered(env, *settings):
    """The manifests by kind."""
    more = [word for s in settings for word in ("--set", s)]
    text = run(["helm", "template", "models", CHART, "--kube-version=1.31", *more], env)
    return {m["kind"]: m for m in parsed(env, text) if m}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=list(SETTINGS))
def test_G012_the_manifests_decode_into_the_types_of_kubernetes(env, settings):
    found = rendered(env, *settings)
    found.pop("PodMonitor", None)  # a type of the Prometheus operator
    kinds, fault = strict(list(found.values()))
    assert fault == "" and {"apps/v1 Deployment", "v1 Service"} <= set(kinds)


def test_G012_settings_arrive_in_the_manifests(env):
    found = rendered(env, *SETTINGS["gpus"])
    pod = found["Deployment"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"] == {"limits": {"memory": "4Gi", "nvidia.com/gpu": "2"},
                                                 "requests": {"cpu": "1", "memory": "1Gi"}}
    assert set(found) == {"Deployment", "Service"} and found["Deployment"]["spec"]["replicas"] == 1
    found = rendered(env, *SETTINGS["gpus"], "resources=null", "exitTimeoutSeconds=1000000")
    pod = found["Deployment"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": "2"}}
    assert "--exit-timeout-secs=1000000" in pod["containers"][0]["args"]
    found = rendered(env, *SETTINGS["several"])
    assert set(found) == {"Deployment", "Service", "PodDisruptionBudget"}
    found = rendered(env, *SETTINGS["autoscaled"])
    assert set(found) == {"Deployment", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler", "PodMonitor"}
    assert "replicas" not in found["Deployment"]["spec"], "they are the autoscaler's"
    spec = found["Deployment"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels == found["Service"]["spec"]["selector"]
    mounted = {m["name"] for m in spec["template"]["spec"]["containers"][0]["volumeMounts"]}
    assert mounted == {v["name"] for v in spec["template"]["spec"]["volumes"]} == {"models", "data", "tmp", "shm"}
    found = rendered(env, *SETTINGS["bucket"])
    assert "models" not in {v["name"] for v in found["Deployment"]["spec"]["template"]["spec"]["volumes"]}


def test_G012_the_program_takes_the_arguments_of_the_container(env, tmp_path):
    args = rendered(env, *SETTINGS["autoscaled"])["Deployment"]["spec"]["template"]["spec"]["containers"][0]["args"]
    program = tmp_path / args.pop(0)
    program.symlink_to(BINARY)
    args.remove("--model-repository=/models")
    args.remove("--allow-ui=false")  # the harness reads its address
    args += [f"--{front}-address=127.0.0.1" for front in ("http", "grpc", "metrics")]
    with Server(ROOT / "models-sample", tmp_path, *args, command=[program]) as s, th.InferenceServerClient(s.http) as c:
        assert c.is_server_ready() and c.is_model_ready("digits") and not c.is_model_ready("mlp")


def test_G012_the_page_shows_what_its_command_prints(env):
    (command,) = re.findall(r"^    (helm lint.*)$", (CHART / "README.md").read_text(), re.M)
    done = subprocess.run(["bash", "-c", command], env=env, cwd=ROOT, capture_output=True, text=True, check=True)
    assert lines(done.stdout) == lines(promised("helm"))
