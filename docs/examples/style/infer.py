"""Redraws a picture: infer.py --image FILE [--url HOST:PORT] [--output FILE]"""

import argparse

import numpy as np
import tritonclient.http as httpclient
from PIL import Image

MODEL, SIZE = "fast_neural_style", (256, 256)


def prepare(image):
    """The model's input for a Pillow image."""
    pixels = np.asarray(image.convert("RGB").resize(SIZE), np.float32).transpose(2, 0, 1)[None]
    given = httpclient.InferInput("INPUT_0", list(pixels.shape), "FP32")
    given.set_data_from_numpy(np.ascontiguousarray(pixels))
    return given


def picture(answer):
    """The Pillow image of the model's answer."""
    return Image.fromarray(np.uint8(np.round(answer.as_numpy("OUTPUT_0")[0].transpose(1, 2, 0))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--image", required=True)
    parser.add_argument("--url", default="localhost:8000")
    parser.add_argument("--output", default="redrawn.png")
    given = parser.parse_args()
    with httpclient.InferenceServerClient(given.url) as client:
        picture(client.infer(MODEL, [prepare(Image.open(given.image))])).save(given.output)
    print(given.output)


if __name__ == "__main__":
    main()
