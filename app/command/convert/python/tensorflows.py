"""Models of TensorFlow: SavedModel, frozen graph, Keras, and TensorFlow Lite."""

import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # otherwise each start prints the machine's processor
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf
import tf2onnx

from common import Net, Port, Stop, first_line

OPSET = 17  # tf2onnx makes no newer one reliably


def load_tensorflow(order):
    tf.config.threading.set_intra_op_parallelism_threads(1)  # the times are compared with those of one thread
    path = pathlib.Path(order["file"])
    try:
        if path.is_dir():
            return saved_model(order, path)
        return {".pb": frozen, ".tflite": lite}.get(path.suffix.lower(), keras)(order, path)
    except Stop:
        raise
    except Exception as e:  # its errors have many types
        raise Stop(f"TensorFlow cannot read it: {first_line(e)}") from e


def port(name, spec):
    if spec.shape.rank is None:
        raise Stop(f"the input {name} has no shape. Export the model with an input signature")
    try:
        return Port(name, spec.dtype.as_numpy_dtype, spec.shape.as_list())
    except TypeError as e:
        raise Stop(f"the input {name} is no tensor of numbers") from e


def of_function(title, order, names, specs, call, outputs=None):
    """A model that is a function of tensors. call takes one for each spec and returns a list."""
    ports = [port(n, s) for n, s in zip(names, specs)]
    signature = [tf.TensorSpec(s.shape, s.dtype, name=f"in{i}") for i, s in enumerate(specs)]
    function = tf.function(lambda *x: call(*x), input_signature=signature)

    def answer(arrays):
        return [o.numpy() for o in function(*[tf.constant(a) for a in arrays])]

    def export(parts):
        return exported(lambda: tf2onnx.convert.from_function(function, signature, opset=order["opset"] or OPSET))

    return Net(f"TensorFlow {tf.__version__}, {title}", ports, answer, export, outputs)


def exported(convert):
    try:
        model, _ = convert()
    except Exception as e:  # its errors have many types
        raise Stop(f"tf2onnx cannot convert it: {first_line(e)}. Serve it with the TensorFlow backend") from e
    unknown = sorted({n.op_type for n in model.graph.node if n.domain not in ("", "ai.onnx.ml", "com.microsoft")}
                     | {n.op_type for n in model.graph.node if n.op_type.startswith(("Flex", "TFL_"))})
    if unknown:
        raise Stop(f"ONNX has no operator for {', '.join(unknown)}. Serve it with the TensorFlow backend")
    return model


def saved_model(order, path):
    model = tf.saved_model.load(str(path))
    if not model.signatures:
        raise Stop("the SavedModel has no signature. Export it with one (tf.saved_model.save with signatures, or "
                   "model.export of Keras)")
    key = "serving_default" if "serving_default" in model.signatures else next(iter(model.signatures))
    function = model.signatures[key]
    specs = function.structured_input_signature[1]
    names, outputs = sorted(specs), sorted(function.structured_outputs)
    net = of_function("SavedModel", order, names, [specs[n] for n in names],
                      lambda *x: [function(**dict(zip(names, x)))[n] for n in outputs], outputs)
    net.kept = model  # its variables live as long as it does
    return net


def keras(order, path):
    import keras as library

    try:
        model = library.saving.load_model(path, compile=False, safe_mode=not order["trust"])
    except Exception as e:  # its errors have many types
        if "unsafe" in str(e) or "safe_mode" in str(e):
            raise Stop("it has a Lambda layer: to read it runs the code in it. If you trust where it is from, say "
                       "--trust") from e
        if "Could not locate" in str(e) or "Unknown layer" in str(e):
            raise Stop(f"it has a layer whose class is not here: {first_line(e)}. Export it as a SavedModel "
                       "(model.export) where the class is") from e
        raise Stop(f"Keras cannot read it: {first_line(e)}") from e
    if not getattr(model, "inputs", None):
        raise Stop("the model was never built, so its inputs are not known. Export it as a SavedModel (model.export)")
    specs = [tf.TensorSpec(i.shape, i.dtype) for i in model.inputs]
    several = len(specs) > 1

    def call(*x):
        return tf.nest.flatten(model(list(x) if several else x[0], training=False))

    return of_function("Keras", order, [i.name for i in model.inputs], specs, call,
                       getattr(model, "output_names", None) or [model.layers[-1].name])


def frozen(order, path):
    graph = tf.compat.v1.GraphDef()
    try:
        graph.ParseFromString(path.read_bytes())
    except Exception as e:
        raise Stop("it is no frozen graph of TensorFlow (GraphDef)") from e
    variables = [n.op for n in graph.node if n.op in ("VariableV2", "VarHandleOp")]
    if variables:
        raise Stop("its variables are not frozen: their values are in a checkpoint. Freeze the graph, or export a SavedModel")
    used = {i.split(":")[0].lstrip("^") for n in graph.node for i in n.input}
    inputs = [n.name for n in graph.node if n.op == "Placeholder"]
    outputs = [n.name for n in graph.node if n.name not in used and n.op not in ("NoOp", "Const", "Assert", "Placeholder")]
    if not inputs or not outputs:
        raise Stop("the graph has no placeholder or no output")
    whole = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(graph, name=""), [])
    function = whole.prune([f"{n}:0" for n in inputs], [f"{n}:0" for n in outputs])
    return of_function("frozen graph", order, inputs, [whole.graph.get_tensor_by_name(f"{n}:0") for n in inputs],
                       lambda *x: tf.nest.flatten(function(*x)), outputs)


def lite(order, path):
    try:
        interpreter = tf.lite.Interpreter(str(path))
    except ValueError as e:
        raise Stop(f"TensorFlow Lite cannot read it: {first_line(e)}") from e
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    ports = [Port(plain(d["name"]), d["dtype"], [None if n < 0 else int(n) for n in d["shape_signature"]]) for d in inputs]

    def answer(arrays):
        for d, a in zip(inputs, arrays):
            if list(a.shape) != list(interpreter.get_tensor(d["index"]).shape):
                interpreter.resize_tensor_input(d["index"], a.shape)
        interpreter.allocate_tensors()
        for d, a in zip(inputs, arrays):
            interpreter.set_tensor(d["index"], a)
        interpreter.invoke()
        return [interpreter.get_tensor(d["index"]).copy() for d in outputs]

    interpreter.allocate_tensors()
    return Net(f"TensorFlow {tf.__version__}, Lite", ports, answer,
               lambda parts: exported(lambda: tf2onnx.convert.from_tflite(str(path), opset=order["opset"] or OPSET)),
               [plain(d["name"]) for d in outputs])


def plain(name):
    """A tensor's name without what the exporter added."""
    return name.removesuffix(":0").removeprefix("serving_default_")
