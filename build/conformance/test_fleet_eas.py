"""The service of docs/examples/eas, compared with what PAI's own SDK makes. Nothing is deployed."""

import json
import re
import shlex
import subprocess

import numpy as np
import pytest
import tritonclient.http as th

from fleet import EXAMPLES, environment, lines, promised
from harness import BINARY, ROOT, Server

pytestmark = pytest.mark.fleet

EXAMPLE = EXAMPLES / "eas"


def test_G014_the_file_is_what_the_sdk_of_pai_makes():
    (command,) = re.findall(r"^    (python .*)$", (EXAMPLE / "README.md").read_text(), re.M)
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], env=environment("eas"), cwd=ROOT, text=True,
                          capture_output=True)
    assert lines(done.stdout) == lines(promised("eas")), done.stdout + done.stderr


# The fields of https://www.alibabacloud.com/help/en/pai/user-guide/parameters-of-model-services that the file may use.
DOCUMENTED = {
    "metadata": {"name", "instance", "workspace_id"}, "cloud": {"computing"},
    "containers": {"image", "port", "script", "env"}, "storage": {"mount_path", "oss", "empty_dir"},
}


def test_G014_the_file_has_only_documented_fields():
    service = json.loads((EXAMPLE / "service.json").read_text())
    assert set(service) == set(DOCUMENTED)
    for section, fields in DOCUMENTED.items():
        entries = service[section] if isinstance(service[section], list) else [service[section]]
        assert all(set(e) <= fields for e in entries), section
    assert service["metadata"]["name"] in service["containers"][0]["script"], "the prefix has the service's name"


def test_G014_the_program_takes_the_command_and_answers_below_the_prefix(tmp_path):
    service = json.loads((EXAMPLE / "service.json").read_text())
    (container,), (bucket, _) = service["containers"], service["storage"]
    name, *args = shlex.split(container["script"])
    args.remove("--model-repository=" + bucket["mount_path"])
    args.remove("--allow-ui=false")  # the harness reads its address
    args += [f"--{front}-address=127.0.0.1" for front in ("http", "grpc", "metrics")]
    program = tmp_path / name
    program.symlink_to(BINARY)
    with Server(ROOT / "models-sample", tmp_path, *args, command=[program]) as s:
        x = np.ones((1, 16), np.float32)
        tensor = th.InferInput("INPUT0", x.shape, "FP32")
        tensor.set_data_from_numpy(x)
        for path in ("/api/predict/" + service["metadata"]["name"], ""):
            with th.InferenceServerClient(s.http + path) as client:
                said = client.infer("identity_fp32", [tensor], headers={"Authorization": "a token of the gateway"})
                assert (said.as_numpy("OUTPUT0") == x).all()
