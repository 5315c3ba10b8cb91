"""What clients send stays in memory: no byte of a tensor is in the data folder or in the log."""

import contextlib
import json
import struct

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc

from harness import REFERENCE, Server, until

pytestmark = pytest.mark.skipif(REFERENCE, reason="the data folder is ours")

CONFIG = """backend: "identity"
input {{ name: "INPUT0" data_type: {0} dims: 1 }}
output {{ name: "OUTPUT0" data_type: {0} dims: 1 }}
"""
MARK = "a-content-that-no-file-may-have"


def files_with(folder, text):
    found = []
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # a temporary file of the server
            if path.is_file() and text.encode() in path.read_bytes():
                found.append(path)
    return found


def post(server, model, request_id, tensor, status):
    answer = server.post(f"/v2/models/{model}/infer", {"id": request_id, "inputs": [{"name": "INPUT0", **tensor}]})
    assert answer.status == status, answer


def send_all(server):
    post(server, "text", "as-json", {"datatype": "BYTES", "shape": [1], "data": [MARK]}, 200)
    post(server, "text", "too-many", {"datatype": "BYTES", "shape": [2], "data": [MARK, MARK]}, 400)
    post(server, "number", "no-number", {"datatype": "FP32", "shape": [1], "data": [MARK]}, 400)
    post(server, "unknown", "no-model", {"datatype": "BYTES", "shape": [1], "data": [MARK]}, 404)
    assert server.post("/v2/models/text/infer", f'{{"inputs": [{{"data": ["{MARK}" {MARK}'.encode()).status == 400
    raw = struct.pack("<I", len(MARK)) + MARK.encode()
    tensor = {"name": "INPUT0", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": len(raw)}}
    head = json.dumps({"id": "as-bytes", "inputs": [tensor]}).encode()
    lengths = {"Inference-Header-Content-Length": str(len(head))}
    assert server.post("/v2/models/text/infer", head + raw, lengths).status == 200
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        given = triton_grpc.InferInput("INPUT0", [1], "BYTES")
        given.set_data_from_numpy(np.array([MARK.encode()], dtype=object))
        answer = client.infer("text", [given], request_id="by-grpc")
        assert answer.as_numpy("OUTPUT0")[0] == MARK.encode()


def test_H16_contents_of_requests_are_in_no_file(tmp_path):
    for name, datatype in (("text", "TYPE_STRING"), ("number", "TYPE_FP32")):
        (tmp_path / "models" / name / "1").mkdir(parents=True)
        (tmp_path / "models" / name / "config.pbtxt").write_text(CONFIG.format(datatype))
    work = tmp_path / "work"
    with Server(tmp_path / "models", work, "--log-verbose=1") as server:
        send_all(server)
        # The IDs are kept as text, so that they show that the search finds what is there.
        for request_id in ("as-json", "too-many", "as-bytes", "by-grpc"):
            until(lambda text=request_id: files_with(work / "data", text), 60, f"{request_id} is not kept", server.log)
        assert files_with(work, MARK) == []
        assert server.stop() == 0
    assert files_with(work, MARK) == []
