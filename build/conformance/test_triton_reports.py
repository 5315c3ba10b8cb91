"""A backend library that is slow, and reports statistics, memory and an execution policy."""

import pytest

from harness import REFERENCE, Server
from test_triton_backends import infer, library, model

pytestmark = pytest.mark.skipif(REFERENCE, reason="needs a folder with the reference's own backends")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("triton")
    models, backends = folder / "models", folder / "backends"
    library("reports_test", backends / "reports_test")
    model(models, "slow", "reports_test")
    with Server(models, folder, f"--backend-directory={backends}") as s:
        yield s


def test_D076_the_server_counts_what_a_slow_library_executes(server):
    for _ in range(3):
        assert infer(server, "slow", [40.0]).json["outputs"][0]["data"] == [40]
    stats = server.get("/v2/models/slow/stats").json["model_stats"][0]
    assert (stats["inference_count"], stats["execution_count"]) == (3, 3)
    times = stats["inference_stats"]
    assert times["success"]["count"] == times["compute_infer"]["count"] == 3, "each request counts once"
    assert times["compute_infer"]["ns"] >= 3 * 40e6 and times["success"]["ns"] >= times["compute_infer"]["ns"]
    assert "a report failed" not in server.log()
