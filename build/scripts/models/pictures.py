"""Recorded requests of digits and mlp: various PNG files with digits in fonts that were not used for training."""

import pathlib

import numpy as np
from PIL import Image, ImageFilter

import fonts
import recorded
from digits import LABELS
from recorded import Tensor
from simple import ORT, record

TOLERANCE = 1e-4  # tolerance of scores: processors and versions differ in the order of additions


def preprocess(png: pathlib.Path) -> np.ndarray:
    """The preprocessing of models-sample/README.md: white ground, grey, 28x28 bilinear, 0..1; float32 [1,1,28,28]."""
    return _scaled(_grey(Image.open(png)), Image.Resampling.BILINEAR)


def _grey(im: Image.Image) -> Image.Image:
    im = im.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", im.size, "white"), im).convert("RGB").convert("L")


def _scaled(grey: Image.Image, filter: Image.Resampling) -> np.ndarray:
    small = grey.resize((28, 28), filter)
    return (np.asarray(small, np.float32) / np.float32(255)).reshape(1, 1, 28, 28)


def _draw(font: fonts.Font, digit: int, size, height: int, mode: str, paper, ink, turn: float = 0, at=(0.5, 0.5)):
    """Draws the digit on a picture of size (width, height). Its ink is `height` pixels high and centred at `at`."""
    scale = height / fonts.glyph(font, digit, 200).height
    g = fonts.glyph(font, digit, round(200 * scale))
    if turn:
        g = g.rotate(turn, Image.Resampling.BICUBIC, expand=True)
    im = Image.new(mode, size, paper)
    im.paste(ink, (round(size[0] * at[0] - g.width / 2), round(size[1] * at[1] - g.height / 2)), g)
    return im


def _photo(im: Image.Image, seed: int) -> Image.Image:
    """Adds uneven light, slight blur and noise to an RGB picture."""
    rng = np.random.default_rng(seed)
    a = np.asarray(im.filter(ImageFilter.GaussianBlur(1.2)), np.float32)
    light = np.linspace(0.75, 1.1, a.shape[1])[None, :, None] * np.linspace(1.05, 0.85, a.shape[0])[:, None, None]
    return Image.fromarray(np.uint8(np.clip(a * light + rng.normal(0, 6, a.shape), 0, 255)))


def draw_all() -> dict[str, tuple[Image.Image, int]]:
    """Returns name -> (picture, digit). The fonts are from fonts-test.txt."""
    listed = fonts.read_list("fonts-test.txt")

    def font(family: str, style: str = "Regular") -> fonts.Font:
        return next(f for f in listed if (f.family, f.style) == (family, style))

    clear = _draw(font("Roboto"), 4, (96, 96), 70, "RGBA", (0, 0, 0, 0), (20, 20, 20, 255))
    palette = _draw(font("PT Serif"), 6, (80, 100), 62, "RGB", (250, 240, 200), (120, 20, 20), at=(0.55, 0.45))
    return {
        "grey_28": (_draw(font("Liberation Sans"), 7, (28, 28), 20, "L", 255, 0), 7),
        "grey_28_light_on_dark": (_draw(font("PT Serif"), 3, (28, 28), 22, "L", 16, 235), 3),
        "rgb_64": (_draw(font("Inter", "Bold"), 5, (64, 64), 44, "RGB", (30, 60, 140), (255, 235, 120)), 5),
        "rgb_200x120_photo": (_photo(_draw(font("Roboto", "Bold"), 2, (200, 120), 92, "RGB", (205, 200, 185),
                                           (50, 45, 40),
                                           turn=6, at=(0.48, 0.52)), 11), 2),
        "rgba_96": (clear, 4),
        "palette_80x100": (palette.quantize(16), 6),
        "one_bit_40": (_draw(font("Liberation Serif"), 9, (40, 40), 30, "L", 255, 0).convert("1"), 9),
        "rgb_320x240_photo": (_photo(_draw(font("JetBrains Mono", "Bold"), 8, (320, 240), 165, "RGB", (60, 70, 65),
                                           (225, 225, 215),
                                           turn=-5), 12), 8),
        "grey_28_zero": (_draw(font("Lateef"), 0, (28, 28), 21, "L", 240, 30), 0),
        "grey_28_one": (_draw(font("Liberation Serif"), 1, (28, 28), 21, "L", 240, 30), 1),
    }


def make(root: pathlib.Path):
    folder = root / "digits" / "requests"
    folder.mkdir(parents=True, exist_ok=True)
    s = recorded.session(root / "digits" / "1" / "model.onnx")
    inputs = {}
    for name, (picture, digit) in draw_all().items():
        png = folder / f"{name}.png"
        picture.save(png, optimize=True)
        x = preprocess(png)
        inputs[name] = x
        image = Tensor("image", "FP32", list(x.shape), x.tobytes())
        out = recorded.run(s, [image])
        scores = out[0].array()[0]
        if scores.argmax() != digit:
            raise SystemExit(f"{png.name}: digits says {LABELS[scores.argmax()]}, it shows {LABELS[digit]}")
        recorded.write(folder / f"{name}.json", [image], out, TOLERANCE, ORT, label=LABELS[digit],
                       image={"file": png.name, "input": "image", "scores_tolerance": _slack(s, png, digit, scores)})
    four = np.concatenate([inputs[n] for n in ("grey_28", "rgb_64", "rgba_96", "grey_28_zero")])
    record(root / "digits", "four_pictures", [Tensor("image", "FP32", list(four.shape), four.tobytes())], TOLERANCE)
    record(root / "mlp", "one_row", [Tensor("input", "FP32", [1, 784], inputs["grey_28"].tobytes())], TOLERANCE)
    record(root / "mlp", "four_rows", [Tensor("input", "FP32", [4, 784], four.tobytes())], TOLERANCE)


def _slack(s, png: pathlib.Path, digit: int, scores: np.ndarray) -> float:
    """The tolerance of scores for other correct resizers: twice the largest difference of five resizers, at least
    0.02."""
    grey, worst = _grey(Image.open(png)), 0.0
    if grey.size == (28, 28):
        return 1e-3
    for how in ("BOX", "HAMMING", "BICUBIC", "LANCZOS", "BILINEAR"):
        x = _scaled(grey, Image.Resampling[how])
        got = s.run(None, {"image": x})[0][0]
        if got.argmax() != digit:
            raise SystemExit(f"{png.name}: resized by {how} digits says {LABELS[got.argmax()]}")
        worst = max(worst, float(np.abs(got - scores).max()))
    return round(max(0.02, 2 * worst), 3)
