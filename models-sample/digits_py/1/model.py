"""Classifies pictures of digits with the layers of mlp, in numpy."""

import json
import os

import numpy as np

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        output = pb_utils.get_output_config_by_name(config, "scores")
        self.scores_type = pb_utils.triton_string_to_numpy(output["data_type"])
        folder = pb_utils.get_model_dir()
        with np.load(os.path.join(folder, "weights.npz")) as weights:
            self.layers = [
                (weights["w%d" % i].astype(np.float32), weights["b%d" % i].astype(np.float32))
                for i in range(len(weights.files) // 2)
            ]
        with open(os.path.join(folder, os.pardir, output["label_filename"])) as labels:
            self.labels = np.array([line.strip().encode() for line in labels], dtype=object)

    def execute(self, requests):
        # The server passes a list of requests. The model must join them into one batch.
        pictures = [pb_utils.get_input_tensor_by_name(request, "image").as_numpy() for request in requests]
        scores = self.classify(np.concatenate(pictures))
        responses, at = [], 0
        for picture in pictures:
            part = scores[at : at + len(picture)]
            at += len(picture)
            responses.append(
                pb_utils.InferenceResponse(
                    output_tensors=[
                        pb_utils.Tensor("scores", part.astype(self.scores_type)),
                        pb_utils.Tensor("label", self.labels[part.argmax(axis=1)].reshape(-1, 1)),
                    ]
                )
            )
        return responses

    def classify(self, pictures):
        values = pictures.reshape(len(pictures), -1).astype(np.float32) / 255
        for weight, bias in self.layers[:-1]:
            values = np.maximum(values @ weight + bias, 0)
        weight, bias = self.layers[-1]
        values = values @ weight + bias
        values = np.exp(values - values.max(axis=1, keepdims=True))
        return values / values.sum(axis=1, keepdims=True)
