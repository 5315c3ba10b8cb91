"""Turns the scores of text_recognition into texts."""

import numpy as np
import triton_python_backend_utils as pb_utils

from letters import decode


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(r) for r in requests]

    def answer(self, request):
        scores, boxes, scale = (
            pb_utils.get_input_tensor_by_name(request, name).as_numpy()
            for name in ("recognition_postprocessing_input", "boxes", "scale")
        )
        texts = decode(scores)
        read = [i for i, text in enumerate(texts) if text]  # boxes in which a text was found
        return pb_utils.InferenceResponse([
            pb_utils.Tensor("recognition_postprocessing_output", np.array([texts[i].encode() for i in read], object)),
            pb_utils.Tensor("word_boxes", boxes[read] / scale),
        ])
