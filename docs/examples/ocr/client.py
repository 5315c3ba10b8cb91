"""Reads the words of pictures: client.py [--url HOST:PORT] [--model ocr|ocr_bls] PICTURE...

Without --model it calls text_detection and text_recognition itself and cuts the words out between the two calls. Needs
tritonclient[http], numpy and Pillow.
"""

import argparse
import pathlib
import sys

import numpy as np
import tritonclient.http as httpclient

MODELS = pathlib.Path(__file__).resolve().parent / "models"
for step in ("detection_preprocessing", "detection_postprocessing", "recognition_postprocessing"):
    sys.path.insert(0, str(MODELS / step / "1"))
from boxes import crops, find  # noqa: E402
from letters import decode  # noqa: E402
from picture import load  # noqa: E402


def infer(client, model, **arrays):
    """Calls a model. The names of the inputs may have characters that keywords cannot have: pass a dictionary with **."""
    inputs = []
    for name, array in arrays.items():
        inputs.append(httpclient.InferInput(name, list(array.shape), "UINT8" if array.dtype == np.uint8 else "FP32"))
        inputs[-1].set_data_from_numpy(array)
    return client.infer(model, inputs)


def two_calls(client, file):
    """The texts and boxes of a picture file (bytes), by text_detection and text_recognition."""
    picture, scale = load(file)
    answer = infer(client, "text_detection", **{"input_images:0": picture})
    score = answer.as_numpy("feature_fusion/Conv_7/Sigmoid:0")[0, :, :, 0]
    boxes = find(score, answer.as_numpy("feature_fusion/concat_3:0")[0])
    answer = infer(client, "text_recognition", **{"input.1": crops(picture[0], boxes)})
    texts = decode(answer.as_numpy("308"))
    read = [i for i, text in enumerate(texts) if text]
    return [texts[i] for i in read], boxes[read] / scale


def one_call(client, file, model="ocr"):
    """The same by one call of a pipeline."""
    answer = infer(client, model, input_image=np.frombuffer(file, np.uint8)[None])
    return [text.decode() for text in answer.as_numpy("recognized_text")], answer.as_numpy("boxes")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default="localhost:8000")
    parser.add_argument("--model")
    parser.add_argument("pictures", nargs="+", type=pathlib.Path)
    given = parser.parse_args()
    with httpclient.InferenceServerClient(given.url) as client:
        for path in given.pictures:
            file = path.read_bytes()
            texts, _ = one_call(client, file, given.model) if given.model else two_calls(client, file)
            print(" ".join(texts))


if __name__ == "__main__":
    main()
