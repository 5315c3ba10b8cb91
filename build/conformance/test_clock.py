"""A clock that is set by years while the server runs, as on a box that has none and asks the network for the time."""

import platform
import subprocess
import threading
import time

import pytest

from harness import BINARY, REFERENCE, ROOT, Server, copy_tree, until

pytestmark = [
    pytest.mark.skipif(REFERENCE, reason="the history is not Triton's"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="build/conformance/clock.c is for x86-64"),
]
BOTH = {"inputs": [{"name": name, "datatype": "FP32", "shape": [1, 16], "data": [1.0] * 16}
                   for name in ("INPUT0", "INPUT1")]}


def at(year):
    return time.mktime((year, 6, 1, 0, 0, 0, 0, 0, 0))


class Clock:
    """The clock of programs that begin with command."""

    def __init__(self, folder):
        self.file, program = folder / "offset", folder / "clock"
        subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-o", program, ROOT / "build/conformance/clock.c"], check=True)
        self.set(time.time())
        self.command = [program, self.file]

    def set(self, seconds):
        self.offset = int(seconds - time.time())
        self.file.write_text(f"{self.offset:<20}")

    def now(self):
        return time.time() + self.offset


class Client:
    """Sends one request after another and counts the answers."""

    def __init__(self, server):
        self.server, self.done, self.answers = server, threading.Event(), 0
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.done.is_set():
            got = self.server.post("/v2/models/add_sub/infer", BOTH)
            assert got.status == 200 and got.json["outputs"][0]["data"][0] == 2, got
            self.answers += 1

    def more(self, n=20):
        wanted = self.answers + n
        until(lambda: self.answers >= wanted or not self.thread.is_alive(), 60, "no answers")
        assert self.thread.is_alive(), "a request failed"

    def stop(self):
        self.done.set()
        self.thread.join()


def requests(server, clock, since):
    """How many requests the history of the page has since then."""
    path = f"/api/history?model=add_sub&from={int(since * 1000)}&to={int((clock.now() + 5) * 1000)}&step=1000"
    got = server.request("GET", path, address=server.ui_address)
    assert got.status == 200, got
    return sum(sum(s["requests"]) for s in got.json["series"])


def listed(server, **filters):
    """When the requests of the page's list were received, in seconds since 1970, the newest first."""
    query = "&".join(f"{name}={int(value)}" for name, value in filters.items())
    got = server.request("GET", "/api/requests?" + query, address=server.ui_address)
    assert got.status == 200, got
    return [r["tMs"] / 1000 for r in got.json["requests"]]


def test_F8_the_clock_may_be_set_by_years(tmp_path):
    copy_tree(ROOT / "models-sample/add_sub", tmp_path / "models/add_sub")
    clock = Clock(tmp_path)
    server = Server(tmp_path / "models", tmp_path, "--edge", command=[*clock.command, BINARY, "serve"])
    began = clock.now()
    with server:
        for _ in range(7):
            assert server.post("/v2/models/add_sub/infer", BOTH).status == 200
    clock.set(600)  # ten minutes after the beginning of 1970, as without a clock
    with server:
        client = Client(server)
        try:
            client.more()
            assert listed(server, limit=1)[0] < clock.now() + 5  # newer than those of the first run
            for to in (at(2030), time.time(), at(2060), at(2015), time.time()):
                clock.set(to)
                client.more()
                client.more()
                assert to - 5 < listed(server, limit=1)[0] < clock.now() + 5  # the newest is first by every clock
                since = listed(server, limit=1000, **{"from": 1000 * (to - 5), "to": 1000 * (clock.now() + 5)})
                assert len(since) >= 20 and all(to - 5 <= t < clock.now() + 5 for t in since)
                assert server.get("/v2/health/ready").status == 200
        finally:
            client.stop()
        # What was recorded with the right date is there: before the start without a clock, and after the last change.
        until(lambda: requests(server, clock, began) >= 7 + 40, 60, "the history lacks requests")
        assert requests(server, clock, began) <= 7 + client.answers
