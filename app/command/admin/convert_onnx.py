"""Makes another ONNX model of an ONNX model, and compares the two. `nereid convert` runs it beside convert.py.

usage: convert_onnx.py ORDER

ORDER is JSON: file, out, inputs (a .npy or .npz file, or ""), tolerance, fp16, int8, simplify, opset (0: as it is), and
batched (whether the first dimension of the configuration's tensors is the batch; null: as the graph says). Writes the same
files as convert.py.
"""

import json
import pathlib
import sys
import tempfile

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime

from convert import GOLDEN, Stop, difference, milliseconds, tensor

SAMPLES = 32  # that are made
TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}


def opened(path):
    """A session of one thread, so that times can be compared."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as e:  # its errors have many types
        raise Stop(f"ONNX Runtime cannot open it: {str(e).splitlines()[0]}") from e


def samples_of(path, session):
    """The inputs by name. The first dimension of each counts the samples."""
    wanted = session.get_inputs()
    if path:
        try:
            got = np.load(path)
            got = {n: got[n] for n in got.files} if hasattr(got, "files") else {wanted[0].name: got}
        except (OSError, ValueError) as e:
            raise Stop(f"the inputs cannot be read: {e}") from e
        lacking = [i.name for i in wanted if i.name not in got]
        if lacking or len({len(a) for a in got.values()}) != 1:
            raise Stop(f"the inputs must have an array for each of {[i.name for i in wanted]}, of the same length")
        return {i.name: got[i.name] for i in wanted}
    random, made = np.random.default_rng(0), {}
    for i in wanted:
        free = [d for d in i.shape[1:] if not isinstance(d, int)]
        if i.type not in TYPES or free:
            raise Stop(f"inputs cannot be made for {i.name} ({i.type}, {i.shape}); give some with --inputs")
        made[i.name] = random.random((SAMPLES, *i.shape[1:])).astype(TYPES[i.type])
    return made


def pieces(session, samples):
    """The samples in requests that the model takes: all at once, or as many as its first dimension says."""
    count = len(next(iter(samples.values())))
    fixed = {i.shape[0] for i in session.get_inputs() if i.shape and isinstance(i.shape[0], int)}
    size = fixed.pop() if len(fixed) == 1 else min(count, 64)
    if fixed or size < 1 or count < size:
        raise Stop(f"it takes {size} samples at once, and there are {count}")
    return [{n: a[at:at + size] for n, a in samples.items()} for at in range(0, count - count % size, size)]


def answers(session, parts):
    """The outputs for all samples."""
    try:
        all_parts = [session.run(None, p) for p in parts]
    except Exception as e:  # its errors have many types
        raise Stop(f"it does not answer these inputs: {str(e).splitlines()[0]}") from e
    return [np.concatenate(o) if np.ndim(o[0]) else np.stack(o) for o in zip(*all_parts)]


class Reader:
    """The samples for the calibration of quantize_static."""

    def __init__(self, parts):
        self.parts = iter(parts)

    def get_next(self):
        return next(self.parts, None)


def quantized(model, parts):
    """A model with integers of 8 bits. parts: inputs to calibrate with; None: activations are measured at run time."""
    from onnxruntime import quantization

    with tempfile.TemporaryDirectory() as folder:
        before, ready, after = (f"{folder}/{n}.onnx" for n in ("before", "ready", "after"))
        onnx.save(model, before)
        quantization.shape_inference.quant_pre_process(before, ready, skip_symbolic_shape=True)
        if parts is None:
            quantization.quantize_dynamic(ready, after, weight_type=quantization.QuantType.QInt8)
        else:
            # Signed activations and weights by channel, as ONNX Runtime's guide says for CPUs.
            quantization.quantize_static(ready, after, Reader(parts), per_channel=True,
                                         activation_type=quantization.QuantType.QInt8,
                                         weight_type=quantization.QuantType.QInt8)
        return onnx.load(after)


def changed(order, model, parts):
    try:
        if order["opset"]:
            model = onnx.version_converter.convert_version(model, order["opset"])
        if order["simplify"]:
            import onnxsim

            model, _ = onnxsim.simplify(model)
        if order["fp16"]:
            from onnxconverter_common import float16

            model = float16.convert_float_to_float16(model, keep_io_types=True)
            once = {tuple(node.output): node for node in reversed(model.graph.node)}
            kept = [node for node in model.graph.node if once[tuple(node.output)] is node]
            del model.graph.node[:]  # it casts an input that is used twice by the same node twice
            model.graph.node.extend(kept)
        if order["int8"]:
            model = quantized(model, parts if order["inputs"] else None)
    except Stop:
        raise
    except Exception as e:  # the converters' errors have many types
        raise Stop(f"it cannot be changed so: {str(e).strip().splitlines()[0] if str(e).strip() else repr(e)}") from e
    return model


def compared(name, want, got, low):
    """difference; with low precision the error is a share of the output's largest value."""
    out = difference(name, want, got)
    if low and "error" in out:
        out["error"] = out["maxAbs"] / max(float(np.abs(want).max()), 1e-12)
    return out


def convert(order):
    out, low = pathlib.Path(order["out"]), order["fp16"] or order["int8"]
    try:
        model = onnx.load(order["file"])
    except Exception as e:  # its errors have many types
        raise Stop(f"it cannot be read as ONNX: {str(e).splitlines()[0]}") from e
    before = opened(order["file"])
    parts = pieces(before, samples_of(order["inputs"], before))
    file = out / "1/model.onnx"
    file.parent.mkdir()
    onnx.save(changed(order, model, parts), file)
    after = opened(str(file))
    want, got = answers(before, parts), answers(after, parts)
    names = [o.name for o in before.get_outputs()]
    outputs = [compared(n, w, g, low) for n, w, g in zip(names, want, got)]
    batched = order["batched"]
    if batched is None:
        batched = all(i.shape and not isinstance(i.shape[0], int) for i in before.get_inputs() + before.get_outputs())
    if batched:
        widest = max([o["maxAbs"] for o in outputs if "maxAbs" in o], default=0)
        golden = {"data": [{n: tensor(a[i:i + 1]) for n, a in parts[0].items()} for i in range(GOLDEN)
                           if i < len(next(iter(parts[0].values())))],
                  "tolerance": max(order["tolerance"], 1.5 * widest)}
        golden["validation_data"] = [{n: tensor(w[i:i + 1]) for n, w in zip(names, want)}
                                     for i in range(len(golden["data"]))]
        (out / "golden").mkdir()
        (out / "golden/converted.json").write_text(json.dumps(golden) + "\n")
    one = {n: a[:1] if batched else a for n, a in parts[0].items()}
    report = {
        "framework": f"ONNX, opset {model.opset_import[0].version}", "rows": sum(len(next(iter(p.values()))) for p in parts),
        "made": not order["inputs"], "outputs": outputs, "low": bool(low),
        "bytesBefore": pathlib.Path(order["file"]).stat().st_size, "bytesAfter": file.stat().st_size,
        "msBefore": milliseconds(lambda: before.run(None, one)), "msAfter": milliseconds(lambda: after.run(None, one)),
    }
    (out / "report.json").write_text(json.dumps(report) + "\n")


if __name__ == "__main__":
    try:
        convert(json.loads(sys.argv[1]))
    except Stop as e:
        print(str(e).replace("\n", " "), file=sys.stderr)
        sys.exit(3)
