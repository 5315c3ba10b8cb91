"""An input that shares batches with inputs that crash their process is served."""

import pytest

from harness import REFERENCE, Server
from test_processes import notes, pool, write  # noqa: F401: notes and pool are fixtures

pytestmark = pytest.mark.skipif(REFERENCE, reason="tests this server's processes")

PAIRS = """max_batch_size: 2
instance_group { count: 1 kind: KIND_CPU }
dynamic_batching { preferred_batch_size: 2 max_queue_delay_microseconds: 600000000 }
"""


def test_D18_an_input_that_shared_batches_with_crashes_is_served(tmp_path, notes, pool):  # noqa: F811
    """Requests come in pairs. After a crash, the inputs of the pair are executed one by one."""
    repo = tmp_path / "models"
    write(repo, "m", config=PAIRS)
    file = repo / "m/1/model.py"
    file.write_text(file.read_text().replace("x[0]", "x[0, 0]").replace("[os.getpid()]", "[[os.getpid()]]"))
    with Server(repo, tmp_path) as s:
        def pair(n, m):
            together = [pool.submit(ask_one, s, i) for i in (n, m)]
            return [t.result(60) for t in together]
        first = pair(1000, 5)
        assert [a.status for a in first] == [503, 503], [a.body for a in first]
        second = pair(1000, 5)
        assert [a.status for a in second] == [503, 200], [a.body for a in second]
        third = pair(1000, 5)
        assert [a.status for a in third] == [400, 200], [a.body for a in third]
        fourth = pair(1001, 5)
        assert [a.status for a in fourth] == [503, 503], [a.body for a in fourth]
        assert [a.status for a in pair(5, 6)] == [200, 200]


def ask_one(server, n):
    return server.post("/v2/models/m/infer", {"inputs": [
        {"name": "INPUT0", "datatype": "INT32", "shape": [1, 1], "data": [n]}]})
