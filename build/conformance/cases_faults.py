"""Cases of raw HTTP and raw gRPC: every route and call, invalid requests, and deliberate differences."""

import gzip
import json
import struct
import zlib

import grpc
import numpy as np
from tritonclient.grpc import service_pb2 as pb

from answers import raw
from cases import add, error, grpc_tensor, neutral, rpc, status
from harness import binary_body, tensor_input

ROW = list(range(16))
RAW = np.arange(16, dtype="<i4").tobytes()
MODEL = "add_sub_INT32"
INFER = f"/v2/models/{MODEL}/infer"


def i32(name="INPUT0", shape=(1, 16), data=ROW, datatype="INT32", **more):
    return {**tensor_input(name, datatype, list(shape), data), **more}


def two(first=None, second=None, **more):
    """The body of a request with two inputs, and other members of it."""
    return {"inputs": [first or i32(), second or i32("INPUT1")], **more}


def less(tensor, key):
    """The tensor without one of its members."""
    return {k: v for k, v in tensor.items() if k != key}


def sized(size, name="INPUT0", **more):
    """An input with binary data of this size."""
    return {"name": name, "datatype": "INT32", "shape": [1, 16], "parameters": {"binary_data_size": size, **more}}


def post(group, id, body, path=INFER, headers=None, deviation="", ours=None, fold=None):
    """Adds a case with a POST request. fold changes the answers before they are compared."""
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()

    def run(server):
        answer = raw(server, "POST", path, data, headers)
        return fold(answer) if fold else answer

    add(group, f"http-raw/{id}", run, deviation, ours)


def without_the_list(answer):
    """Removes the list of inputs that Triton adds to the error text."""
    answer["json"]["error"] = answer["json"]["error"].partition(" Got input(s)")[0]
    return answer


def any_input(answer):
    """If two inputs are wrong, Triton may name either of them."""
    answer["json"]["error"] = answer["json"]["error"].replace("'INPUT1'", "'INPUT0'")
    return answer


# --- valid forms of requests ---

post("raw", "json", two())
post("raw", "json/nested-data", two(i32(data=[ROW])))
post("raw", "json/unknown-members", two(unused=[1, {"a": 2}]))
post("raw", "json/id", two(id="my-id"))
post("raw", "json/empty-id", two(id=""))
post("raw", "json/outputs", two(outputs=[{"name": "OUTPUT1"}]))
post("raw", "json/empty-outputs", two(outputs=[]))
post("raw", "json/parameters", two(parameters={"a": 1, "b": "x", "c": True}))
post("raw", "json/priority-and-timeout", two(parameters={"priority": 1, "timeout": 1000000}))
post("raw", "json/sequence", two(parameters={"sequence_id": 7, "sequence_start": True, "sequence_end": False}))
post("raw", "json/sequence-of-text", two(parameters={"sequence_id": "s", "sequence_start": True}))
post("raw", "json/binary-output", two(parameters={"binary_data_output": True}))
post("raw", "json/one-binary-output",
     two(outputs=[{"name": "OUTPUT0", "parameters": {"binary_data": True}}, {"name": "OUTPUT1"}]))
post("raw", "json/curl-content-type", two(), headers={"Content-Type": "application/x-www-form-urlencoded"})
post("raw", "json/gzip", gzip.compress(json.dumps(two()).encode()), headers={"Content-Encoding": "gzip"})
post("raw", "json/deflate", zlib.compress(json.dumps(two()).encode()), headers={"Content-Encoding": "deflate"})
post("raw", "json/version", two(), path=f"/v2/models/{MODEL}/versions/1/infer")
post("raw", "json/latest-version", {"inputs": [tensor_input("INPUT0", "FP32", [1, 16], ROW)]},
     path="/v2/models/versions/infer")
post("raw", "json/fp32", {"inputs": [tensor_input("INPUT0", "FP32", [6], [0.1, 1e-7, 3.4e38, -0.0, 16777216, 5])]},
     path="/v2/models/identity_FP32/infer")
post("raw", "json/fp64", {"inputs": [tensor_input("INPUT0", "FP64", [4], [0.1, 1e300, 3, 5e-324])]},
     path="/v2/models/identity_FP64/infer")
post("raw", "json/int64", {"inputs": [tensor_input("INPUT0", "INT64", [3], [2**53 + 1, -(2**63), 2**63 - 1])]},
     path="/v2/models/identity_INT64/infer")
post("raw", "json/uint64", {"inputs": [tensor_input("INPUT0", "UINT64", [2], [2**64 - 1, 0])]},
     path="/v2/models/identity_UINT64/infer")
