"""The common part of the framework backends: it joins requests into one batch, runs it and splits the results."""

import collections
import json
import os

import numpy as np

import triton_python_backend_utils as pb

DEFAULT_MAX_BATCH_SIZE = 4  # the default of Triton's backends for ONNX and TensorFlow


class Framework:
    """A TritonPythonModel that runs the model files of one framework. A subclass defines load(path), which loads a
    file; run(inputs, wanted), which takes arrays by name and returns the wanted outputs by name; and FILES."""

    FILES = ()  # default names of the model file; the first one that exists is loaded

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
        """Returns the file or folder to load."""
        return model_file(self.config, self.FILES)

    def parameter(self, name, convert=str, default=None):
        """Returns a parameter of the model's configuration; see the function parameter."""
        return parameter(self.config, name, convert, default)

    def execute(self, requests):
        responses = [None] * len(requests)
        groups = collections.deque(self._groups(requests))
        while groups:
            group = groups.popleft()
            try:
                for i, response in zip(group, self._together([requests[i] for i in group])):
                    responses[i] = response
            except Exception as problem:  # an error of the framework is the response
                if len(group) > 1:  # the values of one request may be the cause: each is run alone
                    groups.extend([i] for i in group)
                    continue
                text = str(problem)
                if not isinstance(problem, pb.TritonModelException):  # whose text says all
                    text = "%s: %s" % (type(problem).__name__, text)
                responses[group[0]] = pb.InferenceResponse(error=pb.TritonError(text))
        return responses

    def _groups(self, requests):
        """Returns the indexes of requests that can be joined: their inputs have equal names, types and shapes, except
        for the batch dimension."""
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
        entry = pb.get_output_config_by_name(self.config, name)
        tensor = pb.Tensor(name, array)
        if entry is not None and entry["data_type"] == "TYPE_BF16" and array.dtype == np.uint16:
            tensor._code = pb._BF16
        return tensor


def parameter(config, name, convert=str, default=None):
    """Returns a parameter of a configuration, converted by convert. default: it is not set."""
    entry = config.get("parameters", {}).get(name)
    if entry is None:
        return default
    text = entry["string_value"] if isinstance(entry, dict) else str(entry)
    try:
        return convert(text)
    except ValueError:
        raise pb.TritonModelException(
            "parameter '%s' is '%s', which is not a value that it can have" % (name, text)
        ) from None


def boolean(text):
    """Converts the text of a parameter to a bool, or raises ValueError."""
    lowered = text.strip().lower()
    if lowered in ("true", "1", "yes", "on"):
        return True
    if lowered in ("false", "0", "no", "off"):
        return False
    raise ValueError(text)


def model_file(config, names):
    """Returns the file or folder to load: default_model_filename, or the first of names that exists."""
    folder = pb.get_model_dir()
    names = [config["default_model_filename"]] if config.get("default_model_filename") else names
    for name in names:
        path = os.path.join(folder, name)
        if os.path.exists(path):
            return path
    raise pb.TritonModelException(
        "no model file: %s has none of %s; name the file in default_model_filename" % (folder, ", ".join(names))
    )


def complete(config, inputs, outputs):
    """Completes a configuration with the tensors of a model file: (name, "TYPE_...", dims with the batch dimension)."""
    given = config.as_dict()
    named = {t["name"]: t for kind in ("input", "output") for t in given.get(kind, [])}
    batching = all(dims and dims[0] == -1 for _, _, dims in inputs + outputs)
    for name, _, dims in inputs + outputs:
        sizes = named.get(name, {}).get("dims")
        if sizes and len(sizes) == len(dims) and not given["max_batch_size"]:
            batching = False
    if given["max_batch_size"] and not batching and any(not dims or dims[0] != -1 for _, _, dims in inputs):
        raise ValueError(
            "configuration says max_batch_size %d, but the model's inputs have no variable first dimension: %s"
            % (given["max_batch_size"], ", ".join("%s %s" % (name, dims) for name, _, dims in inputs))
        )
    if batching and not given["max_batch_size"]:
        config.set_max_batch_size(DEFAULT_MAX_BATCH_SIZE)
    if batching and config.as_dict()["max_batch_size"] > 1 and not any(
        scheduler in given for scheduler in ("sequence_batching", "ensemble_scheduling", "dynamic_batching")
    ):
        config.set_dynamic_batching()
    strip = 1 if config.as_dict()["max_batch_size"] else 0
    listed = bool(given.get("output"))
    for name, data_type, dims in inputs:
        if not _settled(named.get(name)):
            _add(config, "input", name, data_type, dims[strip:])
    for name, data_type, dims in outputs:
        if listed and name not in named:
            continue  # a configuration that lists outputs wants no others
        if not _settled(named.get(name)):
            _add(config, "output", name, data_type, dims[strip:])
    return config


def _add(config, kind, name, data_type, dims):
    (config.add_input if kind == "input" else config.add_output)(
        {"name": name, "data_type": data_type, "dims": dims or [1]}
    )
    if not dims:  # a scalar for each row: dims must not be empty in a configuration
        pb._by_name(config.as_dict()[kind], name)["reshape"] = {"shape": []}


def _settled(entry):
    """Reports whether a configuration defines a tensor. Its reshape and fixed sizes are checked when it is used."""
    return entry is not None and entry.get("data_type", "TYPE_INVALID") != "TYPE_INVALID" and bool(entry.get("dims"))
