"""Idle keep-alive connections when the server stops."""

import http.client
import signal

from harness import Server, deviates, until
import models


def test_DV94_idle_connections_at_the_exit(tmp_path):
    """Triton serves an idle connection until its client closes it, or --exit-timeout-secs is over."""
    models.write_identity(tmp_path / "models", "m")
    with Server(tmp_path / "models", tmp_path, "--exit-timeout-secs=8") as s:
        conn = http.client.HTTPConnection(s.http, timeout=60)
        conn.request("GET", "/v2/health/live")
        assert conn.getresponse().read() == b""
        s.process.send_signal(signal.SIGINT)
        assert conn.sock is None or conn.sock.recv(1) == b"", "the server leaves the connection open"
        until(lambda: s.process.poll() is not None, 60, "the server does not exit", s.log)
        waited = "Timeout 7" in s.log()
        assert waited == deviates(triton=True, ours=False), s.log()
        assert s.process.returncode == deviates(triton=1, ours=0)
