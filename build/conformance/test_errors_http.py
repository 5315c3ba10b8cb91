"""What is wrong with a request, over HTTP: Triton's texts. Codes where ours differs on purpose are in `deviates`."""

import json

import numpy as np
import pytest

from harness import REFERENCE, binary_body, deviates, tensor_input

ROW = list(range(16))
RAW = np.arange(16, dtype="<i4").tobytes()
JSON_FAULT = deviates(500, 400)  # Triton calls a fault of the client's JSON an internal error
NOTE = (
    " NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended to each "
    "input shape. If you want to specify the full shape including the batch dim in your input dims config, try setting "
    "max_batch_size to zero. See the model configuration docs for more info on max_batch_size."
)
ID = "[request id: <id_unknown>] "


def i32(name="INPUT0", shape=(1, 16), data=ROW, datatype="INT32", **more):
    return {**tensor_input(name, datatype, list(shape), data), **more}


def two(first=None, second=None, **more):
    return {"inputs": [first or i32(), second or i32("INPUT1")], **more}


def raw(size, name="INPUT0"):
    return {"name": name, "datatype": "INT32", "shape": [1, 16], "parameters": {"binary_data_size": size}}


CASES = [
    # name, body, status, text
    ("empty object", {}, JSON_FAULT, "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'"),
    ("inputs empty", {"inputs": []}, 400, ID + "expected 2 inputs but got 0 inputs for model 'sums'. Got input(s) [], but missing required input(s) ['INPUT0','INPUT1']. Please provide all required input(s)."),
    ("inputs not an array", {"inputs": {}}, JSON_FAULT, "Unable to parse 'inputs': attempt to access JSON non-array as array"),
    ("missing input", {"inputs": [i32()]}, 400, ID + "expected 2 inputs but got 1 inputs for model 'sums'. Got input(s) ['INPUT0'], but missing required input(s) ['INPUT1']. Please provide all required input(s)."),
    ("renamed input", two(i32("NOPE")), 400, "unexpected inference input 'NOPE' for model 'sums'"),
    ("duplicate input", {"inputs": [i32(), i32()]}, 400, ID + "input 'INPUT0' already exists in request"),
    ("unknown output", two(outputs=[{"name": "NOPE"}]), 400, "unexpected inference output 'NOPE' for model 'sums'"),
    ("output with no name", two(outputs=[{}]), JSON_FAULT, "Unable to parse 'name': attempt to access non-existing object member 'name'"),
    ("wrong shape", two(i32(shape=[1, 15], data=ROW[:15])), 400, ID + "unexpected shape for input 'INPUT0' for model 'sums'. Expected [-1,16], got [1,15]." + NOTE),
    ("wrong rank 3", two(i32(shape=[1, 1, 16])), 400, ID + "unexpected shape for input 'INPUT0' for model 'sums'. Expected [-1,16], got [1,1,16]." + NOTE),
    ("batch sizes differ", two(i32(shape=[2, 16], data=ROW * 2)), 400, ID + "input 'INPUT1' batch size does not match other inputs for 'sums'"),
    ("batch too large", two(i32(shape=[9, 16], data=ROW * 9), i32("INPUT1", shape=[9, 16], data=ROW * 9)), 400, ID + "inference request batch-size must be <= 8 for 'sums'"),
    ("wrong datatype", two(i32(datatype="FP32")), 400, ID + "inference input 'INPUT0' data-type is 'FP32', but model 'sums' expects 'INT32'"),
    ("string in INT32 data", two(i32(data=["a"] + ROW[1:])), JSON_FAULT, "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer"),
    ("float in INT32 data", two(i32(data=[0.5] + ROW[1:])), JSON_FAULT, "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer"),
    ("bool in INT32 data", two(i32(data=[True] + ROW[1:])), JSON_FAULT, "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer"),
    ("null in INT32 data", two(i32(data=[None] + ROW[1:])), JSON_FAULT, "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer"),
    ("data not an array", two(i32(data=5)), JSON_FAULT, "Unable to parse 'data': attempt to access JSON non-array as array"),
    ("shape not an array", two({**i32(), "shape": 16}), JSON_FAULT, "Unable to parse 'shape': attempt to access JSON non-array as array"),
    ("shape of strings", two({**i32(), "shape": ["1", "16"]}), JSON_FAULT, "Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer"),
    ("id not a string", two(id=5), JSON_FAULT, "Unable to parse 'id': attempt to access JSON non-string as string"),
    ("no datatype", two({k: v for k, v in i32().items() if k != "datatype"}), JSON_FAULT, "Unable to parse 'datatype': attempt to access non-existing object member 'datatype'"),
    ("no shape", two({k: v for k, v in i32().items() if k != "shape"}), JSON_FAULT, "Unable to parse 'shape': attempt to access non-existing object member 'shape'"),
    ("no name", two({k: v for k, v in i32().items() if k != "name"}), JSON_FAULT, "Unable to parse 'name': attempt to access non-existing object member 'name'"),
    ("bad parameter type", two(parameters={"foo": [1]}), 400, "parameter 'foo' has invalid type. It should be either 'int', 'bool', or 'string'."),
    ("reserved parameter", two(parameters={"triton_x": 1}), 400, "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified."),
]


