"""Every recorded request of models-sample, over HTTP and gRPC, with the answer that was recorded beside it."""

import base64
import json

import numpy as np
import pytest
import tritonclient.grpc as tg
import tritonclient.http as th
from tritonclient.utils import triton_to_np_dtype

from harness import ROOT

SAMPLES = sorted((ROOT / "models-sample").glob("*/requests/*.json"))


def raw(tensor):
    """The tensor's bytes as on the wire."""
    if "b64" in tensor:
        return base64.b64decode(tensor["b64"])
    if tensor["datatype"] == "BYTES":
        return b"".join(len(s).to_bytes(4, "little") + s for s in (d.encode() for d in tensor["data"]))
    return np.array(tensor["data"], dtype=triton_to_np_dtype(tensor["datatype"])).tobytes()


def infer(client, module, model, recorded):
    inputs = []
    for t in recorded["inputs"]:
        i = module.InferInput(t["name"], t["shape"], t["datatype"])
        i._raw_data = raw(t)  # bytes that numpy cannot hold (BF16, not UTF-8) must get through as they are
        if module is th:
            i._parameters["binary_data_size"] = len(i._raw_data)
        else:
            i._raw_content = i._raw_data
        inputs.append(i)
    return client.infer(model, inputs)


def close(got, want, recorded):
    if recorded["tolerance"] == 0:
        assert got == want
        return
    g, w = np.frombuffer(got, "<f4"), np.frombuffer(want, "<f4")
    assert g.shape == w.shape
    np.testing.assert_allclose(g, w, rtol=0, atol=recorded["tolerance"])


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: f"{p.parts[-3]}-{p.stem}")
def test_recorded_requests(samples, path):
    recorded, model = json.loads(path.read_text()), path.parts[-3]
    with th.InferenceServerClient(samples.http) as h, tg.InferenceServerClient(samples.grpc) as g:
        over_http = infer(h, th, model, recorded)
        over_grpc = infer(g, tg, model, recorded)
        response = over_grpc.get_response()
        for k, want in enumerate(recorded["outputs"]):
            names = [o.name for o in response.outputs]
            at = names.index(want["name"])
            assert (response.outputs[at].datatype, list(response.outputs[at].shape)) == (want["datatype"], want["shape"])
            close(response.raw_output_contents[at], raw(want), recorded)
            head = over_http.get_output(want["name"])
            assert (head["datatype"], head["shape"]) == (want["datatype"], want["shape"])
            start = over_http._output_name_to_buffer_map[want["name"]]
            size = head["parameters"]["binary_data_size"]
            close(bytes(over_http._buffer[start : start + size]), raw(want), recorded)


def test_every_sample_model_has_a_recorded_request():
    folders = {p.parent.name for p in (ROOT / "models-sample").glob("*/config.pbtxt")}
    assert folders and folders == {p.parts[-3] for p in SAMPLES}


def test_all_sample_models_are_ready(samples):
    states = {state for state, _ in samples.index().values()}
    assert states == {"READY"}