post("raw", "json/bool", {"inputs": [tensor_input("INPUT0", "BOOL", [2], [True, False])]},
     path="/v2/models/identity_BOOL/infer")
post("raw", "json/bytes", {"inputs": [tensor_input("INPUT0", "BYTES", [5], ["a", "bcé\n", "", "a\x00b", '"\\'])]},
     path="/v2/models/identity_BYTES/infer")
post("raw", "json/fp32-batch", {"inputs": [tensor_input("INPUT0", "FP32", [2, 16], ROW * 2)]},
     path="/v2/models/plain/infer")
body, headers = binary_body({"inputs": [sized(64), sized(64, "INPUT1")]}, RAW, RAW)
post("raw", "binary", body, headers=headers)
body, headers = binary_body({"inputs": [sized(64), sized(64, "INPUT1")], "parameters": {"binary_data_output": True}},
                            RAW, RAW)
post("raw", "binary/out", body, headers=headers)
body, headers = binary_body({"inputs": [sized(64), i32("INPUT1")]}, RAW)
post("raw", "binary/mixed", body, headers=headers)
post("raw", "raw-request", np.arange(16, dtype="<f4").tobytes(), path="/v2/models/plain/infer",
     headers={"Inference-Header-Content-Length": "0"})
post("raw", "raw-request/one-free-dimension", RAW, path="/v2/models/identity_INT32/infer",
     headers={"Inference-Header-Content-Length": "0"})
post("raw", "raw-request/bytes", struct.pack("<I3s", 3, b"abc"), path="/v2/models/identity_BYTES/infer",
     headers={"Inference-Header-Content-Length": "0"})

# --- invalid requests: Triton's error texts ---

post("faults", "inputs-empty", {"inputs": []})
post("faults", "missing-input", {"inputs": [i32()]})
post("faults", "renamed-input", two(i32("NOPE")))
post("faults", "input-twice", {"inputs": [i32(), i32()]})
post("faults", "unknown-output", two(outputs=[{"name": "NOPE"}]))
post("faults", "wrong-shape", two(i32(shape=[1, 15], data=ROW[:15])))
post("faults", "wrong-rank", two(i32(shape=[1, 1, 16])))
post("faults", "batch-sizes-differ", two(i32(shape=[2, 16], data=ROW * 2)), fold=any_input)
post("faults", "batch-too-large", two(i32(shape=[9, 16], data=ROW * 9), i32("INPUT1", shape=[9, 16], data=ROW * 9)))
post("faults", "id-in-the-error",
     two(i32(shape=[9, 16], data=ROW * 9), i32("INPUT1", shape=[9, 16], data=ROW * 9), id="abc"))
post("faults", "wrong-datatype", two(i32(datatype="FP32")))
post("faults", "unknown-datatype", two(i32(datatype="FOO")))
post("faults", "bad-parameter-type", two(parameters={"foo": [1]}))
post("faults", "reserved-parameter", two(parameters={"triton_x": 1}))
post("faults", "fp16-in-json", {"inputs": [tensor_input("INPUT0", "FP16", [2], [1.5, 2])]},
     path="/v2/models/identity_FP16/infer")
post("faults", "bf16-in-json", {"inputs": [tensor_input("INPUT0", "BF16", [2], [1.5, 2])]},
     path="/v2/models/identity_BF16/infer")
header = {"inputs": [{"name": "INPUT0", "datatype": "FP16", "shape": [2], "parameters": {"binary_data_size": 4}}]}
body, headers = binary_body(header, b"\x00\x3c\x00\x40")
post("faults", "fp16-out-as-json", body, path="/v2/models/identity_FP16/infer", headers=headers)
for id, inputs, tensors in (
    ("size-too-small", [sized(60), sized(64, "INPUT1")], [RAW, RAW]),
    ("size-beyond-the-body", [sized(64), sized(68, "INPUT1")], [RAW, RAW]),
    ("bytes-left-over", [sized(64), sized(64, "INPUT1")], [RAW, RAW, b"x"]),
    ("body-too-short", [sized(64), sized(64, "INPUT1")], [RAW]),
):
    body, headers = binary_body({"inputs": inputs}, *tensors)
    post("faults", "binary/" + id, body, headers=headers)
for value in ("-5", "100000"):
    body, headers = binary_body({"inputs": [sized(64), sized(64, "INPUT1")]}, RAW, RAW)
    post("faults", f"header-length/{value}", body, headers={**headers, "Inference-Header-Content-Length": value})
