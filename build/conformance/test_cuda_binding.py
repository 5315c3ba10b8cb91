"""ONNX models on a GPU with clients' CUDA regions: the tensors never leave the GPU.

These tests need a real GPU (make test-gpu). engine/backend/onnxruntime/gpumemory_test.go tests the bindings without
one."""

import re
import shutil
import threading
import time

import numpy as np
import pytest
import tritonclient.grpc as tg
import tritonclient.http as th

from gpus import REAL
from harness import ROOT, Server
from models import write_plus_version
from regions import connected, shared_input, shared_output
from test_cuda import Region

LIBRARY = ROOT / ".cache/gpu"
GPU = "\ninstance_group {{ kind: KIND_GPU gpus: 0 count: {} }}\n"

pytestmark = pytest.mark.skipif(not REAL, reason="it needs a GPU: make test-gpu")

SIZE = 64  # bytes per row


@pytest.fixture(scope="module")
def cuda(machine):
    return machine.client()


@pytest.fixture(scope="module")
def onnx(tmp_path_factory):
    """Models on the GPU: plus_version, batched, and the sample's perceptron with 1, 2 and 4 instances."""
    repo = tmp_path_factory.mktemp("onnx") / "models"
    write_plus_version(repo, config=GPU.format(1) + "dynamic_batching { max_queue_delay_microseconds: 20000 }\n")
    for count in (1, 2, 4):
        folder = repo / f"mlp_{count}"
        shutil.copytree(ROOT / "models-sample/mlp", folder)
        config = folder / "config.pbtxt"
        text = re.sub(r"(?m)^(name:|instance_group).*\n?", "", config.read_text())
        config.write_text(text + GPU.format(count))
    options = [f"--onnxruntime-library={LIBRARY}", "--pinned-memory-pool-byte-size=67108864"]
    with Server(repo, tmp_path_factory.mktemp("server"), *options, limit=300) as s:
        yield s


def counters(server):
    text = server.request("GET", "/metrics", address=server.metrics).body.decode()
    return {m[1]: float(m[2]) for m in re.finditer(r"^((?:nereid_cuda|nereid_pinned|nv_pinned)\S+) (\S+)$", text, re.M)}


def grown(before, after, name):
    return after[name] - before[name]


TO_HOST = 'nereid_cuda_copied_bytes_total{way="to_host"}'
FROM_HOST = 'nereid_cuda_copied_bytes_total{way="from_host"}'
WITHIN = 'nereid_cuda_copied_bytes_total{way="within"}'
BOUND_IN = 'nereid_cuda_bound_bytes_total{tensors="input"}'
BOUND_OUT = 'nereid_cuda_bound_bytes_total{tensors="output"}'


@pytest.fixture(params=["http", "grpc"])
def client(request, onnx):
    with connected(onnx, request.param) as c:
        yield c


def plus(client, source, target, at=0, to=0):
    i = shared_input(client.module, source, SIZE, [1, 16], "FP32", offset=at)
    return client.infer("plus_version", [i], outputs=[shared_output(client.module, target, SIZE, offset=to)])


def row(k):
    return np.arange(16, dtype=np.float32).reshape(1, 16) + k


def test_regions_are_bound_without_copies(client, onnx, cuda):
    with Region(cuda, 4096, client) as source, Region(cuda, 4096, client) as target:
        source.set(row(5))
        plus(client, source, target)  # the first request may select kernels
        before = counters(onnx)
        for _ in range(20):
            plus(client, source, target)
        after = counters(onnx)
        np.testing.assert_array_equal(np.frombuffer(target.bytes()[:SIZE], np.float32), row(6)[0])
        assert target.bytes()[SIZE:] == b"\xee" * (4096 - SIZE)
        assert grown(before, after, BOUND_IN) == grown(before, after, BOUND_OUT) == 20 * SIZE
        assert grown(before, after, TO_HOST) == grown(before, after, FROM_HOST) == grown(before, after, WITHIN) == 0


