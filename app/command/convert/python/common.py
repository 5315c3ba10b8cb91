"""What all converters share: the model before, the rows to compare with, the comparison and the files of the new model."""

import base64
import json
import pathlib
import statistics
import time

import numpy as np

GOLDEN = 4  # rows that are kept as a golden request
RUNS = 30  # of one row, to measure the latency
PICTURES = 512  # of a folder that are read
LARGE = 1 << 31  # bytes of weights that one ONNX file cannot hold
WEIGHTS = "model.onnx.data"  # the file that has the weights then
SAVED = {"FP16": "<f2", "FP32": "<f4", "FP64": "<f8", "INT8": "i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8", "UINT8": "u1",
         "BOOL": "?"}  # NumPy's types, of tensors in saved requests


class Stop(Exception):
    """What the user must know."""


class Port:
    """An input: its name, its NumPy type, and its dimensions. None is an open one; the first, if open, is the batch."""

    def __init__(self, name, dtype, dims):
        self.name, self.dtype, self.dims = name, np.dtype(dtype), list(dims)

    def __str__(self):
        return f"{self.name} {self.dtype} {['?' if d is None else d for d in self.dims]}"


class Net:
    """A model before its conversion.

    answer(arrays) returns the outputs for one array per input. export() returns the ONNX model, whose inputs and outputs
    are in the same order. outputs has names for them; None: those of the ONNX model. rows(port) makes samples of an input
    that has no open dimension but the first. low: the new model has low precision. files: those
    of the model, if they are more than the one that was named.
    """

    def __init__(self, framework, ports, answer, export, outputs=None, classes=None, rows=None, low=False,
                 files=()):
        self.framework, self.ports, self.answer, self.export = framework, ports, answer, export
        self.outputs, self.classes, self.rows, self.low = outputs, classes, rows or even, low
        self.files = files


def first_line(error):
    return (str(error).strip() or repr(error)).splitlines()[0]


def even(port, count=32):
    """Samples between 0 and 1, as pictures have; of integers 0 or 1."""
    random = np.random.default_rng(0)
    if port.dtype.kind == "f":
        return random.random((count, *port.dims[1:])).astype(port.dtype)
    if port.dtype.kind in "iub":
        return random.integers(0, 2, (count, *port.dims[1:])).astype(port.dtype)
    return None


def samples(net, path, scale):
    """An array for each input, whose first dimension counts the samples: of a file, of a folder of pictures, or made."""
    if not path:
        made = []
        for p in net.ports:
            array = None if None in p.dims[1:] else net.rows(p)
            if array is None:
                raise Stop(f"inputs cannot be made for {p}; give some with --inputs")
            made.append(array)
        return made
    try:
        got = read(pathlib.Path(path), net.ports, scale)
    except (OSError, ValueError, IndexError, KeyError, TypeError) as e:
        raise Stop(f"the inputs cannot be read: {e}") from e
    lacking = [p.name for p in net.ports if p.name not in got]
    if lacking or len({len(got[p.name]) for p in net.ports}) != 1:
        raise Stop(f"the inputs must have an array for each of {[p.name for p in net.ports]}, of the same length")
    arrays = [np.asarray(got[p.name], p.dtype) for p in net.ports]
    for p, a in zip(net.ports, arrays):
        if len(a) == 0 or a.ndim != len(p.dims) or any(d not in (None, n) for d, n in zip(p.dims[1:], a.shape[1:])):
            raise Stop(f"the inputs have the shape {list(a.shape)}, and the model takes {p}")
    return arrays


def read(path, ports, scale):
    """The arrays of a file or a folder, by the names of the inputs."""
    if path.is_dir():
        saved = sorted(path.glob("*.json"))
        if saved:
            return joined([r for r in (request(json.loads(f.read_text()), ports) for f in saved) if r], ports)
        return {ports[0].name: pictures(path, ports, scale)}
    if path.suffix == ".csv":
        return {ports[0].name: np.loadtxt(path, delimiter=",", ndmin=2, skiprows=0 if numeric(path) else 1)}
    if path.suffix == ".json":
        return requests(json.loads(path.read_text()), ports)
    got = np.load(path)
    if not hasattr(got, "files"):
        return {ports[0].name: got}
    if len(got.files) == 1 and len(ports) == 1:
        return {ports[0].name: got[got.files[0]]}
    return {n: got[n] for n in got.files}


