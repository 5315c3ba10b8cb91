"""ONNX models whose inputs make an operator of ONNX Runtime trap, crash or take all memory. The server must survive."""

import json
import socket

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from harness import REFERENCE, Server, until
from test_isolation import workers

pytestmark = pytest.mark.skipif(REFERENCE, reason="tests this server's ONNX models")

TYPES = {"INT8": TensorProto.INT8, "INT16": TensorProto.INT16, "INT32": TensorProto.INT32, "INT64": TensorProto.INT64}


def write(repo, name, nodes, inputs, outputs, weights={}, config="", opset=21):
    """Writes a model. inputs and outputs are (name, type, shape)."""
    values = [[helper.make_tensor_value_info(*v) for v in side] for side in (inputs, outputs)]
    graph = helper.make_graph(nodes, "g", *values, [numpy_helper.from_array(w, k) for k, w in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)],
                              ir_version=13 if opset > 24 else 10)
    (repo / name / "1").mkdir(parents=True)
    (repo / name / "1/model.onnx").write_bytes(model.SerializeToString())
    (repo / name / "config.pbtxt").write_text('backend: "onnxruntime"\n' + config)


def tensor(name, datatype, values, shape=None):
    return {"name": name, "datatype": datatype, "shape": shape or [1, len(values)], "data": values}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    work = tmp_path_factory.mktemp("onnx_faults")
    repo = work / "models"
    for operator in "Div", "Mod":
        for datatype, code in TYPES.items():
            write(repo, f"{operator}_{datatype}", [helper.make_node(operator, ["a", "b"], ["y"])],
                  [("a", code, ["n", 33]), ("b", code, ["n", 33])], [("y", code, ["n", 33])])
    write(repo, "lstm", [helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=3)],
          [("x", TensorProto.FLOAT, ["n", "m", 2])], [("y", TensorProto.FLOAT, None)],
          weights={"w": np.ones((1, 12, 2), np.float32), "r": np.ones((1, 12, 3), np.float32)},
          config="max_batch_size: 0\ninput { name: 'x' data_type: TYPE_FP32 dims: [-1, -1, 2] }\n"
                 "output { name: 'y' data_type: TYPE_FP32 dims: [-1, 1, -1, 3] }\n")
    write(repo, "unique", [helper.make_node("Unique", ["x"], ["y"], axis=0)],
          [("x", TensorProto.FLOAT, ["n", "m"])], [("y", TensorProto.FLOAT, ["k", "m"])],
          config="max_batch_size: 0\ninput { name: 'x' data_type: TYPE_FP32 dims: [-1, -1] }\n"
                 "output { name: 'y' data_type: TYPE_FP32 dims: [-1, -1] }\n")
    write(repo, "pooled", [helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[3]),
                           helper.make_node("Transpose", ["p"], ["t"], perm=[2, 0, 1]),
                           helper.make_node("GRU", ["t", "w", "r"], ["y"], hidden_size=5)],
          [("x", TensorProto.FLOAT, [3, 2, "n"])], [("y", TensorProto.FLOAT, ["m", 1, 3, 5])],
          weights={"w": np.ones((1, 15, 2), np.float32), "r": np.ones((1, 15, 5), np.float32)},
          config="instance_group { count: 1 kind: KIND_CPU }\n")
    fill = helper.make_node("ConstantOfShape", ["shape"], ["y"])
    write(repo, "fill", [fill], [("shape", TensorProto.INT64, [2])], [("y", TensorProto.FLOAT, ["a", "b"])],
          config="instance_group { count: 1 kind: KIND_CPU }\n")
    write(repo, "fill_alike", [helper.make_node("Shape", ["x"], ["shape"]), fill],
          [("x", TensorProto.FLOAT, ["n", 2])], [("y", TensorProto.FLOAT, ["a", "b"])])
    with Server(repo, work) as s:
        yield s


def alive(server):
    assert server.process.poll() is None, f"the server exited with {server.process.returncode}"


