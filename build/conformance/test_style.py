"""The example docs/examples/style: its model, its client, and the page on which one uploads a picture."""

import io
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request

import numpy as np
import onnxruntime
import pytest
from PIL import Image

from harness import REFERENCE, ROOT, Server, free_port, until

pytestmark = pytest.mark.skipif(REFERENCE, reason="the reference has no ONNX backend")

EXAMPLE = ROOT / "docs/examples/style"
MODEL = EXAMPLE / "models/fast_neural_style/1/model.onnx"
PICTURE = EXAMPLE / "picture.png"
LIMIT = 180  # seconds


@pytest.fixture(scope="module")
def style(tmp_path_factory):
    work = tmp_path_factory.mktemp("style")
    shutil.copytree(EXAMPLE / "models", work / "models")
    with Server(work / "models", work) as s:
        yield s


def redrawn():
    """What plain ONNX Runtime makes of the picture: pixels, and those of the picture."""
    pixels = np.asarray(Image.open(PICTURE).convert("RGB").resize((256, 256)), np.float32)
    session = onnxruntime.InferenceSession(str(MODEL))
    [out] = session.run(None, {"INPUT_0": pixels.transpose(2, 0, 1)[None]})
    return out[0].transpose(1, 2, 0), pixels


def is_redrawn(image):
    wanted, before = redrawn()
    got = np.asarray(image, np.float32)
    assert got.shape == (256, 256, 3)
    assert np.abs(got - wanted).max() <= 1, "it is not what ONNX Runtime makes of the picture"
    assert np.abs(wanted - before).mean() > 20, "the picture is as it was"


def test_the_client_redraws_a_picture(style, tmp_path):
    out = tmp_path / "out.png"
    subprocess.run([sys.executable, EXAMPLE / "infer.py", "--image", PICTURE, "--url", style.http, "--output", out],
                   check=True, timeout=LIMIT)
    is_redrawn(Image.open(out))


@pytest.fixture
def page(style):
    port = free_port()
    env = {**os.environ, "NEREID_URL": style.http, "PYTHONDONTWRITEBYTECODE": "1"}
    bridge = subprocess.Popen([sys.executable, "-m", "uvicorn", "--app-dir", EXAMPLE, "web:app", "--port", str(port)],
                              env=env)
    address = f"http://127.0.0.1:{port}"

    def answers():
        assert bridge.poll() is None, "the bridge has ended"
        try:
            return urllib.request.urlopen(address, timeout=LIMIT).status == 200
        except urllib.error.URLError:
            return False

    try:
        until(answers, LIMIT, "the bridge does not answer")
        yield address
    finally:
        bridge.terminate()
        bridge.wait(LIMIT)


def test_G029_a_page_redraws_the_picture_that_one_uploads(page):
    """The page has a field for a file, and sends it to an address that answers with the picture."""
    assert len((EXAMPLE / "web.py").read_text().splitlines()) <= 40
    html = urllib.request.urlopen(page, timeout=LIMIT).read().decode()
    assert '<input type="file"' in html
    address = f"{page}/" + re.search(r'fetch\("(\w+)", \{method: "POST"', html)[1]
    answer = urllib.request.urlopen(urllib.request.Request(address, PICTURE.read_bytes()), timeout=LIMIT)
    assert answer.headers["Content-Type"] == "image/png"
    is_redrawn(Image.open(io.BytesIO(answer.read())))
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(urllib.request.Request(address, b"no picture"), timeout=LIMIT)
    assert refused.value.code == 400 and b"this is no picture" in refused.value.read()
