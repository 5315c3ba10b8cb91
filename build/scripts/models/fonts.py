"""Fonts for the digits: the available fonts, those used for training, and the rendering of a digit as a 28x28 picture.

The fonts are in Debian packages, which fonts.sh unpacks (without installation) under .cache/fonts. Two committed lists
name the fonts used: fonts-train.txt and fonts-test.txt. They have one font per line, tab-separated:

    lineage <TAB> family <TAB> style <TAB> Debian package <TAB> path

A lineage is a set of families with a common origin. Their names begin with the same word, or their digits are so
similar (LIKENESS) that one is derived from the other (Nimbus, FreeSans, TeX Gyre; Lato, Carlito). No lineage is in
both lists. `python fonts.py select` regenerates the lists. """

import pathlib
import random
import re
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

HERE = pathlib.Path(__file__).resolve().parent
FONTS = HERE.parents[2] / ".cache" / "fonts"
SIZE = 28  # width and height of the models' input, in pixels

LIKENESS = 0.95  # mean correlation of two fonts' digits, cropped and scaled to one size
PER_FAMILY, PER_TEST_LINEAGE = 4, 8  # maximum number of files
TEST_SHARE = 0.3  # share of the lineages
CORE = 20  # larger lineages (in families) are used for training: they have the most common designs
SEED = 3

# Fonts without printed digits: symbols, empty boxes, pictures of keys, inverted or outlined boxes, dot patterns.
SKIP = re.compile(
    r"^(Noto (?!(Sans|Serif|Mono|Sans Mono|Sans Display|Serif Display)$)|STIX(Int|Non|Size|Var)|D050000L$|Standard "
    r"Symbols"
    r"|Balker$|Marked Fool$|flatline$|progenisis$|Swift$|Winks$|Wargames$|It wasn't me$|Ferrite Core"
    r"|Linux Biolinum Keyboard|Linux Libertine Initials|Amiri Quran)")
SKIP_STYLE = re.compile(r"Inverted|Outline")
# Families whose names are joined with the name of the style.
JOINED = re.compile(r"^(IPA|OCR|STIX|Beteckna|OpenDyslexic)")
# Handwriting is used for training only, because the task is printed digits.
HANDWRITING = re.compile(r"^(Breip|Domestic Manners|Humor Sans|Junkyard|Penguin Attack|Purisa|El Abogado Loco|Ecolier)")


@dataclass(frozen=True)
class Font:
    lineage: str
    family: str
    style: str
    package: str
    path: str  # relative to the folder of unpacked packages

    def load(self, size: int) -> ImageFont.FreeTypeFont:
        return ImageFont.truetype(str(FONTS / self.path), size, layout_engine=ImageFont.Layout.BASIC)


def read_list(name: str) -> list[Font]:
    lines = (HERE / name).read_text().splitlines()
    return [Font(*line.split("\t")) for line in lines if line and not line.startswith("#")]


def missing(fonts: list[Font]) -> list[Font]:
    return [f for f in fonts if not (FONTS / f.path).is_file()]


# --- pictures ---------------------------------------------------------------------------------------------------


def glyph(font: Font, digit: int, size: int = 80) -> Image.Image:
    """The digit's coverage (mode L, 255 = ink), cropped to its ink. Raises ValueError if there is no ink."""
    f = font.load(size)
    left, top, right, bottom = f.getbbox(str(digit))
    im = Image.new("L", (max(right - left, 1) + 8, max(bottom - top, 1) + 8))
    ImageDraw.Draw(im).text((4 - left, 4 - top), str(digit), font=f, fill=255)
    box = im.getbbox()
    if box is None or box[2] - box[0] < 4 or box[3] - box[1] < 4:
        raise ValueError(f"{font.path}: no ink for digit {digit}")
    return im.crop(box)


def plain(g: Image.Image, height: float = 0.7) -> np.ndarray:
    """The digit dark on white, centred, with its aspect ratio: float32 [28,28] in 0..1. height is the ink's share of
    the frame."""
    scale = min(height * SIZE / g.height, 0.9 * SIZE / g.width)
    return 1 - _place(g, scale, scale, 0, 0, SIZE / 2, SIZE / 2)