def numeric(path):
    """Whether a .csv file has no line with names at its head."""
    with open(path) as f:
        first = f.readline().split(",")
    try:
        [float(x) for x in first]
        return True
    except ValueError:
        return False


def requests(data, ports):
    """The rows of a saved request, or of perf_analyzer's input data."""
    if "data" not in data:
        return joined([r for r in [request(data, ports)] if r], ports)
    return joined([{p.name: value_of(row[p.name], p) for p in ports} for row in data["data"]], ports)


def value_of(value, port):
    """An input of perf_analyzer's data, with the batch before its dimensions."""
    content, shape = (value["content"], value.get("shape")) if isinstance(value, dict) else (value, None)
    dims = [-1 if d is None else d for d in port.dims[1:]]
    if shape is not None:  # it may have the batch
        dims = shape[1:] if len(shape) == len(port.dims) else shape
    return np.asarray(content).reshape([-1, *dims])


def request(data, ports):
    """The inputs of a saved request by name. None: an input is a picture or a text, of which there is no tensor here."""
    out = {}
    for i in data.get("inputs", []):
        if i["datatype"] not in SAVED or not {"b64", "data"} & set(i):
            return None
        dtype = SAVED[i["datatype"]]
        flat = np.frombuffer(base64.b64decode(i["b64"]), dtype) if "b64" in i else np.asarray(i["data"], dtype)
        out[i["name"]] = flat.reshape(i["shape"])
    dims = {p.name: len(p.dims) for p in ports}
    return out if {n: a.ndim for n, a in out.items()} == dims else None


def joined(rows, ports):
    if not rows:
        raise Stop(f"no request has tensors for the inputs {[p.name for p in ports]}")
    return {p.name: np.concatenate([r[p.name] for r in rows]) for p in ports}