post("faults", "raw-request/two-inputs", RAW, headers={"Inference-Header-Content-Length": "0"})
post("faults", "unknown-encoding", two(), headers={"Content-Encoding": "br"})
strings = b"\x03\x00\x00\x00abc\x02\x00\x00\x00ab"
body, headers = binary_body({"inputs": [{"name": "INPUT0", "shape": [3], "datatype": "BYTES",
                                         "parameters": {"binary_data_size": len(strings)}}]}, strings)
post("faults", "fewer-strings", body, path="/v2/models/identity_BYTES/infer", headers=headers)
for path in (f"{MODEL}/versions/9", "nope", f"{MODEL}/versions/abc", "versions/versions/1", "repeat"):
    post("faults", "infer/" + path, {"inputs": [tensor_input("IN", "INT32", [1], [1]),
                                                tensor_input("DELAY", "UINT32", [1], [0]),
                                                tensor_input("WAIT", "UINT32", [1], [0])]},
         path=f"/v2/models/{path}/infer")

# --- deliberate differences: errors in the client's JSON are 4xx here ---

for id, body in {
    "empty-object": {},
    "inputs-no-array": {"inputs": {}},
    "output-without-name": two(outputs=[{}]),
    "string-in-int32": two(i32(data=["a"] + ROW[1:])),
    "float-in-int32": two(i32(data=[0.5] + ROW[1:])),
    "bool-in-int32": two(i32(data=[True] + ROW[1:])),
    "null-in-int32": two(i32(data=[None] + ROW[1:])),
    "data-no-array": two(i32(data=5)),
    "fewer-data": two(i32(data=ROW[:15])),
    "more-data": two(i32(data=ROW + [1])),
    "shape-no-array": two({**i32(), "shape": 16}),
    "shape-of-strings": two({**i32(), "shape": ["1", "16"]}),
    "id-no-string": two(id=5),
    "no-datatype": two(less(i32(), "datatype")),
    "no-shape": two(less(i32(), "shape")),
    "no-name": two(less(i32(), "name")),
}.items():
    post("deviations", "json/" + id, body, deviation="DV02", ours=status(400))
post("deviations", "json/number-in-bool", {"inputs": [tensor_input("INPUT0", "BOOL", [3], [True, False, 1])]},
     path="/v2/models/identity_BOOL/infer", deviation="DV02", ours=status(400))
for id, value in (("negative-size", -1), ("size-of-text", "64")):
    body, headers = binary_body({"inputs": [sized(value), sized(64, "INPUT1")]}, RAW, RAW)
    post("deviations", "binary/" + id, body, headers=headers, deviation="DV02", ours=status(400))
for id, body in {"cut-off": b'{"inputs":[', "two-roots": b"{}{}", "no-json": b"hello"}.items():
    post("deviations", "malformed/" + id, body, deviation="DV01", ours=status(400))
post("faults", "empty-body", b"")

# --- JSON at its limits: values as Triton parses them, and its error texts ---


def text(group, id, body, model=MODEL, route="infer", **more):
    """A case that sends this body unchanged."""
    post(group, "edge/" + id, body if isinstance(body, bytes) else body.encode(), path=f"/v2/models/{model}/{route}",
         **more)


def one(values, datatype, shape=None, more=""):
    """The JSON text of a request with one input. values is the text of its data, more that of further members."""
    shape = [len(values.split(","))] if shape is None else shape
    return '{"inputs":[{"name":"INPUT0","datatype":"%s","shape":%s,"data":[%s]}]%s}' % (datatype, shape, values, more)


for values in ("1E5", "1e+5", "-0.0", "NaN", "Infinity", "-Infinity", "1e-400", "3.4028235e38", "16777217",
               "1e-45,1e-46,4.9e-324", "[1],[2]"):
    text("edges", f"FP32 {values}", one(values, "FP32"), "identity_FP32")
for values in ("9223372036854775807", "-9223372036854775808", "9007199254740993", "-0"):
    text("edges", f"INT64 {values}", one(values, "INT64"), "identity_INT64")
for values in (r'"\u0000"', r'"\u65e5"', r'"\ud83d\ude00"', r'"\n\t\/"', '""', '"日本"'):
    text("edges", f"BYTES {values}", one(values, "BYTES"), "identity_BYTES")
text("edges", "BYTES not UTF-8", b'{"inputs":[{"name":"INPUT0","datatype":"BYTES","shape":[1],"data":["\xff\xfe"]}]}',
     "identity_BYTES")
row = ",".join(map(str, ROW))
text("edges", "byte order mark", b"\xef\xbb\xbf" + one(row, "FP32", [1, 16]).encode(), "plain")
text("edges", "data first", '{"inputs":[{"data":[%s],"shape":[1,16],"datatype":"FP32","name":"INPUT0"}]}' % row,
     "plain")