def infer(server, value, headers=None, model="sums"):
    return server.post(f"/v2/models/{model}/infer", value, headers)


@pytest.mark.parametrize("body, status, text", [pytest.param(*c[1:], id=c[0].replace(" ", "_")) for c in CASES])
def test_B021_C098_request_faults(server, body, status, text):
    a = infer(server, body)
    error = a.error
    if "does not match other inputs" in text:  # of the two inputs, Triton may name either
        error = error.replace("'INPUT0' batch", "'INPUT1' batch")
    assert (a.status, error) == (status, text)


@pytest.mark.parametrize(
    "body, prefix",
    [
        pytest.param(b'{"inputs":[', "failed to parse the request JSON buffer: ", id="cut_off"),
        pytest.param(b"{}{}", "failed to parse the request JSON buffer: The document root must not be followed by other values", id="two_roots"),
        pytest.param(b"[]", "Unable to parse 'inputs': ", id="array"),
        pytest.param(b'{"inputs":' + b"[" * 100_000, "", id="deeply_nested"),
    ],
)
def test_B021_malformed_json(server, body, prefix):
    a = infer(server, body)
    assert a.status == JSON_FAULT and a.error.startswith(prefix)
    assert server.get("/v2/health/live").status == 200


BINARY = [
    ("size too small for the shape", [raw(60), raw(64, "INPUT1")], [RAW, RAW], 400, "unexpected additional input data for model 'sums'"),
    ("size more than the body", [raw(64), raw(68, "INPUT1")], [RAW, RAW], 400, "unexpected size for input 'INPUT1', expecting 4 additional bytes for model 'sums'"),
    ("bytes left over", [raw(64), raw(64, "INPUT1")], [RAW, RAW, b"x"], 400, "unexpected additional input data for model 'sums'"),
    ("body too short", [raw(64), raw(64, "INPUT1")], [RAW], 400, "unexpected size for input 'INPUT1', expecting 64 additional bytes for model 'sums'"),
    ("negative size", [raw(-1), raw(64, "INPUT1")], [RAW, RAW], JSON_FAULT, "Unable to parse 'binary_data_size': attempt to access JSON non-unsigned-integer as unsigned-integer"),
    ("size a string", [raw("64"), raw(64, "INPUT1")], [RAW, RAW], JSON_FAULT, "Unable to parse 'binary_data_size': attempt to access JSON non-unsigned-integer as unsigned-integer"),
]


@pytest.mark.parametrize("inputs, tensors, status, text", [pytest.param(*c[1:], id=c[0].replace(" ", "_")) for c in BINARY])
def test_B031_binary_faults(server, inputs, tensors, status, text):
    a = infer(server, *binary_body({"inputs": inputs}, *tensors))
    assert (a.status, a.error) == (status, text)


@pytest.mark.parametrize("value, text", [("-5", "got: -5"), ("100000", "got: 100000")])
def test_B031_header_length_out_of_range(server, value, text):
    body, headers = binary_body({"inputs": [raw(64), raw(64, "INPUT1")]}, RAW, RAW)
    a = infer(server, body, {**headers, "Inference-Header-Content-Length": value})
    assert a.status == 400 and a.error == f"inference header size should be in range (0, {len(body)}), {text}"


def test_B033_raw_request_for_a_model_with_two_inputs(server):
    a = infer(server, RAW, {"Inference-Header-Content-Length": "0"})
    want = ID + "Raw request must only have 1 input (found 1) to be deduced but got 2 inputs in 'sums' model configuration"
    assert (a.status, a.error) == (400, want)