def _place(g, sx, sy, degrees, shear, cx, cy) -> np.ndarray:
    """The coverage 0..1 of g, scaled, sheared, rotated and centred on (cx, cy) of the 28x28 frame."""
    over = 2  # drawn at twice the size, then averaged
    a = np.deg2rad(degrees)
    turn = np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
    m = turn @ np.array([[1, shear], [0, 1]]) @ np.diag([sx, sy]) * over
    inv = np.linalg.inv(m)
    c = np.array([g.width / 2, g.height / 2]) - inv @ np.array([cx, cy]) * over
    im = g.transform((SIZE * over, SIZE * over), Image.Transform.AFFINE,
                     (inv[0, 0], inv[0, 1], c[0], inv[1, 0], inv[1, 1], c[1]), Image.Resampling.BICUBIC)
    return np.asarray(im, np.float32).reshape(SIZE, over, SIZE, over).mean((1, 3)) / 255


def augmented(g: Image.Image, rng: np.random.Generator) -> np.ndarray:
    """One picture that resembles photos and screenshots: float32 [28,28] in 0..1.

    Varies thickness, size, aspect ratio, rotation, slant, position, blur, both levels (either may be the darker),
    shading and noise.
    """
    r = rng.random()
    if r < 0.15:
        g = _pad(g, 3).filter(ImageFilter.MaxFilter(5 if rng.random() < 0.4 else 3))
    elif r < 0.3:
        thin = g.filter(ImageFilter.MinFilter(3))
        if np.asarray(thin).sum() > 0.45 * np.asarray(g).sum():
            g = thin
    height = rng.uniform(0.42, 0.98) * SIZE
    sy = height / g.height
    sx = sy * np.exp(rng.uniform(np.log(0.6), np.log(1.6)))
    sx = min(sx, 0.96 * SIZE / g.width)
    w = g.width * sx
    free_x, free_y = max(SIZE - w, 0) / 2, max(SIZE - height, 0) / 2
    cx = SIZE / 2 + rng.uniform(-free_x, free_x) * rng.random()
    cy = SIZE / 2 + rng.uniform(-free_y, free_y) * rng.random()
    ink = _place(g, sx, sy, rng.uniform(-12, 12), rng.uniform(-0.2, 0.2), cx, cy)
    if rng.random() < 0.4:
        im = Image.fromarray(np.uint8(np.clip(ink * 255, 0, 255)))
        ink = np.asarray(im.filter(ImageFilter.GaussianBlur(rng.uniform(0.2, 1.0))), np.float32) / 255
    low, high = (0.0, 1.0) if rng.random() < 0.4 else (rng.uniform(0, 0.45), rng.uniform(0.65, 1))
    paper, pen = (high, low) if rng.random() < 0.5 else (low, high)
    x = paper + (pen - paper) * ink
    if rng.random() < 0.25:
        gx, gy = rng.uniform(-0.2, 0.2, 2)
        ramp = np.linspace(-0.5, 0.5, SIZE, dtype=np.float32)
        x = x + gx * ramp[None, :] + gy * ramp[:, None]
    if rng.random() < 0.5:
        x = x + rng.normal(0, rng.uniform(0, 0.1), x.shape)
    return np.clip(x, 0, 1).astype(np.float32)


def _pad(g: Image.Image, by: int) -> Image.Image:
    out = Image.new("L", (g.width + 2 * by, g.height + 2 * by))
    out.paste(g, (by, by))
    return out


