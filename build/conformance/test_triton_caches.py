"""Cache libraries with Triton's C API: libtritoncache_own.so is compiled from own_cache.c."""

import os
import subprocess

import pytest
import tritonclient.http as th

import models
from harness import REFERENCE, ROOT, Server, until
from test_cache import infer, stats

pytestmark = pytest.mark.skipif(REFERENCE, reason="the reference has no such cache")
SOURCES = ROOT / "build/conformance/triton"


@pytest.fixture(scope="module")
def caches(tmp_path_factory):
    """A cache directory with the library."""
    folder = tmp_path_factory.mktemp("caches")
    (folder / "own").mkdir()
    subprocess.run(["cc", "-O1", "-Wall", "-shared", "-fPIC", "-I", SOURCES, SOURCES / "own_cache.c",
                    "-o", folder / "own/libtritoncache_own.so"], check=True)
    return folder


def start(tmp_path, caches, *settings):
    models.write_sums(tmp_path / "models", "sums", "max_batch_size: 8\nresponse_cache { enable: true }\n")
    return Server(tmp_path / "models", tmp_path, f"--cache-directory={caches}",
                  *(f"--cache-config=own,{s}" for s in settings))


def counts(server):
    s = stats(server, "sums")["inference_stats"]
    return s["success"]["count"], s["cache_hit"]["count"], s["cache_miss"]["count"]


def test_C081_H076_a_cache_library_answers(tmp_path, caches):
    with start(tmp_path, caches, "most=2") as server, th.InferenceServerClient(server.http) as h:
        for value in (1, 2, 1, 2):
            infer(h, th, value=value)
        assert counts(server) == (4, 2, 2)
        for _ in range(2):
            infer(h, th, value=3)
        assert counts(server) == (6, 2, 4), "the library has no room for a third entry"
        assert "own is full" in server.log()
        metrics = server.request("GET", "/metrics", address=server.metrics).body.decode()
        assert 'nv_cache_num_hits_per_model{model="sums",version="1"} 2' in metrics
    assert "own begins" in server.log() and "own ends" in server.log()


def test_C081_a_cache_that_crashes_fails_no_request(tmp_path, caches):
    with start(tmp_path, caches, "most=2", f"fail={tmp_path / 'fail'}") as server, \
            th.InferenceServerClient(server.http) as h:
        infer(h, th)
        (tmp_path / "fail").touch()
        infer(h, th)
        assert counts(server) == (2, 0, 2) and not (tmp_path / "fail").exists()
        assert "a cache failed" in server.log()
        until(lambda: infer(h, th) and counts(server)[1] > 0, 60, "the cache is not started again")


@pytest.mark.parametrize("options, why", [
    (["--cache-config=own,size=1"], "own needs the setting most"),
    (["--cache-config=absent,size=1"], "libtritoncache_absent.so"),
])
def test_C081_a_cache_that_cannot_be_used_ends_the_start(tmp_path, caches, options, why):
    models.write_sums(tmp_path / "models", "sums", "max_batch_size: 8\n")
    done = subprocess.run([ROOT / "build/bin/nereid", "serve", f"--model-repository={tmp_path / 'models'}",
                           f"--cache-directory={caches}", "--http-port=0", "--grpc-port=0", "--metrics-port=0",
                           "--ui-port=0", f"--data-dir={tmp_path / 'data'}", *options],
                          capture_output=True, text=True, timeout=120, env=dict(os.environ), check=False)
    assert done.returncode != 0 and why in done.stderr, done.stderr
