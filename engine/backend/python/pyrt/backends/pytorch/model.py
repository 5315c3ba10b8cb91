"""PyTorch models, run by the installed torch: TorchScript (.pt), exported and AOT-compiled programs (.pt2), and Python
classes with their weights.

For a class, model.py in the version's folder has one subclass of torch.nn.Module, whose constructor needs no
arguments. model.pt beside it, if it exists, is the state dictionary; then the configuration must have
`runtime: "model.py"`. The inputs in the configuration's order are the arguments, and the outputs are the results,
whatever their names.

For TorchScript, names follow Triton's PyTorch backend. Inputs are `<name>__<index>`, or arguments of forward(), or keys
of the dictionary that forward() takes. Outputs are `<name>__<index>`, or keys of the dictionary that it returns. For
the names of packages see _nereid_pt2."""

import importlib.util
import json
import os
import re
import sys

import numpy as np
import torch

import _nereid_pt2
import triton_python_backend_utils as pb
from _nereid_framework import Framework, boolean, model_file

_INDEX = re.compile(r"^.*__(\d+)$", re.DOTALL)


class TritonPythonModel(Framework):
    """A PyTorch model."""

    FILES = ("model.pt", "model.pt2", "model.py")
    CLASSES = ("model.py", "model.pt")  # FILES if the configuration has runtime: "model.py"

    def path(self):
        config = self.config
        if config.get("default_model_filename") == "model.pt":  # the completed default, not the user's choice
            config = {**config, "default_model_filename": ""}
        return model_file(config, self.CLASSES if config.get("runtime") == "model.py" else self.FILES)

    def load(self, path):
        _refuse(self.config)
        self._threads()
        self._mode = torch.inference_mode if self.parameter("INFERENCE_MODE", boolean, True) else torch.no_grad
        self._types = {}  # numpy's types of the outputs that must have the type of the configuration
        self._bf16 = {i["name"] for i in self.inputs if i["data_type"] == "TYPE_BF16"}
        self._clean = self.parameter("ENABLE_CACHE_CLEANING", boolean, False)
        self._torch_device = torch.device("cuda:%d" % self.device if self.kind == "GPU" else "cpu")
        if path.endswith(".py"):
            self._model = self._made(path)
            self._by_position()
            return
        if path.endswith(".pt2"):
            self._model, inputs, outputs = _nereid_pt2.load(path, self._torch_device)
            self._by_place(inputs, outputs)
            return
        if self.parameter("DISABLE_OPTIMIZED_EXECUTION", boolean, False):
            torch._C._set_graph_executor_optimize(False)
        self._model = _torchscript(path, self._torch_device)
        self._arrange([a.name for a in self._model.forward.schema.arguments[1:]])

    def _made(self, path):
        """Returns the module whose class is in a Python file, with its weights."""
        name = "nereid_torch_" + re.sub(r"\W", "_", self.name)
        spec = importlib.util.spec_from_file_location(name, path)
        source = importlib.util.module_from_spec(spec)
        sys.modules[name] = source
        sys.path.append(os.path.dirname(path))  # for its imports
        spec.loader.exec_module(source)
        classes = [c for c in vars(source).values() if isinstance(c, type) and issubclass(c, torch.nn.Module)]
        own = [c for c in classes if c.__module__ == name] or classes
        if not own:
            raise pb.TritonModelException("Cannot find a subclass of torch.nn.Module in %s" % path)
        module = own[0]()
        weights = os.path.splitext(path)[0] + ".pt"
        if os.path.exists(weights):
            module.load_state_dict(torch.load(weights, map_location=self._torch_device))
        module = module.to(self._torch_device).eval()
        options = self.parameter("TORCH_COMPILE_OPTIONAL_PARAMETERS", json.loads)
        if options is None or options.get("disable"):
            return module  # compiling is slow and needs a compiler: only on request
        if "model" in options:
            raise pb.TritonModelException("'model' is not an optional parameter for 'torch.compile'")
        return torch.compile(module, **options)

    def _by_position(self):
        self._by_name = self._as_dictionary = False
        self._order = [i["name"] for i in self.inputs]
        self._results = {o["name"]: at for at, o in enumerate(self.outputs)}

    def _by_place(self, inputs, outputs):
        self._by_name = self._as_dictionary = False
        at = _nereid_pt2.places("input", [i["name"] for i in self.inputs], inputs, "KWARGS")
        self._order = sorted(at, key=at.get)
        self._results = _nereid_pt2.places("output", [o["name"] for o in self.outputs], outputs, "RESULT")

    def _threads(self):
        n = self.parameter("INTRA_OP_THREAD_COUNT", int) or self.parameter("NUM_THREADS", int)
        if n:
            torch.set_num_threads(n)
        n = self.parameter("INTER_OP_THREAD_COUNT", int) or self.parameter("NUM_INTEROP_THREADS", int)
        if n:
            torch.set_num_interop_threads(n)

    def _arrange(self, arguments):
        """Decides which input is which argument, and which result is which output."""
        names = [i["name"] for i in self.inputs]
        self._by_name = bool(names) and set(names) <= set(arguments)
        indices = [_INDEX.match(name) for name in names]
        self._as_dictionary = False
        if self._by_name:
            self._order = [name for name in arguments if name in names]
        elif all(indices):
            self._order = [name for _, name in sorted((int(m.group(1)), m.group(0)) for m in indices)]
        elif len(arguments) == 1 and "Dict" in str(self._model.forward.schema.arguments[1].type):
            self._order, self._as_dictionary = names, True
        else:  # as in Triton, the configuration has the order
            self._order = names
            pb.Logger.log_warn(
                "the inputs of model '%s' are neither arguments of its forward() (%s) nor of the form <name>__<index>; "
                "they are its arguments in the order of the configuration" % (self.name, ", ".join(arguments))
            )
        kinds = {o["name"]: o["data_type"] for o in self.outputs}
        self._types = {n: pb.triton_string_to_numpy(kind) for n, kind in kinds.items() if kind != "TYPE_BF16"}
        names = list(kinds)
        indices = [_INDEX.match(name) for name in names]
        self._results = {n: int(m.group(1)) if all(indices) else at for at, (n, m) in enumerate(zip(names, indices))}

    def run(self, inputs, wanted):
        with self._mode():
            tensors = {name: self._tensor(inputs[name], name) for name in self._order if name in inputs}
            if self._as_dictionary:
                result = self._model(tensors)
            elif self._by_name:
                result = self._model(**tensors)
            else:
                result = self._model(*tensors.values())
            outputs = {name: self._array(self._pick(result, self._results[name], name)) for name in wanted}
        for name, array in outputs.items():
            if array.dtype != self._types.get(name, array.dtype):
                self._refuse_type(name, array)
        if self._clean and self._torch_device.type == "cuda":
            torch.cuda.empty_cache()
        return outputs

    def _tensor(self, array, name):
        if array.dtype == np.object_:
            if array.ndim != 1:
                raise ValueError(
                    "input '%s' is of texts, which the model takes as a list: it must have one dimension" % name
                )
            return [element.decode() for element in array.tolist()]
        if name in self._bf16:
            tensor = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        else:
            tensor = torch.from_numpy(array)
        return tensor.to(self._torch_device)

    def _refuse_type(self, name, array):
        wanted = pb.get_output_config_by_name(self.config, name)["data_type"]
        kinds = (n for n in pb.TRITON_STRING_TO_NUMPY if pb.triton_string_to_numpy(n) == array.dtype)
        made = next(kinds, str(array.dtype))
        raise pb.TritonModelException(
            "configuration expects datatype %s for output '%s', model provides %s" % (wanted, name, made)
        )

    @staticmethod
    def _pick(result, key, name):
        if isinstance(result, dict):
            if name not in result:
                raise ValueError(
                    "the model returned no output '%s'; it returned %s" % (name, ", ".join(map(str, result)))
                )
            return result[name]
        if not isinstance(result, (tuple, list)) or (result and isinstance(result[0], str)):
            result = (result,)
        if key >= len(result):
            raise pb.TritonModelException(
                "The output %s in the model configuration refers to an output index which doesn't exist. "
                "This model has %d outputs" % (name, len(result))
            )
        return result[key]

    @staticmethod
    def _array(value):
        if isinstance(value, (list, tuple)):
            return np.array([str(v).encode() for v in value], dtype=np.object_)
        if isinstance(value, str):
            return np.array([value.encode()], dtype=np.object_)
        value = value.detach().cpu().contiguous()
        if value.dtype == torch.bfloat16:
            return value.view(torch.int16).numpy().view(np.uint16)
        return value.numpy()


