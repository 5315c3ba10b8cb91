"""Models of Caffe2: predict_net.pb with init_net.pb, or model.netdef with init_model.netdef."""

import os
import pathlib

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the times are compared with those of one thread
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import onnx
import torch
from caffe2.proto import caffe2_pb2
from caffe2.python import workspace
from caffe2.python.onnx import frontend

from common import Net, Port, Stop, first_line, shaped

# Operators that the converter knows under names that ONNX does not have.
CONVERTED = {*frontend.Caffe2Frontend._renamed_operators, "ChannelShuffle", "Copy", "FC", "ResizeNearest"}
NESTED = {"If", "Loop", "Scan"}  # their nets could have any operator


def load_caffe2(order):
    workspace.GlobalInit(["caffe2", "--caffe2_log_level=3"])
    path = pathlib.Path(order["file"])
    values = path.with_name(path.name.replace("predict_net", "init_net") if path.name.endswith("predict_net.pb")
                            else f"init_{path.name}")
    init, predict = read(values), read(path)
    # Other operators are not run: those of Python run code, and some write files.
    unknown = sorted({o.type for o in init.op if not o.type.endswith("Fill")}
                     | {o.type for o in predict.op if not (onnx.defs.has(o.type) or o.type in CONVERTED) or o.type in NESTED})
    if unknown:
        raise Stop(f"ONNX has no operator for {', '.join(unknown)}. Make the model again in PyTorch")
    for part in init, predict:
        part.device_option.Clear()
        for o in part.op:
            o.device_option.Clear()
    made = {n for o in init.op for n in o.output}
    shapes = order["shapes"] or []
    named = {s["name"] for s in shapes}  # also one that init_net.pb fills with an example
    inputs = [n for n in predict.external_input if n not in made or n in named]
    if not shapes or len(shapes) != len(inputs):
        raise Stop(f"it does not say the shapes of its inputs, which are {', '.join(inputs) or 'filled with examples'}. Say "
                   f"--shape, such as --shape={inputs[0] if inputs else 'data'}:-1,3,224,224, for each of them")
    given = {s["name"] or n: s for s, n in zip(shapes, inputs)}
    if set(given) != set(inputs):
        raise Stop(f"--shape names {', '.join(given)}, and its inputs are {', '.join(inputs)}")
    ports = [Port(n, given[n]["dtype"], [None if d < 0 else d for d in given[n]["dims"]]) for n in inputs]
    predict.name = predict.name or "predict"
    created = []  # a net is created once, and then its inputs must be there
    try:
        workspace.RunNetOnce(init)
    except Exception as e:  # its errors have many types
        raise Stop(f"Caffe2 cannot make its weights: {first_line(e)}") from e

    def answer(arrays):
        for p, a in zip(ports, arrays):
            workspace.FeedBlob(p.name, np.ascontiguousarray(a))
        if not created:
            created.append(workspace.CreateNet(predict))
        workspace.RunNet(predict.name)
        return [workspace.FetchBlob(n) for n in predict.external_output]

    return Net(f"Caffe2 of PyTorch {torch.__version__}", ports, answer, lambda parts: export(init, predict, ports, parts),
               list(predict.external_output), files=(path, values))


def read(path):
    net = caffe2_pb2.NetDef()
    try:
        net.ParseFromString(path.read_bytes())
    except FileNotFoundError as e:
        raise Stop(f"{path.name} is not here; both files of the model must be in one folder") from e
    except Exception as e:  # the errors of protobuf have many types
        raise Stop(f"{path.name} is no network of Caffe2 (NetDef)") from e
    if not net.op:
        raise Stop(f"{path.name} is no network of Caffe2 (NetDef): it has no operators")
    return net


def export(init, predict, ports, parts):
    types = {p.name: (onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[p.dtype], a.shape) for p, a in zip(ports, parts[0])}
    try:
        model = frontend.caffe2_net_to_onnx_model(predict, init, types)
    except Exception as e:  # its errors have many types
        raise Stop(f"Caffe2's converter cannot convert it: {first_line(e)}. Make the model again in PyTorch") from e
    # Weights are inputs too, and the shapes are those of this number of rows.
    graph = model.graph
    inputs, outputs = {i.name: i for i in graph.input}, list(graph.output)
    del graph.input[:], graph.output[:], graph.value_info[:]
    for p in ports:
        graph.input.add().CopyFrom(inputs[p.name])
        shaped(graph.input[-1], ["batch" if i == 0 and d is None else f"{p.name}_{i}" if d is None else d
                                 for i, d in enumerate(p.dims)])
    for o in outputs:
        o.type.tensor_type.ClearField("shape")
    graph.output.extend(outputs)
    return model
