"""Makes the models beside this file. Needs the package onnx; run it from anywhere: python make.py"""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h

HERE = pathlib.Path(__file__).parent


def save(name, nodes, inputs, outputs, initializers=(), opset=17, ir=8, domains=(), functions=(), **kw):
    graph = h.make_graph(nodes, name, inputs, outputs, list(initializers))
    opsets = [h.make_opsetid("", opset)] + [h.make_opsetid(d, 1) for d in domains]
    model = h.make_model(graph, opset_imports=opsets, ir_version=ir, producer_name="", functions=functions)
    onnx.save_model(model, HERE / f"{name}.onnx", **kw)


def io(name, dtype, shape):
    return h.make_tensor_value_info(name, dtype, shape)


TYPES = {
    "fp64": T.DOUBLE, "fp32": T.FLOAT, "fp16": T.FLOAT16, "bf16": T.BFLOAT16, "bool": T.BOOL, "bytes": T.STRING,
    "int64": T.INT64, "int32": T.INT32, "int16": T.INT16, "int8": T.INT8,
    "uint64": T.UINT64, "uint32": T.UINT32, "uint16": T.UINT16, "uint8": T.UINT8,
}
for name, dtype in TYPES.items():
    save(f"identity_{name}", [h.make_node("Identity", ["INPUT0"], ["OUTPUT0"])],
         [io("INPUT0", dtype, ["batch", "width"])], [io("OUTPUT0", dtype, ["batch", "width"])])

save("add_sub", [h.make_node("Add", ["INPUT0", "INPUT1"], ["OUTPUT0"]), h.make_node("Sub", ["INPUT0", "INPUT1"], ["OUTPUT1"])],
     [io("INPUT0", T.INT32, ["n", 16]), io("INPUT1", T.INT32, ["n", 16])],
     [io("OUTPUT0", T.INT32, ["n", 16]), io("OUTPUT1", T.INT32, ["n", 16])])

save("scalar", [h.make_node("Neg", ["x"], ["y"])], [io("x", T.FLOAT, [])], [io("y", T.FLOAT, [])])

save("nonzero", [h.make_node("NonZero", ["x"], ["y"])], [io("x", T.FLOAT, ["n"])], [io("y", T.INT64, [1, "found"])])

save("concat", [h.make_node("Concat", ["x", "w"], ["y"], axis=1)], [io("x", T.FLOAT, ["a", "b"]), io("w", T.FLOAT, ["c", "d"])],
     [io("y", T.FLOAT, ["e", "f"])])

save("default", [h.make_node("Add", ["x", "bias"], ["y"])], [io("x", T.FLOAT, ["n", 2]), io("bias", T.FLOAT, [2])],
     [io("y", T.FLOAT, ["n", 2])], [h.make_tensor("bias", T.FLOAT, [2], [1, 2])])

save("table", [h.make_node("Gather", ["table", "index"], ["value"])], [io("index", T.INT64, ["n", 1])],
     [io("value", T.FLOAT, ["n", 1])], [h.make_tensor("table", T.FLOAT, [4], [10, 11, 12, 13])])

save("mixes_rows", [h.make_node("Compress", ["x", "first"], ["y"], axis=0)], [io("x", T.FLOAT, ["n", 2])],
     [io("y", T.FLOAT, ["m", 2])], [h.make_tensor("first", T.BOOL, [1], [True])])

# What it says of its output is not so: two of the three columns are left.
save("other_shape", [h.make_node("Compress", ["x", "some"], ["y"], axis=1)], [io("x", T.FLOAT, ["n", 3])],
     [io("y", T.FLOAT, ["n", 3])], [h.make_tensor("some", T.BOOL, [3], [True, False, True])])

# One output is no node's: it is there before the run.
save("constant", [h.make_node("Constant", [], ["y"], value=h.make_tensor("", T.FLOAT, [2], [3, 4])), h.make_node("Neg", ["x"], ["z"])],
     [io("x", T.FLOAT, [2])], [io("y", T.FLOAT, [2]), io("z", T.FLOAT, [2])])