text("edges", "ragged nesting", one("[0,1],[2,3,4,5,6,7,8,9,10,11,12,13,14,15],[]", "FP32", [1, 16]), "plain")
for value in ("1.5", "-1e300", "18446744073709551615", "true", '"s"', "-5"):
    text("edges", f"parameter {value}", one(row, "FP32", [1, 16], ',"parameters":{"x":%s}' % value), "plain")
    text("edges", f"generate parameter {value}", '{"INPUT0":"a","x":%s}' % value, "identity_BYTES", "generate")
text("edges", "outputs twice", one(row, "FP32", [1, 16], ',"outputs":[{"name":"OUTPUT0"},{"name":"OUTPUT0"}]'), "plain")
two_rows = one("3,1,4,1,5,9,2,6,5,3,5,8,9,7,9,3," + row, "FP32", [2, 16],
               ',"outputs":[{"name":"OUTPUT0","parameters":{"classification":3}}]')
text("edges", "labels of a batch", two_rows, "labelled")

for values in ("1e400", "-1e400", "1.", "01", ".5", "+1", "0x10", "1e", "nan", "inf", "nul", "tru", "null", "true",
               '"1"', "{}", "1,2,", "1 2", "1,,2"):
    text("edge_faults", f"FP32 {values}", one(values, "FP32"), "identity_FP32",
         deviation="DV01" if values not in ("null", "true", '"1"', "{}") else "DV02", ours=status(400))
for values in ("9223372036854775808", "-9223372036854775809", "1.0", "1e3", "null", '"5"'):
    text("edge_faults", f"INT64 {values}", one(values, "INT64"), "identity_INT64", deviation="DV02", ours=status(400))
for values in (r'"\ud83d"', r'"\x"', '"tab\there"', '"open'):
    text("edge_faults", f"BYTES {values!r}", one(values, "BYTES"), "identity_BYTES", deviation="DV01", ours=status(400))
for values in ("1", "null", "true"):
    text("edge_faults", f"BYTES {values}", one(values, "BYTES"), "identity_BYTES", deviation="DV02", ours=status(400))
text("edge_faults", "half a surrogate pair", one(r'"\udc00"', "BYTES"), "identity_BYTES", deviation="DV61",
     ours=error(400, "failed to parse the request JSON buffer: The surrogate pair in string is invalid. at 68"))
for id, shape in (("[16]", [16]), ("[16,1]", [16, 1]), ("[1,16,1]", [1, 16, 1]), ("[2,8]", [2, 8])):
    text("edge_faults", "shape " + id, one(row, "FP32", shape), "plain")
text("edge_faults", "batches differ and are too large",
     '{"inputs":[{"name":"INPUT0","datatype":"INT32","shape":[16],"data":[%s]},'
     '{"name":"INPUT1","datatype":"INT32","shape":[1,16],"data":[%s]}]}' % (row, row), fold=any_input)
for id, parameters in (("sequence_id -1", '{"sequence_id":-1}'), ("sequence_id 1.5", '{"sequence_id":1.5}'),
                       ("sequence_id true", '{"sequence_id":true}'),
                       ("sequence_start 1", '{"sequence_start":1}'), ("priority -1", '{"priority":-1}'),
                       ("timeout text", '{"timeout":"5"}'),
                       ("a list", "[]"), ("a text", '"x"'), ("null", "null"),
                       ("binary_data_output 1", '{"binary_data_output":1}')):
    text("edge_faults", "parameters " + id, one(row, "FP32", [1, 16], ',"parameters":' + parameters), "plain",
         deviation="DV02", ours=status(400))
for value in ("{}", "null"):
    text("edge_faults", f"parameter {value}", one(row, "FP32", [1, 16], ',"parameters":{"x":%s}' % value), "plain")
for value in ("-1", '"2"', "2.0"):
    outputs = ',"outputs":[{"name":"OUTPUT0","parameters":{"classification":%s}}]' % value
    text("edge_faults", f"classification {value}", one(row, "FP32", [1, 16], outputs), "plain", deviation="DV02",
         ours=status(400))
for body in ("[]", "", '{"INPUT0":1.5}', '{"INPUT0":"5"}', '{"INPUT0":9223372036854775808}'):
    for route in ("generate", "generate_stream"):
        text("edge_faults", f"{route} {body}", body, "identity_INT64", route, deviation="DV02" if body else "DV01",
             ours=status(400))
for id, tensor in (("short length", b"abc"), ("two for one", b"\1\0\0\0a\1\0\0\0b"), ("none for one", b"")):
    header = {"inputs": [{"name": "INPUT0", "shape": [1], "datatype": "BYTES",
                          "parameters": {"binary_data_size": len(tensor)}}]}
    body, headers = binary_body(header, tensor)
    post("edge_faults", "edge/strings, " + id, body, path="/v2/models/identity_BYTES/infer", headers=headers)
