"""A server that is killed at each call that changes a file, while it imports a model or saves a configuration."""

import contextlib
import http.client
import os
import re
import shutil
import signal
import subprocess
import threading

import pytest

import models
from harness import REFERENCE, Server
from test_imports import Console, hidden
from test_soak import FULL

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800),
              pytest.mark.skipif(REFERENCE, reason="the reference has no GUI"),
              pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")]

CALLS = ("write,pwrite64,fsync,fdatasync,ftruncate,fchmod,mkdir,mkdirat,link,linkat,rename,renameat,renameat2,"
         "unlink,unlinkat")
# Each call waits before it is made, so that the server is killed before it makes the one that is chosen.
WAIT_US = 10_000
# A call with a path in it: of a file, not of a socket or a pipe. The log of the server is no matter.
OF_A_FILE = re.compile(r'^(?!.*resumed)(?!.*server\.log).*[<"]/(?!dev/)')


def killed_at(server, number, action):
    """Kills the server at the call of this number while action runs. Returns the line of the call; None: there are not
    as many."""
    trace = subprocess.Popen(["strace", "-f", "-y", "-s", "300", "-e", f"trace={CALLS}", "-e",
                              f"inject={CALLS}:delay_enter={WAIT_US}", "-p", str(server.process.pid)],
                             stderr=subprocess.PIPE, text=True)
    assert "attached" in trace.stderr.readline()

    failed = []

    def act():
        try:
            with contextlib.suppress(OSError, http.client.HTTPException):
                action()
        except Exception as e:
            failed.append(e)
        finally:
            trace.send_signal(signal.SIGINT)

    acting = threading.Thread(target=act)
    acting.start()
    calls, last = 0, None
    for line in trace.stderr:
        if last is None and OF_A_FILE.match(line):
            calls += 1
            if calls == number:
                os.killpg(server.process.pid, signal.SIGKILL)
                trace.kill()  # it may wait for ever for a process that died during the delay
                last = line.strip()
    acting.join()
    trace.wait()
    if failed:
        raise failed[0]
    return last


def numbers():
    """The numbers of calls to try: all, or in the short run some of them."""
    step = 1 if FULL else 5
    number = 1
    while True:
        yield number
        number += step


def claimed(gui):
    """The texts that the revisions of the model say were in its file."""
    revisions = gui.ok("GET", "/api/models/m/revisions")["revisions"]
    return {gui.ok("GET", f"/api/models/m/revisions/{r['id']}")["after"] for r in revisions if r["outcome"] != "failed"}


@pytest.fixture
def killed(tmp_path):
    """Runs a server and kills it at one call after another. Yields a function: killed(action, check)."""
    repo = tmp_path / "models"
    models.write_identity(repo, "m")
    server = Server(repo, tmp_path, "--model-control-mode=explicit", "--load-model=m")

    def run(action, check):
        """action(gui, n) makes change n and returns when it is acknowledged. check(gui, n, acknowledged) is called
        after the next start."""
        server.start()
        points = []
        for number in numbers():
            done = []
            at = killed_at(server, number, lambda n=number: (action(Console(server), n), done.append(n)))
            if at is None:
                break
            points.append(at)
            server.process.wait()
            server.start()
            assert hidden(repo) == [], at
            check(Console(server), number, bool(done), at)
        assert len(points) >= 3, points
        print(f"killed at {len(points)} calls")

    yield repo, run
    server.kill()


def test_B23_killed_at_any_write_of_an_import(killed, tmp_path):
    repo, run = killed
    config, onnx = (repo / "m/config.pbtxt").read_text() + "# version %d\n", (repo / "m/1/model.onnx").read_bytes()
    (repo / "m/config.pbtxt").write_text(config % 0)
    served = [0]

    def change(gui, n):
        staged = gui.stage({"m/config.pbtxt": (config % n).encode(), "m/1/model.onnx": onnx})
        path = f"/api/imports/{staged['id']}"
        gui.ok("POST", path + "/commit", {"replace": True})
        while gui.ok("GET", path)["state"] == "committing":
            pass

    def check(gui, n, acknowledged, at):
        now = gui.ok("GET", "/api/models/m")
        expected = [config % n] if acknowledged else [config % served[-1], config % n]
        assert now["state"] == "READY" and now["configText"] in expected, at
        if now["configText"] == config % n:
            served.append(n)
        texts = [(p / "config.pbtxt").read_text() for p in (tmp_path / "data/trash").glob("*/model")]
        lost = [i for i in served[:-1] if texts.count(config % i) != 1]
        assert not lost, f"{at}: models that were replaced are not in the trash: {lost}"
        assert not claimed(gui) - {config % i for i in served}, at

    run(change, check)


def test_B23_killed_at_any_write_of_a_saved_configuration(killed):
    repo, run = killed
    config = (repo / "m/config.pbtxt").read_text() + "# version %d\n"
    (repo / "m/config.pbtxt").write_text(config % 0)
    served = [0]

    def change(gui, n):
        base = gui.ok("GET", "/api/models/m")["revision"]
        gui.ok("PUT", "/api/models/m/config", {"text": config % n, "baseRevision": base})

    def check(gui, n, acknowledged, at):
        now = gui.ok("GET", "/api/models/m")
        text = (repo / "m/config.pbtxt").read_text()
        assert text in ([config % n] if acknowledged else [config % served[-1], config % n]), at
        assert now["state"] == "READY" and now["configText"] == text, at
        if text == config % n:
            served.append(n)
        texts = claimed(gui)
        assert not acknowledged or text in texts, at
        assert not texts - {config % i for i in served}, at

    run(change, check)


def test_B23_killed_at_any_write_of_a_configuration_that_does_not_load(killed):
    """It was to be saved only if it loads: whatever the moment, the next start serves the configuration before it."""
    repo, run = killed
    good = (repo / "m/config.pbtxt").read_text()
    fails = good + 'default_model_filename: "absent.onnx" # version %d\n'

    def change(gui, n):
        base = gui.ok("GET", "/api/models/m")["revision"]
        request = {"text": fails % n, "baseRevision": base, "onlyIfLoads": True}
        assert gui.ok("PUT", "/api/models/m/config", request)["outcome"] == "undone"

    def check(gui, n, acknowledged, at):
        now = gui.ok("GET", "/api/models/m")
        assert now["state"] == "READY" and now["configText"] == good, at
        assert claimed(gui) <= {good}, at

    run(change, check)
