"""What the models of frameworks have in common: requests are joined into one batch, run, and cut apart again."""

import collections
import json
import os

import numpy as np

import triton_python_backend_utils as pb

DEFAULT_MAX_BATCH_SIZE = 4  # as Triton's backends for ONNX and TensorFlow complete it


class Framework:
    """A TritonPythonModel that runs files of one framework. A subclass has `load`, `run`, FILES and, where files
    say what they take, `describe`."""

    FILES = ()  # default names of the model file, the first one that exists is taken

    def initialize(self, args):
        self.config = json.loads(args["model_config"])
        self.name = args["model_name"]
        self.kind = args.get("model_instance_kind", "CPU")
        self.device = int(args.get("model_instance_device_id") or 0)
        self.batches = self.config.get("max_batch_size", 0) > 0
        self.inputs = self.config.get("input", [])
        self.outputs = self.config.get("output", [])
        self.load(self.path())

    def path(self):
        """The file or folder to load."""
        return model_file(self.config, self.FILES)

    def parameter(self, name, convert=str, default=None):
        """A parameter of the configuration."""
        return parameter(self.config, name, convert, default)

    def execute(self, requests):
        responses = [None] * len(requests)
        groups = collections.deque(self._groups(requests))
        while groups:
            group = groups.popleft()
            try:
                for i, response in zip(group, self._together([requests[i] for i in group])):
                    responses[i] = response
            except Exception as problem:  # the framework's own errors are answers
                if len(group) > 1:  # one's values may have failed the others: each gets what it would get alone
                    groups.extend([i] for i in group)
                    continue
                responses[group[0]] = pb.InferenceResponse(error=pb.TritonError("%s: %s" % (type(problem).__name__, problem)))
        return responses

    def _groups(self, requests):
        """Requests that can be joined: same inputs of the same types and shapes behind the batch dimension."""
        if not self.batches:
            return [[i] for i in range(len(requests))]
        groups = {}
        for i, request in enumerate(requests):
            key = tuple((t.name(), t.triton_dtype(), tuple(t.shape()[1:])) for t in request.inputs()) or i
            groups.setdefault(key, []).append(i)
        return list(groups.values())

    def _together(self, requests):
        if len(requests) == 1:
            outputs = self.run({t.name(): t._numpy() for t in requests[0].inputs()}, requests[0]._outputs)
            return [pb.InferenceResponse([self._output(name, array) for name, array in outputs.items()])]
        rows = [request.inputs()[0].shape()[0] for request in requests]
        names = [t.name() for t in requests[0].inputs()]
        joined = {
            name: np.concatenate([pb.get_input_tensor_by_name(request, name)._numpy() for request in requests])
            for name in names
        }
        wanted = {name for request in requests for name in request.requested_output_names()}
        outputs = self.run(joined, [o["name"] for o in self.outputs if o["name"] in wanted])
        total, ends = sum(rows), np.cumsum(rows)
        for name, array in outputs.items():
            if array.ndim == 0 or array.shape[0] != total:
                raise ValueError(
                    "output '%s' has shape %s for a batch of %d: its first dimension must be the batch; set "
                    "max_batch_size: 0 where the model does not batch" % (name, list(array.shape), total)
                )
        return [
            pb.InferenceResponse([self._output(name, array[end - n : end]) for name, array in outputs.items()])
            for n, end in zip(rows, ends)
        ]

    def _output(self, name, array):
        told = pb.get_output_config_by_name(self.config, name)
        tensor = pb.Tensor(name, array)
        if told is not None and told["data_type"] == "TYPE_BF16" and array.dtype == np.uint16:
            tensor._code = pb._BF16
        return tensor


def parameter(config, name, convert=str, default=None):
    told = config.get("parameters", {}).get(name)
    if told is None:
        return default
    text = told["string_value"] if isinstance(told, dict) else str(told)
    try:
        return convert(text)
    except ValueError:
        raise pb.TritonModelException(
            "parameter '%s' is '%s', which is not a value that it can have" % (name, text)
        ) from None


def boolean(text):
    lowered = text.strip().lower()
    if lowered in ("true", "1", "yes", "on"):
        return True
    if lowered in ("false", "0", "no", "off"):
        return False
    raise ValueError(text)


def model_file(config, names):
    """The file or folder to load: default_model_filename, or the first default name that exists."""
    folder = pb.get_model_dir()
    told = config.get("default_model_filename")
    for name in [told] if told else names:
        path = os.path.join(folder, name)
        if os.path.exists(path):
            return path
    raise pb.TritonModelException(
        "no model file: %s has none of %s; name the file in default_model_filename" % (folder, ", ".join([told] if told else names))
    )


def complete(config, inputs, outputs):
    """Completes a configuration by what a file says: (name, "TYPE_...", dims with the batch dimension) each."""
    told = config.as_dict()
    named = {t["name"]: t for kind in ("input", "output") for t in told.get(kind, [])}
    batching = all(dims and dims[0] == -1 for _, _, dims in inputs + outputs)
    for name, _, dims in inputs + outputs:
        if name in named and named[name].get("dims") and len(named[name]["dims"]) == len(dims) and not told["max_batch_size"]:
            batching = False
    if told["max_batch_size"] and not batching and any(not dims or dims[0] != -1 for _, _, dims in inputs):
        raise ValueError(
            "configuration says max_batch_size %d, but the model's inputs have no variable first dimension: %s"
            % (told["max_batch_size"], ", ".join("%s %s" % (name, dims) for name, _, dims in inputs))
        )
    if batching and not told["max_batch_size"]:
        config.set_max_batch_size(DEFAULT_MAX_BATCH_SIZE)
    if batching and config.as_dict()["max_batch_size"] > 1 and not any(
        scheduler in told for scheduler in ("sequence_batching", "ensemble_scheduling", "dynamic_batching")
    ):
        config.set_dynamic_batching()
    strip = 1 if config.as_dict()["max_batch_size"] else 0
    listed = bool(told.get("output"))
    for name, data_type, dims in inputs:
        if not _settled(named.get(name)):
            _add(config, "input", name, data_type, dims[strip:])
    for name, data_type, dims in outputs:
        if listed and name not in named:
            continue  # outputs that are listed are the ones that are wanted
        if not _settled(named.get(name)):
            _add(config, "output", name, data_type, dims[strip:])
    return config


def _add(config, kind, name, data_type, dims):
    (config.add_input if kind == "input" else config.add_output)(
        {"name": name, "data_type": data_type, "dims": dims or [1]}
    )
    if not dims:  # a number for each row: configurations have a dimension at least
        pb._by_name(config.as_dict()[kind], name)["reshape"] = {"shape": []}


def _settled(told):
    """What a configuration says of a tensor is checked when the tensor is used: reshape and fixed sizes are its
    right."""
    return told is not None and told.get("data_type", "TYPE_INVALID") != "TYPE_INVALID" and bool(told.get("dims"))
