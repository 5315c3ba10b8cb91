"""From a picture file to what text_detection wants. The example's client uses it too."""

import io

import numpy as np
from PIL import Image, ImageOps

LONGEST = 1280  # pixels: a larger picture is made smaller
MOST_PIXELS = 50_000_000  # of a file, before it is decoded


def load(file):
    """The pixels of a picture file, float32 [1,h,w,3], and their scale.

    Both sides are multiples of 32: the right and the lower edge are repeated. Raises ValueError if it is no picture.
    """
    try:
        image = Image.open(io.BytesIO(file))
        if image.width * image.height > MOST_PIXELS:
            raise ValueError(f"{image.width} x {image.height} pixels are too many")
        image = ImageOps.exif_transpose(image)
        if image.mode != "RGB":  # transparent pixels become white
            image = image.convert("RGBA")
            image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
        image.load()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as e:  # SyntaxError: a broken PNG
        raise ValueError(f"the input is no picture ({e}); send the bytes of a PNG or JPEG file") from e
    scale = min(1, LONGEST / max(image.size))
    if scale < 1:
        image = image.resize([max(1, round(v * scale)) for v in image.size], Image.Resampling.BILINEAR)
    pixels = np.asarray(image, np.float32)
    height, width = pixels.shape[:2]
    return np.pad(pixels, ((0, -height % 32), (0, -width % 32), (0, 0)), mode="edge")[None], scale
