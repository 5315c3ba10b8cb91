"""Pages of docs/tutorials work as written. The test of the page that deploys a pipeline is in test_ocr.py."""

import re

import pytest

import tutorial
from harness import REFERENCE, ROOT

pytestmark = pytest.mark.skipif(REFERENCE, reason="the pages use nereid's commands")


@pytest.mark.parametrize("page", ["streaming.md", "stateful.md", "ensembles.md", "bls.md", "accelerating.md"])
def test_the_page_works_as_written(tmp_path, page):
    assert len(tutorial.run(page, tmp_path)) > 3


def ratios(done):
    """The ratios that the commands of a page printed."""
    return [float(n) for _, printed in done for n in re.findall(r"([\d.]+) times the throughput", printed)]


def test_batching_works_as_written(tmp_path):
    """The ratio depends on the machine's load. Sixteen clients that wait for a model of 20 ms are batched on any."""
    done = tutorial.run("batching.md", tmp_path)
    executions = [int(n) for _, printed in done for n in re.findall(r"Execution count: (\d+)", printed)]
    assert len(executions) == 2 and executions[0] == 160 and executions[1] <= 80, executions
    assert len(ratios(done)) == 2 and ratios(done)[0] > 1, done


def test_tuning_works_as_written(tmp_path):
    done = tutorial.run("tuning.md", tmp_path)
    assert len(ratios(done)) == 1 and ratios(done)[0] > 1, done
    assert (tmp_path / "tune.html").stat().st_size > 0


def test_the_guide_has_eight_parts():
    """Each page says which part it is. The first one is tested in test_ocr.py."""
    titles = sorted(p.read_text().splitlines()[0] for p in (ROOT / "docs/tutorials").glob("*.md"))
    assert [t.partition(":")[0] for t in titles] == [f"# Part {n}" for n in range(1, 9)], titles


@pytest.mark.parametrize("printed, wanted, result", [
    ("a 1.5 b\n", "a … b", True),
    ("one\ntwo\n", "one\ntwo", True),
    ("one\n", "one\ntwo", False),
    ("one.", "one1", False),
    ("error: one", "one", False),
])
def test_outputs_are_compared(printed, wanted, result):
    assert tutorial.agrees(printed, wanted) == result