save("sequence", [h.make_node("SequenceConstruct", ["x", "x"], ["s"]), h.make_node("Identity", ["x"], ["y"])],
     [io("x", T.FLOAT, ["n", 2])],
     [h.make_tensor_sequence_value_info("s", T.FLOAT, ["n", 2]), io("y", T.FLOAT, ["n", 2])])

body = h.make_graph([h.make_node("Identity", ["go"], ["go_on"]), h.make_node("Add", ["v", "one"], ["w"])], "body",
                    [io("i", T.INT64, []), io("go", T.BOOL, []), io("v", T.FLOAT, [1])],
                    [io("go_on", T.BOOL, []), io("w", T.FLOAT, [1])], [h.make_tensor("one", T.FLOAT, [1], [1])])
save("loop", [h.make_node("Squeeze", ["n"], ["count"]), h.make_node("Loop", ["count", "", "zero"], ["y"], body=body)],
     [io("n", T.INT64, [1])], [io("y", T.FLOAT, [1])], [h.make_tensor("zero", T.FLOAT, [1], [0])])

save("complex", [h.make_node("Identity", ["x"], ["y"])], [io("x", T.COMPLEX64, ["n"])], [io("y", T.COMPLEX64, ["n"])])

(HERE / "external.data").unlink(missing_ok=True)  # saving appends
w = onnx.numpy_helper.from_array(np.arange(512, dtype=np.float32).reshape(256, 2), "w")
save("external", [h.make_node("MatMul", ["x", "w"], ["y"])], [io("x", T.FLOAT, ["n", 256])], [io("y", T.FLOAT, ["n", 2])], [w],
     save_as_external_data=True, location="external.data", size_threshold=0)

save("custom_op", [h.make_node("Twice", ["x"], ["y"], domain="test.nereid")], [io("x", T.FLOAT, ["n", 2])], [io("y", T.FLOAT, ["n", 2])],
     domains=["test.nereid"])

# Its external data is 2.8 GB of zeros but for the last number; the test makes it.
table = onnx.TensorProto(name="table", data_type=T.FLOAT, dims=[700_000_000], data_location=onnx.TensorProto.EXTERNAL)
table.external_data.add(key="location", value="table.data")
save("huge", [h.make_node("Gather", ["table", "index"], ["value"])], [io("index", T.INT64, ["n", 1])], [io("value", T.FLOAT, ["n", 1])], [table])

save("unknown_op", [h.make_node("Frobnicate", ["x"], ["y"])], [io("x", T.FLOAT, [1])], [io("y", T.FLOAT, [1])])
# The file defines Own itself. The others are unknown, and so is the operator inside Own.
own = h.make_function("test.nereid", "Own", ["a"], ["b"], [h.make_node("Inner", ["a"], ["b"], domain="test.nereid")],
                      [h.make_opsetid("test.nereid", 1)])
nodes = [h.make_node("Neg", ["x"], ["n"])] + [h.make_node(op, [a], [b], domain=d) for op, a, b, d in [
    ("Own", "n", "o", "test.nereid"), ("Once", "o", "p", "test.nereid"), ("Frobnicate", "p", "q", "other.nereid"),
    ("Once", "q", "y", "test.nereid")]]
save("own_function", nodes, [io("x", T.FLOAT, [1])], [io("y", T.FLOAT, [1])], domains=["test.nereid", "other.nereid"],
     functions=[own])
save("opset_too_new", [h.make_node("Identity", ["x"], ["y"])], [io("x", T.FLOAT, [1])], [io("y", T.FLOAT, [1])], opset=9999)

