"""Checks models-sample: recorded answers, the two font lists, and the accuracy of digits on fonts it was not trained
on.

    python check.py [--require-fonts]

Prints every error and exits non-zero if there is one. The accuracy needs the fonts of fonts-test.txt (fonts.sh test).
Without them it is not checked; this is an error only with --require-fonts. Takes about ten seconds.
"""

import json
import os
import pathlib
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np  # noqa: E402

import fonts  # noqa: E402
import pictures  # noqa: E402
import recorded  # noqa: E402
from recorded import Tensor  # noqa: E402

ROOT = fonts.HERE.parents[2] / "models-sample"
WANTED = 0.97  # top-1, on each of the three sets
EACH, SEED = 4, 977  # augmented pictures per unseen font and digit; a seed other than that of the training


def check_requests() -> list[str]:
    faults, count = [], 0
    for config in sorted(ROOT.glob("*/config.pbtxt")):
        model = config.parent / "1" / "model.onnx"
        session = recorded.session(model) if model.is_file() else None
        files = sorted((config.parent / "requests").glob("*.json"))
        if not files:
            faults.append(f"{config.parent.name}: no recorded request")
        for f in files:
            count += 1
            faults += [f"{f.relative_to(ROOT)}: {fault}" for fault in check_request(f, session)]
    print(f"{count} recorded requests")
    return faults


def check_request(path: pathlib.Path, session) -> list[str]:
    doc = json.loads(path.read_text())
    inputs = [recorded.from_json(t) for t in doc["inputs"]]
    want = [recorded.from_json(t) for t in doc["outputs"]]
    faults = []
    if doc["name"] != path.stem:
        faults.append(f'name is {doc["name"]!r}')
    if doc["source"] == "definition":  # the model returns its input
        got = [Tensor(w.name, i.datatype, i.shape, i.raw) for w, i in zip(want, inputs)]
    else:
        got = recorded.run(session, inputs)
    if [t.name for t in got] != [t.name for t in want]:
        faults.append(f"outputs {[t.name for t in got]}, want {[t.name for t in want]}")
    faults += filter(None, (recorded.differs(g, w, doc["tolerance"]) for g, w in zip(got, want)))
    if "image" in doc:
        x = pictures.preprocess(path.parent / doc["image"]["file"])
        worst = float(np.abs(x - inputs[0].array()).max())
        if worst > 1.5 / 255:  # one grey level: versions of the image library differ
            faults.append(f"pre-processing {doc['image']['file']} differs from the recorded input by {worst:g}")
        says = pictures.LABELS[int(got[0].array()[0].argmax())]
        if says != doc["label"]:
            faults.append(f"digits says {says}, the label is {doc['label']}")
    return faults


def check_lists() -> list[str]:
    train, test = fonts.read_list("fonts-train.txt"), fonts.read_list("fonts-test.txt")
    faults = []
    for what in ("lineage", "family", "path"):
        both = {getattr(f, what) for f in train} & {getattr(f, what) for f in test}
        faults += [f"{what} {b!r} is in both font lists" for b in sorted(both)]
    if not fonts.missing(train + test):
        a, b = (np.stack([fonts.shapes(f).ravel() for f in fs]) for fs in (train, test))
        like = b @ a.T / 10
        i, j = np.unravel_index(like.argmax(), like.shape)
        print(f"most alike in both lists: {test[i].family} {test[i].style} and {train[j].family} {train[j].style}, "
              f"correlation {like.max():.3f}")
        if like.max() > fonts.LIKENESS:
            faults.append(f"{test[i].path} is a copy of {train[j].path}: correlation {like.max():.3f}")
    return faults


def accuracy(model: str, x: np.ndarray, y: np.ndarray) -> float:
    s = recorded.session(ROOT / model / "1" / "model.onnx")
    source = s.get_inputs()[0]
    shape = [-1, *source.shape[1:]]
    right = 0
    for i in range(0, len(x), 256):
        scores = s.run(None, {source.name: (x[i : i + 256].astype(np.float32) / 255).reshape(shape)})[0]
        right += int((scores.argmax(1) == y[i : i + 256]).sum())
    return right / len(x)


def check_accuracy() -> list[str]:
    listed = fonts.read_list("fonts-test.txt")
    x, y = fonts.plain_set(listed)
    sets = {"dark on light": (x, y), "light on dark": (255 - x, y), "augmented": fonts.dataset(listed, EACH, SEED)}
    faults = []
    for model in ("digits", "mlp"):
        for name, (x, y) in sets.items():
            a = accuracy(model, x, y)
            print(f"{model}, unseen fonts, {name}: {a:.4f} of {len(x)} right")
            if model == "digits" and a < WANTED:
                faults.append(f"digits reads {a:.4f} of the set {name!r}, wanted {WANTED}")
    return faults


def main():
    if set(sys.argv[1:]) - {"--require-fonts"}:
        sys.exit("usage: check.py [--require-fonts]")
    faults = check_requests() + check_lists()
    if gone := fonts.missing(fonts.read_list("fonts-test.txt")):
        text = f"{len(gone)} fonts of fonts-test.txt are not under {fonts.FONTS} (fonts.sh test): accuracy not checked"
        print(text)
        faults += [text] if "--require-fonts" in sys.argv else []
    else:
        faults += check_accuracy()
    if faults:
        sys.exit("\n".join(faults))
    print("models-sample: no errors")


if __name__ == "__main__":
    main()
