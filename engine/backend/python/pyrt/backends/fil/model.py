"""Forests of decision trees, with the configuration of Triton's FIL backend. The installed treelite runs the files of
XGBoost, LightGBM and Treelite on the CPU. Parameters that only tune the speed of FIL are ignored."""

import os

import numpy as np
import treelite

import triton_python_backend_utils as pb
from _nereid_framework import Framework, boolean, parameter

_FILES = {
    "xgboost": "xgboost.model", "xgboost_json": "xgboost.json", "xgboost_ubj": "xgboost.ubj", "lightgbm": "model.txt",
    "treelite_checkpoint": "checkpoint.tl",
}  # fmt: skip


class TritonPythonModel(Framework):
    """A forest, with one input and one output."""

    @staticmethod
    def auto_complete_config(config):
        given = config.as_dict()
        if given.get("input") and given.get("output"):
            return config
        model, task = _load(given, _path(given)), _Task(given)
        if not given["max_batch_size"]:
            config.set_max_batch_size(32768)
        if not given.get("input"):
            config.add_input({"name": "input__0", "data_type": "TYPE_FP32", "dims": [model.num_feature]})
        if not given.get("output"):
            config.add_output({"name": "output__0", "data_type": "TYPE_FP32", "dims": [_width(model, task)]})
        if not any(scheduler in given for scheduler in ("dynamic_batching", "sequence_batching")):
            config.set_dynamic_batching()
        return config

    def initialize(self, args):
        super().initialize(args)
        if self.kind == "GPU":
            raise pb.TritonModelException("forests are computed on the CPU here; use KIND_CPU, or leave the kind out")
        if len(self.inputs) != 1 or len(self.outputs) != 1:
            raise pb.TritonModelException(
                "a forest has one input and one output, the configuration lists %d and %d; what each feature adds "
                "(Shapley values) is not computed" % (len(self.inputs), len(self.outputs))
            )
        width = _width(self._model, self._task)
        if self._task.takes_both(width, self.outputs[0]["dims"]):
            width, self._task.both = 2, True
        for tensor, width, what in (
            (self.inputs[0], self._model.num_feature, "features"),
            (self.outputs[0], width, "values for a row"),
        ):
            dims = [int(d) for d in tensor["dims"]]
            if tensor["data_type"] != "TYPE_FP32" or dims not in ([width], [-1]):
                raise pb.TritonModelException(
                    "'%s' of the configuration is %s %s, and the model has %d %s: write TYPE_FP32 and dims: [ %d ]"
                    % (tensor["name"], tensor["data_type"], dims, width, what, width)
                )

    def path(self):
        return _path(self.config)

    def load(self, path):
        self._task = _Task(self.config)
        self._model = _load(self.config, path)

    def run(self, inputs, wanted):
        rows = np.ascontiguousarray(next(iter(inputs.values())), dtype=np.float32)
        one = rows.ndim == 1  # without a batch dimension
        rows = rows.reshape(-1, rows.shape[-1])
        if rows.shape[1] != self._model.num_feature:
            raise ValueError("a row has %d features, the model takes %d" % (rows.shape[1], self._model.num_feature))
        scores = treelite.gtil.predict(self._model, rows)
        answer = self._task.answer(np.asarray(scores, dtype=np.float32).reshape(rows.shape[0], -1))
        return {name: answer[0] if one else answer for name in wanted}


class _Task:
    """Turns the scores of a forest into the output. The parameters' names are those of Triton's FIL backend."""

    def __init__(self, config):
        self.classifies = parameter(config, "is_classifier", boolean, parameter(config, "output_class", boolean, False))
        self.probabilities = parameter(config, "predict_proba", boolean, False)
        self.threshold = parameter(config, "threshold", float, 0.5)
        self.both = False  # the output has the probabilities of both classes of a binary classifier

    def takes_both(self, width, dims):
        """Reports whether the output of a binary classifier has room for both classes. The model has only the
        probability of the second one."""
        return self.classifies and self.probabilities and width == 1 and [int(d) for d in dims] == [2]

    def answer(self, scores):
        if self.both:
            return np.concatenate([1 - scores, scores], axis=1)
        if not self.classifies or self.probabilities:
            return scores
        if scores.shape[1] == 1:
            return (scores > self.threshold).astype(np.float32)
        return scores.argmax(axis=1).astype(np.float32).reshape(-1, 1)


def _width(model, task):
    if task.classifies and not task.probabilities:
        return 1
    header = model.get_header_accessor()
    return int(header.get_field("num_target")[0]) * int(max(header.get_field("num_class")))


def _path(config):
    kind = parameter(config, "model_type")
    if kind is not None and kind not in _FILES:
        raise pb.TritonModelException("parameter 'model_type' is '%s', want one of %s" % (kind, ", ".join(_FILES)))
    name = config.get("default_model_filename")
    names = [name] if name else [_FILES[kind]] if kind else list(_FILES.values())
    for name in names:
        path = os.path.join(pb.get_model_dir(), name)
        if os.path.exists(path):
            return path
    raise pb.TritonModelException("no model file: %s has none of %s" % (pb.get_model_dir(), ", ".join(names)))


def _load(config, path):
    kind = parameter(config, "model_type")
    if kind is None:
        kind = next((k for k, name in _FILES.items() if os.path.basename(path) == name), "xgboost")
    lenient = parameter(config, "xgboost_allow_unknown_field", boolean, False)
    try:
        if kind == "lightgbm":
            return treelite.frontend.load_lightgbm_model(path)
        if kind == "treelite_checkpoint":
            return treelite.Model.deserialize(path)
        if kind == "xgboost":
            return treelite.frontend.load_xgboost_model_legacy_binary(path)
        form = {"xgboost_json": "json", "xgboost_ubj": "ubjson"}[kind]
        return treelite.frontend.load_xgboost_model(path, format_choice=form, allow_unknown_field=lenient)
    except treelite.TreeliteError as problem:
        raise pb.TritonModelException(
            "%s is not a model of the type %s: %s" % (os.path.basename(path), kind, problem)
        ) from None
