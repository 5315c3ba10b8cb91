"""Cuts the words that text_detection found out of the picture."""

import triton_python_backend_utils as pb_utils

from boxes import crops, find


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(r) for r in requests]

    def answer(self, request):
        score, geometry, picture = (
            pb_utils.get_input_tensor_by_name(request, f"detection_postprocessing_input_{i}").as_numpy()[0]
            for i in (1, 2, 3)
        )
        found = find(score[..., 0], geometry)
        return pb_utils.InferenceResponse([
            pb_utils.Tensor("detection_postprocessing_output", crops(picture, found)),
            pb_utils.Tensor("boxes", found),
        ])
