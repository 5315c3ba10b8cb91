"""Draws the program's icon as PNG, for uses that do not accept SVG. The drawing is that of frontend/public/icon.svg.

    .cache/venv/bin/python build/scripts/icon.py

writes build/appicon.png (1024 pixels, for packages) and app/desktop/icon.png (256, for the window). Needs Pillow.
"""

import math
import pathlib

from PIL import Image, ImageDraw

ROOT = pathlib.Path(__file__).resolve().parents[2]
FINE = 4  # drawn larger by this factor and scaled down, for smooth edges


def cubic(a, b, c, d, steps=64):
    """Points of a Bezier curve."""
    for i in range(steps + 1):
        t = i / steps
        w = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
        yield tuple(sum(k * p[axis] for k, p in zip(w, (a, b, c, d))) for axis in (0, 1))


def wave():
    """The wave below the N: one arch up and one arch down, point-symmetric."""
    x, y = 5.0, 27.0
    for up in (-1, 1):
        yield from cubic((x, y), (x + 3.7, y + up * 2.5), (x + 7.3, y + up * 2.5), (x + 11, y))
        x += 11


def draw(pixels):
    scale = pixels * FINE / 32  # the drawing is 32 units wide
    picture = Image.new("RGBA", (pixels * FINE,) * 2)
    pen = ImageDraw.Draw(picture)
    pen.rounded_rectangle((0, 0, pixels * FINE - 1, pixels * FINE - 1), 7 * scale, fill="#0b6e75")

    def stroke(points, width, colour):
        points = [(x * scale, y * scale) for x, y in points]
        r = width * scale / 2
        for (x0, y0), (x1, y1) in zip(points, points[1:]):
            length = math.hypot(x1 - x0, y1 - y0) or 1
            nx, ny = (y1 - y0) / length * r, (x0 - x1) / length * r
            pen.polygon([(x0 + nx, y0 + ny), (x1 + nx, y1 + ny), (x1 - nx, y1 - ny), (x0 - nx, y0 - ny)], fill=colour)
        for x, y in points:
            pen.ellipse((x - r, y - r, x + r, y + r), fill=colour)

    stroke([(8, 23), (8, 9), (24, 23), (24, 9)], 3.2, "#ffffff")
    stroke(list(wave()), 1.8, "#7fe0dc")
    return picture.resize((pixels, pixels), Image.Resampling.LANCZOS)


if __name__ == "__main__":
    for path, pixels in (("build/appicon.png", 1024), ("app/desktop/icon.png", 256)):
        draw(pixels).save(ROOT / path, optimize=True)
        print(path)