def _refuse(config):
    """Raises an exception for a configuration that Triton's backend supports and this one does not."""
    kinds = config.get("optimization", {}).get("execution_accelerators", {})
    asked = [
        accelerator["name"]
        for kind in ("gpu_execution_accelerator", "cpu_execution_accelerator")
        for accelerator in kinds.get(kind, [])
    ]
    if asked:
        raise pb.TritonModelException(
            "the execution accelerator '%s' is not one of PyTorch's; take it out, or convert the model to ONNX "
            "(torch.onnx.export) and ask for it there" % asked[0]
        )
    if "MODEL_INIT_LIBRARY" in config.get("parameters", {}):
        raise pb.TritonModelException(
            "parameter 'MODEL_INIT_LIBRARY' is not known here, and the model would not be what it is with it; "
            "take it out"
        )


def _torchscript(path, device):
    try:
        return torch.jit.load(path, map_location=device).eval()
    except RuntimeError as problem:
        if "torch.classes.tensorrt" not in str(problem):
            raise
        raise pb.TritonModelException(
            "%s was compiled by Torch-TensorRT, whose runtime is not installed: save the model as it was before "
            "(torch.jit.script), or export it to ONNX and ask for the execution accelerator 'tensorrt' there: %s"
            % (os.path.basename(path), problem)
        ) from None
