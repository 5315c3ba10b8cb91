"""Rendered text: pages of words with their boxes, and crops of single words. Everything follows from a seed.

The fonts are those of build/scripts/models: fonts-train.txt for training, fonts-test.txt for measuring. The two lists
share no file, no family and no lineage.
"""

import functools
import pathlib
import string
import sys

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "build/scripts/models"))
import fonts  # noqa: E402

WIDTH, HEIGHT = 640, 480  # of a page, in pixels; as the guide's client sends
CROP = (100, 32)  # width and height of a word for text_recognition
SIZES = (18, 44)  # font sizes in pixels
LONGEST = 230  # pixels: a longer word is drawn smaller
MARGIN = 2  # pixels between the ink of a word and its box
TURN = np.deg2rad(5)  # largest angle of a page

COMMON = """about after again all also always and another any are back because been before between book both but came
can city close come could country day did different does down each earth every example eye face far father few find first
follow food for four from garden get give good great group grow hand hard have head help here high home house how idea
important keep kind know land large last learn leave left letter life light like line list little live long look made make
man many mile more morning most mother mountain move much must name near need never new next night north not now number
off often old one only open order other our over page paper part people picture place plant play point quick read right
river road room run said same school sea second see sentence should show side small some song sound south still stop story
study such take tell than that the their them then there these thing think this three through time together tree try turn
two under until use very voice walk want warm watch water way week well went were what when where which while white who why
will window with word work world would write year you young zero""".split()


def usable(listed):
    """The fonts that have all letters and digits."""

    def complete(font):
        try:
            f = font.load(24)
            drawn = {bytes(f.getmask(c)) for c in string.ascii_lowercase + string.digits}
            return len(drawn) > 33 and bytes(f.getmask("A")) != bytes(f.getmask("B"))
        except (OSError, ValueError):
            return False

    return [f for f in listed if complete(f)]


@functools.lru_cache(maxsize=4096)
def load(font: fonts.Font, size: int) -> ImageFont.FreeTypeFont:
    return font.load(size)


def word(rng, letters=True) -> str:
    """A word as it is drawn: a common one, made-up syllables, letters in any order, or a number. text_recognition
    answers in lower case. Without letters there are more syllables in place of letters in any order.

    A capital I at the beginning of a word is avoided, because many fonts draw it as a small l.
    """
    kind = rng.random()
    if not letters and 0.6 <= kind < 0.8:
        kind = 0.5
    if kind < 0.35:
        w = str(rng.choice(COMMON))
    elif kind < 0.6:
        w = "".join(rng.choice(list("bcdfghjklmnpqrstvwxyz")) + rng.choice(list("aeiou")) for _ in range(rng.integers(1, 5)))
        w += rng.choice(["", "n", "s", "r", "t"])
    elif kind < 0.8:
        w = "".join(rng.choice(list(string.ascii_lowercase), rng.integers(2, 9)))
    else:
        return "".join(rng.choice(list(string.digits), rng.integers(1, 8)))
    case = rng.random()
    if case < 0.2:
        return w.upper()
    return w.capitalize() if case < 0.4 and w[0] != "i" else w


def ink(font: fonts.Font, size: int, text: str) -> Image.Image:
    """The coverage (mode L, 255 = ink) of a word, cropped to its ink. No wider than LONGEST."""
    while True:
        f = load(font, size)
        left, top, right, bottom = f.getbbox(text)
        im = Image.new("L", (max(right - left, 1) + 8, max(bottom - top, 1) + 8))
        ImageDraw.Draw(im).text((4 - left, 4 - top), text, font=f, fill=255)
        box = im.getbbox()
        if box is None:
            raise ValueError(f"{font.path}: no ink for {text!r}")
        if box[2] - box[0] <= LONGEST or size <= SIZES[0]:
            return im.crop(box)
        size = max(SIZES[0], size - 4)


def quad(centre, width, height, angle) -> np.ndarray:
    """The corners of a box from the top left one clockwise: float [4,2]. A positive angle turns it
    counter-clockwise."""
    along = np.array([np.cos(angle), -np.sin(angle)]) * width / 2
    down = np.array([np.sin(angle), np.cos(angle)]) * height / 2
    return np.array([-along - down, along - down, along + down, -along + down]) + centre


def colours(rng):
    """Paper and ink: RGB, at least 90 grey levels apart. Either may be the darker one."""
    while True:
        paper, pen = rng.uniform(0, 255, (2, 3))
        if rng.random() < 0.6:
            paper, pen = 255 - rng.uniform(0, 40, 3), rng.uniform(0, 90, 3)
        if abs(paper.mean() - pen.mean()) >= 90:
            return (paper, pen) if rng.random() < 0.7 else (pen, paper)


def weather(picture: np.ndarray, rng) -> np.ndarray:
    """Uneven light, blur and noise on float [h,w,3]; returns uint8."""
    h, w = picture.shape[:2]
    if rng.random() < 0.4:
        gx, gy = rng.uniform(-35, 35, 2)
        picture = picture + (np.linspace(-0.5, 0.5, w)[None, :, None] * gx + np.linspace(-0.5, 0.5, h)[:, None, None] * gy)
    im = Image.fromarray(np.uint8(np.clip(picture, 0, 255)))
    if rng.random() < 0.4:
        im = im.filter(ImageFilter.GaussianBlur(rng.uniform(0.2, 0.8)))
    if rng.random() < 0.4:
        noisy = np.asarray(im, np.float32) + rng.standard_normal((h, w, 1), np.float32) * rng.uniform(1, 8)
        return np.uint8(np.clip(noisy, 0, 255))
    return np.asarray(im)


