"""OpenVINO: what its runtime reads (IR, ONNX, TensorFlow, TensorFlow Lite, Paddle), with the openvino that is installed."""

import numpy as np
import openvino as ov

import triton_python_backend_utils as pb
from _nereid_framework import Framework, boolean, complete, model_file

_FILES = ("model.xml", "model.onnx", "model.saved_model", "model.pdmodel", "model.tflite")
_TYPES = {
    "boolean": "TYPE_BOOL", "u8": "TYPE_UINT8", "u16": "TYPE_UINT16", "u32": "TYPE_UINT32", "u64": "TYPE_UINT64",
    "i8": "TYPE_INT8", "i16": "TYPE_INT16", "i32": "TYPE_INT32", "i64": "TYPE_INT64", "f16": "TYPE_FP16",
    "f32": "TYPE_FP32", "f64": "TYPE_FP64", "bf16": "TYPE_BF16", "string": "TYPE_STRING",
}  # fmt: skip


class TritonPythonModel(Framework):
    FILES = _FILES

    @staticmethod
    def auto_complete_config(config):
        model = ov.Core().read_model(model_file(config.as_dict(), _FILES))
        return complete(config, [_described(p) for p in model.inputs], [_described(p) for p in model.outputs])

    def load(self, path):
        core = ov.Core()
        extension = self.parameter("CPU_EXTENSION_PATH")
        if extension:
            core.add_extension(extension)
        model = core.read_model(path)
        self._reshape(model)
        device = self.parameter("TARGET_DEVICE", default="GPU.%d" % self.device if self.kind == "GPU" else "CPU")
        self._compiled = core.compile_model(model, device, self._settings())
        self._request = self._compiled.create_infer_request()
        self._ports = {name: port for port in self._compiled.outputs for name in port.names}
        self._known = {name for port in self._compiled.inputs for name in port.names}
        for tensor in self.outputs:
            if tensor["name"] not in self._ports:
                raise pb.TritonModelException(
                    "the model has no output '%s'; it has %s" % (tensor["name"], ", ".join(sorted(self._ports)))
                )

    def _settings(self):
        settings = {}
        for name, key, convert in (
            ("PERFORMANCE_HINT", "PERFORMANCE_HINT", str),
            ("INFERENCE_NUM_THREADS", "INFERENCE_NUM_THREADS", int),
            ("COMPILATION_NUM_THREADS", "COMPILATION_NUM_THREADS", int),
            ("NUM_STREAMS", "NUM_STREAMS", str),
        ):
            value = self.parameter(name, convert)
            if value is not None:
                settings[key] = value
        bf16 = self.parameter("HINT_BF16", boolean)
        if bf16 is not None:
            settings["INFERENCE_PRECISION_HINT"] = "bf16" if bf16 else "f32"
        return settings

    def _reshape(self, model):
        """RESHAPE_IO_LAYERS: inputs take the shapes of the configuration."""
        if not self.parameter("RESHAPE_IO_LAYERS", boolean, False):
            return
        lead = [-1] if self.batches else []
        model.reshape({i["name"]: ov.PartialShape(lead + [int(d) for d in i["dims"]]) for i in self.inputs})

    def run(self, inputs, wanted):
        for name in inputs:
            if name not in self._known:
                raise ValueError("the model has no input '%s'; it has %s" % (name, ", ".join(sorted(self._known))))
        results = self._request.infer({name: _given(array) for name, array in inputs.items()}, share_inputs=True)
        return {name: _taken(results[self._ports[name]]) for name in wanted}


def _given(array):
    if array.dtype != np.object_:
        return array
    return np.array([element.decode() for element in array.ravel().tolist()]).reshape(array.shape)


def _taken(array):
    # The request's memory is used again by the next one.
    return array.astype(np.object_) if array.dtype.kind in "SU" else np.array(array)


def _described(port):
    dims = [-1 if d.is_dynamic else d.get_length() for d in port.get_partial_shape()]
    return port.get_any_name(), _TYPES.get(port.get_element_type().get_type_name(), "TYPE_INVALID"), dims
