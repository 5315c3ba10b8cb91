"""Sequences with the inputs of tritonclient's sequence examples, over both protocols and in streams."""

import queue
import threading

import numpy as np
import pytest
import tritonclient.grpc as tg
import tritonclient.http as th
from tritonclient.utils import InferenceServerException

import models
from harness import REFERENCE, Server

VALUES = [11, 7, 5, 3, 2, 0, 1]

ours = pytest.mark.skipif(REFERENCE, reason="the reference has Python models only")


ENSEMBLE = """
platform: "ensemble"
max_batch_size: 8
input [ { name: "INPUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "OUTPUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
ensemble_scheduling { step [ { model_name: "simple_sequence" model_version: -1
  input_map { key: "INPUT" value: "INPUT" } output_map { key: "OUTPUT" value: "OUTPUT" } } ] }
"""


@pytest.fixture(scope="module")
def sequences(tmp_path_factory):
    work = tmp_path_factory.mktemp("sequences")
    repo = work / "models"
    models.write_simple_sequence(repo)
    models.write_simple_sequence(repo, "simple_oldest", "oldest { max_candidate_sequences: 8 }")
    models.write(repo / "ensemble_sequence/config.pbtxt", ENSEMBLE)
    (repo / "ensemble_sequence/1").mkdir()
    if not REFERENCE:
        models.write_builtin_sequence(repo, "simple_dyna_sequence", "dyna_sequence",
                                      "oldest { max_candidate_sequences: 4 }")
        models.write_builtin_sequence(repo, "sums", "sequence", "direct { }")
        models.write_running_sum(repo)
        models.write_running_sum(repo, "running_oldest", "oldest { max_candidate_sequences: 2 }")
        count = models.write_builtin_sequence(repo, "count", "iterative_sequence", "iterative_sequence: true")
        with (count / "config.pbtxt").open("a") as f:
            f.write("model_transaction_policy { decoupled: true }\n")
    with Server(repo, work) as s:
        yield s


def given(module, value):
    i = module.InferInput("INPUT", [1, 1], "INT32")
    i.set_data_from_numpy(np.array([[value]], dtype=np.int32))
    return [i]


def ask(client, module, model, value, **options):
    return int(client.infer(model, given(module, value), **options).as_numpy("OUTPUT")[0][0])


def run(client, module, model, values, sequence):
    """Sends a whole sequence and returns its answers."""
    last = len(values) - 1
    return [
        ask(client, module, model, v, sequence_id=sequence, sequence_start=k == 0, sequence_end=k == last)
        for k, v in enumerate(values)
    ]


CLIENTS = {"http": (th, "http"), "grpc": (tg, "grpc")}


@pytest.fixture(params=CLIENTS)
def client(request, sequences):
    module, protocol = CLIENTS[request.param]
    with module.InferenceServerClient(getattr(sequences, protocol)) as c:
        yield c, module


@pytest.mark.parametrize("model", [pytest.param("simple_sequence", id="C027 simple_sequence"),
                                   pytest.param("simple_oldest", id="C029 simple_oldest")])
@pytest.mark.parametrize("names", [(1000, 1001), pytest.param(("one", "two"), id="C035 texts")])
def test_B045_C031_I008_two_concurrent_sequences(client, model, names):
    c, module = client
    values = [0] + VALUES
    for k, v in enumerate(values):
        for name, sign in zip(names, (1, -1)):
            first, last = k == 0, k == len(values) - 1
            got = ask(c, module, model, 100 + sign * v, sequence_id=name, sequence_start=first, sequence_end=last)
            assert got == 100 + sign * v + first


@ours
def test_C029_C031_dyna_sequence_adds_the_correlation_id_at_the_end(client):
    c, module = client
    got = run(c, module, "simple_dyna_sequence", VALUES, 1007)
    assert got == list(np.cumsum(VALUES))[:-1] + [sum(VALUES) + 1007]


@ours
@pytest.mark.parametrize("model", ["running_sum", "running_oldest", "sums"])
def test_C032_C036_I008_I009_more_sequences_than_slots(sequences, model):
    """Twenty concurrent clients run more sequences than there are slots. The later sequences wait in the backlog."""
    failed = []

    def work(n):
        try:
            module, protocol = CLIENTS["http" if n % 2 else "grpc"]
            with module.InferenceServerClient(getattr(sequences, protocol)) as c:
                for k in range(4):
                    values = [n, k, 7 * n, -3, 1]
                    got = run(c, module, model, values, 1 + n * 10 + k if n % 3 else f"{n}/{k}")
                    if got != list(np.cumsum(values)):
                        failed.append((n, values, got))
        except Exception as err:  # noqa: BLE001 - raised again in the test's thread
            failed.append((n, err))

    if model == "sums":  # the error contains the number
        work = (lambda inner: lambda n: inner(n if n % 3 else n + 1000 * 3 + 1))(work)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


