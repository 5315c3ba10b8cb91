"""What the page's interface reports about models: events of their processes, and states in its own words."""

import http.client
import json

import pytest

from harness import REFERENCE, Server, until
from test_processes import write

pytestmark = pytest.mark.skipif(REFERENCE, reason="tests the page of this server")


def ask(server, method, path, body=None):
    """A request as the page sends it."""
    connection = http.client.HTTPConnection(server.ui_address.rstrip("/"), timeout=30)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), {"X-Nereid": "1"})
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def events(server, *kinds):
    return ask(server, "GET", "/api/history/events?kind=" + ",".join(kinds))["events"]


def infer(server, model, n):
    return server.post(f"/v2/models/{model}/infer",
                       {"inputs": [{"name": "INPUT0", "shape": [1], "datatype": "INT32", "data": [n]}]})


def test_crashes_and_restarts_of_processes_are_events(tmp_path):
    write(tmp_path / "models", "crashes", config="instance_group { count: 1 }\n")
    with Server(tmp_path / "models", tmp_path) as server:
        assert infer(server, "crashes", 1).status == 200
        assert events(server, "process_ended", "process_restarted") == []
        assert infer(server, "crashes", 1000).status != 200
        until(lambda: events(server, "process_restarted"), 60, "no process is restarted", server.log)
        again, ended = events(server, "process_ended", "process_restarted")
        assert (ended["kind"], ended["severity"], ended["model"]) == ("process_ended", "error", "crashes")
        assert "crashes_0" in ended["text"] and "status 3" in ended["text"]
        assert (again["kind"], again["severity"], again["version"]) == ("process_restarted", "info", "1")


def test_a_model_that_does_not_fit_the_budget_says_so(tmp_path):
    write(tmp_path / "models", "large", config="instance_group { count: 1 }\n")  # its process takes some 30 MB
    with Server(tmp_path / "models", tmp_path, "--model-memory-budget=1000000", wait="live") as server:
        until(lambda: infer(server, "large", 1).status != 200, 60, "the model fits", server.log)
        until(lambda: ask(server, "GET", "/api/models/large")["versions"][0]["condition"] == "over_budget", 60,
              "the page does not say that it does not fit", server.log)
        assert "does not fit into memory" in ask(server, "GET", "/api/models/large")["reason"]