def dataset(fonts: list[Font], each: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """`each` augmented pictures for every digit of every font, as uint8 [n,28,28], and their labels."""
    rng = np.random.default_rng(seed)
    xs, ys = [], []
    for f in fonts:
        for digit in range(10):
            g = glyph(f, digit)
            for _ in range(each):
                xs.append(np.uint8(augmented(g, rng) * 255 + 0.5))
                ys.append(digit)
    return np.stack(xs), np.array(ys)


def plain_set(fonts: list[Font]) -> tuple[np.ndarray, np.ndarray]:
    """One plain picture for every digit of every font, as uint8 [n,28,28], and their labels."""
    pairs = [(np.uint8(plain(glyph(f, d)) * 255 + 0.5), d) for f in fonts for d in range(10)]
    return np.stack([p for p, _ in pairs]), np.array([d for _, d in pairs])


# --- selection --------------------------------------------------------------------------------------------------


def installed() -> list[Font]:
    """Every usable font file of the unpacked packages. The lineage is still empty."""
    owner = {}
    for deb in sorted((FONTS / "deb").glob("*.deb")):
        listing = subprocess.run(["dpkg-deb", "-c", deb], capture_output=True, text=True, check=True).stdout
        for line in listing.splitlines():
            owner[line.split(None, 5)[5].removeprefix("./")] = deb.name.split("_")[0]
    out = []
    for p in sorted((FONTS / "usr").rglob("*")):
        if p.suffix.lower() not in (".ttf", ".otf", ".ttc") or p.is_symlink():
            continue
        path = str(p.relative_to(FONTS))
        try:
            family, style = (str(s).strip() for s in ImageFont.truetype(str(p), 20).getname())
            f = Font("", family, style, owner[path], path)
            if SKIP.search(family) or SKIP_STYLE.search(style):
                continue
            shapes(f)
        except (OSError, ValueError) as e:
            print(f"skipped {path}: {e}", file=sys.stderr)
            continue
        out.append(f)
    return out


def shapes(f: Font) -> np.ndarray:
    """The ten digits as unit vectors, cropped and scaled to one size, to detect copies of a design."""
    out = []
    for d in range(10):
        im = glyph(f, d, 72).resize((20, 28), Image.Resampling.BOX).filter(ImageFilter.GaussianBlur(0.7))
        v = np.asarray(im, np.float32).ravel()
        v = v - v.mean()
        out.append(v / np.linalg.norm(v))
    return np.stack(out)


def lineages(fonts: list[Font]) -> dict[str, list[Font]]:
    flat = np.stack([shapes(f).ravel() for f in fonts])
    like = flat @ flat.T / 10
    parent = {}

    def root(w: str) -> str:
        while parent.setdefault(w, w) != w:
            w = parent[w]
        return w

    words = [(JOINED.match(f.family) or re.match(r"\w+", f.family))[0] for f in fonts]
    for a, b in zip(*np.where(like > LIKENESS)):
        x, y = sorted((root(words[a]), root(words[b])))
        parent[y] = x
    groups = {}
    for f, w in zip(fonts, words):
        groups.setdefault(root(w), []).append(f)
    return groups


def pick(fonts: list[Font], n: int) -> list[Font]:
    """Selects n fonts: the four usual styles first, then evenly from the others."""
    usual = ("Regular", "Bold", "Italic", "Bold Italic", "Book", "Roman", "Medium", "Oblique", "Bold Oblique", "Light")
    rank = lambda f: usual.index(f.style) if f.style in usual else len(usual)
    return sorted(sorted(fonts, key=lambda f: (rank(f), f.path))[:n], key=lambda f: f.path)


def select():
    groups = lineages(installed())
    train, test = [], []
    order = sorted(groups)
    random.Random(SEED).shuffle(order)
    free = [g for g in order if len({f.family for f in groups[g]}) <= CORE
            and not any(HANDWRITING.search(f.family) for f in groups[g])]
    chosen = set(free[: round(TEST_SHARE * len(groups))])
    for g in sorted(groups):
        families = {}
        for f in groups[g]:
            families.setdefault(f.family, []).append(f)
        files = [f for fam in sorted(families) for f in pick(families[fam], PER_FAMILY)]
        if g in chosen:
            files = pick(files, PER_TEST_LINEAGE)
        (test if g in chosen else train).extend(
            Font(g, f.family, f.style, f.package, f.path) for f in files)
    for name, fonts in (("fonts-train.txt", train), ("fonts-test.txt", test)):
        head = f"# lineage, family, style, Debian package, path; written by fonts.py select\n"
        body = "".join("\t".join((f.lineage, f.family, f.style, f.package, f.path)) + "\n" for f in fonts)
        (HERE / name).write_text(head + body)
        print(name, len(fonts), "files", len({f.family for f in fonts}), "families",
              len({f.lineage for f in fonts}), "lineages", file=sys.stderr)


if __name__ == "__main__":
    if sys.argv[1:] != ["select"]:
        sys.exit("usage: fonts.py select")
    select()
