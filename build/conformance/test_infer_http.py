"""Inference over HTTP: the forms of requests and answers, with the real client and with raw bytes."""

import gzip
import http.client
import socket
import struct
import zlib

import numpy as np
import pytest
import tritonclient.http as th
from tritonclient.utils import InferenceServerException

from harness import REFERENCE, binary_body, deviates, gunzip, tensor_input

ROW = list(range(16))


def sums_json(rows=1, **more):
    data = ROW * rows
    return {"inputs": [tensor_input(n, "INT32", [rows, 16], data) for n in ("INPUT0", "INPUT1")], **more}


def sums_binary(rows=1, outputs=None, **parameters):
    raw = np.tile(np.arange(16, dtype="<i4"), rows).tobytes()
    header = {
        "inputs": [
            {"name": n, "datatype": "INT32", "shape": [rows, 16], "parameters": {"binary_data_size": len(raw)}}
            for n in ("INPUT0", "INPUT1")
        ]
    }
    if outputs:
        header["outputs"] = outputs
    if parameters:
        header["parameters"] = parameters
    return binary_body(header, raw, raw)


OK = {
    "model_name": "sums",
    "model_version": "1",
    "outputs": [
        {"name": "OUTPUT0", "datatype": "INT32", "shape": [1, 16], "data": [2 * i for i in ROW]},
        {"name": "OUTPUT1", "datatype": "INT32", "shape": [1, 16], "data": [0] * 16},
    ],
}


def infer(server, value, headers=None, model="sums"):
    return server.post(f"/v2/models/{model}/infer", value, headers)


def test_B010_B024_json_in_and_out(server):
    a = infer(server, sums_json())
    assert a.status == 200 and a.json == OK
    assert a.headers["content-type"] == "application/json"
    assert int(a.headers["content-length"]) == len(a.body)


def test_B010_version_in_the_path(server):
    assert server.post("/v2/models/sums/versions/1/infer", sums_json()).json == OK


def test_B024_nested_data_and_unknown_keys(server):
    value = sums_json(unused=[1, {"a": 2}])
    value["inputs"][0]["data"] = [ROW]
    value["inputs"][1]["unused"] = None
    assert infer(server, value).json == OK


def test_B025_B026_id_and_requested_outputs(server):
    a = infer(server, sums_json(id="my-id", outputs=[{"name": "OUTPUT1"}]))
    assert a.json == {"id": "my-id", "model_name": "sums", "model_version": "1", "outputs": [OK["outputs"][1]]}


def test_batches_in_json(server):
    a = infer(server, sums_json(rows=2)).json
    assert a["outputs"][0]["shape"] == [2, 16] and a["outputs"][0]["data"] == [2 * i for i in ROW] * 2


def test_B031_binary_in_json_out(server):
    body, headers = sums_binary()
    assert infer(server, body, headers).json == OK


def split(answer):
    """The JSON of an answer with binary outputs, and the bytes after it."""
    n = int(answer.headers["inference-header-content-length"])
    import json

    return json.loads(answer.body[:n]), answer.body[n:]


def test_B032_binary_out_by_request_parameter(server):
    body, headers = sums_binary(binary_data_output=True)
    a = infer(server, body, headers)
    assert a.status == 200 and a.headers["content-type"] == "application/octet-stream"
    head, tail = split(a)
    assert [o["parameters"] for o in head["outputs"]] == [{"binary_data_size": 64}] * 2
    assert tail == np.arange(0, 32, 2, dtype="<i4").tobytes() + bytes(64)


def test_B032_one_output_binary_one_json(server):
    body, headers = sums_binary(outputs=[{"name": "OUTPUT0", "parameters": {"binary_data": True}}, {"name": "OUTPUT1"}])
    head, tail = split(infer(server, body, headers))
    assert head["outputs"][1] == OK["outputs"][1]
    assert tail == np.arange(0, 32, 2, dtype="<i4").tobytes()


def test_B032_listed_outputs_follow_their_own_parameter_only(server):
    """binary_data_output of the request applies only if the request lists no outputs."""
    outputs = [{"name": "OUTPUT0", "parameters": {"binary_data": False}}, {"name": "OUTPUT1"}]
    body, headers = sums_binary(outputs=outputs, binary_data_output=True)
    assert infer(server, body, headers).json == OK
    outputs = [{"name": "OUTPUT0"}, {"name": "OUTPUT1", "parameters": {"binary_data": True}}]
    head, tail = split(infer(server, *sums_binary(outputs=outputs, binary_data_output=True)))
    assert head["outputs"][0] == OK["outputs"][0] and tail == bytes(64)


def test_B034_one_binary_and_one_json_input(server):
    raw = np.arange(16, dtype="<i4").tobytes()
    header = {
        "inputs": [
            {"name": "INPUT0", "datatype": "INT32", "shape": [1, 16], "parameters": {"binary_data_size": 64}},
            tensor_input("INPUT1", "INT32", [1, 16], ROW),
        ]
    }
    assert infer(server, *binary_body(header, raw)).json == OK


