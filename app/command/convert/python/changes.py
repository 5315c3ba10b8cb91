"""Changes of an ONNX model: numbers of 16 or 8 bits, simplified, another opset, its weights in a file of their own."""

import tempfile

import numpy as np

from common import Net, Port, Stop, first_line, runs, session

TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
         "tensor(uint8)": np.uint8, "tensor(int8)": np.int8, "tensor(int32)": np.int32, "tensor(int64)": np.int64,
         "tensor(bool)": np.bool_}


def load_onnx(order):
    import onnx

    try:
        model = onnx.load(order["file"])
    except Exception as e:  # its errors have many types
        raise Stop(f"it cannot be read as ONNX: {first_line(e)}") from e
    before = session(order["file"])
    for i in before.get_inputs():
        if i.type not in TYPES:
            raise Stop(f"inputs of the type {i.type} cannot be compared, which {i.name} has")
    ports = [Port(i.name, TYPES[i.type], [d if isinstance(d, int) else None for d in i.shape])
             for i in before.get_inputs()]
    return Net(f"ONNX, opset {model.opset_import[0].version}", ports, runs(before),
               lambda parts: changed(order, model, ports, parts), low=bool(order["fp16"] or order["int8"]))


class Reader:
    """The samples for the calibration of quantize_static."""

    def __init__(self, ports, parts):
        self.parts = iter([{p.name: a for p, a in zip(ports, arrays)} for arrays in parts])

    def get_next(self):
        return next(self.parts, None)


def quantized(model, ports, parts):
    """A model with integers of 8 bits. parts: inputs to calibrate with; None: activations are measured at run time."""
    import onnx
    from onnxruntime import quantization

    with tempfile.TemporaryDirectory() as folder:
        before, ready, after = (f"{folder}/{n}.onnx" for n in ("before", "ready", "after"))
        onnx.save(model, before)
        quantization.shape_inference.quant_pre_process(before, ready, skip_symbolic_shape=True)
        if parts is None:
            quantization.quantize_dynamic(ready, after, weight_type=quantization.QuantType.QInt8)
        else:
            # Signed activations and weights by channel, as ONNX Runtime's guide says for CPUs.
            quantization.quantize_static(ready, after, Reader(ports, parts), per_channel=True,
                                         activation_type=quantization.QuantType.QInt8,
                                         weight_type=quantization.QuantType.QInt8)
        return onnx.load(after)


def port_types(model):
    """The data types of the model's inputs and outputs, by name."""
    return {p.name: p.type.tensor_type.elem_type for p in [*model.graph.input, *model.graph.output]}


def changed(order, model, ports, parts):
    import onnx.version_converter

    try:
        if order["opset"]:
            model = onnx.version_converter.convert_version(model, order["opset"])
        if order["simplify"]:
            import onnxsim

            model, _ = onnxsim.simplify(model)
        if order["fp16"]:
            from onnxconverter_common import float16

            before = port_types(model)
            model = float16.convert_float_to_float16(model, keep_io_types=True)
            if port_types(model) != before:  # an operator of ai.onnx.ml makes the output
                raise Stop("it cannot be changed so: an output would become FP16")
            once = {tuple(node.output): node for node in reversed(model.graph.node)}
            kept = [node for node in model.graph.node if once[tuple(node.output)] is node]
            del model.graph.node[:]  # it casts an input that is used twice by the same node twice
            model.graph.node.extend(kept)
        if order["int8"]:
            model = quantized(model, ports, parts if order["inputs"] else None)
    except Stop:
        raise
    except Exception as e:  # the converters' errors have many types
        raise Stop(f"it cannot be changed so: {first_line(e)}") from e
    return model
