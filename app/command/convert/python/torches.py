"""Models of PyTorch: TorchScript, torch.export, weights with their class, and those of torchvision and timm by name."""

import importlib.util
import io
import json
import pathlib
import re
import sys
import zipfile

import numpy as np
import torch

from common import Net, Port, Stop, first_line

DTYPES = {torch.float32: np.float32, torch.float64: np.float64, torch.float16: np.float16, torch.int64: np.int64,
          torch.int32: np.int32, torch.int16: np.int16, torch.int8: np.int8, torch.uint8: np.uint8, torch.bool: np.bool_}


def load_pytorch(order):
    file, named = order["file"], order["class"]
    torch.set_num_threads(1)  # the times are compared with those of one thread
    torch.manual_seed(0)
    if named:
        return of_class(order, file, named)
    try:
        entries = {n.rpartition("/")[2] for n in zipfile.ZipFile(file).namelist()}
    except (OSError, zipfile.BadZipFile):
        entries = set()
    if any(n.startswith("archive_format") for n in entries) or file.endswith(".pt2"):
        return exported(order)
    if "constants.pkl" in entries:
        return script(order)
    return pickled(order)


def pickled(order):
    """A module that torch.save has written whole. Its class is in a package, in a Python file beside it or in MLflow's folder
    of code, or in the file itself, by cloudpickle."""
    file, trust = pathlib.Path(order["file"]).resolve(), order["trust"]
    if trust:
        sys.path[:0] = [str(file.parent), str(file.parent.parent / "code")]
    try:
        made = torch.load(file, map_location="cpu", weights_only=not trust)
    except Exception as e:  # its errors have many types
        name = re.search(r"Unsupported global: GLOBAL (\S+)", str(e))
        if name:
            raise Stop(f"it is a pickle with {name[1]}: to read it runs the code in it. If you trust where it is from, say "
                       "--trust. Else save its state_dict() and say --class, or export it with torch.export") from e
        if isinstance(e, (ImportError, AttributeError)):
            raise Stop(f"the class of its model is not here: {first_line(e)}. Put its Python file beside it, or save its "
                       "state_dict() and say --class") from e
        raise Stop(f"PyTorch cannot read it: {first_line(e)}") from e
    if isinstance(made, dict):
        raise Stop("it has weights by name, not a model. Say --class with what makes the model: FILE.py:Class, "
                   "torchvision:NAME or timm:NAME")
    if not isinstance(made, torch.nn.Module):
        raise Stop(f"it is a {type(made).__name__}, not a model")
    return of_module(order, made, type(made).__name__)


def ports_of(order, ready=None):
    """The inputs as --shape says, or those of the program."""
    if order["shapes"]:
        return [Port(s["name"] or f"input{i or ''}", s["dtype"], [None if d < 0 else d for d in s["dims"]])
                for i, s in enumerate(order["shapes"])]
    if ready:
        return ready
    raise Stop("it does not say the shapes of its inputs. Say --shape, such as --shape=-1,3,224,224, for each of them")


def answer_of(module):
    def answer(arrays):
        with torch.no_grad():
            out = module(*[torch.from_numpy(np.ascontiguousarray(a)) for a in arrays])
        leaves = [x for x in torch.utils._pytree.tree_leaves(out) if x is not None]
        return [x.detach().numpy() if isinstance(x, torch.Tensor) else np.asarray(x) for x in leaves]

    return answer


def export(model, ports, parts, opset, names=None):
    """The ONNX model that torch.onnx makes of a module, an exported program or a script."""
    import onnx

    arrays = parts[0] if ports[0].dims[0] is not None else [a[:2] for a in parts[0]]
    if len(arrays[0]) == 1 and ports[0].dims[0] is None:
        arrays = [np.concatenate([a, a]) for a in arrays]  # torch.export takes a dimension of 1 for a fixed one
    args = tuple(torch.from_numpy(np.ascontiguousarray(a)) for a in arrays)
    options = {"opset_version": opset} if opset else {}
    if isinstance(model, torch.jit.ScriptModule):
        names = [p.name for p in ports]
        axes = {p.name: {i: "batch" if i == 0 else f"{p.name}_{i}" for i, d in enumerate(p.dims) if d is None} for p in ports}
        options |= {"dynamo": False, "input_names": names, "dynamic_axes": axes}
    elif isinstance(model, torch.export.ExportedProgram):
        args, options = (), options | {"dynamo": True, "verbose": False}
    else:
        batch = torch.export.Dim("batch")
        dims = tuple({i: batch if i == 0 else torch.export.Dim.DYNAMIC for i, d in enumerate(p.dims) if d is None}
                     for p in ports)
        options |= {"dynamo": True, "dynamic_shapes": dims, "verbose": False}
    made = io.BytesIO()
    try:
        with torch.no_grad():
            program = torch.onnx.export(model, args, None if options["dynamo"] else made, **options)
        return program.model_proto if options["dynamo"] else onnx.load_from_string(made.getvalue())
    except Exception as e:  # its errors have many types
        raise Stop(f"torch.onnx cannot export it: {reason(e)}. Serve it with the PyTorch backend, or change the class") from e