def test_B033_raw_binary_request(server):
    raw = np.arange(16, dtype="<f4").tobytes()
    a = infer(server, raw, {"Inference-Header-Content-Length": "0"}, "plain")
    assert a.status == 200
    head, tail = split(a)
    assert head["outputs"] == [{"name": "OUTPUT0", "datatype": "FP32", "shape": [1, 16],
                                "parameters": {"binary_data_size": 64}}]
    assert tail == raw


def test_B049_classification_with_labels(server):
    value = {
        "inputs": [tensor_input("INPUT0", "FP32", [1, 16], ROW)],
        "outputs": [{"name": "OUTPUT0", "parameters": {"classification": 3}}],
    }
    want = ["15.000000:15:label15", "14.000000:14:label14", "13.000000:13:label13"]
    a = infer(server, value, model="labelled").json
    assert a["outputs"] == [{"name": "OUTPUT0", "datatype": "BYTES", "shape": [1, 3], "data": want}]


def test_B049_classification_without_labels_by_the_client(server):
    with th.InferenceServerClient(server.http) as c:
        i = th.InferInput("INPUT0", [2, 16], "FP32")
        i.set_data_from_numpy(np.vstack([np.arange(16), -np.arange(16)]).astype(np.float32))
        r = c.infer("plain", [i], outputs=[th.InferRequestedOutput("OUTPUT0", class_count=2)])
        assert r.as_numpy("OUTPUT0").tolist() == [[b"15.000000:15", b"14.000000:14"], [b"0.000000:0", b"-1.000000:1"]]


def floats(server, values):
    body = b'{"inputs":[{"name":"INPUT0","shape":[1,16],"datatype":"FP32","parameters":{"binary_data_size":64}}]}'
    raw = np.array(values, dtype="<f4").tobytes()
    return infer(server, body + raw, {"Inference-Header-Content-Length": str(len(body))}, "plain").body


NUMBERS = [0.1, 1e-7, 1e20, 3.4e38, -0.0, 1 / 3, 123456.789, 2**24, 1, 1e-45, 0, 2.5, 100, 1e6, 1e7, 1e21]


def test_B030_numbers_in_json(server):
    assert floats(server, NUMBERS).endswith(
        b'"data":[0.10000000149011612,1.0000000116860974e-7,100000002004087730000.0,3.3999999521443644e38,-0.0,'
        b"0.3333333432674408,123456.7890625,16777216.0,1.0,1.401298464324817e-45,0.0,2.5,100.0,1000000.0,10000000.0,"
        b"1.0000000200408774e21]}]}"
    )


def test_B030_nan_and_infinity_in_json(server):
    got = floats(server, [np.nan, np.inf, -np.inf] + NUMBERS[3:])
    assert b'"data":[NaN,Infinity,-Infinity,3.3999999521443644e38,' in got


def test_FP64_numbers_in_json(server):
    value = {"inputs": [tensor_input("INPUT0", "FP64", [4], [0.1, 1e300, 3, 5e-324])]}
    assert b'"data":[0.1,1e300,3.0,5e-324]' in infer(server, value, model="id_FP64").body


def test_large_integers_in_json(server):
    value = {"inputs": [tensor_input("INPUT0", "INT64", [3], [9007199254740993, -(2**63), 2**63 - 1])]}
    assert infer(server, value, model="id_INT64").json["outputs"][0]["data"] == [9007199254740993, -(2**63), 2**63 - 1]
    value = {"inputs": [tensor_input("INPUT0", "UINT64", [1], [2**64 - 1])]}
    assert infer(server, value, model="id_UINT64").json["outputs"][0]["data"] == [2**64 - 1]


def test_B029_bytes_in_json(server):
    value = {"inputs": [tensor_input("INPUT0", "BYTES", [4], ["a", "bcé\n", "", "a\x00b"])]}
    assert infer(server, value, model="id_BYTES").json["outputs"][0]["data"] == ["a", "bcé\n", "", "a\x00b"]


def test_B029_bytes_that_are_not_utf8_in_json(server):
    raw = struct.pack("<I3sI2s", 3, b"abc", 2, b"\xff\x00")
    header = {"inputs": [{"name": "INPUT0", "shape": [2], "datatype": "BYTES",
                          "parameters": {"binary_data_size": len(raw)}}]}
    assert b'"data":["abc","\xff\\u0000"]' in infer(server, *binary_body(header, raw), "id_BYTES").body