@pytest.mark.parametrize("at, to", [(4, 0), (0, 4), (8, 12), (1024 + 4, 2048 + 4)])
def test_misaligned_regions_are_copied_on_the_gpu(client, onnx, cuda, at, to):
    with Region(cuda, 4096, client) as source, Region(cuda, 4096, client) as target:
        source.set(np.concatenate([np.zeros(at // 4, np.float32), row(7)[0]]))
        before = counters(onnx)
        plus(client, source, target, at, to)
        after = counters(onnx)
        np.testing.assert_array_equal(np.frombuffer(target.bytes()[to:to + SIZE], np.float32), row(8)[0])
        assert grown(before, after, TO_HOST) == grown(before, after, FROM_HOST) == 0
        assert grown(before, after, WITHIN) > 0


def test_one_region_for_input_and_output(client, onnx, cuda):
    with Region(cuda, 4096, client) as r:
        r.set(row(0))
        for _ in range(10):
            plus(client, r, r)
        np.testing.assert_array_equal(np.frombuffer(r.bytes()[:SIZE], np.float32), row(10)[0])


def test_mixed_with_tensors_of_the_host(client, onnx, cuda):
    with Region(cuda, SIZE, client) as r:
        r.set(row(3))
        i = shared_input(client.module, r, SIZE, [1, 16], "FP32")
        np.testing.assert_array_equal(client.infer("plus_version", [i]).as_numpy("OUTPUT0"), row(4))
        i = client.module.InferInput("INPUT0", [1, 16], "FP32")
        i.set_data_from_numpy(row(8))
        client.infer("plus_version", [i], outputs=[shared_output(client.module, r, SIZE)])
        np.testing.assert_array_equal(np.frombuffer(r.bytes(), np.float32), row(9)[0])


def test_batches(onnx, cuda):
    """The server gathers the rows of eight clients on the GPU. Each client gets the answer to its own row."""
    with tg.InferenceServerClient(onnx.grpc) as c:
        c.module = tg
        sources, targets = ([Region(cuda, SIZE, c) for _ in range(8)] for _ in range(2))
        for k, r in enumerate(sources):
            r.set(row(100 * k))
        before, failed = counters(onnx), []

        def ask(k):
            try:
                with tg.InferenceServerClient(onnx.grpc) as mine:
                    mine.module = tg
                    for _ in range(50):
                        plus(mine, sources[k], targets[k])
            except Exception as e:  # raised below, in pytest's own thread
                failed.append(e)

        threads = [threading.Thread(target=ask, args=[k]) for k in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        after = counters(onnx)
        assert failed == []
        for k, r in enumerate(targets):
            np.testing.assert_array_equal(np.frombuffer(r.bytes(), np.float32), row(100 * k + 1)[0])
        assert grown(before, after, TO_HOST) == grown(before, after, FROM_HOST) == 0
        assert grown(before, after, WITHIN) > 0
        assert after['nereid_cuda_memory_pool_used_bytes{gpu="0"}'] == 0
        for r in sources + targets:
            r.__exit__()


def test_pinned_memory_is_returned(onnx):
    found = counters(onnx)
    assert found["nv_pinned_memory_pool_total_bytes"] == 64 << 20
    assert found["nv_pinned_memory_pool_used_bytes"] == 0  # no client is running now
    assert found["nereid_pinned_memory_pool_misses_total"] == 0


@pytest.mark.parametrize("count", [1, 2, 4])
def test_throughput_of_instances(onnx, cuda, count, record_property):
    """Prints the requests per second of eight clients, from regions and from the host. There is no limit to check."""
    seconds, rates = 3, {}
    for where in ("region", "host"):
        done, failed, end = [0] * 8, [], time.monotonic() + seconds
        with th.InferenceServerClient(onnx.http) as c:
            regions = [Region(cuda, 784 * 4, c) for _ in range(8)] if where == "region" else []

            def ask(k, where=where, regions=regions, done=done, failed=failed, end=end):
                try:
                    with th.InferenceServerClient(onnx.http) as mine:
                        i = th.InferInput("input", [1, 784], "FP32")
                        if where == "region":
                            i = shared_input(th, regions[k], 784 * 4, [1, 784], "FP32", name="input")
                        else:
                            i.set_data_from_numpy(np.zeros((1, 784), np.float32))
                        while time.monotonic() < end:
                            mine.infer(f"mlp_{count}", [i])
                            done[k] += 1
                except Exception as e:
                    failed.append(e)

            for r in regions:
                r.set(np.zeros(784, np.float32))
            threads = [threading.Thread(target=ask, args=[k]) for k in range(8)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            for r in regions:
                r.__exit__()
        assert failed == [] and min(done) > 0
        rates[where] = sum(done) / seconds
    print(f"{count} instances: {rates['region']:.0f} requests/s from regions, {rates['host']:.0f} from the host")
    record_property("rates", rates)