# Every kind of batch input beside a ragged one. SUM: each request's sum of the ragged input, by the accumulated counts.
nodes = [
    h.make_node("Add", ["RAGGED", "RAGGED"], ["TWICE"]),
    h.make_node("Reshape", ["COUNT", "column"], ["COUNTS"]),
    h.make_node("CumSum", ["RAGGED", "axis0"], ["running"]),
    h.make_node("Concat", ["zero_f", "running"], ["padded"], axis=0),
    h.make_node("Gather", ["padded", "ACCUMULATED"], ["upto"]),
    h.make_node("Slice", ["WITH_ZERO", "first", "last"], ["starts"]),
    h.make_node("Cast", ["starts"], ["starts_i"], to=T.INT64),
    h.make_node("Gather", ["padded", "starts_i"], ["before"]),
    h.make_node("Sub", ["upto", "before"], ["sums"]),
    h.make_node("Reshape", ["sums", "column"], ["SUM"]),
    h.make_node("Shape", ["MAX"], ["length"]),
    h.make_node("Cast", ["length"], ["length_i"], to=T.INT32),
    h.make_node("Mul", ["COUNTS", "zero_i"], ["nothing"]),
    h.make_node("Add", ["nothing", "length_i"], ["LONGEST"]),
    h.make_node("Identity", ["ITEM"], ["ITEMS"]),
    h.make_node("Reshape", ["FLAT", "pairs"], ["FLATS"]),
]
save("ragged", nodes,
     [io("RAGGED", T.FLOAT, ["total"]), io("COUNT", T.INT32, ["n"]), io("ACCUMULATED", T.INT32, ["n"]),
      io("WITH_ZERO", T.FLOAT, ["n_and_1"]), io("MAX", T.FLOAT, ["most"]), io("GRID", T.FLOAT, ["total_grid"]),
      io("ITEM", T.INT32, ["n", "rank"]), io("FLAT", T.FLOAT, ["n_times_rank"])],
     [io("TWICE", T.FLOAT, ["total"]), io("COUNTS", T.INT32, ["n", 1]), io("SUM", T.FLOAT, ["n", 1]),
      io("LONGEST", T.INT32, ["n", 1]), io("ITEMS", T.INT32, ["n", "rank"]), io("FLATS", T.FLOAT, ["n", 2])],
     [h.make_tensor("column", T.INT64, [2], [-1, 1]), h.make_tensor("axis0", T.INT64, [], [0]), h.make_tensor("zero_f", T.FLOAT, [1], [0]),
      h.make_tensor("first", T.INT64, [1], [0]), h.make_tensor("last", T.INT64, [1], [-1]), h.make_tensor("zero_i", T.INT32, [1], [0]),
      h.make_tensor("pairs", T.INT64, [2], [-1, 2])])

# Implicit state: OUTPUT is the sum of INPUT since START, as SUM_OUT; SEEN_OUT has all values so far, and grows.
save("stateful", [
    h.make_node("Add", ["INPUT", "SUM_IN"], ["SUM_OUT"]), h.make_node("Identity", ["SUM_OUT"], ["OUTPUT"]),
    h.make_node("Concat", ["SEEN_IN", "INPUT"], ["SEEN_OUT"], axis=1),
], [io("INPUT", T.INT32, ["n", 1]), io("SUM_IN", T.INT32, ["n", 1]), io("SEEN_IN", T.INT32, ["n", "seen"])],
     [io("OUTPUT", T.INT32, ["n", 1]), io("SUM_OUT", T.INT32, ["n", 1]), io("SEEN_OUT", T.INT32, ["n", "more"])])

# Without a batch dimension, and with a state of texts: LAST_OUT is WORD, BEFORE is the word before.
save("words", [h.make_node("Identity", ["WORD"], ["LAST_OUT"]), h.make_node("Identity", ["LAST_IN"], ["BEFORE"])],
     [io("WORD", T.STRING, [1]), io("LAST_IN", T.STRING, [1])], [io("LAST_OUT", T.STRING, [1]), io("BEFORE", T.STRING, [1])])

# Controls of every type: OUTPUT = INPUT + START, as Triton's example simple_sequence; CORRID comes back as ID.
save("controls", [
    h.make_node("Add", ["INPUT", "START"], ["OUTPUT"]), h.make_node("Identity", ["CORRID"], ["ID"]),
    h.make_node("Identity", ["READY"], ["READY_OUT"]), h.make_node("Identity", ["END"], ["END_OUT"]),
], [io("INPUT", T.INT32, ["n", 1]), io("START", T.INT32, ["n", 1]), io("READY", T.FLOAT, ["n", 1]), io("END", T.BOOL, ["n", 1]),
    io("CORRID", T.STRING, ["n", 1])],
     [io("OUTPUT", T.INT32, ["n", 1]), io("ID", T.STRING, ["n", 1]), io("READY_OUT", T.FLOAT, ["n", 1]), io("END_OUT", T.BOOL, ["n", 1])])
