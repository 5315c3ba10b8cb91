"""Shapes and types of ONNX models that Triton's configurations cannot express, or only in another way."""

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from onnx import TensorProto, helper, numpy_helper

from harness import REFERENCE, Server
from test_onnx_faults import tensor, write

pytestmark = pytest.mark.skipif(REFERENCE, reason="tests this server's ONNX models")

FLOAT = TensorProto.FLOAT


def branch(*shape):
    """A graph that gives x this shape."""
    target = numpy_helper.from_array(np.array(shape, np.int64), "shape")
    return helper.make_graph([helper.make_node("Reshape", ["x", "shape"], ["z"])], "branch", [],
                             [helper.make_tensor_value_info("z", FLOAT, [None if d < 0 else d for d in shape])],
                             [target])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    work = tmp_path_factory.mktemp("onnx_shapes")
    repo = work / "models"
    neg = helper.make_node("Neg", ["x"], ["y"])
    write(repo, "scalar", [neg], [("x", FLOAT, [])], [("y", FLOAT, [])])
    write(repo, "one", [neg], [("x", FLOAT, [1])], [("y", FLOAT, [1])])
    write(repo, "none", [helper.make_node("Concat", ["x", "x"], ["y"], axis=1)], [("x", FLOAT, [2, 0])],
          [("y", FLOAT, [2, 0])])
    # read, the output has the shapes of both branches; optimized, only the first is left
    write(repo, "optimized", [helper.make_node("If", ["always"], ["y"], then_branch=branch(1, 1, 4),
                                               else_branch=branch(1, -1, 2))],
          [("x", FLOAT, [4])], [("y", FLOAT, [1, "n", "m"])], weights={"always": np.array(True)})
    listed = 'input [ { name: "x" }, { name: "w" } ]\noutput { name: "y" }\n'
    for name, config in ("given", listed), ("constant", ""):
        write(repo, name, [helper.make_node("Add", ["x", "w"], ["y"])], [("x", FLOAT, ["n", 3]), ("w", FLOAT, [3])],
              [("y", FLOAT, ["n", 3])], weights={"w": np.array([10, 20, 30], np.float32)},
              config=config)
    for name in "FLOAT8E4M3FN", "INT4", "UINT2":
        write(repo, name, [helper.make_node("Cast", ["x"], ["y"], to=FLOAT)],
              [("x", getattr(TensorProto, name), [4])], [("y", FLOAT, [4])], opset=25)
    with Server(repo, work, wait="live") as s:
        yield s


def test_DV87_a_scalar_is_taken_with_and_without_a_dimension(server):
    """The configuration says [1], because dims must not be empty. The answer has the configured shape."""
    for shape in [1], []:
        answer = server.post("/v2/models/scalar/infer", {"inputs": [{**tensor("x", "FP32", [2]), "shape": shape}]})
        assert answer.status == 200, answer.body
        assert answer.json["outputs"][0]["data"] == [-2] and answer.json["outputs"][0]["shape"] == [1]
        for client, url in (tritonclient.http, server.http), (tritonclient.grpc, server.grpc):
            given = client.InferInput("x", shape, "FP32")
            given.set_data_from_numpy(np.full(shape, 3, np.float32))
            with client.InferenceServerClient(url) as c:
                assert c.infer("scalar", [given]).as_numpy("y").tolist() == [-3], (client, shape)
    answer = server.post("/v2/models/scalar/infer", {"inputs": [tensor("x", "FP32", [2], [1, 1])]})
    assert answer.status == 400 and "Expected [1], got [1,1]" in answer.error
    answer = server.post("/v2/models/one/infer", {"inputs": [{**tensor("x", "FP32", [2]), "shape": []}]})
    assert answer.json["outputs"][0]["data"] == [-2]


def test_a_dimension_of_0_is_completed_as_a_variable_one(server):
    assert [int(d) for d in server.get("/v2/models/none/config").json["input"][0]["dims"]] == [2, -1]
    answer = server.post("/v2/models/none/infer", {"inputs": [tensor("x", "FP32", [], [2, 0])]})
    assert answer.status == 200 and answer.json["outputs"][0]["shape"] == [2, 0], answer.body
    answer = server.post("/v2/models/none/infer", {"inputs": [tensor("x", "FP32", [1, 2], [2, 1])]})
    assert answer.status >= 400 and "Expected: 0" in answer.error, answer.body


def test_an_output_whose_shape_is_known_better_after_optimization_is_served(server):
    assert server.state("optimized") == "READY", server.index()
    answer = server.post("/v2/models/optimized/infer", {"inputs": [tensor("x", "FP32", [1, 2, 3, 4], [4])]})
    assert answer.json["outputs"][0]["shape"] == [1, 1, 4], answer.body


@pytest.mark.parametrize("name", ["FLOAT8E4M3FN", "INT4", "UINT2"])
def test_a_type_that_the_protocol_lacks_is_refused_with_advice(server, name):
    state, reason = server.index()[(name, "1")]
    assert state == "UNAVAILABLE"
    assert f"unsupported datatype {name} of I/O 'x': the protocol of Triton has no such type; convert it in the " \
           f"model by a Cast" in reason


def test_C096_an_initializer_that_the_configuration_lists_is_an_optional_input(server):
    """Triton's completed configuration has only inputs without a value, and so has ours."""
    x, w = tensor("x", "FP32", [1, 2, 3]), tensor("w", "FP32", [5, 5, 5], [3])
    for inputs, y in ([x], [11, 22, 33]), ([x, w], [6, 7, 8]):
        assert server.post("/v2/models/given/infer", {"inputs": inputs}).json["outputs"][0]["data"] == y
    assert server.post("/v2/models/constant/infer", {"inputs": [x]}).json["outputs"][0]["data"] == [11, 22, 33]
    assert server.post("/v2/models/constant/infer", {"inputs": [x, w]}).status == 400
    inputs = {n: [(i["name"], i["optional"]) for i in server.get(f"/v2/models/{n}/config").json["input"]]
              for n in ("given", "constant")}
    assert inputs == {"given": [("x", False), ("w", True)], "constant": [("x", False)]}
    assert server.get("/v2/models/constant/config").json["max_batch_size"] == 4