@pytest.mark.parametrize("datatype", TYPES)
@pytest.mark.parametrize("operator", ["Div", "Mod"])
def test_D22_a_division_that_has_no_result_does_not_end_the_server(server, operator, datatype):
    """The smallest number by -1 gives what arm64 gives. A division by 0 gives an error, or 0."""
    smallest = int(np.iinfo(datatype.lower()).min)
    path = f"/v2/models/{operator}_{datatype}/infer"
    for of, expected in (list(range(7, 40)), None), ([smallest] * 33, smallest if operator == "Div" else 0):
        answer = server.post(path, {"inputs": [tensor("a", datatype, of), tensor("b", datatype, [-1] * 33)]})
        alive(server)
        assert answer.status == 200, answer.body
        wanted = [expected] * 33 if expected is not None else [-v if operator == "Div" else 0 for v in of]
        assert answer.json["outputs"][0]["data"] == wanted
    for of in 5, smallest, 0:
        answer = server.post(path, {"inputs": [tensor("a", datatype, [of] * 33), tensor("b", datatype, [0] * 33)]})
        alive(server)
        assert answer.status in (200, 400, 500), answer.body
        assert answer.status != 200 or answer.json["outputs"][0]["data"] == [0] * 33


@pytest.mark.parametrize("model, shapes", [("lstm", [[0, 1, 2], [1, 0, 2]]), ("unique", [[0, 3], [3, 0]])])
def test_D22_a_tensor_without_elements_does_not_end_the_server(server, model, shapes):
    for shape in shapes:
        answer = server.post(f"/v2/models/{model}/infer", {"inputs": [tensor("x", "FP32", [], shape)]})
        alive(server)
        assert answer.status == 400 and "no elements" in answer.error, answer.body
    shape = [2] * len(shapes[0])
    values = [0.5] * 2 ** len(shape)
    answer = server.post(f"/v2/models/{model}/infer", {"inputs": [tensor("x", "FP32", values, shape)]})
    assert answer.status == 200, answer.body


def test_D22_a_tensor_that_becomes_empty_does_not_end_the_server(server):
    """Pooling over three of two numbers leaves none for the next operator, which then ends its process."""
    answer = server.post("/v2/models/pooled/infer", {"inputs": [tensor("x", "FP32", [0.5] * 12, [3, 2, 2])]})
    alive(server)
    assert answer.status >= 400, answer.body
    good = {"inputs": [tensor("x", "FP32", [0.5] * 24, [3, 2, 4])]}
    until(lambda: server.post("/v2/models/pooled/infer", good).status == 200, 60, "it does not recover", server.log)


def test_D22_a_model_that_allocates_what_a_client_says_runs_in_a_process(server):
    """Only the model whose shape is a client's value does; a shape that is computed from another tensor is harmless."""
    path = "/v2/models/fill/infer"
    answer = server.post(path, {"inputs": [tensor("shape", "INT64", [2, 3], [2])]})
    assert answer.json["outputs"][0]["shape"] == [2, 3]
    answer = server.post(path, {"inputs": [tensor("shape", "INT64", [1 << 20, 1 << 20], [2])]})
    assert answer.status >= 400, answer.body
    alive(server)
    until(lambda: server.post(path, {"inputs": [tensor("shape", "INT64", [2, 3], [2])]}).status == 200, 60,
          "the model does not recover", server.log)
    answer = server.post("/v2/models/fill_alike/infer", {"inputs": [tensor("x", "FP32", [1, 2], [1, 2])]})
    assert answer.json["outputs"][0]["data"] == [0, 0]
    until(lambda: len(workers(server)) == 2, 60, "there is another number of processes", server.log)
    assert "ConstantOfShape allocates as much memory as the value says" in server.log()