@pytest.mark.parametrize("encoding, pack", [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_B037_compressed_requests(server, encoding, pack):
    import json

    a = infer(server, pack(json.dumps(sums_json()).encode()), {"Content-Encoding": encoding})
    assert a.json == OK


@pytest.mark.parametrize("accept, unpack", [("gzip", gunzip), ("br, deflate", zlib.decompress)])
def test_B038_compressed_answers(server, accept, unpack):
    import json

    a = infer(server, sums_json(), {"Accept-Encoding": accept})
    assert a.headers["content-encoding"] == accept.split()[-1]
    assert json.loads(unpack(a.body)) == OK


def test_B037_B038_compression_by_the_client(server, sixteen):
    with th.InferenceServerClient(server.http) as c:
        inputs = [th.InferInput(n, [1, 16], "INT32") for n in ("INPUT0", "INPUT1")]
        for i in inputs:
            i.set_data_from_numpy(sixteen)
        for way in ("gzip", "deflate"):
            r = c.infer("sums", inputs, request_compression_algorithm=way, response_compression_algorithm=way)
            np.testing.assert_array_equal(r.as_numpy("OUTPUT0"), 2 * sixteen)


def test_B037_unknown_encoding(server):
    a = infer(server, sums_json(), {"Content-Encoding": "br"})
    assert (a.status, a.error) == (501, "Unsupported compression type")
    assert a.headers["accept-encoding"] == "gzip, deflate"


def test_B039_chunked_request(server):
    import json

    conn = http.client.HTTPConnection(server.http)
    text = json.dumps(sums_json()).encode()
    conn.request("POST", "/v2/models/sums/infer", iter([text[:5], text[5:]]), {"Content-Type": "application/json"},
                 encode_chunked=True)
    assert json.loads(conn.getresponse().read()) == OK
    conn.close()


def test_B041_DV22_keep_alive_and_pipelining(server):
    host, port = server.http.split(":")
    one = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=60) as s:
        for n in (1, deviates(1, 3)):  # the reference does not answer pipelined requests
            s.sendall(one * n)
            got = b""
            while got.count(b"\r\n\r\n") < n:
                part = s.recv(65536)
                assert part, f"the connection was closed after {got!r}"
                got += part
            assert got.count(b"HTTP/1.1 200 OK") == n, got


def test_expect_100_continue(server):
    import json

    host, port = server.http.split(":")
    text = json.dumps(sums_json()).encode()
    with socket.create_connection((host, int(port)), timeout=60) as s:
        s.sendall(
            b"POST /v2/models/sums/infer HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(text)
        )
        assert s.recv(4096).startswith(b"HTTP/1.1 100")
        s.sendall(text)
        got = b""
        while b"]}]}" not in got:
            part = s.recv(65536)
            assert part
            got += part
    assert b"200 OK" in got


def test_B035_zero_size_tensor(server):
    with th.InferenceServerClient(server.http) as c:
        i = th.InferInput("INPUT0", [0], "INT32")
        i.set_data_from_numpy(np.zeros([0], np.int32))
        r = c.infer("id_INT32", [i])
        assert r.as_numpy("OUTPUT0").shape == (0,)


@pytest.mark.skipif(REFERENCE, reason="the reference reads the whole body first")
def test_B036_DV09_body_above_the_limit(server):
    conn = http.client.HTTPConnection(server.http, timeout=60)
    conn.putrequest("POST", "/v2/models/sums/infer")
    conn.putheader("Content-Length", str(65 << 20))
    conn.endheaders()
    try:
        conn.send(bytes(1 << 20))
        r = conn.getresponse()
        assert r.status == 413
    except (BrokenPipeError, ConnectionResetError):
        assert server.get("/v2/health/live").status == 200
    finally:
        conn.close()
    assert infer(server, sums_json()).json == OK


def test_dynamic_batching_serves_many_clients(server):
    """Each of many concurrent requests gets the answer to its own row."""
    with th.InferenceServerClient(server.http, concurrency=16) as c:
        pending = []
        for k in range(200):
            x = np.full([1, 16], k, np.float32)
            i = th.InferInput("INPUT0", x.shape, "FP32")
            i.set_data_from_numpy(x)
            pending.append((x, c.async_infer("batched", [i])))
        for x, p in pending:
            np.testing.assert_array_equal(p.get_result().as_numpy("OUTPUT0"), x)


def test_B026_client_keeps_the_request_id(server, sixteen):
    with th.InferenceServerClient(server.http) as c:
        inputs = [th.InferInput(n, [1, 16], "INT32") for n in ("INPUT0", "INPUT1")]
        for binary, i in zip((True, False), inputs):
            i.set_data_from_numpy(sixteen, binary_data=binary)
        outputs = [th.InferRequestedOutput("OUTPUT0", binary_data=False),
                   th.InferRequestedOutput("OUTPUT1", binary_data=True)]
        r = c.infer("sums", inputs, outputs=outputs, request_id="ü7", priority=1, timeout=1_000_000)
        assert r.get_response()["id"] == "ü7"
        np.testing.assert_array_equal(r.as_numpy("OUTPUT0"), 2 * sixteen)
        np.testing.assert_array_equal(r.as_numpy("OUTPUT1"), 0 * sixteen)


@pytest.mark.parametrize("name",
                         ["sequence_id", "priority", "timeout", "triton_enable_empty_final_response", "headers"])
def test_F045_the_client_refuses_reserved_names(server, name):
    """The client refuses reserved parameter names. Other names are sent and accepted."""
    i = th.InferInput("INPUT0", [1, 16], "FP32")
    i.set_data_from_numpy(np.ones([1, 16], np.float32))
    with th.InferenceServerClient(server.http) as c:
        with pytest.raises(InferenceServerException, match="reserved"):
            c.infer("plain", [i], parameters={name: 1})
        assert c.infer("plain", [i], parameters={"my_" + name: 1}).as_numpy("OUTPUT0").tolist() == [[1.0] * 16]
