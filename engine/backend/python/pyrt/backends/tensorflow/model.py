"""TensorFlow: SavedModels and frozen graphs, with the TensorFlow that is installed."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import triton_python_backend_utils as pb  # noqa: E402
from _nereid_framework import Framework, complete, model_file, parameter  # noqa: E402

_FILES = ("model.savedmodel", "model.graphdef")
_TYPES = {
    tf.bool: "TYPE_BOOL", tf.uint8: "TYPE_UINT8", tf.uint16: "TYPE_UINT16", tf.uint32: "TYPE_UINT32",
    tf.uint64: "TYPE_UINT64", tf.int8: "TYPE_INT8", tf.int16: "TYPE_INT16", tf.int32: "TYPE_INT32",
    tf.int64: "TYPE_INT64", tf.float16: "TYPE_FP16", tf.float32: "TYPE_FP32", tf.float64: "TYPE_FP64",
    tf.string: "TYPE_STRING", tf.bfloat16: "TYPE_BF16",
}  # fmt: skip


class TritonPythonModel(Framework):
    FILES = _FILES

    @staticmethod
    def auto_complete_config(config):
        told = config.as_dict()
        path = model_file(told, _FILES)
        if not os.path.isdir(path):
            return config  # a frozen graph does not say which of its nodes are inputs and outputs
        signature = _signature(tf.saved_model.load(path, tags=_tags(told)), told)
        inputs = [_described(name, spec) for name, spec in sorted(signature.structured_input_signature[1].items())]
        outputs = [_described(name, spec) for name, spec in sorted(signature.structured_outputs.items())]
        return complete(config, inputs, outputs)

    def load(self, path):
        for name, change in (
            ("TF_NUM_INTRA_THREADS", tf.config.threading.set_intra_op_parallelism_threads),
            ("TF_NUM_INTER_THREADS", tf.config.threading.set_inter_op_parallelism_threads),
        ):
            n = self.parameter(name, int)
            if n:
                change(n)
        self._where = "/GPU:%d" % self.device if self.kind == "GPU" else "/CPU:0"
        if os.path.isdir(path):
            with tf.device(self._where):
                self._loaded = tf.saved_model.load(path, tags=_tags(self.config))
            self._function = _signature(self._loaded, self.config)
            self._specs = self._function.structured_input_signature[1]
            self._run = self._run_signature
        else:
            self._graph(path)
            self._run = self._run_graph

    def _graph(self, path):
        definition = tf.compat.v1.GraphDef()
        with open(path, "rb") as file:
            try:
                definition.ParseFromString(file.read())
            except Exception as problem:
                raise pb.TritonModelException("'%s' is not a frozen graph: %s" % (os.path.basename(path), problem)) from None
        graph = tf.Graph()
        with graph.as_default():
            tf.import_graph_def(definition, name="")
        self._session = tf.compat.v1.Session(graph=graph)
        self._nodes = {}
        for tensor in self.inputs + self.outputs:
            name = tensor["name"]
            try:
                self._nodes[name] = graph.get_tensor_by_name(name if ":" in name else name + ":0")
            except (KeyError, ValueError):
                raise pb.TritonModelException("the graph has no node '%s'" % name) from None

    def run(self, inputs, wanted):
        return self._run(inputs, wanted)

    def _run_signature(self, inputs, wanted):
        with tf.device(self._where):
            results = self._function(**{name: self._tensor(array, self._specs[name]) for name, array in inputs.items()})
        outputs = {}
        for name in wanted:
            if name not in results:
                raise ValueError("the signature returned no output '%s'; it returned %s" % (name, ", ".join(results)))
            outputs[name] = _array(results[name].numpy())
        return outputs

    def _run_graph(self, inputs, wanted):
        results = self._session.run(
            [self._nodes[name] for name in wanted], {self._nodes[name]: array for name, array in inputs.items()}
        )
        return {name: _array(np.asarray(array)) for name, array in zip(wanted, results)}

    @staticmethod
    def _tensor(array, spec):
        if spec.dtype == tf.bfloat16:
            return tf.bitcast(tf.constant(array), tf.bfloat16)
        return tf.constant(array, dtype=spec.dtype)


def _array(value):
    value = np.asarray(value)
    return value.view(np.uint16) if value.dtype.name == "bfloat16" else value


def _tags(config):
    tag = parameter(config, "TF_GRAPH_TAG")
    return [tag] if tag else None


def _signature(loaded, config):
    name = parameter(config, "TF_SIGNATURE_DEF", default="serving_default")
    if name not in loaded.signatures:
        raise pb.TritonModelException(
            "the SavedModel has no signature '%s'; it has %s; name one in the parameter TF_SIGNATURE_DEF"
            % (name, ", ".join(loaded.signatures) or "none")
        )
    return loaded.signatures[name]


def _described(name, spec):
    dims = [] if spec.shape.rank is None else [-1 if d is None else int(d) for d in spec.shape]
    return name, _TYPES.get(spec.dtype, "TYPE_INVALID"), dims