def pictures(folder, ports, scale):
    """The pictures of a folder, made as large as the model takes them."""
    from PIL import Image

    if len(ports) != 1 or len(ports[0].dims) != 4:
        raise Stop(f"a folder of pictures is for a model with one input of four dimensions, and this one has "
                   f"{', '.join(map(str, ports))}")
    dims = ports[0].dims[1:]
    first = dims[0] in (1, 3)
    channels, height, width = dims if first else (dims[2], dims[0], dims[1])
    if channels not in (1, 3) or None in (height, width):
        raise Stop(f"pictures cannot be made for {ports[0]}; give arrays (.npy)")
    files = sorted(f for f in folder.rglob("*") if f.suffix.lower() in (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif"))
    if not files:
        raise Stop(f"the folder {folder} has no pictures")
    if not scale:
        scale = "none" if ports[0].dtype == np.uint8 else "imagenet" if channels == 3 and height >= 160 else "unit"
    out = []
    for f in files[:PICTURES]:
        picture = Image.open(f).convert("RGBA")
        white = Image.new("RGBA", picture.size, "white")
        white.alpha_composite(picture)
        picture = white.convert("L" if channels == 1 else "RGB").resize((width, height), Image.Resampling.BOX)
        a = np.asarray(picture, np.float32).reshape(height, width, channels)
        if scale == "unit":
            a = a / 255
        elif scale == "signed":
            a = a / 127.5 - 1
        elif scale == "imagenet":
            mean, deviation = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
            a = (a / 255 - mean[:channels]) / deviation[:channels]
        out.append(a.transpose(2, 0, 1) if first else a)
    return np.stack(out)


def pieces(ports, arrays):
    """The samples in requests that the model takes: up to 64 at once, or as many as its first dimension says."""
    count = len(arrays[0])
    fixed = {p.dims[0] for p in ports if p.dims and p.dims[0] is not None}
    size = fixed.pop() if len(fixed) == 1 else min(count, 64)
    if fixed or size < 1 or count < size:
        raise Stop(f"it takes {size} samples at once, and there are {count}")
    return [[a[at:at + size] for a in arrays] for at in range(0, count - count % size, size)]


def answers(answer, parts):
    """The outputs for all samples."""
    try:
        all_parts = [[np.asarray(o) for o in answer(p)] for p in parts]
    except Stop:
        raise
    except Exception as e:  # the errors of frameworks have many types
        raise Stop(f"it does not answer these inputs: {first_line(e)}") from e
    return [np.concatenate(o) if np.ndim(o[0]) else np.stack(o) for o in zip(*all_parts)]


def session(path):
    """A session of one thread, so that times can be compared."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as e:  # its errors have many types
        raise Stop(f"ONNX Runtime cannot open it: {first_line(e)}") from e


def runs(opened):
    """A function from arrays to the outputs of a session."""
    names = [i.name for i in opened.get_inputs()]
    return lambda arrays: opened.run(None, dict(zip(names, arrays)))


def rename(model, names):
    """Gives tensors other names, for each old one a new one."""
    def renamed(graph):
        for node in graph.node:
            for list_of in (node.input, node.output):
                list_of[:] = [names.get(n, n) for n in list_of]
            for a in node.attribute:
                for g in ([a.g] if a.HasField("g") else []) + list(a.graphs):
                    renamed(g)
        for info in list(graph.input) + list(graph.output) + list(graph.value_info) + list(graph.initializer):
            info.name = names.get(info.name, info.name)

    renamed(model.graph)


def settle(model, net, parts, folder):
    """Gives inputs and outputs their names, and the shapes that two runs of different size show."""
    inputs = list(model.graph.input)
    if len(inputs) != len(net.ports):
        raise Stop(f"the ONNX model has the inputs {[i.name for i in inputs]}, and the model has {len(net.ports)}: an input "
                   "has no effect, or a weight was left out")
    wanted = {i.name: p.name for i, p in zip(inputs, net.ports)}
    if net.outputs and len(net.outputs) == len(model.graph.output):
        wanted |= {o.name: n for o, n in zip(model.graph.output, net.outputs)}
    if len(set(wanted.values())) == len(wanted):
        rename(model, wanted)
    if any(None in p.dims[1:] for p in net.ports):
        return  # the dimensions of outputs may depend on them
    path = folder / "settle.onnx"
    save(model, path, False)
    run = runs(session(path))
    batched = all(p.dims and p.dims[0] is None for p in net.ports)
    try:
        one = two = run([a[:1] for a in parts[0]] if batched else parts[0])
        if batched:
            two = run([np.concatenate([a[:1]] * 2) for a in parts[0]])
    except Exception as e:  # its errors have many types
        raise Stop(f"the ONNX model takes {'one number of rows only' if batched else 'no such inputs'}: {first_line(e)}. "
                   "Say so with a first dimension of 1 in --shape") from e
    for info, port in zip(model.graph.input, net.ports):
        shaped(info, ["batch" if d is None else d for d in port.dims])
    for info, a, b in zip(model.graph.output, one, two):
        a, b = np.asarray(a), np.asarray(b)
        if a.ndim == b.ndim:
            dims = [n if n == b.shape[i] else f"n{i}" for i, n in enumerate(a.shape)]
            if batched and dims and b.shape[0] == 2 * a.shape[0]:
                dims[0] = "batch"
            shaped(info, dims)


def shaped(info, dims):
    shape = info.type.tensor_type.shape
    del shape.dim[:]
    for d in dims:
        if isinstance(d, str):
            shape.dim.add().dim_param = d
        else:
            shape.dim.add().dim_value = d


def save(model, path, external):
    """Writes a model; its weights into a file of their own if they must be, or if it is wanted."""
    import onnx

    if external or model.ByteSize() >= LARGE:
        onnx.save(model, path, save_as_external_data=True, location=WEIGHTS, size_threshold=1024)
    else:
        onnx.save(model, path)


def size(path):
    path = pathlib.Path(path)
    return sum(f.stat().st_size for f in path.rglob("*") if f.is_file()) if path.is_dir() else path.stat().st_size


def difference(name, want, got):
    """How an output of the ONNX model differs from the answer of the model before."""
    got = got.reshape(want.shape) if got.size == want.size else got
    if want.shape != got.shape:
        raise Stop(f"the ONNX model's output {name} has the shape {list(got.shape)}, and the framework's answer "
                   f"{list(want.shape)}")
    if want.dtype.kind not in "fc":
        equal = np.asarray(want).astype(str) == np.asarray(got).astype(str)
        return {"output": name, "rows": len(want), "same": int(equal.reshape(len(want), -1).all(axis=1).sum())}
    equal = (want == got) | ((want != want) & (got != got))  # also infinite, or no number
    if not np.isfinite(np.where(equal, 0, want - got)).all():
        raise Stop(f"the output {name} has numbers that are infinite or none in one of the models only")
    delta = np.where(equal, 0, np.abs(want.astype(np.float64) - got))
    rel = float((delta / np.maximum(np.abs(want), 1e-12))[delta > 0].max(initial=0))
    out = {"output": name, "rows": len(want), "maxAbs": float(delta.max(initial=0)), "maxRel": rel,
           "error": float((delta / np.maximum(np.abs(want), 1)).max(initial=0))}
    if want.ndim == 2 and want.shape[1] > 1:
        out["same"] = int((want.argmax(axis=1) == got.argmax(axis=1)).sum())
        if want.shape[1] >= 10:
            best = [np.sort(np.argsort(-a, axis=1, kind="stable")[:, :5], axis=1) for a in (want, got)]
            out["sameFive"] = int((best[0] == best[1]).all(axis=1).sum())
    return out


def compared(name, want, got, low):
    """difference; with low precision the error is a share of the output's largest value."""
    out = difference(name, want, got)
    if low and "error" in out:
        out["error"] = out["maxAbs"] / max(float(np.abs(want).max()), 1e-12)
    return out


def milliseconds(f):
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        f()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1000


def tensor(array, batched=True):
    """A tensor of a golden request, in the format of perf_analyzer's input data."""
    shape = array.shape[1:] if batched else array.shape
    return {"content": array.ravel().tolist(), "shape": list(shape) or [1]}


def golden(inputs, outputs, batched, tolerance):
    """Golden requests with the answers of the model before, so that every later version is compared with them too."""
    rows = range(min(GOLDEN, len(next(iter(inputs.values()))))) if batched else [slice(None)]

    def row(arrays, i):
        return {n: tensor(a[i:i + 1] if batched else a, batched) for n, a in arrays.items()}

    return {"data": [row(inputs, i) for i in rows], "validation_data": [row(outputs, i) for i in rows],
            "tolerance": tolerance}


def convert(order, net):
    """Makes the ONNX model, compares it, and writes 1/model.onnx, labels.txt, golden/converted.json and report.json.
    There is no golden request of confidential inputs."""
    out = pathlib.Path(order["out"])
    parts = pieces(net.ports, samples(net, order["inputs"], order["scale"]))
    want = answers(net.answer, parts)
    print("converting", flush=True)
    model = net.export(parts)
    if not net.low and order["kind"] != "onnx":
        settle(model, net, parts, out.parent)
    file = out / "1/model.onnx"
    file.parent.mkdir()
    save(model, file, order["external"])
    print("comparing", flush=True)
    after = session(file)
    names = [o.name for o in after.get_outputs()]
    if len(names) != len(want):
        raise Stop(f"the ONNX model has {len(names)} outputs, and the model answers with {len(want)}")
    got = answers(runs(after), parts)
    outputs = [compared(n, w, g, net.low) for n, w, g in zip(names, want, got)]
    if net.classes is not None and np.ndim(net.classes) == 1:
        (out / "labels.txt").write_text("".join(f"{c}\n" for c in net.classes))
    batched = order["batched"]
    if batched is None:
        both = after.get_inputs() + after.get_outputs()
        batched = all(i.shape and not isinstance(i.shape[0], int) for i in both)
    tolerance = order["tolerance"]
    if net.low:
        tolerance = max(tolerance, 1.5 * max([o["maxAbs"] for o in outputs if "maxAbs" in o], default=0))
    feeds = [i.name for i in after.get_inputs()]
    first = len(parts[0][0])
    kept = golden(dict(zip(feeds, parts[0])), {n: w[:first].astype(g.dtype) for n, w, g in zip(names, want, got)},
                  batched, tolerance)
    if not order["confidential"]:
        (out / "golden").mkdir()
        (out / "golden/converted.json").write_text(json.dumps(kept) + "\n")
    one = [a[:1] if batched else a for a in parts[0]]
    report = {
        "framework": net.framework, "rows": sum(len(p[0]) for p in parts), "made": not order["inputs"], "outputs": outputs,
        "low": net.low, "provider": after.get_providers()[0],
        "bytesBefore": sum(map(size, net.files or filter(None, [order["file"]]))),
        "bytesAfter": size(file.parent), "msBefore": milliseconds(lambda: net.answer(one)),
        "msAfter": milliseconds(lambda: runs(after)(one)),
    }
    (out / "report.json").write_text(json.dumps(report) + "\n")