cut = one(row, "FP32", [1, 16]).encode()[:-1]
text("edge_faults", "object without its end", cut, "plain", deviation="DV01", ours=status(400))

# --- further deviations ---

SUMS = {
    "status": 200,
    "type": "application/json",
    "json": {
        "model_name": MODEL,
        "model_version": "1",
        "outputs": [
            {"name": "OUTPUT0", "datatype": "INT32", "shape": [1, 16], "data": [2 * i for i in ROW]},
            {"name": "OUTPUT1", "datatype": "INT32", "shape": [1, 16], "data": [0] * 16},
        ],
    },
}

body, headers = binary_body({"inputs": [sized(64), sized(64, "INPUT1")]}, RAW, RAW)
post(
    "deviations", "header-length/no-number", body, headers={**headers, "Inference-Header-Content-Length": "many"},
    deviation="DV10",
    ours=error(400, "Inference-Header-Content-Length must be a number of bytes, got: many", "text/plain"),
)
twice = b'{"inputs":[],' + json.dumps(two()).encode()[1:]
post("deviations", "member-twice", twice, deviation="DV05",
     ours=error(400, "Unable to parse 'inputs': the object has two members of this name"))
post("deviations", "gzip/no-gzip", json.dumps(two()).encode(), headers={"Content-Encoding": "gzip"}, deviation="DV13",
     ours=error(400, "failed to decompress the gzip body: zlib: invalid header"))
post("deviations", "id-with-nul", two(id="a\x00b"), deviation="DV14",
     ours=error(400, "Unable to parse 'id': it must be UTF-8 without NUL"))
post("deviations", "deep", b'{"x":' + b"[" * 200 + b"]" * 200 + b"," + json.dumps(two()).encode()[1:], deviation="DV07",
     ours=error(400, "failed to parse the request JSON buffer: Nesting deeper than 100 levels. at 104"))
post("deviations", "escaped-name", two(), path="/v2/models/add%5Fsub%5FINT32/infer", deviation="DV16",
     ours=lambda _: SUMS)

post(
    "deviations", "too-many-inputs", {"inputs": [i32(f"I{k}", [1], [1]) for k in range(4097)]}, deviation="DV08",
    ours=error(400, "Unable to parse 'inputs': more than 4096 of them"), fold=without_the_list,
)

# --- information: each route by HTTP and each call by gRPC ---


def get(group, id, path, method="GET", headers=None, body=None, fold=None, deviation="", ours=None):
    def run(server):
        answer = raw(server, method, path, body, headers)
        return fold(answer) if fold else answer

    add(group, f"http-raw/{id}", run, deviation, ours)


for path in ("health/live", "health/ready"):
    get("info", "GET " + path, "/v2/" + path)
    get("info", "HEAD " + path, "/v2/" + path, method="HEAD")
    get("info", "POST " + path, "/v2/" + path, method="POST", body=b"")
for path in (f"{MODEL}/ready", f"{MODEL}/versions/1/ready", f"{MODEL}/versions/9/ready", "nope/ready",
             "versions/versions/2/ready", "versions/versions/1/ready"):
    get("info", "GET " + path, "/v2/models/" + path)
for path in (MODEL, f"{MODEL}/versions/1", "versions", "versions/versions/2", "repeat", "square", "labelled", "matrix",
             "identity_BYTES", "identity_BF16", "identity_BOOL"):
    get("info", "metadata " + path, "/v2/models/" + path, fold=neutral)
    get("info", "config " + path, f"/v2/models/{path}/config", fold=neutral)
for path in ("nope", f"{MODEL}/versions/9", "nope/config", f"{MODEL}/versions/9/config", "nope/stats",
             f"{MODEL}/versions/9/stats", f"{MODEL}/versions/abc", f"{MODEL}/nosuch", f"{MODEL}/", ""):
    get("info", "GET models/" + path, "/v2/models/" + path)
for method, path in (
    ("POST", f"models/{MODEL}"), ("DELETE", f"models/{MODEL}"), ("GET", f"models/{MODEL}/infer"),
    ("PUT", f"models/{MODEL}/infer"),
    ("GET", "repository/index"), ("GET", f"repository/models/{MODEL}/load"), ("OPTIONS", ""),
    ("PATCH", f"models/{MODEL}/config"),
):
    get("info", f"{method} /v2/{path}", ("/v2/" + path).rstrip("/"), method=method)
