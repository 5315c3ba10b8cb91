"""A support bundle says what happened, and has no secrets and no contents of requests."""

import base64
import io
import json
import os
import signal
import struct
import subprocess
import zipfile

import pytest

from harness import BINARY, REFERENCE, Server, until
from test_contents import files_with

pytestmark = pytest.mark.skipif(REFERENCE, reason="bundles are ours")

CONFIG = """
backend: "python"
max_batch_size: 0
input { name: "X" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "Y" data_type: TYPE_STRING dims: [ 1 ] }
parameters { key: "api_key" value { string_value: "SECRET-parameter" } }
"""
MODEL = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        x = pb_utils.get_input_tensor_by_name(requests[0], "X").as_numpy()
        print("got", x, flush=True)
        pb_utils.Logger.log_verbose(f"got {x}")
        if b"fail" in x[0]:
            raise ValueError("the model refuses this")
        if b"quote" in x[0]:
            raise ValueError("cannot read " + x[0].decode())
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)])]
"""
SECRETS = ["SECRET-", "CONTENT-"]  # each secret and each content of a request begins so


def parts(data):
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        assert z.testzip() is None
        return {n: z.read(n).decode() for n in z.namelist()}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    repo, work = tmp_path_factory.mktemp("models"), tmp_path_factory.mktemp("work")
    (repo / "talker/1").mkdir(parents=True)
    (repo / "talker/config.pbtxt").write_text(CONFIG)
    (repo / "talker/1/model.py").write_text(MODEL)
    (repo / "broken/1").mkdir(parents=True)
    (repo / "broken/config.pbtxt").write_text('platfrom: "onnx"')
    env = {"NEREID_TOKEN": "SECRET-token", "AWS_SECRET_ACCESS_KEY": "SECRET-cloud"}
    options = ["--log-verbose=1", "--http-restricted-api=statistics:name=SECRET-value==", "--strict-readiness=false",
               "--grpc-restricted-protocol=statistics:key=SECRET-grpc", "--exit-on-error=false"]
    command = ["env", *(f"{k}={v}" for k, v in env.items()), BINARY, "serve"]
    with Server(repo, work, *options, command=command, token="SECRET-token") as s:
        ui = s.ui_address
        for text in ("CONTENT-good", "CONTENT-fail"):
            s.post("/v2/models/talker/infer",
                   {"inputs": [{"name": "X", "shape": [1], "datatype": "BYTES", "data": [text]}]})
        s.post("/v2/models/talker/infer", b'{"inputs": "CONTENT-malformed"}')
        headers = {"X-Nereid": "1"}
        made = s.request("POST", "/api/access/tokens", json.dumps({"name": "phone", "scopes": ["infer"]}), headers, ui)
        s.made = made.json["token"]
        hook = {"url": "http://127.0.0.1:9/SECRET-path", "secret": "SECRET-hook"}
        answer = s.request("PUT", "/api/webhook", json.dumps(hook), headers, ui)
        assert answer.status == 200, answer.body
        yield s


def holds_nothing(found, made):
    for name, text in found.items():
        for secret in [*SECRETS, made]:
            assert secret not in text, (name, text[max(0, text.find(secret) - 200):][:400])


def test_the_page_has_a_bundle_without_secrets(server):
    answer = server.request("GET", "/api/support", address=server.ui_address)
    assert answer.status == 200 and answer.headers["content-type"] == "application/zip"
    assert "got [b'CONTENT-good']" in server.log()  # so that there is something to leave out
    found = parts(answer.body)
    holds_nothing(found, server.made)
    about = json.loads(found["server.json"])
    assert about["nereid"] and about["triton"] == server.get("/v2").json["version"] and about["memoryBytes"] > 0
    assert "http-restricted-api" in found["options.yaml"]
    assert "did you mean platform" in found["models.json"]
    assert 'key: "api_key"' in found["configs.pbtxt"]
    assert "successfully loaded 'talker'" in found["log.txt"]
    assert any(e["Kind"] == "load" and e["Model"] == "talker" for e in json.loads(found["events.json"]))
    assert "nv_inference_request_success" in found["metrics.txt"]
    assert "goroutine profile" in found["goroutines.txt"]
    assert "has not crashed" in found["crash.txt"]
    for name in found:
        assert name == "README.txt" or name in found["README.txt"]


def as_kept(text):
    """Returns how the files of the capture have a string: in base64, as far as whole groups of three bytes go."""
    raw = struct.pack("<I", len(text)) + text.encode()
    return base64.b64encode(raw[:len(raw) // 3 * 3]).decode()


def test_kept_contents_are_not_in_a_bundle(server, tmp_path):
    """Contents that an administrator keeps are in files of the data folder, and in the examples of the model."""
    kept = ["CONTENT-kept-answer", "CONTENT-kept-fail", "CONTENT-kept-quote"]
    data, ui = server.work / "data", server.ui_address

    def page(method, path, body):
        answer = server.request(method, "/api/models/talker" + path, body and json.dumps(body), {"X-Nereid": "1"}, ui)
        assert answer.status == 200, answer
        return answer.json

    page("PUT", "/capture", {"on": True})
    for text in kept:
        tensor = {"name": "X", "shape": [1], "datatype": "BYTES", "data": [text]}
        body = {"id": text, "parameters": {"word": "CONTENT-parameter"}, "inputs": [tensor]}
        server.post("/v2/models/talker/infer", body)
    page("PUT", "/requests/example", {"text": json.dumps({"inputs": [{**tensor, "data": ["CONTENT-example"]}]})})
    until(lambda: page("GET", "/capture", None)["kept"] == len(kept), 60, "the contents are not kept", server.log)
    forms = [*map(as_kept, kept), *(text.encode().hex() for text in kept)]
    for text in kept:
        assert files_with(data / "captures", as_kept(text)), "so that there is something to leave out"
    assert files_with(data / "captures", "CONTENT-parameter") and files_with(data / "captures", "cannot read CONTENT-")

    assert command(server.work, tmp_path / "kept.zip").returncode == 0
    bundles = [server.request("GET", "/api/support", address=ui).body, (tmp_path / "kept.zip").read_bytes()]
    for found in map(parts, bundles):
        assert "server.json" in found
        holds_nothing(found, server.made)
        for name, text in found.items():
            assert [form for form in forms if form in text] == [], name


def command(work, path):
    return subprocess.run([BINARY, "support", f"--data-dir={work / 'data'}", str(path)], capture_output=True, text=True,
                          timeout=60)


def test_the_command_asks_the_running_server(server, tmp_path):
    done = command(server.work, tmp_path / "a.zip")
    assert done.returncode == 0, done.stderr
    assert oct((tmp_path / "a.zip").stat().st_mode)[-3:] == "600"
    found = parts((tmp_path / "a.zip").read_bytes())
    holds_nothing(found, server.made)
    assert "server.json" in found
    again = command(server.work, tmp_path / "a.zip")
    assert again.returncode == 1 and "exists" in again.stderr


def test_a_crash_is_kept_and_told(tmp_path):
    (tmp_path / "models").mkdir()
    with Server(tmp_path / "models", tmp_path) as s:
        os.kill(s.process.pid, signal.SIGABRT)  # Go writes its goroutines and dies, as after a fault of its own
        s.process.wait()
        done = command(tmp_path, tmp_path / "stopped.zip")
        assert done.returncode == 0, done.stderr
        found = parts((tmp_path / "stopped.zip").read_bytes())
        assert set(found) == {"README.txt", "crash.txt", "events.json"}
        assert found["crash.txt"].startswith("nereid ") and "SIGABRT" in found["crash.txt"]
        s.start()
        assert "the server crashed before this start" in s.log()
        state = json.loads(s.request("GET", "/api/server", address=s.ui_address).body)
        assert any("crashed before this start" in w["text"] for w in state["warnings"])
        found = parts(s.request("GET", "/api/support", address=s.ui_address).body)
        assert "SIGABRT" in found["crash.txt"]
        s.stop()
        s.start()
        assert s.log().count("the server crashed before this start") == 1
