"""Classifies grey pictures of any size with the model digits. All requests of a batch run concurrently."""

import asyncio

import numpy as np

import triton_python_backend_utils as pb_utils

SIDE = 28


class TritonPythonModel:
    async def execute(self, requests):
        pictures = [self.shrink(pb_utils.get_input_tensor_by_name(r, "picture").as_numpy()) for r in requests]
        responses = await asyncio.gather(
            *(self.classify(request, picture) for request, picture in zip(requests, pictures))
        )
        return list(responses)

    async def classify(self, request, picture):
        call = pb_utils.InferenceRequest(
            model_name="digits",
            requested_output_names=["scores"],
            inputs=[pb_utils.Tensor("image", picture.reshape(1, 1, SIDE, SIDE))],
            request_id=request.request_id(),
            trace=request.trace(),
        )
        response = await call.async_exec()
        if response.has_error():
            return pb_utils.InferenceResponse(
                error=pb_utils.TritonError("digits: " + response.error().message(), response.error().code())
            )
        scores = pb_utils.get_output_tensor_by_name(response, "scores").as_numpy()[0]
        best = int(scores.argmax())
        return pb_utils.InferenceResponse(
            [
                pb_utils.Tensor("digit", np.array([best], dtype=np.int32)),
                pb_utils.Tensor("score", scores[best : best + 1].astype(np.float32)),
            ]
        )

    @staticmethod
    def shrink(picture):
        """Scales the picture to 28x28. Each pixel is the mean of the pixels that it covers."""
        if picture.size == 0:
            raise pb_utils.TritonModelException("the picture has no pixels")
        for axis in (0, 1):
            edges = np.linspace(0, picture.shape[axis], SIDE + 1).astype(int)
            first = np.minimum(edges[:-1], picture.shape[axis] - 1)
            width = np.maximum(edges[1:] - first, 1)
            sums = np.add.reduceat(picture.astype(np.float32), first, axis=axis)
            shape = [1, 1]
            shape[axis] = SIDE
            picture = sums / width.reshape(shape)
        return (picture / 255).astype(np.float32)
