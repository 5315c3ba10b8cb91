"""Batching strategies in libraries: Triton's custom batching. The libraries are compiled from *_strategy.c."""

import concurrent.futures
import subprocess

import pytest

import models
from harness import REFERENCE, Server, until
from test_triton_backends import SOURCES, infer, library, model

pytestmark = pytest.mark.skipif(REFERENCE, reason="needs a folder with the reference's own backends")

# Nothing but a strategy ends the wait of a batch: the delay is longer than the test.
BATCHED = "max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 600000000 }\n"
PLAIN = "max_batch_size: 8 dynamic_batching { }\n"
MOST = 'parameters { key: "most_bytes" value { string_value: "64" } }\n'


def path(file):
    return f'parameters {{ key: "TRITON_BATCH_STRATEGY_PATH" value {{ string_value: "{file}" }} }}\n'


def strategy(name, file, *flags):
    """Compiles a strategy."""
    file.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cc", "-O1", "-Wall", "-shared", "-fPIC", "-I", SOURCES, SOURCES / f"{name}_strategy.c", *flags,
                    "-o", file], check=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("triton")
    repository, backends = folder / "models", folder / "backends"
    library("identity_test", backends / "identity_test")
    library("identity_test", backends / "other_test").rename(backends / "other_test/libtriton_other_test.so")
    strategy("single", backends / "other_test/batchstrategy.so")
    model(repository, "single", "other_test", BATCHED)
    strategy("volume", repository / "volume/1/batchstrategy.so")
    model(repository, "volume", "identity_test", BATCHED + MOST)
    strategy("volume", repository / "named/mine.so")
    model(repository, "named", "identity_test", BATCHED + MOST + path(repository / "named/mine.so"))
    models.write_identity(repository, "own", BATCHED + MOST.replace("64", "256"))
    strategy("volume", repository / "own/batchstrategy.so")
    strategy("volume", repository / "faulty/batchstrategy.so")
    model(repository, "faulty", "identity_test", PLAIN + MOST)
    model(repository, "plain", "identity_test", PLAIN)
    with Server(repository, folder, f"--backend-directory={backends}", "--model-control-mode=explicit",
                "--load-model=*") as s:
        yield s


def batches(server, name, count, last, tensor="IN", width=4):
    """Sends requests of one row at once. The last ones wait until the strategy refuses a full batch behind them.
    Returns the size of the batch of each request."""

    def ask(rows):
        return server.post(f"/v2/models/{name}/infer", {"inputs": [
            {"name": tensor, "datatype": "FP32", "shape": [rows, width], "data": [1] * rows * width}]})

    done = []
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        jobs = [pool.submit(ask, 1) for _ in range(count)]
        for job in concurrent.futures.as_completed(jobs, timeout=60):
            done.append(job.result())
            if len(done) == count - last:
                assert ask(8).status == 200
    assert [a.status for a in done] == [200] * count, [a.body for a in done]
    return [a.json.get("parameters", {}).get("batch") for a in done]


@pytest.mark.parametrize("name", ["volume", "named"])
def test_C017_I007_a_strategy_limits_the_volume_of_a_batch(server, name):
    assert batches(server, name, 9, 1) == [4] * 8 + [1]
    assert f"volume begins for {name} version 1" in server.log()


def test_C017_a_strategy_in_the_folder_of_the_backend(server):
    assert batches(server, "single", 4, 1) == [1] * 4


def test_C017_a_strategy_for_a_backend_of_the_server(server):
    batches(server, "own", 9, 1, "INPUT0", 16)
    stats = server.get("/v2/models/own/stats").json["model_stats"][0]["batch_stats"]
    assert {b["batch_size"]: b["compute_infer"]["count"] for b in stats} == {1: 1, 4: 2, 8: 1}


def test_C017_a_strategy_sees_the_values_of_small_inputs(server):
    assert infer(server, "faulty", [[-1.0]]).status == 200
    until(lambda: "the strategy reads -1" in server.log(), 30, "not read", server.log)
    assert infer(server, "faulty", [[0.0] * 5000]).status == 200
    until(lambda: "does not see the 20000 bytes of input 'IN'" in server.log(), 30, "no reason", server.log)


def test_C017_DV95_a_request_that_a_strategy_fails_for_is_executed_alone(server):
    assert infer(server, "faulty", [[1.0]], parameters={"fail": True}).json["outputs"][0]["data"] == [1]
    until(lambda: "the strategy fails" in server.log(), 30, "the error is not in the log", server.log)


@pytest.mark.parametrize("fault", ["crash", "hang"])
def test_C017_a_strategy_that_fails_stops_no_request(server, fault):
    used = server.log().count("a batching strategy is used again")
    answer = infer(server, "faulty", [[3.0]], parameters={fault: True})
    assert answer.status == 200 and answer.json["outputs"][0]["data"] == [3], answer.body
    assert "a batching strategy failed" in server.log()
    assert infer(server, "faulty", [[4.0]]).status == 200
    assert infer(server, "plain", [[4.0]]).status == 200
    until(lambda: server.log().count("a batching strategy is used again") > used, 60, "not started again", server.log)
    assert infer(server, "faulty", [[-1.0]]).status == 200


SEQUENCES = "max_batch_size: 8 sequence_batching { }\n"


@pytest.mark.parametrize("config, reason", [
    (PLAIN + path("/lib/x.so"), "Batching library path escapes model repository."),
    (PLAIN + path("{folder}/absent.so"), "Batching library path not found: {folder}/absent.so"),
    (PLAIN + path("{folder}/incomplete.so"),
     "incomplete.so does not define all required custom batching functions for model refused"),
    (PLAIN + path("{folder}/volume.so"), "the model needs the parameter most_bytes"),
    (PLAIN + path("{folder}/config.pbtxt"), "config.pbtxt is not a library"),
    (SEQUENCES + path("{folder}/volume.so"),
     "TRITON_BATCH_STRATEGY_PATH cannot be specified with sequence batcher, using default batching strategy"),
])
def test_C017_a_strategy_that_cannot_be_used_is_named(tmp_path, config, reason):
    folder = tmp_path / "models/refused"
    strategy("single", folder / "incomplete.so", "-DINCOMPLETE")
    strategy("volume", folder / "volume.so")
    library("identity_test", tmp_path / "backends/identity_test")
    model(tmp_path / "models", "refused", "identity_test", config.replace("{folder}", str(folder)))
    with Server(tmp_path / "models", tmp_path, f"--backend-directory={tmp_path}/backends", "--exit-on-error=false",
                wait="live") as s:
        until(lambda: s.index()["refused", "1"][0] == "UNAVAILABLE", 60, "the model loads", s.log)
        assert reason.replace("{folder}", str(folder)) in s.index()["refused", "1"][1]