def step_up(repo, name, trips="", config=""):
    """Writes a model that adds a client's step until 100 is reached. A step of 0 never reaches it."""
    outs = [helper.make_tensor_value_info("more_out", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v_out", TensorProto.FLOAT, [1])]
    ins = [helper.make_tensor_value_info("i", TensorProto.INT64, []),
           helper.make_tensor_value_info("more_in", TensorProto.BOOL, []),
           helper.make_tensor_value_info("v_in", TensorProto.FLOAT, [1])]
    body = helper.make_graph([helper.make_node("Add", ["v_in", "step"], ["v_out"]),
                              helper.make_node("Less", ["v_out", "top"], ["more"]),
                              helper.make_node("Squeeze", ["more"], ["more_out"])], "body", ins, outs)
    weights = {"zero": np.zeros(1, np.float32), "top": np.full(1, 100, np.float32),
               "forever": np.array(2**63 - 1), "few": np.array(1000)}
    write(repo, name, [helper.make_node("Loop", [trips, "", "zero"], ["y"], body=body)],
          [("step", TensorProto.FLOAT, [1])], [("y", TensorProto.FLOAT, [1])], weights=weights,
          config="instance_group { count: 1 kind: KIND_CPU }\n" + config)


WARMUP = """model_warmup { name: "w" batch_size: 0
  inputs { key: "step" value { data_type: TYPE_FP32 dims: [ 1 ] zero_data: true } } }
"""


def test_D22_D14_a_loop_that_may_not_end_runs_in_a_process(tmp_path):
    """One without a trip count, or with a huge one. Its execution ends when its client leaves, at unload and at
    exit."""
    repo = tmp_path / "models"
    step_up(repo, "while")
    step_up(repo, "huge", "forever")
    step_up(repo, "for", "few")
    step_up(repo, "warm", config=WARMUP)
    with Server(repo, tmp_path, "--model-control-mode=explicit", "--load-model=while", "--load-model=huge",
                "--load-model=for", "--model-load-timeout-secs=5") as s:
        step = lambda n: {"inputs": [tensor("step", "FP32", [n], [1])]}
        for name in "while", "huge", "for":
            answer = s.post(f"/v2/models/{name}/infer", step(25))
            assert answer.json["outputs"][0]["data"] == [100], answer.body
        assert len(workers(s)) == 2  # of while and huge
        assert s.post("/v2/models/for/infer", step(0)).json["outputs"][0]["data"] == [0]
        for name in "while", "huge":
            pids = workers(s)
            leave(s, name, step(0))
            until(lambda: s.post(f"/v2/models/{name}/infer", step(50)).status == 200, 60, "it goes on", s.log)
            assert workers(s) == pids
        answer = s.post("/v2/repository/models/warm/load", {})
        assert answer.status == 400 and "--model-load-timeout-secs" in answer.error, answer.body
        leave(s, "while", step(0))
        assert s.post("/v2/repository/models/while/unload", {}).status == 200
        until(lambda: len(workers(s)) == 1, 60, "a process still runs", s.log)
        leave(s, "huge", step(0))


def leave(server, name, request):
    """Sends a request, and goes when it is executed."""
    text = json.dumps(request).encode()
    host, port = server.http.split(":")
    with socket.create_connection((host, int(port))) as c:
        c.sendall(f"POST /v2/models/{name}/infer HTTP/1.1\r\nHost: {server.http}\r\n"
                  f"Content-Length: {len(text)}\r\n\r\n".encode() + text)
        ticks = lambda: {pid: int(open(f"/proc/{pid}/stat").read().rsplit(")")[1].split()[11]) for pid in workers(server)}
        before = ticks()
        until(lambda: any(n > before.get(pid, n) + 10 for pid, n in ticks().items()), 60, "no process computes")


def test_D22_the_shape_of_an_empty_tensor_does_not_take_all_memory(tmp_path):
    """A model makes a tensor of the other dimension, for which the client has sent nothing."""
    repo = tmp_path / "models"
    nodes = [helper.make_node("Shape", ["x"], ["n"], end=1), helper.make_node("ConstantOfShape", ["n"], ["y"])]
    write(repo, "wide", nodes,
          [("x", TensorProto.FLOAT, ["n", "m"])], [("y", TensorProto.FLOAT, ["k"])],
          config="max_batch_size: 0\ninput { name: 'x' data_type: TYPE_FP32 dims: [-1, -1] }\n"
                 "output { name: 'y' data_type: TYPE_FP32 dims: [-1] }\n")
    top = {"outputs": [{"name": "y", "parameters": {"classification": 1}}]}
    with Server(repo, tmp_path) as s:
        for n in 1 << 25, 1 << 33, 1 << 62:
            answer = s.post("/v2/models/wide/infer", top | {"inputs": [tensor("x", "FP32", [], [n, 0])]})
            assert answer.status == 400 and "multiply to more than 16777216" in answer.error, answer.body
        for n in 3, 1 << 20:
            answer = s.post("/v2/models/wide/infer", top | {"inputs": [tensor("x", "FP32", [], [n, 0])]})
            assert answer.status == 200, answer.body
