"""The server under a service manager: states by sd_notify, the watchdog, a configuration file, and its reload."""

import json
import os
import signal
import socket
import subprocess

import pytest

from harness import BINARY, REFERENCE, Server, until

pytestmark = pytest.mark.skipif(REFERENCE, reason="Triton knows no service manager")

LIMIT = 60  # seconds; the machine may be loaded


@pytest.fixture
def manager(tmp_path, monkeypatch):
    """The socket of a service manager, whose address a server finds in the environment."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind("\0nereid-test-%d" % os.getpid())
        s.settimeout(LIMIT)
        monkeypatch.setenv("NOTIFY_SOCKET", "@nereid-test-%d" % os.getpid())
        monkeypatch.setenv("WATCHDOG_USEC", "400000")
        yield s


def next_state(manager):
    """The next state that is not of the watchdog."""
    while (state := manager.recv(4096).decode()) == "WATCHDOG=1":
        pass
    return state


def test_a_service_manager_is_notified_of_each_state(manager, tmp_path):
    file = tmp_path / "nereid.yaml"
    file.write_text("log-verbose: 0\nid: first\nexit-timeout-secs: 20\n")
    (tmp_path / "models").mkdir()
    with Server(tmp_path / "models", tmp_path / "work", f"--config-file={file}") as server:
        assert next_state(manager) == "READY=1"
        assert server.get("/v2").json["name"] == "first"
        for _ in range(2):
            assert manager.recv(4096) == b"WATCHDOG=1"
        file.write_text("log-verbose: 3\nid: second\nexit-timeout-secs: 20\n")
        server.process.send_signal(signal.SIGHUP)
        assert next_state(manager).startswith("RELOADING=1\nMONOTONIC_USEC=")
        assert next_state(manager) == "READY=1"
        assert server.get("/v2/logging").json["log_verbose_level"] == 3
        assert server.get("/v2").json["name"] == "first"
        until(lambda: "restart the server for the new values of id" in server.log(), LIMIT, "no advice", server.log)
        file.write_text("log-verbos: 0\n")
        server.process.send_signal(signal.SIGHUP)
        assert next_state(manager).startswith("RELOADING=1") and next_state(manager) == "READY=1"
        until(lambda: "did you mean log-verbose?" in server.log(), LIMIT, "no fault", server.log)
        assert server.get("/v2/logging").json["log_verbose_level"] == 3
        assert server.stop() == 0
        assert next_state(manager) == "STOPPING=1\nEXTEND_TIMEOUT_USEC=25000000"


MODEL = """
import os, time
import numpy as np
import triton_python_backend_utils as pb_utils
FOLDER = "{folder}"
class TritonPythonModel:
    def execute(self, requests):
        if os.path.exists(FOLDER + "/hang"):
            open(FOLDER + "/hangs", "w").close()
        while os.path.exists(FOLDER + "/hang"):
            time.sleep(0.01)
        x = pb_utils.get_input_tensor_by_name(requests[0], "x").as_numpy()
        y = x + (2 if os.path.exists(FOLDER + "/wrong") else 1)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", y)])]
"""


def fed(manager):
    """Returns how often the watchdog was fed since the last read of the socket."""
    manager.setblocking(False)
    n = 0
    try:
        while True:
            n += manager.recv(4096) == b"WATCHDOG=1"
    except BlockingIOError:
        manager.settimeout(LIMIT)
        return n


def feeds(manager):
    """Waits until the watchdog is fed."""
    fed(manager)
    while manager.recv(4096) != b"WATCHDOG=1":
        pass


def watched(tmp_path):
    """The folder of a Python model with a golden request, which hangs or answers wrong when the test wants it."""
    folder = tmp_path / "models" / "watched"
    (folder / "1").mkdir(parents=True)
    (folder / "golden").mkdir()
    (folder / "1/model.py").write_text(MODEL.replace("{folder}", str(tmp_path)))
    (folder / "config.pbtxt").write_text("""backend: "python"
        input { name: "x" data_type: TYPE_FP32 dims: 2 } output { name: "y" data_type: TYPE_FP32 dims: 2 }""")
    (folder / "golden/a.json").write_text(json.dumps({"data": [{"x": [1, 2]}], "validation_data": [{"y": [2, 3]}]}))
    return folder


def test_the_watchdog_is_fed_when_a_golden_request_was_answered(manager, tmp_path):
    watched(tmp_path)
    with Server(tmp_path / "models", tmp_path / "work", "--watchdog-model=watched") as server:
        feeds(manager)
        until(lambda: server.get("/v2/models/watched/stats").json["model_stats"][0]["inference_count"] > 2, LIMIT,
              "the model is not asked", server.log)
        (tmp_path / "hang").touch()
        until((tmp_path / "hangs").exists, LIMIT, "the model does not hang", server.log)
        fed(manager)
        until(lambda: "golden request of model 'watched'" in server.log(), LIMIT, "no warning", server.log)
        assert server.get("/v2/health/live").status == 200
        assert fed(manager) == 0, server.log()
        (tmp_path / "wrong").touch()
        (tmp_path / "hang").unlink()
        until(lambda: "element 0 is 3, want 2" in server.log(), LIMIT, "no difference is seen", server.log)
        assert fed(manager) == 0, server.log()
        (tmp_path / "wrong").unlink()
        feeds(manager)


def test_the_watchdog_is_fed_while_its_model_is_not_in_service(manager, tmp_path):
    """A restart would not help, and could go on forever."""
    watched(tmp_path)
    (tmp_path / "models/watched/golden/a.json").rename(tmp_path / "a.json")
    with Server(tmp_path / "models", tmp_path / "work", "--model-control-mode=explicit", "--load-model=watched",
                "--watchdog-model=watched") as server:
        feeds(manager)
        assert "the watchdog is fed without an inference" in server.log() and "no golden request" in server.log()
        (tmp_path / "a.json").rename(tmp_path / "models/watched/golden/a.json")
        assert server.post("/v2/repository/models/watched/unload", {}).status == 200
        until(lambda: "'watched' has no available versions" in server.log(), LIMIT, "no reason", server.log)
        feeds(manager)
        assert server.post("/v2/repository/models/watched/load", {}).status == 200
        until(lambda: server.get("/v2/models/watched/stats").json["model_stats"][0]["inference_count"] > 0, LIMIT,
              "the model is not asked", server.log)
        feeds(manager)


def test_config_show_says_where_values_come_from(tmp_path):
    file = tmp_path / "nereid.yaml"
    file.write_text("id: x\nhttp-port: 9000\n")
    run = subprocess.run([BINARY, "config", "show", f"--config-file={file}", "--http-port=9001"], text=True,
                         capture_output=True, env={**os.environ, "NEREID_DATA_DIR": "/tmp/d"})
    lines = [" ".join(line.split()) for line in run.stdout.splitlines()]
    assert run.returncode == 0 and f"id: x # {file}:1" in lines, run
    assert "http-port: 9001 # the command line" in lines and "data-dir: /tmp/d # NEREID_DATA_DIR" in lines, lines
    file.write_text("http-prt: 9000\n")
    run = subprocess.run([BINARY, "config", "show", f"--config-file={file}"], text=True, capture_output=True)
    assert run.returncode == 1 and "unrecognized option 'http-prt'; did you mean http-port?" in run.stderr
