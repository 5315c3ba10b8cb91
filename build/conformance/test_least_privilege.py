"""docs/secure-deployment.md: the server runs as an unprivileged user and can only write to its data folder."""

import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile

import numpy as np
import pytest
import tritonclient.http as th

import models
from harness import BINARY, REFERENCE, ROOT, Server, until

pytestmark = pytest.mark.skipif(REFERENCE, reason="tests the guide of this server")
NOBODY = 65534


@pytest.fixture
def folder():
    """A folder that other users can access."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="nereid-least-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def test_B081_H13_an_unprivileged_user_and_a_read_only_repository(folder):
    if os.getuid() == 0 and not shutil.which("setpriv"):
        pytest.skip("no setpriv on this machine")
    repo, work, program = folder / "models", folder / "work", folder / "nereid"
    models.write_sums(repo)
    shutil.copy2(BINARY, program)
    program.chmod(0o555)
    for path in [repo, *repo.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    (work / "data").mkdir(parents=True)
    drop = []
    if os.getuid() == 0:
        os.chown(work / "data", NOBODY, NOBODY)
        drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs",
                "--bounding-set=-all", "env", f"HOME={work / 'data'}"]
    try:
        with Server(repo, work, command=[*drop, str(program), "serve"]) as s, th.InferenceServerClient(s.http) as c:
            status = pathlib.Path(f"/proc/{s.process.pid}/status").read_text()
            user = re.search(r"^Uid:\s+(\d+)", status, re.M)[1]
            assert int(user) == (NOBODY if drop else os.getuid()) and re.search(r"^CapEff:\s+0+$", status, re.M)
            a = np.arange(16, dtype=np.int32).reshape(1, 16)
            inputs = [th.InferInput(n, a.shape, "INT32") for n in ("INPUT0", "INPUT1")]
            for i in inputs:
                i.set_data_from_numpy(a)
            assert c.infer("sums", inputs).as_numpy("OUTPUT0").tolist() == (a + a).tolist()
            left = [p for p in (work / "data").rglob("*")]
            assert left, "the server wrote nothing, so the check is meaningless"
            for p in [work / "data", *left]:
                private = stat.S_IMODE(p.lstat().st_mode) & 0o077 == 0
                assert private or p == work / "data" and not p.stat().st_mode & 0o022, f"{p} is open to other users"
    finally:
        for path in [repo, *repo.rglob("*")]:
            if path.is_dir():
                path.chmod(0o755)


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="needs two users")
def test_B7_an_unreadable_folder_only_affects_its_model(folder):
    repo, work, program = folder / "models", folder / "work", folder / "nereid"
    models.write_sums(repo)
    shutil.copy2(BINARY, program)
    program.chmod(0o555)
    for name, closed in {"folder": "", "version": "1", "file": "config.pbtxt"}.items():
        shutil.copytree(repo / "sums", repo / name)
        config = repo / name / "config.pbtxt"
        config.write_text(config.read_text().replace('name: "sums"', ""))
        (repo / name / closed).chmod(0)
    (work / "data").mkdir(parents=True)
    os.chown(work / "data", NOBODY, NOBODY)
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs",
            "--bounding-set=-all", "env", f"HOME={work / 'data'}"]
    try:
        with Server(repo, work, "--model-control-mode=poll", "--repository-poll-secs=1", "--strict-readiness=false",
                    command=[*drop, str(program), "serve"]) as s:
            index = {row["name"]: row for row in s.post("/v2/repository/index").json}
            for name in "folder", "version", "file":
                row = index[name]
                assert row["state"] == "UNAVAILABLE" and "permission denied" in row["reason"], row
            assert s.state("sums") == "READY"
            shutil.copytree(repo / "sums", repo / "late")
            config = repo / "late/config.pbtxt"
            config.write_text(config.read_text().replace('name: "sums"', ""))
            until(lambda: s.state("late") == "READY", 60, "polling stopped", s.log)
            (repo / "folder").chmod(0o755)
            until(lambda: s.state("folder") == "READY", 60, "the folder is readable now, but its model is not served",
                  s.log)
    finally:
        for name in "folder", "version/1", "file":
            (repo / name).chmod(0o755)


def test_B081_the_guide_only_names_existing_options():
    text = (ROOT / "docs/secure-deployment.md").read_text()
    known = subprocess.run([BINARY, "serve", "--help"], capture_output=True, text=True, timeout=60)
    options = set(re.findall(r"--([a-z][a-z0-9-]*)", known.stdout + known.stderr))
    named = set(re.findall(r"`?--([a-z][a-z0-9-]*)", text)) - {
        # options of other programs
        "system", "home-dir", "create-home", "reuid", "regid", "clear-groups", "no-new-privs", "cap-drop"}
    assert len(named) > 10 and named <= options, named - options


BOMB = """    def execute(self, requests):
        import os, time
        children = 0
        try:
            while children < 500:
                if os.fork() == 0:
                    time.sleep(3600)
                    os._exit(0)
                children += 1
        except BlockingIOError:  # EAGAIN
            pass
        return [pb.InferenceResponse([pb.Tensor("OUTPUT0", np.array([children], np.int32))]) for _ in requests]
"""


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="needs two users")
def test_D5_a_fork_bomb_ends_at_the_limit_of_processes(folder):
    """Others are served meanwhile, and nothing of it is left when the model is unloaded."""
    repo, work, program = folder / "models", folder / "work", folder / "nereid"
    models.write_sums(repo)
    one = lambda kind, name: models.tensors(kind, [(name, "INT32", [1])])
    models.write(repo / "bomb/config.pbtxt", 'backend: "python"\n' + one("input", "INPUT0") + one("output", "OUTPUT0")
                 + 'parameters { key: "PROCESSES_LIMIT" value { string_value: "150" } }\n')
    models.write(repo / "bomb/1/model.py", models.PYTHON_HEAD + BOMB)
    shutil.copy2(BINARY, program)
    program.chmod(0o555)
    (work / "data").mkdir(parents=True)
    os.chown(work / "data", NOBODY, NOBODY)
    read = "-all,+dac_read_search"  # the interpreter may lie in a folder of root
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", f"--bounding-set={read}",
            f"--inh-caps={read}", f"--ambient-caps={read}", "env", f"HOME={work / 'data'}"]

    def python_processes():
        """Those of the user that models have."""
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if process.stat().st_uid == NOBODY and b"nereid_worker" in (process / "cmdline").read_bytes():
                    found.append(process.name)
            except (FileNotFoundError, ProcessLookupError):
                pass  # it has ended meanwhile
        return found

    with Server(repo, work, "--model-control-mode=explicit", "--load-model=*",
                command=[*drop, str(program), "serve"]) as s:
        tensor = lambda name, shape, data: {"name": name, "datatype": "INT32", "shape": shape, "data": data}
        answer = s.post("/v2/models/bomb/infer", {"inputs": [tensor("INPUT0", [1], [1])]})
        assert len(python_processes()) > 1
        assert answer.status == 200 and 0 < answer.json["outputs"][0]["data"][0] < 150, answer
        both = {"inputs": [tensor(n, [1, 16], [1] * 16) for n in ("INPUT0", "INPUT1")]}
        assert s.post("/v2/models/sums/infer", both).json["outputs"][0]["data"] == [2] * 16
        assert s.post("/v2/repository/models/bomb/unload").status == 200
        until(lambda: not python_processes(), 60, "processes are left", lambda: str(python_processes()))
