"""Pages of docs/tutorials work as written. The test of the page that deploys a pipeline is in test_ocr.py."""

import re

import pytest

import tutorial
from harness import REFERENCE

pytestmark = pytest.mark.skipif(REFERENCE, reason="the pages use nereid's commands")


@pytest.mark.parametrize("page", ["streaming.md", "stateful.md", "ensembles-and-bls.md", "accelerating.md"])
def test_the_page_works_as_written(tmp_path, page):
    assert len(tutorial.run(page, tmp_path)) > 3


def test_batching_and_tuning_work_as_written(tmp_path):
    """The throughput depends on the machine. Sixteen clients that wait for a model of 20 ms are batched on any."""
    done = tutorial.run("batching-and-tuning.md", tmp_path)
    executions = [int(n) for _, printed in done for n in re.findall(r"Execution count: (\d+)", printed)]
    assert len(executions) == 2 and executions[0] == 160 and executions[1] <= 80, executions
    assert (tmp_path / "tune.html").stat().st_size > 0


@pytest.mark.parametrize("printed, wanted, result", [
    ("a 1.5 b\n", "a … b", True),
    ("one\ntwo\n", "one\ntwo", True),
    ("one\n", "one\ntwo", False),
    ("one.", "one1", False),
    ("error: one", "one", False),
])
def test_outputs_are_compared(printed, wanted, result):
    assert tutorial.agrees(printed, wanted) == result
