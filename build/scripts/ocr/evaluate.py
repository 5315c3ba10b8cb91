"""Measures the pipeline on pages in fonts that it was not trained on, through a server.

    evaluate.py [--url HOST:PORT] [--model ocr] [--pages 200]    measure; exit status 1 below the bar
    evaluate.py --write FOLDER [--pages 16]                      write such pages, with their words in pages.json

Detection: F1 of the boxes; a box is right if its intersection over union with that of a word is at least 0.5. Words:
the share of all words whose box was found and whose text is right.
"""

import argparse
import io
import json
import pathlib
import sys

import numpy as np
from PIL import Image

import pages

sys.path.insert(0, str(pages.ROOT / "docs/examples/ocr"))

SEED, SMALL_SEED, BAR = 97, 98, 0.9


def area(polygon):
    """Positive if the corners are in the order of pages.quad."""
    if len(polygon) < 3:
        return 0.0
    x, y = np.asarray(polygon).T
    return float(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2


def iou(a, b):
    """Intersection over union of two boxes: corners [4,2]."""
    rest = [np.asarray(p, float) for p in a]
    for p, q in zip(b, np.roll(b, -1, axis=0)):  # cut off what is outside of each edge of b
        side = [(q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0]) for r in rest]
        kept = []
        for i, r in enumerate(rest):
            j = (i + 1) % len(rest)
            if side[i] >= 0:
                kept.append(r)
            if (side[i] >= 0) != (side[j] >= 0):
                kept.append(r + (rest[j] - r) * (side[i] / (side[i] - side[j])))
        rest = kept
    both = area(rest)
    return both / (area(a) + area(b) - both) if both > 0 else 0.0


class Score:
    """Counts over pages."""

    def __init__(self):
        self.words = self.found = self.said = self.right = 0

    def add(self, texts, boxes, wanted):
        """One page: what the pipeline says, and its words as (text, corners)."""
        left = list(range(len(texts)))
        self.words += len(wanted)
        self.said += len(texts)
        for text, corners in wanted:
            best = max(left, key=lambda i: iou(boxes[i], corners), default=None)
            if best is not None and iou(boxes[best], corners) >= 0.5:
                left.remove(best)
                self.found += 1
                self.right += texts[best] == text.lower()

    @property
    def f1(self):
        return 2 * self.found / max(1, self.words + self.said)

    @property
    def accuracy(self):
        return self.right / max(1, self.words)

    def __str__(self):
        return f"{self.words} words: detection F1 {self.f1:.3f}, words right {self.accuracy:.3f}"


def held_out(count, seed):
    """Pages in unseen fonts, as (pixels, words)."""
    listed, rng = pages.usable(pages.fonts.read_list("fonts-test.txt")), np.random.default_rng(seed)
    return [pages.page(listed, rng, letters=False) for _ in range(count)]


def write(folder, count):
    folder.mkdir(parents=True, exist_ok=True)
    listing = {}
    for i, (pixels, words) in enumerate(held_out(count, SMALL_SEED), 1):
        Image.fromarray(pixels).save(folder / f"{i:02}.jpg", quality=85)
        listing[f"{i:02}.jpg"] = [[text, np.round(corners, 1).tolist()] for text, corners in words]
    lines = ",\n".join(f'"{name}": {json.dumps(words)}' for name, words in listing.items())
    (folder / "pages.json").write_text("{\n" + lines + "\n}\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default="localhost:8000")
    parser.add_argument("--model", default="ocr")
    parser.add_argument("--pages", type=int)
    parser.add_argument("--write", type=pathlib.Path)
    given = parser.parse_args()
    if given.write:
        write(given.write, given.pages or 16)
        return
    import tritonclient.http as httpclient

    from client import one_call

    score = Score()
    with httpclient.InferenceServerClient(given.url) as client:
        for pixels, words in held_out(given.pages or 200, SEED):
            file = io.BytesIO()
            Image.fromarray(pixels).save(file, "PNG", compress_level=1)
            score.add(*one_call(client, file.getvalue(), given.model), words)
    print(score)
    if min(score.f1, score.accuracy) < BAR:
        sys.exit(f"below {BAR}")


if __name__ == "__main__":
    main()
