"""The commands and the configuration of docs/triton-backends.md about strategies, caches and agents, as they stand
there."""

import re
import subprocess

import pytest
import tritonclient.http as th

import models
from harness import REFERENCE, ROOT, Server
from test_cache import infer as ask
from test_triton_agents import answers
from test_triton_backends import SOURCES, library, model
from test_triton_caches import counts
from test_triton_strategies import BATCHED, batches, strategy

pytestmark = pytest.mark.skipif(REFERENCE, reason="needs a folder with the reference's own backends")


def section(title):
    """The lines of code of a section of the page."""
    text = (ROOT / "docs/triton-backends.md").read_text().split(f"## {title}\n")[1].split("\n## ")[0]
    return re.findall(r"^    (.*)$", text, re.M)


def command(lines, folder):
    """The options of the page's command, with its folder below another one."""
    (line,) = [text for text in lines if text.startswith("nereid serve ")]
    return re.sub(r"(-directory=)", rf"\1{folder}/", line).split()[2:]


def compiled(source, file):
    file.parent.mkdir(parents=True)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-I", SOURCES, SOURCES / source, "-o", file], check=True)


def test_C081_the_steps_of_the_page_use_a_cache(tmp_path):
    file, *lines = section("Cache libraries")
    compiled("own_cache.c", tmp_path / file)
    models.write_sums(tmp_path / "models", "sums", "max_batch_size: 8\nresponse_cache { enable: true }\n")
    needed = "--cache-config=mine,most=9"  # by the library that takes the place of the page's
    with Server(tmp_path / "models", tmp_path, *command(lines, tmp_path), needed) as server:
        with th.InferenceServerClient(server.http) as client:
            for _ in range(2):
                ask(client, th, value=1)
        assert counts(server) == (2, 1, 1)


def test_A081_the_steps_of_the_page_use_an_agent(tmp_path):
    file, *lines = section("Repository agents")
    compiled("own_agent.c", tmp_path / file)
    (config,) = [text.removeprefix("config.pbtxt: ") for text in lines if text.startswith("config.pbtxt: ")]
    models.write_identity(tmp_path / "models", "secret", f"max_batch_size: 8\n{config}\n")
    (tmp_path / "models/secret/1/model.onnx").rename(tmp_path / "models/secret/1/model.hidden")
    with Server(tmp_path / "models", tmp_path, *command(lines, tmp_path)) as server:
        assert answers(server, "secret")
        assert "own agent: LOAD" in server.log()


def test_C017_the_lines_of_the_page_use_a_strategy(tmp_path):
    (line,) = section("Batching strategies")
    assert '"/models/m/mine.so"' in line
    repository, backends = tmp_path / "models", tmp_path / "backends"
    library("identity_test", backends / "identity_test")
    model(repository, "m", "identity_test", BATCHED + line.replace("/models", str(repository)) + "\n")
    strategy("single", repository / "m/mine.so")
    model(repository, "beside", "identity_test", BATCHED)
    page = (ROOT / "docs/triton-backends.md").read_text()
    (name,) = re.findall(r"^2\. `(\S+)` in the folder of the version, of the model", page, re.M)
    strategy("single", repository / "beside" / name)
    with Server(repository, tmp_path, f"--backend-directory={backends}") as server:
        assert batches(server, "m", 4, 1) == [1] * 4
        assert batches(server, "beside", 4, 1) == [1] * 4
