"""The Python backend of docs/write-a-backend.md, used as that page describes."""

import shutil

import pytest

from harness import ROOT, Server, REFERENCE


@pytest.mark.skipif(REFERENCE, reason="needs a folder with the reference's own backends")
def test_D082_I022_H072_a_backend_written_in_python(tmp_path):
    shutil.copytree(ROOT / "docs/examples/scale", tmp_path / "backends/scale")
    for name, text in {"triple": "3", "half": "0.5", "wrong": "three"}.items():
        version = tmp_path / "models" / name / "1"
        version.mkdir(parents=True)
        (version.parent / "config.pbtxt").write_text('backend: "scale"\n')
        (version / "factor.txt").write_text(text)
    with Server(tmp_path / "models", tmp_path, f"--backend-directory={tmp_path}/backends", "--exit-on-error=false",
                wait="live") as s:
        body = {"inputs": [{"name": "INPUT", "datatype": "FP32", "shape": [2, 2], "data": [1, 2, 3, 4]}]}
        assert s.post("/v2/models/triple/infer", body).json["outputs"][0]["data"] == [3, 6, 9, 12]
        assert s.post("/v2/models/half/infer", body).json["outputs"][0]["data"] == [0.5, 1, 1.5, 2]
        config = s.get("/v2/models/triple/config").json
        assert (config["max_batch_size"], config["backend"]) == (8, "scale") and "dynamic_batching" in config
        state, reason = s.index()["wrong", "1"]
        assert state == "UNAVAILABLE" and "factor.txt must hold a number" in reason
