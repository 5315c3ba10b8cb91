"""The reading machine of docs/examples/ocr, and its tutorial page, whose commands are read from the page."""

import json
import pathlib
import re
import shutil
import sys

import numpy as np
import pytest
import tritonclient.http as th
from tritonclient.utils import InferenceServerException

import tutorial
from harness import REFERENCE, ROOT, Server, until
from workers import Workers

EXAMPLE = ROOT / "docs/examples/ocr"
sys.path[:0] = [str(EXAMPLE), str(ROOT / "build/scripts/ocr")]
import client as example  # noqa: E402
from evaluate import BAR, Score  # noqa: E402

pytestmark = pytest.mark.skipif(REFERENCE, reason="the reference has no ONNX backend")

PAGES = {name: [(text, np.array(corners)) for text, corners in words]
         for name, words in json.loads((EXAMPLE / "pages/pages.json").read_text()).items()}
LARGEST = 4 << 20  # bytes of a file of the example
LIMIT = 60


def read_all(server, read):
    """The score of a way to read pictures, on all pages."""
    score = Score()
    with th.InferenceServerClient(server.http, network_timeout=LIMIT, connection_timeout=LIMIT) as client:
        for name, words in PAGES.items():
            score.add(*read(client, (EXAMPLE / "pages" / name).read_bytes()), words)
    return score


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    work = tmp_path_factory.mktemp("ocr")
    shutil.copytree(EXAMPLE / "models", work / "models")
    with Server(work / "models", work) as s:
        yield s


def test_files_are_small():
    large = [p for p in EXAMPLE.rglob("*") if p.is_file() and p.stat().st_size > LARGEST]
    assert not large and 10 <= len(PAGES) <= 20


@pytest.mark.parametrize("way", ["two_calls", "ocr", "ocr_bls"])
def test_pages_in_unseen_fonts_are_read(pipeline, way):
    read = example.two_calls if way == "two_calls" else lambda c, file: example.one_call(c, file, way)
    score = read_all(pipeline, read)
    assert min(score.f1, score.accuracy) >= BAR, f"{way}: {score}"


def test_the_interface_is_that_of_the_guide(pipeline):
    def shapes(model):
        with th.InferenceServerClient(pipeline.http) as client:
            about = client.get_model_metadata(model)
        return {t["name"]: (t["datatype"], t["shape"]) for t in about["inputs"] + about["outputs"]}

    assert shapes("text_detection") == {
        "input_images:0": ("FP32", [-1, -1, -1, 3]),
        "feature_fusion/Conv_7/Sigmoid:0": ("FP32", [-1, -1, -1, 1]),
        "feature_fusion/concat_3:0": ("FP32", [-1, -1, -1, 5]),
    }
    assert shapes("text_recognition") == {"input.1": ("FP32", [-1, 1, 32, 100]), "308": ("FP32", [-1, 26, 37])}
    with th.InferenceServerClient(pipeline.http) as client:
        answer = example.infer(client, "text_detection", **{"input_images:0": np.zeros((1, 480, 640, 3), np.float32)})
        assert answer.as_numpy("feature_fusion/Conv_7/Sigmoid:0").shape == (1, 120, 160, 1)
        assert answer.as_numpy("feature_fusion/concat_3:0").shape == (1, 120, 160, 5)


def png(size, colour):
    """A picture of one colour, as a file. Imported here, because other tests do not need Pillow."""
    import io

    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize("model", ["ocr", "ocr_bls"])
def test_a_picture_without_words(pipeline, model):
    with th.InferenceServerClient(pipeline.http) as client:
        for size in ((640, 480), (1, 1), (1500, 40)):
            texts, boxes = example.one_call(client, png(size, "white"), model)
            assert texts == [] and boxes.shape == (0, 4, 2)


@pytest.mark.parametrize("model", ["ocr", "ocr_bls"])
def test_what_is_no_picture_is_refused(pipeline, model):
    cut = png((640, 480), "white")[:60]
    with th.InferenceServerClient(pipeline.http) as client:
        for file in (b"no picture", cut):
            with pytest.raises(InferenceServerException, match="send the bytes of a PNG or JPEG file"):
                example.one_call(client, file, model)


def test_A052_a_better_version_comes_while_clients_read(tmp_path):
    """In poll mode, version 2 of the recognition replaces version 1. No request fails, and more words are right."""
    shutil.copytree(EXAMPLE / "models", tmp_path / "models")
    shutil.move(tmp_path / "models/text_recognition/2", tmp_path / "2")
    workers = Workers()
    with Server(tmp_path / "models", tmp_path, "--model-control-mode=poll", "--repository-poll-secs=1") as s:
        before = read_all(s, example.two_calls)
        names = list(PAGES)
        clients = [th.InferenceServerClient(s.http, network_timeout=LIMIT, connection_timeout=LIMIT) for _ in range(2)]

        def keep_reading(client, read):
            def step(n):
                read(client, (EXAMPLE / "pages" / names[n % len(names)]).read_bytes())
            return step

        workers.every(0, "two calls", keep_reading(clients[0], example.two_calls))
        workers.every(0, "ensemble", keep_reading(clients[1], example.one_call))
        try:
            until(lambda: min(workers.counts.values()) >= 2 or workers.faults, LIMIT, "the clients read nothing", s.log)
            shutil.move(tmp_path / "2", tmp_path / "models/text_recognition/2")
            until(lambda: s.get("/v2/models/text_recognition").json["versions"] == ["2"], LIMIT, "no version 2", s.log)
            so_far = dict(workers.counts)
            until(lambda: all(workers.counts[n] >= so_far[n] + 2 for n in so_far) or workers.faults, LIMIT,
                  "the clients read nothing with version 2", s.log)
        finally:
            workers.end()
            for client in clients:
                client.close()
        assert workers.faults == []
        after = read_all(s, example.two_calls)
    assert after.right > before.right and after.accuracy >= BAR, f"before: {before}; after: {after}"


def test_A064_the_tutorial_works_as_written(tmp_path):
    page = "deploying-a-pipeline.md"
    shown = re.findall(r"^    (.*)$", (ROOT / "docs/tutorials" / page).read_text(), re.M)
    assert " ".join(shown).split() == [word for name in ("01.jpg", "02.jpg") for word, _ in PAGES[name]]
    done = tutorial.run(page, tmp_path)
    assert not [command for command, printed in done if '"error"' in printed]
    reads = [(block, out) for block, out in done if "client.py" in block]
    assert len(reads) == 6
    for block, out in reads[1:]:  # the first one is version 1
        pages = re.findall(r"pages/(\d+\.jpg)", block)
        assert len(out.splitlines()) == len(pages)
        said, words = out.split(), [word.lower() for name in pages for word, _ in PAGES[name]]
        assert len(set(said) & set(words)) >= 0.8 * len(set(words)), f"{block}\n{out}\nwanted {words}"
