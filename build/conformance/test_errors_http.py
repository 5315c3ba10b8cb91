"""Triton's error texts for invalid HTTP requests. `deviates` marks status codes that differ on purpose."""

import json

import numpy as np
import pytest

from harness import REFERENCE, binary_body, deviates, tensor_input

ROW = list(range(16))
RAW = np.arange(16, dtype="<i4").tobytes()
JSON_FAULT = deviates(500, 400)  # Triton reports invalid JSON of a client as an internal error


def i32(name="INPUT0", shape=(1, 16), data=ROW, datatype="INT32", **more):
    return {**tensor_input(name, datatype, list(shape), data), **more}


def two(first=None, second=None, **more):
    return {"inputs": [first or i32(), second or i32("INPUT1")], **more}


def infer(server, value, headers=None, model="sums"):
    return server.post(f"/v2/models/{model}/infer", value, headers)


@pytest.mark.parametrize(
    "body, prefix",
    [
        pytest.param(b'{"inputs":[', "failed to parse the request JSON buffer: ", id="cut_off"),
        pytest.param(b"{}{}", "failed to parse the request JSON buffer: The document root must not be followed by "
                              "other values", id="two_roots"),
        pytest.param(b"[]", "Unable to parse 'inputs': ", id="array"),
        pytest.param(b'{"inputs":' + b"[" * 100_000, "", id="deeply_nested"),
    ],
)
def test_B021_malformed_json(server, body, prefix):
    a = infer(server, body)
    assert a.status == JSON_FAULT and a.error.startswith(prefix)
    assert server.get("/v2/health/live").status == 200


def test_broken_model_has_no_version(broken):
    a = broken.post("/v2/models/bad_backend/infer", two())
    assert (a.status, a.error) == (404, "Request for unknown model: 'bad_backend' has no available versions")


@pytest.mark.skipif(REFERENCE, reason="an overflowing size crashes the reference's Python model")
@pytest.mark.parametrize("shape", [[2**33, 2**33], [2**62, 4], [2**63 - 1, 2], [4294967296, 4294967296, 1]])
def test_DV06_shapes_whose_product_wraps(server, shape):
    header = {"inputs": [{"name": "INPUT0", "shape": shape, "datatype": "FP32", "parameters": {"binary_data_size": 4}}]}
    a = infer(server, *binary_body(header, bytes(4)), "id_FP32")
    assert a.status == 400
    assert infer(server, two()).status == 200


@pytest.mark.skipif(REFERENCE, reason="the reference has no such error texts")
def test_error_is_always_json_with_error(server):
    for body in (b"\xff\xfe", b"null", b"1", b'"x"', b'{"inputs":null}', b'{"inputs":[1]}', b'{"inputs":[{"name":1}]}'):
        a = infer(server, body)
        assert a.status == 400 and json.loads(a.body)["error"], body