for path in ("/", "/v2/", "/v2/nosuch", "/nosuch", "/v2/health", "/metrics"):
    get("info", "GET " + path, path)
for path in ("load", "unload"):
    post("info", f"{path} in the default mode", None, path=f"/v2/repository/models/{MODEL}/{path}")
post("info", "index", None, path="/v2/repository/index", fold=neutral)
post("info", "index/ready", {"ready": True}, path="/v2/repository/index", fold=neutral)
post("info", "index/of-a-repository", None, path="/v2/repository/other/index")
post("deviations", "index/ready-a-number", {"ready": 1}, path="/v2/repository/index", deviation="DV03",
     ours=status(400))
post("deviations", "index/no-json", b"{bad", path="/v2/repository/index", deviation="DV01", ours=status(400))

for method, message in {
    "ServerLive": pb.ServerLiveRequest(),
    "ServerReady": pb.ServerReadyRequest(),
    "ModelReady": pb.ModelReadyRequest(name=MODEL),
    "ModelReady version": pb.ModelReadyRequest(name="versions", version="2"),
    "ModelReady old-version": pb.ModelReadyRequest(name="versions", version="1"),
    "ModelReady unknown": pb.ModelReadyRequest(name="nope"),
    "ModelReady bad-version": pb.ModelReadyRequest(name=MODEL, version="abc"),
    "ModelMetadata unknown": pb.ModelMetadataRequest(name="nope"),
    "ModelMetadata unknown-version": pb.ModelMetadataRequest(name=MODEL, version="9"),
    "ModelConfig unknown": pb.ModelConfigRequest(name="nope"),
    "ModelStatistics unknown": pb.ModelStatisticsRequest(name="nope"),
    "ModelStatistics unknown-version": pb.ModelStatisticsRequest(name=MODEL, version="9"),
    "RepositoryIndex": pb.RepositoryIndexRequest(),
    "RepositoryIndex ready": pb.RepositoryIndexRequest(ready=True),
    "RepositoryIndex other": pb.RepositoryIndexRequest(repository_name="other"),
    "RepositoryModelLoad default-mode": pb.RepositoryModelLoadRequest(model_name=MODEL),
    "RepositoryModelUnload default-mode": pb.RepositoryModelUnloadRequest(model_name=MODEL),
}.items():
    add("grpc_info", f"grpc-stub/{method}", lambda s, m=method.split()[0], q=message: neutral(rpc(s, m, q)))
for name in (MODEL, "versions", "repeat", "labelled", "matrix", "identity_BYTES", "identity_BF16"):
    add("grpc_info", f"grpc-stub/ModelMetadata {name}",
        lambda s, q=pb.ModelMetadataRequest(name=name): neutral(rpc(s, "ModelMetadata", q)))
    add("grpc_info", f"grpc-stub/ModelConfig {name}",
        lambda s, q=pb.ModelConfigRequest(name=name): neutral(rpc(s, "ModelConfig", q)))


def sums(first=None, second=None, raws=(RAW, RAW), **more):
    return pb.ModelInferRequest(
        model_name=MODEL, inputs=[first or grpc_tensor(), second or grpc_tensor("INPUT1")],
        raw_input_contents=list(raws), **more
    )


def with_parameter(key, **value):
    r = sums()
    for k, v in value.items():
        setattr(r.parameters[key], k, v)
    return r


for id, message in {
    "raw": sums(id="7"),
    "typed": sums(grpc_tensor(int_contents=ROW), grpc_tensor("INPUT1", int_contents=ROW), raws=()),
    "no-model-name": pb.ModelInferRequest(),
    "input-twice": sums(grpc_tensor(), grpc_tensor()),
    "raw-too-small": sums(raws=(RAW[:60], RAW)),
    "raw-too-large": sums(raws=(RAW + b"1234", RAW)),
    "wrong-datatype": sums(grpc_tensor(datatype="FP32")),
    "unknown-datatype": sums(grpc_tensor(datatype="FOO")),
    "no-shape": sums(grpc_tensor(shape=[])),
    "no-contents": sums(raws=()),
    "fewer-raw-contents": sums(raws=(RAW,)),
    "raw-and-typed": sums(grpc_tensor(int_contents=ROW)),
    "wrong-typed-field": sums(grpc_tensor(fp32_contents=[0.0] * 16), grpc_tensor("INPUT1", int_contents=ROW), raws=()),
    "fp16-typed": pb.ModelInferRequest(model_name="identity_FP16",
                                       inputs=[grpc_tensor("INPUT0", "FP16", [1], fp32_contents=[1.0])]),
    "batch-too-large": sums(grpc_tensor(shape=[9, 16]), grpc_tensor("INPUT1", shape=[9, 16]), raws=(RAW * 9,) * 2),
    "unknown-output": sums(outputs=[pb.ModelInferRequest.InferRequestedOutputTensor(name="NOPE")]),
    "parameter-text": with_parameter("mine", string_param="x"),
    "parameter-number": with_parameter("mine", int64_param=5),
    "parameter-flag": with_parameter("mine", bool_param=True),
    "parameter-double": with_parameter("mine", double_param=0.5),
    "reserved-parameter": with_parameter("triton_x", int64_param=1),
    "sequence-id-a-flag": with_parameter("sequence_id", bool_param=True),
    "sequence-start-a-number": with_parameter("sequence_start", int64_param=1),
    "priority-a-flag": with_parameter("priority", bool_param=True),
    "timeout-a-text": with_parameter("timeout", string_param="5"),
    "timeout": with_parameter("timeout", int64_param=1000000),
    "priority": with_parameter("priority", int64_param=2),
}.items():
    add("grpc_faults", f"grpc-stub/ModelInfer {id}", lambda s, q=message: rpc(s, "ModelInfer", q))
