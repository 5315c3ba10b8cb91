"""Reads the words of a picture file: calls the models of the pipeline one after another, for all requests concurrently."""

import asyncio

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    async def execute(self, requests):
        return list(await asyncio.gather(*(self.answer(r) for r in requests)))

    async def answer(self, request):
        try:
            texts, boxes = await self.read(pb_utils.get_input_tensor_by_name(request, "input_image").as_numpy())
        except CallFailed as e:
            return pb_utils.InferenceResponse(error=e.args[0])
        return pb_utils.InferenceResponse([pb_utils.Tensor("recognized_text", texts), pb_utils.Tensor("boxes", boxes)])

    async def read(self, file):
        picture, scale = await call(
            "detection_preprocessing", {"detection_preprocessing_input": file}, ["detection_preprocessing_output", "scale"])
        score, geometry = await call(
            "text_detection", {"input_images:0": picture}, ["feature_fusion/Conv_7/Sigmoid:0", "feature_fusion/concat_3:0"])
        crops, boxes = await call(
            "detection_postprocessing",
            {"detection_postprocessing_input_1": score, "detection_postprocessing_input_2": geometry,
             "detection_postprocessing_input_3": picture},
            ["detection_postprocessing_output", "boxes"])
        if not boxes.any():  # an ensemble cannot leave a step out
            return np.empty(0, object), np.empty((0, 4, 2), np.float32)
        [scores] = await call("text_recognition", {"input.1": crops}, ["308"])
        return await call(
            "recognition_postprocessing",
            {"recognition_postprocessing_input": scores, "boxes": boxes, "scale": scale},
            ["recognition_postprocessing_output", "word_boxes"])


class CallFailed(Exception):
    """Its argument is the TritonError of the model that was called."""


async def call(model, inputs, outputs):
    """The outputs of a model, as arrays."""
    response = await pb_utils.InferenceRequest(
        model_name=model,
        requested_output_names=outputs,
        inputs=[pb_utils.Tensor(name, array) for name, array in inputs.items()],
    ).async_exec()
    if response.has_error():
        raise CallFailed(pb_utils.TritonError(f"{model}: {response.error().message()}", response.error().code()))
    return [pb_utils.get_output_tensor_by_name(response, name).as_numpy() for name in outputs]
