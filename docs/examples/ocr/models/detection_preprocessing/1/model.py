"""Decodes a picture file for text_detection: RGB, 0 to 255, height and width multiples of 32."""

import numpy as np
import triton_python_backend_utils as pb_utils

from picture import load


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(pb_utils.get_input_tensor_by_name(r, "detection_preprocessing_input")) for r in requests]

    def answer(self, given):
        try:
            pixels, scale = load(given.as_numpy().tobytes())
        except ValueError as e:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(e), pb_utils.TritonError.INVALID_ARG))
        return pb_utils.InferenceResponse([
            pb_utils.Tensor("detection_preprocessing_output", pixels),
            pb_utils.Tensor("scale", np.array([scale], np.float32)),
        ])