@pytest.mark.parametrize("datatype", ["FP16"] if REFERENCE else ["FP16", "BF16"])
def test_B028_half_floats_have_no_json(server, datatype):
    a = infer(server, {"inputs": [tensor_input("INPUT0", datatype, [2], [1.5, 2])]}, model="id_" + datatype)
    want = f"receiving {datatype} data via JSON is not supported. Please use the binary data format for input INPUT0"
    assert (a.status, a.error) == (400, want)
    header = {"inputs": [{"name": "INPUT0", "datatype": datatype, "shape": [2], "parameters": {"binary_data_size": 4}}]}
    a = infer(server, *binary_body(header, b"\x00\x3c\x00\x40"), "id_" + datatype)
    assert a.status == 400
    assert a.error.startswith(f"sending {datatype} data via JSON is not supported. Please use the binary data format for output")


def test_BOOL_data_must_be_true_or_false(server):
    a = infer(server, {"inputs": [tensor_input("INPUT0", "BOOL", [3], [True, False, 1])]}, model="id_BOOL")
    assert (a.status, a.error) == (JSON_FAULT, "Unable to parse 'data': attempt to access JSON non-boolean as boolean")


def test_B029_fewer_strings_than_the_shape_says(server):
    tensor = b"\x03\x00\x00\x00abc\x02\x00\x00\x00\xff\x00"
    header = {"inputs": [{"name": "INPUT0", "shape": [3], "datatype": "BYTES", "parameters": {"binary_data_size": len(tensor)}}]}
    a = infer(server, *binary_body(header, tensor), "id_BYTES")
    assert (a.status, a.error) == (400, ID + "expected 3 string elements for inference input 'INPUT0' for model 'id_BYTES', got 2")


@pytest.mark.parametrize(
    "path, status, text",
    [
        ("nope/infer", 404, "Request for unknown model: 'nope' is not found"),
        ("sums/versions/9/infer", 404, "Request for unknown model: 'sums' version 9 is not found"),
        ("versions/versions/1/infer", 404, "Request for unknown model: 'versions' version 1 is not found"),
        ("sums/versions/abc/infer", 404, "Not Found"),
        ("repeat/infer", 501, "HTTP end point doesn't support models with decoupled transaction policy"),
    ],
)
def test_B021_models_that_cannot_answer(server, path, status, text):
    body = {"inputs": [tensor_input("IN", "INT32", [1], [1]), tensor_input("DELAY", "UINT32", [1], [0]), tensor_input("WAIT", "UINT32", [1], [0])]}
    a = server.post("/v2/models/" + path, body if "repeat" in path else two())
    assert (a.status, a.error) == (status, text)


def test_broken_model_has_no_version(broken):
    a = broken.post("/v2/models/bad_backend/infer", two())
    assert (a.status, a.error) == (404, "Request for unknown model: 'bad_backend' has no available versions")


def test_request_id_is_in_the_error(server):
    a = infer(server, two(i32(shape=[9, 16], data=ROW * 9), i32("INPUT1", shape=[9, 16], data=ROW * 9), id="abc"))
    assert a.error == "[request id: abc] inference request batch-size must be <= 8 for 'sums'"


@pytest.mark.skipif(REFERENCE, reason="a size that wraps kills the reference's Python model")
@pytest.mark.parametrize("shape", [[2**33, 2**33], [2**62, 4], [2**63 - 1, 2], [4294967296, 4294967296, 1]])
def test_shapes_whose_product_wraps(server, shape):
    header = {"inputs": [{"name": "INPUT0", "shape": shape, "datatype": "FP32", "parameters": {"binary_data_size": 4}}]}
    a = infer(server, *binary_body(header, bytes(4)), "id_FP32")
    assert a.status == 400
    assert infer(server, two()).status == 200


@pytest.mark.skipif(REFERENCE, reason="the reference has no such texts")
def test_error_is_always_json_with_error(server):
    for body in (b"\xff\xfe", b"null", b"1", b'"x"', b'{"inputs":null}', b'{"inputs":[1]}', b'{"inputs":[{"name":1}]}'):
        a = infer(server, body)
        assert a.status == 400 and json.loads(a.body)["error"], body
