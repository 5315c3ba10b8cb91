"""The stream of requests for the page: each filter gets what it asks for, once, from the position where it begins."""

import json
import urllib.parse
import urllib.request

import pytest
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from harness import REFERENCE, Server
from test_requests import inputs, models, shown

pytestmark = pytest.mark.skipif(REFERENCE, reason="the page is ours")


def follow(server, *filters):
    """Opens a stream and yields its events."""
    query = urllib.parse.urlencode([("of", f) for f in filters])
    with urllib.request.urlopen(f"{server.ui}/api/requests/live?{query}", timeout=60) as stream:
        assert stream.headers["Content-Type"] == "text/event-stream"
        for line in stream:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


def gather(events, want):
    """Reads events until each filter has as many requests as wanted, and returns their IDs."""
    got, at = [[] for _ in want], [0 for _ in want]
    for e in events:
        assert e["next"] > at[e["of"]] and (e["missed"], e["dropped"]) == (0, 0)
        at[e["of"]] = e["next"]
        got[e["of"]] += [r["requestId"] for r in reversed(e["requests"])]
        if [len(g) + e["leftOut"] for g in got] >= want and all(len(g) >= n for g, n in zip(got, want)):
            return got, at
    raise AssertionError("the stream ended")


def test_each_filter_of_the_stream_gets_its_requests_once(tmp_path):
    models(tmp_path / "models", ["add_sub"])
    with Server(tmp_path / "models", tmp_path / "work") as server:
        start = shown(server)["next"]
        events = follow(server, f"show=refused&after={start}", f"show=&after={start}", f"model=absent&after={start}")
        with httpclient.InferenceServerClient(server.http) as http:
            for n in range(3):
                http.infer("add_sub", inputs(httpclient), request_id=f"ok-{n}")
                with pytest.raises(InferenceServerException):
                    http.infer("add_sub", [], request_id=f"refused-{n}")
        refused, all_, absent = gather(events, [3, 6, 0])[0]
        assert refused == [f"refused-{n}" for n in range(3)] and absent == []
        assert sorted(all_) == sorted(refused + [f"ok-{n}" for n in range(3)])
        events.close()
        # A page that comes back goes on where it was, also if the server was started again meanwhile.
        middle = shown(server, f"/api/requests?after={start}&limit=1000")["next"] - 2
        got, at = gather(follow(server, f"after={middle}"), [2])
        assert len(got[0]) == 2 and at == [middle + 2]
        got, _ = gather(follow(server, "after=1000000"), [6])
        assert len(got[0]) == 6


def test_a_stream_with_wrong_filters_is_refused(tmp_path):
    models(tmp_path / "models", ["add_sub"])
    with Server(tmp_path / "models", tmp_path / "work") as server:
        for path in ("", "?of=show%3Dnonsense", "?of=after%3Dx", "?of=%25", "?" + "&of=" * 33):
            reply = server.request("GET", "/api/requests/live" + path, address=server.ui_address)
            assert reply.status == 400 and json.loads(reply.body)["code"] == "invalid", path
