"""Sends every recorded request of models-sample over HTTP and gRPC, and compares with the recorded answer."""

import base64
import json
import queue

import numpy as np
import pytest
import requests
import tritonclient.grpc as tg
import tritonclient.http as th
from PIL import Image
from tritonclient.utils import triton_to_np_dtype

from harness import ROOT

SAMPLES = sorted((ROOT / "models-sample").glob("*/requests/*.json"))


def raw(tensor):
    """The tensor's bytes in wire format."""
    if "b64" in tensor:
        return base64.b64decode(tensor["b64"])
    if tensor["datatype"] == "BYTES":
        return b"".join(len(s).to_bytes(4, "little") + s for s in (d.encode() for d in tensor["data"]))
    return np.array(tensor["data"], dtype=triton_to_np_dtype(tensor["datatype"])).tobytes()


def infer(client, module, model, recorded):
    inputs = []
    for t in recorded["inputs"]:
        i = module.InferInput(t["name"], t["shape"], t["datatype"])
        i._raw_data = raw(t)  # bytes without a numpy type (BF16, not UTF-8) must pass unchanged
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
            assert (response.outputs[at].datatype,
                    list(response.outputs[at].shape)) == (want["datatype"], want["shape"])
            close(response.raw_output_contents[at], raw(want), recorded)
            head = over_http.get_output(want["name"])
            assert (head["datatype"], head["shape"]) == (want["datatype"], want["shape"])
            start = over_http._output_name_to_buffer_map[want["name"]]
            size = head["parameters"]["binary_data_size"]
            close(bytes(over_http._buffer[start : start + size]), raw(want), recorded)


def test_every_sample_model_has_a_recorded_request():
    folders = {p.parent.name for p in (ROOT / "models-sample").glob("*/config.pbtxt")}
    python = {p.parent.parent.name for p in (ROOT / "models-sample").glob("*/1/model.py")}
    assert python == {"digits_py", "digits_pipeline", "words", "running_sum"}  # tested below
    assert folders and folders == {p.parts[-3] for p in SAMPLES} | python


def test_all_sample_models_are_ready(samples):
    states = {state for state, _ in samples.index().values()}
    assert states == {"READY"}


PICTURES = [p for p in sorted((ROOT / "models-sample" / "digits" / "requests").glob("*.json"))
            if "image" in json.loads(p.read_text())]
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def grey(path):
    """The grey values of a PNG picture: rows by columns."""
    image = Image.open(path).convert("RGBA")
    return np.asarray(Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("L"))


def test_a_classifier_in_python(samples):
    """digits_py: 28x28 pictures in one batch, with scores, labels and classification."""
    pictures = [p for p in PICTURES if "28" in p.stem]
    right = [json.loads(p.read_text())["label"] for p in pictures]
    batch = np.stack([grey(p.with_suffix(".png")) for p in pictures])
    with th.InferenceServerClient(samples.http) as client:
        given = th.InferInput("image", list(batch.shape), "UINT8")
        given.set_data_from_numpy(batch)
        result = client.infer("digits_py", [given])
        labels = [v.decode() for v in result.as_numpy("label").ravel()]
        scores = result.as_numpy("scores")
        assert scores.shape == (len(pictures), 10) and np.allclose(scores.sum(axis=1), 1, atol=1e-3)
        assert labels == [WORDS[i] for i in scores.argmax(axis=1)]
        assert sum(a == b for a, b in zip(labels, right)) >= len(right) - 1, (labels, right)
        top = client.infer("digits_py", [given],
                           outputs=[th.InferRequestedOutput("scores", class_count=1)]).as_numpy("scores")
        assert [v.decode().split(":")[2] for v in top.ravel()] == labels


def test_G028_a_pipeline_in_python(samples):
    """digits_pipeline: pictures of any size, classified by the model digits."""
    right = 0
    with tg.InferenceServerClient(samples.grpc) as client:
        for path in PICTURES:
            picture = grey(path.with_suffix(".png"))
            given = tg.InferInput("picture", list(picture.shape), "UINT8")
            given.set_data_from_numpy(picture)
            result = client.infer("digits_pipeline", [given])
            assert 0 < result.as_numpy("score")[0] <= 1
            right += WORDS[result.as_numpy("digit")[0]] == json.loads(path.read_text())["label"]
    assert right >= len(PICTURES) - 1, f"{right} of {len(PICTURES)}"


def test_a_stream_in_python(samples):
    """words: one response for each word, over gRPC and as server-sent events."""
    got = queue.Queue()
    with tg.InferenceServerClient(samples.grpc) as client:
        client.start_stream(lambda result, error: got.put((result, error)))
        given = tg.InferInput("text_input", [1], "BYTES")
        given.set_data_from_numpy(np.array(["one small step"], dtype=object))
        client.async_stream_infer("words", [given], enable_empty_final_response=True)
        words = []
        while True:
            result, error = got.get(timeout=60)
            assert error is None, error
            if result.get_response().parameters["triton_final_response"].bool_param:
                break
            words.append((int(result.as_numpy("index")[0]), result.as_numpy("text_output")[0].decode()))
        assert words == [(0, "one"), (1, "small"), (2, "step")]
    with requests.post(f"http://{samples.http}/v2/models/words/generate_stream", json={"text_input": "for a man"},
                       stream=True, timeout=60) as answer:
        events = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith(b"data: ")]
    assert [e["text_output"] for e in events] == ["for", "a", "man"]


def test_a_stateful_model_in_python(samples):
    """running_sum: two concurrent sequences have separate sums."""
    with th.InferenceServerClient(samples.http) as client:

        def add(sequence, value, **flags):
            given = th.InferInput("value", [1, 1], "INT64")
            given.set_data_from_numpy(np.array([[value]], np.int64))
            return int(client.infer("running_sum", [given], sequence_id=sequence, **flags).as_numpy("sum")[0, 0])

        assert add(7, 1, sequence_start=True) == 1
        assert add(8, 10, sequence_start=True) == 10
        assert add(7, 2) == 3
        assert add(8, 20, sequence_end=True) == 30
        assert add(7, 3, sequence_end=True) == 6
        assert add(8, 5, sequence_start=True, sequence_end=True) == 5
