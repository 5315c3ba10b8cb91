"""PyTorch: TorchScript (.pt) and exported programs (.pt2), with any torch that is installed.

Names follow Triton's PyTorch backend: inputs are `<name>__<index>`, or arguments of forward(), or keys of the dictionary
that forward() takes; outputs are `<name>__<index>`, or keys of the dictionary that it returns."""

import re

import numpy as np
import torch

import triton_python_backend_utils as pb
from _nereid_framework import Framework, boolean

_INDEX = re.compile(r"^.*__(\d+)$", re.DOTALL)


class TritonPythonModel(Framework):
    FILES = ("model.pt", "model.pt2")

    def load(self, path):
        self._threads()
        self._mode = torch.inference_mode if self.parameter("INFERENCE_MODE", boolean, True) else torch.no_grad
        self._clean = self.parameter("ENABLE_CACHE_CLEANING", boolean, False)
        self._torch_device = torch.device("cuda:%d" % self.device if self.kind == "GPU" else "cpu")
        if path.endswith(".pt2"):
            self._model = torch.export.load(path).module().to(self._torch_device)
            arguments = None
        else:
            if self.parameter("DISABLE_OPTIMIZED_EXECUTION", boolean, False):
                torch._C._set_graph_executor_optimize(False)
            self._model = torch.jit.load(path, map_location=self._torch_device).eval()
            arguments = [a.name for a in self._model.forward.schema.arguments[1:]]
        self._arrange(arguments)

    def _threads(self):
        n = self.parameter("INTRA_OP_THREAD_COUNT", int) or self.parameter("NUM_THREADS", int)
        if n:
            torch.set_num_threads(n)
        n = self.parameter("INTER_OP_THREAD_COUNT", int) or self.parameter("NUM_INTEROP_THREADS", int)
        if n:
            torch.set_num_interop_threads(n)

    def _arrange(self, arguments):
        """How inputs become arguments and results outputs."""
        names = [i["name"] for i in self.inputs]
        self._by_name = arguments is not None and bool(names) and set(names) <= set(arguments)
        indices = [_INDEX.match(name) for name in names]
        self._as_dictionary = False
        if self._by_name:
            self._order = [name for name in arguments if name in names]
        elif all(indices):
            self._order = [name for _, name in sorted((int(m.group(1)), m.group(0)) for m in indices)]
        elif arguments is not None and len(arguments) == 1 and "Dict" in str(self._model.forward.schema.arguments[1].type):
            self._order, self._as_dictionary = names, True
        else:
            wrong = next(name for name, m in zip(names, indices) if not m)
            raise pb.TritonModelException(
                "input '%s' is neither an argument of the model's forward() (%s) nor of the form <name>__<index>"
                % (wrong, ", ".join(arguments or ["its exported program has no names"]))
            )
        self._results = {}
        for output in self.outputs:
            m = _INDEX.match(output["name"])
            self._results[output["name"]] = int(m.group(1)) if m else output["name"]

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
        if self._clean and self._torch_device.type == "cuda":
            torch.cuda.empty_cache()
        return outputs

    def _tensor(self, array, name):
        if array.dtype == np.object_:
            if array.ndim != 1:
                raise ValueError("input '%s' is of texts, which the model takes as a list: it must have one dimension" % name)
            return [element.decode() for element in array.tolist()]
        told = pb.get_input_config_by_name(self.config, name)
        if told is not None and told["data_type"] == "TYPE_BF16":
            tensor = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        else:
            tensor = torch.from_numpy(array)
        return tensor.to(self._torch_device)

    @staticmethod
    def _pick(result, key, name):
        if isinstance(result, dict):
            if name not in result:
                raise ValueError("the model returned no output '%s'; it returned %s" % (name, ", ".join(map(str, result))))
            return result[name]
        if not isinstance(result, (tuple, list)) or (result and isinstance(result[0], str)):
            result = (result,)
        if isinstance(key, str):
            raise ValueError("output '%s' must be named <name>__<index>: the model returns its outputs by position" % name)
        if key >= len(result):
            raise ValueError("output '%s' is not there: the model returned %d outputs" % (name, len(result)))
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