post("faults", "raw-request/two-free-dimensions", np.arange(6.0).tobytes(), path="/v2/models/matrix/infer",
     headers={"Inference-Header-Content-Length": "0"})


def names_the_input(triton):
    return json.loads(json.dumps(triton).replace("'raw_input'", "'INPUT0'"))


post(
    "deviations", "raw-request/wrong-size", RAW[:60], path="/v2/models/plain/infer",
    headers={"Inference-Header-Content-Length": "0"},
    deviation="DV19", ours=names_the_input,
)
post(
    "deviations", "raw-request/no-whole-elements", RAW[:63], path="/v2/models/identity_INT32/infer",
    headers={"Inference-Header-Content-Length": "0"},
    deviation="DV19", ours=error(400, "[request id: <id_unknown>] raw input 'INPUT0' of model 'identity_INT32' has 63 "
                                      "bytes: not a multiple of 4"),
)
for id, message in {
    "priority-negative": with_parameter("priority", int64_param=-1),
    "priority-unsigned": with_parameter("priority", uint64_param=1),
    "sequence-id-text": with_parameter("sequence_id", string_param="s"),
}.items():
    add("grpc_faults", f"grpc-stub/ModelInfer {id}", lambda s, q=message: rpc(s, "ModelInfer", q))


def served(_):
    """The sums of the rows 0 … 15."""
    from google.protobuf import json_format

    a = np.arange(16, dtype="<i4")
    outputs = [pb.ModelInferResponse.InferOutputTensor(name=f"OUTPUT{i}", datatype="INT32", shape=[1, 16])
               for i in (0, 1)]
    m = pb.ModelInferResponse(model_name=MODEL, model_version="1", outputs=outputs,
                              raw_output_contents=[(a + a).tobytes(), (a - a).tobytes()])
    return json_format.MessageToDict(m, preserving_proto_field_name=True)


def refused(text):
    return lambda _: {"code": "INVALID_ARGUMENT", "text": text}


for id, message, deviation, ours in (
    ("timeout-negative", with_parameter("timeout", int64_param=-1), "DV20",
     refused("invalid value for 'timeout', expected value >= 0.")),
    ("timeout-unsigned", with_parameter("timeout", uint64_param=1000000), "DV21", served),
    ("sequence-id-unsigned", with_parameter("sequence_id", uint64_param=1), "DV21", served),
    ("parameter-unsigned", with_parameter("mine", uint64_param=1), "DV21", served),
    (
        "more-raw-contents", sums(raws=(RAW,) * 3), "DV18",
        refused(f"raw_input_contents has 3 entries but only 2 inputs for model '{MODEL}' take one; send one entry per "
                "input, in their order"),
    ),
):
    add("grpc_deviations", f"grpc-stub/ModelInfer {id}", lambda s, q=message: rpc(s, "ModelInfer", q), deviation, ours)


# --- versions, metadata and methods over gRPC ---


def of_version(version):
    return pb.ModelInferRequest(model_name="plain", model_version=version, inputs=[grpc_tensor("INPUT0", "FP32")],
                                raw_input_contents=[bytes(64)])


for version in ("", "1", "01", "+1", "0", "-1", "9", "99999999999999999999", "abc"):
    add("grpc_edges", f"grpc-stub/version {version!r}", lambda s, q=of_version(version): rpc(s, "ModelInfer", q))
for version in ("1x", " 1", "1 "):
    text = (f"failed to get model version from specified version string '{version}' (details: stol), "
            "version should be an integral value > 0")
    add("grpc_edges", f"grpc-stub/version {version!r}", lambda s, q=of_version(version): rpc(s, "ModelInfer", q),
        "DV69", refused(text))
