"""Repository agents with Triton's C API: libtritonrepoagent_own.so is compiled from own_agent.c."""

import re
import shutil
import subprocess

import numpy as np
import pytest
import tritonclient.http as th

import models
from harness import REFERENCE, ROOT, Server, until

pytestmark = pytest.mark.skipif(REFERENCE, reason="the reference has no such agent")
SOURCES = ROOT / "build/conformance/triton"


@pytest.fixture(scope="module")
def agents(tmp_path_factory):
    """A directory with the agent."""
    folder = tmp_path_factory.mktemp("agents")
    (folder / "own").mkdir()
    subprocess.run(["cc", "-O1", "-Wall", "-shared", "-fPIC", "-I", SOURCES, SOURCES / "own_agent.c",
                    "-o", folder / "own/libtritonrepoagent_own.so"], check=True)
    return folder


def write(repo, name, config="", **parameters):
    """Writes a model whose file only the agent can read."""
    listed = " ".join(f'parameters {{ key: "{k}" value: "{v}" }}' for k, v in parameters.items())
    models.write_identity(
        repo, name, f'max_batch_size: 8\nmodel_repository_agents {{ agents {{ name: "own" {listed} }} }}\n' + config)
    file = repo / name / "1/model.onnx"
    (repo / name / "1/model.hidden").write_bytes(bytes(b ^ 42 for b in file.read_bytes()))
    file.unlink()


def start(tmp_path, agents):
    return Server(tmp_path / "models", tmp_path, f"--repoagent-directory={agents}", "--model-control-mode=explicit")


def answers(server, name):
    with th.InferenceServerClient(server.http) as h:
        i = th.InferInput("INPUT0", (1, 16), "FP32")
        i.set_data_from_numpy(np.arange(16, dtype=np.float32).reshape(1, 16))
        return h.infer(name, [i]).as_numpy("OUTPUT0")[0, 15] == 15


def said(server):
    return re.findall(r"own agent: (\w[\w ]*\w)", server.log())


def test_A081_D079_H074_an_agent_replaces_the_files_of_a_model(tmp_path, agents):
    write(tmp_path / "models", "secret", key=42)
    with start(tmp_path, agents) as server:
        assert server.post("/v2/repository/models/secret/load", {}).status == 200
        assert answers(server, "secret")
        assert server.post("/v2/repository/models/secret/unload", {}).status == 200
        until(lambda: "own agent: model ends" in server.log(), 60, "the model does not end", server.log)
        assert "own/libtritonrepoagent_own.so" in server.log(), "the table of agents"
    assert said(server) == ["begins", "model begins", "LOAD", "reads max_batch_size 8", "LOAD_COMPLETE", "UNLOAD",
                            "UNLOAD_COMPLETE", "model ends", "ends"]


def test_A081_an_agent_refuses_a_model(tmp_path, agents):
    write(tmp_path / "models", "refused", refuse="it is forbidden")
    with start(tmp_path, agents) as server:
        reply = server.post("/v2/repository/models/refused/load", {})
        assert reply.status == 500 and "refuses model 'refused': it is forbidden" in reply.json["error"]
    assert said(server) == ["begins", "model begins", "LOAD", "model ends", "ends"]


def test_A081_a_load_that_fails_after_the_agent_ends_with_LOAD_FAIL(tmp_path, agents):
    write(tmp_path / "models", "garbage", key=7)
    with start(tmp_path, agents) as server:
        assert server.post("/v2/repository/models/garbage/load", {}).status == 400
    assert said(server) == ["begins", "model begins", "LOAD", "reads max_batch_size 8", "LOAD_FAIL", "model ends",
                            "ends"]


def test_A081_an_agent_that_crashes_fails_only_its_loads(tmp_path, agents):
    write(tmp_path / "models", "crash", crash=1)
    write(tmp_path / "models", "secret", key=42)
    with start(tmp_path, agents) as server:
        reply = server.post("/v2/repository/models/crash/load", {})
        assert reply.status == 500 and "its process has ended" in reply.json["error"]
        assert server.post("/v2/repository/models/secret/load", {}).status == 200
        assert answers(server, "secret")


def test_A081_A082_a_library_named_checksum_is_left_out(tmp_path, agents):
    shutil.copytree(agents, tmp_path / "agents")
    (tmp_path / "agents/checksum").mkdir()
    shutil.copy(agents / "own/libtritonrepoagent_own.so", tmp_path / "agents/checksum/libtritonrepoagent_checksum.so")
    models.write_identity(
        tmp_path / "models", "summed", 'max_batch_size: 8\nmodel_repository_agents { agents { name: "checksum" } }\n')
    models.write_identity(
        tmp_path / "models", "other", 'max_batch_size: 8\nmodel_repository_agents { agents { name: "nobody" } }\n')
    with start(tmp_path, tmp_path / "agents") as server:
        assert server.post("/v2/repository/models/summed/load", {}).status == 200
        refused = server.post("/v2/repository/models/other/load", {}).json["error"]
        assert refused.count("checksum") == 1 and "own" in refused, refused
        log = server.log()
    table = re.findall(r"^\| checksum +\| (.*?) +\|$", log, re.M)
    assert table == ["<built in>"], log
    assert re.search("checksum/libtritonrepoagent_checksum.so.* is not used", log), log
    assert "own agent" not in log
