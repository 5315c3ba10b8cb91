"""ApacheBench as people use it with Triton: HTTP/1.0 with keep-alive and without a content type."""

import json
import re
import shutil
import subprocess

import pytest


@pytest.mark.skipif(shutil.which("ab") is None, reason="ab is not installed (apache2-utils)")
@pytest.mark.parametrize("model", ["plain", "batched"])
def test_B041_F023_ab_reuses_its_connections(server, tmp_path, model):
    body = tmp_path / "body.json"
    body.write_text(json.dumps({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 16],
                                            "data": list(range(16))}]}))
    url = f"http://{server.http}/v2/models/{model}/infer"
    done = subprocess.run(
        ["ab", "-k", "-c", "5", "-n", "500", "-p", str(body), url], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr

    def number(name):
        return int(re.search(rf"{name}:\s+(\d+)", done.stdout)[1])

    assert number("Complete requests") == 500
    assert number("Keep-Alive requests") == 500
    assert number("Failed requests") == 0, done.stdout
    assert "Non-2xx" not in done.stdout