def places(rng, size, sizes, width, height):
    """Centres of words of these (width, height) on a page that is not turned: in lines, or scattered. Words that find
    no place are None."""
    put = [None] * len(sizes)
    gap = size * rng.uniform(0.35, 0.6)
    if rng.random() < 0.5:
        x0 = rng.uniform(20, width / 5)
        x, y = x0, rng.uniform(50, height / 3)
        for i, (w, h) in enumerate(sizes):
            if x + w > width - 30:
                x, y = x0, y + size * rng.uniform(1.4, 1.9)
            if y + h / 2 > height - 40 or x + w > width - 20:
                break
            put[i] = (x + w / 2, y)
            x += w + gap
        return put
    taken = []
    for i, (w, h) in enumerate(sizes):
        for _ in range(40):
            x, y = rng.uniform(w / 2 + 20, width - w / 2 - 20), rng.uniform(h / 2 + 30, height - h / 2 - 30)
            if all(abs(x - a) > (w + b) / 2 + gap or abs(y - c) > (h + d) / 2 + gap / 2 for a, c, b, d in taken):
                put[i] = (x, y)
                taken.append((x, y, w, h))
                break
    return put


def page(listed, rng, width=WIDTH, height=HEIGHT, letters=True):
    """One page of 1 to 10 words: uint8 [height,width,3], and its words as (text, corners [4,2])."""
    while True:
        paper, pen = colours(rng)
        picture = Image.fromarray(np.uint8(np.broadcast_to(paper, (height, width, 3))))
        draw = ImageDraw.Draw(picture)
        for _ in range(rng.integers(0, 4) if rng.random() < 0.4 else 0):  # what is no text: lines, frames and discs
            a, b = rng.uniform(0, 1, (2, 2)) * (width, height)
            colour = tuple(int(v) for v in paper + (pen - paper) * rng.uniform(0.1, 0.35))
            shape = rng.choice(["line", "rectangle", "ellipse"])
            box = (*np.minimum(a, b), *np.maximum(a, b))
            if shape == "line":
                draw.line((*a, *b), colour, int(rng.integers(1, 4)))
            else:
                getattr(draw, shape)(box, outline=colour, width=int(rng.integers(1, 4)))
        angle = rng.uniform(-TURN, TURN) if rng.random() < 0.5 else 0.0
        font, size = listed[rng.integers(len(listed))], int(rng.integers(*SIZES))
        texts = [word(rng, letters) for _ in range(rng.integers(1, 11))]
        inks = [ink(font, size, t) for t in texts]
        found = []
        for text, im, at in zip(texts, inks, places(rng, size, [i.size for i in inks], width, height)):
            if at is None:
                continue
            c, s = np.cos(angle), np.sin(angle)
            x, y = at[0] - width / 2, at[1] - height / 2
            centre = np.array([width / 2 + c * x + s * y, height / 2 - s * x + c * y])
            corners = quad(centre, im.width + 2 * MARGIN, im.height + 2 * MARGIN, angle)
            if (corners < 4).any() or (corners > (width - 4, height - 4)).any():
                continue
            mask = im.rotate(np.rad2deg(angle), Image.Resampling.BICUBIC, expand=True) if angle else im
            left, top = np.round(centre - np.array(mask.size) / 2).astype(int)
            picture.paste(tuple(int(v) for v in pen), (int(left), int(top)), mask)
            found.append((text, corners))
        if found:
            return weather(np.asarray(picture, np.float32), rng), found


def crop(picture: Image.Image, corners) -> Image.Image:
    """The box with these corners, scaled to CROP without smoothing. picture has mode L."""
    (x0, y0), (x1, y1), _, (x3, y3) = corners
    w, h = CROP
    return picture.transform(CROP, Image.Transform.AFFINE,
                             ((x1 - x0) / w, (x3 - x0) / h, x0, (y1 - y0) / w, (y3 - y0) / h, y0),
                             Image.Resampling.BILINEAR)


def word_crop(listed, rng):
    """One word as the detection cuts it out of a page, not quite exactly: uint8 [32,100], and its text."""
    text, size = word(rng), int(rng.integers(*SIZES))
    im = ink(listed[rng.integers(len(listed))], size, text)
    around = 16
    canvas = Image.new("L", (im.width + 2 * around, im.height + 2 * around))
    canvas.paste(im, (around, around))
    angle = rng.uniform(-TURN, TURN) if rng.random() < 0.5 else 0.0
    if angle:
        canvas = canvas.rotate(np.rad2deg(angle), Image.Resampling.BICUBIC)
    paper, pen = (c.mean() for c in colours(rng))
    cover = np.asarray(canvas, np.float32)[:, :, None] / 255
    grey = Image.fromarray(weather(np.repeat(paper + (pen - paper) * cover, 3, 2), rng)).convert("L")
    h = im.height + 2 * MARGIN
    slip = rng.normal(0.03, (0.1, 0.08, 0.1, 0.08))  # of the left, top, right and bottom edge, outwards, as detected ones
    slip = np.clip(slip, -0.13, (0.3, 0.2, 0.3, 0.2)) * h
    w, h = im.width + 2 * MARGIN + slip[0] + slip[2], h + slip[1] + slip[3]
    centre = np.array(canvas.size) / 2 + [(slip[2] - slip[0]) / 2, (slip[3] - slip[1]) / 2]
    corners = quad(centre, w, h, angle + np.clip(rng.normal(0, 0.015), -0.03, 0.03))
    return np.asarray(crop(grey, corners)), text.lower()