@pytest.mark.parametrize("names", [(2000, 2001), ("s one", "s two")], ids=["numbers", "texts"])
@pytest.mark.parametrize("model", ["simple_sequence", "ensemble_sequence"])
def test_C041_B045_stream_with_two_sequences(sequences, names, model):
    """As in tritonclient's streaming example, all requests of both sequences are sent before any answer is read."""
    answers = queue.Queue()
    values = [0] + VALUES
    with tg.InferenceServerClient(sequences.grpc) as c:
        c.start_stream(callback=lambda result, error: answers.put((result, error)))
        for name, sign in zip(names, (1, -1)):
            for k, v in enumerate(values):
                c.async_stream_infer(
                    model, given(tg, sign * v), request_id=f"{name}_{k}", sequence_id=name,
                    sequence_start=k == 0, sequence_end=k == len(values) - 1,
                )
        got = {name: [] for name in names}
        for _ in range(2 * len(values)):
            result, error = answers.get(timeout=60)
            assert error is None
            name, _, k = result.get_response().id.rpartition("_")
            name = int(name) if isinstance(names[0], int) else name
            assert int(k) == len(got[name]), "a stream must keep the order of a sequence"
            got[name].append(int(result.as_numpy("OUTPUT")[0][0]))
        c.stop_stream()
    for name, sign in zip(names, (1, -1)):
        assert got[name] == [sign * v + (k == 0) for k, v in enumerate(values)]


def test_C034_E3_errors(client):
    c, module = client
    for options, text in [
        ({}, "inference request to model 'simple_sequence' must specify a non-zero or non-empty correlation ID"),
        (
            {"sequence_id": 4},
            "inference request for sequence 4 to model 'simple_sequence' must specify the START flag on the first "
            "request of the sequence",
        ),
        (
            {"sequence_id": "four", "sequence_end": True},
            "inference request for sequence four to model 'simple_sequence' must specify the START flag on the first "
            "request of the sequence",
        ),
    ]:
        with pytest.raises(InferenceServerException, match=text):
            ask(c, module, "simple_sequence", 1, **options)


@pytest.mark.parametrize("text, fits", [("x" * 128, True), ("x" * 129, False), ("ä" * 65, False)],
                         ids=["128", "129", "bytes-count"])
def test_C035_longest_string_id(client, text, fits):
    c, module = client
    if fits:
        assert ask(c, module, "simple_sequence", 1, sequence_id=text, sequence_start=True, sequence_end=True) == 2
        return
    with pytest.raises(InferenceServerException,
                       match="string correlation ID cannot be longer than 128 characters") as err:
        ask(c, module, "simple_sequence", 1, sequence_id=text, sequence_start=True)
    assert err.value.status() == ("501" if module is th else "StatusCode.UNIMPLEMENTED")


def test_C033_batch_size(client):
    c, module = client
    i = module.InferInput("INPUT", [2, 1], "INT32")
    i.set_data_from_numpy(np.zeros((2, 1), dtype=np.int32))
    text = ("inference request to model 'simple_sequence' must specify batch-size 1 "
            "due to requirements of sequence batcher")
    with pytest.raises(InferenceServerException, match=text):
        c.infer("simple_sequence", [i], sequence_id=9, sequence_start=True)


@ours
def test_C040_iterative_sequence_in_a_stream(sequences):
    answers = queue.Queue()
    with tg.InferenceServerClient(sequences.grpc) as c:
        c.start_stream(callback=lambda result, error: answers.put((result, error)))
        for n in (3, 5):
            c.async_stream_infer("count", given(tg, n), request_id=str(n), enable_empty_final_response=True)
        got, finals = {"3": [], "5": []}, 0
        while finals < 2:
            result, error = answers.get(timeout=60)
            assert error is None
            response = result.get_response()
            got[response.id].append(int(result.as_numpy("OUTPUT")[0][0]))
            finals += response.parameters["triton_final_response"].bool_param
        c.stop_stream()
    assert got == {"3": [2, 1, 0], "5": [4, 3, 2, 1, 0]}


@ours
def test_E031_E032_E033_E3_statistics(sequences):
    with th.InferenceServerClient(sequences.http) as c:
        before = sequences.get("/v2/models/running_oldest/stats").json["model_stats"][0]
        run(c, th, "running_oldest", [1, 2, 3], 77)
        with pytest.raises(InferenceServerException):
            ask(c, th, "running_oldest", 1, sequence_id=77)
    after = sequences.get("/v2/models/running_oldest/stats").json["model_stats"][0]
    assert after["inference_count"] - before["inference_count"] == 3
    assert after["execution_count"] - before["execution_count"] == 3
    assert after["inference_stats"]["success"]["count"] - before["inference_stats"]["success"]["count"] == 3
    assert after["inference_stats"]["fail"]["count"] - before["inference_stats"]["fail"]["count"] == 1


def test_configuration_and_metadata_hide_the_controls(sequences):
    config = sequences.get("/v2/models/simple_sequence/config").json["sequence_batching"]
    assert config["max_sequence_idle_microseconds"] == 60000000
    assert [c["name"] for c in config["control_input"]] == ["START", "READY"]
    metadata = sequences.get("/v2/models/simple_sequence").json
    assert [i["name"] for i in metadata["inputs"]] == ["INPUT"]
    assert [o["name"] for o in metadata["outputs"]] == ["OUTPUT"]