def reason(error):
    """What stopped an export: the first cause, without torch's advice to its developers."""
    while error.__cause__ is not None:
        error = error.__cause__
    return first_line(error).rstrip(".")


def script(order):
    try:
        module = torch.jit.load(order["file"], map_location="cpu").eval()
    except Exception as e:  # its errors have many types
        raise Stop(f"PyTorch cannot read it as TorchScript: {first_line(e)}") from e
    ports = ports_of(order)
    return Net(f"PyTorch {torch.__version__}, TorchScript", ports, answer_of(module),
               lambda parts: export(module, ports, parts, order["opset"]))


def exported(order):
    if not order["trust"]:  # torch.export.load says of itself that files may run code
        raise Stop("to read an exported program may run code in it. If you trust where it is from, say --trust")
    try:
        program = torch.export.load(order["file"])
    except Exception as e:  # its errors have many types
        raise Stop(f"PyTorch cannot read it as an exported program: {first_line(e)}") from e
    inputs = set(program.graph_signature.user_inputs)
    values = [(n.name, n.meta["val"]) for n in program.graph.nodes if n.op == "placeholder" and n.name in inputs]
    if any(not isinstance(v, torch.Tensor) for _, v in values):
        raise Stop("it has inputs that are no tensors")
    ready = [Port(n, DTYPES[v.dtype], [d if isinstance(d, int) else None for d in v.shape]) for n, v in values]
    return Net(f"PyTorch {torch.__version__}, torch.export", ready, answer_of(program.module()),
               lambda parts: export(program, ready, parts, order["opset"]))


def of_class(order, file, named):
    """A model that a name makes, with the weights of a file; "": it keeps the numbers that it is made with."""
    source, _, name = named.rpartition(":")
    arguments = json.loads(order["arguments"] or "{}")
    ready = None
    if source == "torchvision":
        module, ready = of_torchvision(name, arguments)
    elif source == "timm":
        module, ready = of_timm(name, arguments)
    else:
        if not order["trust"]:  # such as timm:FILE.py:Class, which the command takes for a name of a library
            raise Stop(f"no library has the model {named}")
        module = of_file(source, name, arguments)
    if file:
        weights(module, file)
    else:
        print("note: no weights are given, so the model has random ones and has learned nothing", flush=True)
    return of_module(order, module, named, ready)


def of_module(order, module, title, ready=None):
    module.eval()
    ports = ports_of(order, ready)
    return Net(f"PyTorch {torch.__version__}, {title}", ports, answer_of(module),
               lambda parts: export(module, ports, parts, order["opset"]))


def weights(module, file):
    try:
        if file.endswith(".safetensors"):
            import safetensors.torch

            state = safetensors.torch.load_file(file)
        else:
            state = torch.load(file, map_location="cpu", weights_only=True)
        for key in ("state_dict", "model_state_dict", "model"):  # of a checkpoint
            if isinstance(state, dict) and isinstance(state.get(key), dict):
                state = state[key]
        module.load_state_dict({k.removeprefix("module."): v for k, v in state.items()})
    except Exception as e:  # its errors have many types
        said = " ".join(str(e).split())
        raise Stop(f"its weights are not those of this class: {said[:300]}") from e


def of_torchvision(name, arguments):
    import torchvision

    if name not in torchvision.models.list_models():
        raise Stop(f"torchvision {torchvision.__version__} has no model {name}; it has such as "
                   f"{', '.join(torchvision.models.list_models(torchvision.models)[:8])}")
    try:
        module = torchvision.models.get_model(name, weights=None, **arguments)
    except Exception as e:
        raise Stop(f"torchvision cannot make {name}: {first_line(e)}") from e
    side = 299 if name == "inception_v3" else 224
    return module, [Port("image", np.float32, [None, 3, side, side])]


def of_timm(name, arguments):
    import timm

    if not timm.is_model(name):
        raise Stop(f"timm {timm.__version__} has no model {name}")
    try:
        module = timm.create_model(name, pretrained=False, **arguments)
    except Exception as e:
        raise Stop(f"timm cannot make {name}: {first_line(e)}") from e
    return module, [Port("image", np.float32, [None, *module.default_cfg["input_size"]])]


def of_file(path, name, arguments):
    """An object of a class of a Python file. The command has asked whether code may run."""
    path = pathlib.Path(path)
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None:
        raise Stop(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        made = getattr(module, name)(**arguments)
    except Exception as e:  # it is the user's code
        raise Stop(f"{path} makes no {name}: {type(e).__name__}: {first_line(e)}") from e
    if not isinstance(made, torch.nn.Module):
        raise Stop(f"{name} of {path} is no torch.nn.Module")
    return made
