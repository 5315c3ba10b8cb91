"""The server under a service manager: states by sd_notify, the watchdog, a configuration file, and its reload."""

import os
import signal
import socket
import subprocess

import pytest

from harness import BINARY, REFERENCE, Server, until

pytestmark = pytest.mark.skipif(REFERENCE, reason="Triton knows no service manager")

ROOMY = 60  # seconds, on a loaded machine


@pytest.fixture
def manager(tmp_path, monkeypatch):
    """The socket of a service manager, whose address a server finds in the environment."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind("\0nereid-test-%d" % os.getpid())
        s.settimeout(ROOMY)
        monkeypatch.setenv("NOTIFY_SOCKET", "@nereid-test-%d" % os.getpid())
        monkeypatch.setenv("WATCHDOG_USEC", "400000")
        yield s


def next_state(manager):
    """The next state that is not of the watchdog."""
    while (state := manager.recv(4096).decode()) == "WATCHDOG=1":
        pass
    return state


def test_a_service_manager_is_told_each_state(manager, tmp_path):
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
        until(lambda: "restart the server for the new values of id" in server.log(), ROOMY, "no advice", server.log)
        file.write_text("log-verbos: 0\n")
        server.process.send_signal(signal.SIGHUP)
        assert next_state(manager).startswith("RELOADING=1") and next_state(manager) == "READY=1"
        until(lambda: "did you mean log-verbose?" in server.log(), ROOMY, "no fault", server.log)
        assert server.get("/v2/logging").json["log_verbose_level"] == 3
        assert server.stop() == 0
        assert next_state(manager) == "STOPPING=1\nEXTEND_TIMEOUT_USEC=25000000"


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