for size in (1000, 7000):  # above its soft limit of 8192 bytes gRPC rejects at random
    add("grpc_edges", f"grpc-stub/metadata of {size} bytes",
        lambda s, n=size: rpc(s, "ModelInfer", of_version(""), metadata=[("x-a", "a" * n)]))
add("grpc_edges", "grpc-stub/many metadata",
    lambda s: rpc(s, "ModelInfer", of_version(""), metadata=[(f"x-{i}", "a") for i in range(200)]))
add("grpc_edges", "grpc-stub/binary metadata",
    lambda s: rpc(s, "ModelInfer", of_version(""), metadata=[("x-bin", b"\0\xff")]))


def large_metadata(size):
    def run(server):
        answer = rpc(server, "ServerLive", pb.ServerLiveRequest(), metadata=[("x-a", "a" * size)])
        return {k: v for k, v in answer.items() if k != "text"}

    return run


add("grpc_edges", "grpc-stub/metadata of 60000 bytes", large_metadata(60000), "DV68", lambda _: {"live": True})
add("grpc_edges", "grpc-stub/metadata of 70000 bytes", large_metadata(70000))


def method(path):
    def run(server):
        with grpc.insecure_channel(server.grpc) as channel:
            try:
                return channel.unary_unary(path)(b"", timeout=60).hex()
            except grpc.RpcError as e:
                return {"code": e.code().name, "text": e.details()}

    return run


def unimplemented(text):
    return lambda _: {"code": "UNIMPLEMENTED", "text": text}


SERVICE = "/inference.GRPCInferenceService"
add("grpc_edges", "grpc-stub/unknown method", method(SERVICE + "/Nope"), "DV70",
    unimplemented("unknown method Nope for service inference.GRPCInferenceService"))
add("grpc_edges", "grpc-stub/unknown service", method("/nope.Nope/X"), "DV70",
    unimplemented("unknown service nope.Nope"))
add("grpc_edges", "grpc-stub/health watched", method("/grpc.health.v1.Health/Watch"), "DV70",
    unimplemented("unknown method Watch for service grpc.health.v1.Health"))
add(
    "grpc_edges", "grpc-stub/reflection", method("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"),
    "DV70",
    unimplemented("unknown service grpc.reflection.v1alpha.ServerReflection"),
)


# --- settings and the index: unusual bodies ---

TRACE, LOG, INDEX = "/v2/trace/setting", "/v2/logging", "/v2/repository/index"
NO_OBJECT = error(400, "attempt to access JSON non-object as object")


def whole(group, id, body, path, **more):
    post(group, f"body/{id} {body}", body.encode(), path=path, **more)


for body in ("{}", '{"trace_rate":"5"}', '{"trace_rate":null}', '{"trace_count":"7"}', '{"trace_count":null}',
             '{"log_frequency":"3"}', '{"log_frequency":null}', '{"trace_level":[]}', '{"trace_level":["off"]}',
             '{"trace_count":"-2"}', '{"trace_count":"x"}', '{"trace_level":["TIMESTAMPS"]}'):
    whole("bodies", "trace", body, TRACE)
for body in ("{}", '{"log_info":true}', '{"log_verbose_level":0}', '{"log_format":"default"}', '{"log_file":"/tmp/x"}'):
    whole("bodies", "log", body, LOG)
for body in ("", "{}", '{"ready":true}', '{"ready":false}', '{"other":1}'):
    whole("bodies", "index", body, INDEX, fold=neutral)
for body in ("", "{bad"):
    whole("bodies", "trace", body, TRACE, deviation="DV01", ours=status(400))
    whole("bodies", "log", body, LOG, deviation="DV01", ours=status(400))
for body in ("[]", "null"):
    whole("bodies", "trace", body, TRACE, deviation="DV73", ours=NO_OBJECT)
    whole("bodies", "log", body, LOG, deviation="DV73", ours=NO_OBJECT)
    whole("bodies", "index", body, INDEX, fold=neutral, deviation="DV73", ours=NO_OBJECT)
whole("bodies", "trace", '{"trace_rate":"-5"}', TRACE, deviation="DV73",
      ours=error(400, "Unable to parse 'trace_rate', value is out of range [ 0, 4294967295 ], got: -5"))
whole("bodies", "trace", '{"trace_count":"1x"}', TRACE, deviation="DV73",
      ours=error(400, "Unable to parse 'trace_count', got: 1x"))
whole("bodies", "trace", '{"trace_rate":null,"trace_count":null}', TRACE)  # restores the default
