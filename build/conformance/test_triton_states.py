"""A backend library that sets the implicit states of sequences."""

import numpy as np
import pytest
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from harness import REFERENCE, Server, until
from test_triton_backends import library, model

pytestmark = pytest.mark.skipif(REFERENCE, reason="needs a folder with the reference's own backends")


def states(size, strategy="direct { }", more=""):
    return (f'instance_group {{ kind: KIND_CPU count: 2 }} '
            f'sequence_batching {{ {strategy} max_sequence_idle_microseconds: 60000000 state {{ input_name: "SUM_IN" output_name: "SUM_OUT" '
            f"data_type: TYPE_FP32 dims: [ {size} ] {more} }} }}")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("triton")
    models, backends = folder / "models", folder / "backends"
    library("sequence_test", backends / "sequence_test")
    model(models, "small", "sequence_test", states(1), dims="1")
    model(models, "large", "sequence_test", states(50_000), dims="50000")
    for size in (1, 50_000):
        model(models, f"same{size}", "sequence_test", states(size, more="use_same_buffer_for_input_output: true"),
              dims=str(size))
    oldest = "oldest { max_candidate_sequences: 4 max_queue_delay_microseconds: 1000 }"
    model(models, "batched", "sequence_test", "max_batch_size: 4 " + states(3, oldest), dims="3")
    model(models, "stateless", "sequence_test", dims="1")
    model(models, "streams", "sequence_test", "model_transaction_policy { decoupled: true } " + states(1), dims="1")
    with Server(models, folder, f"--backend-directory={backends}", "--exit-on-error=false", wait="live") as s:
        until(lambda: all(state != "LOADING" for state, _ in s.index().values()), 60, "models load", s.log)
        yield s


def ask(server, name, values, sequence=1, start=False, end=False):
    values = np.asarray(values, np.float32)
    with httpclient.InferenceServerClient(server.http) as client:
        tensor = httpclient.InferInput("IN", values.shape, "FP32")
        tensor.set_data_from_numpy(values)
        return client.infer(name, [tensor], sequence_id=sequence, sequence_start=start,
                            sequence_end=end).as_numpy("OUT").tolist()


def test_D076_a_library_sets_the_states_of_sequences(server):
    for n, want in enumerate([1, 3, 6]):
        assert ask(server, "small", [n + 1], 7, start=n == 0) == [want]
        assert ask(server, "small", [n + 10], 8, start=n == 0) == [[10], [21], [33]][n]
    assert ask(server, "small", [1], 7, start=True) == [1]
    assert ask(server, "small", [1], 7, end=True) == [2]
    ask(server, "small", [0], 8, end=True)


def test_D076_states_in_shared_memory(server):
    values = np.arange(50_000, dtype=np.float32)
    for n in range(8):
        assert ask(server, "large", values, start=n == 0, end=n == 7) == ((n + 1) * values).tolist()


@pytest.mark.parametrize("size", [1, 50_000])
def test_DV100_C038_the_buffer_of_a_state_begins_with_its_value_before(server, size):
    for n, (value, want) in enumerate([(1, 1), (2, 3), (-3, 3), (4, 7)]):
        got = ask(server, f"same{size}", [value] * size, 3, start=n == 0, end=n == 3)
        assert got == [want] * size


def test_D076_states_of_a_batch(server):
    for n in range(3):
        for sequence in (1, 2, 3):
            want = [[(n + 1) * sequence * k for k in (1, 2, 3)]]
            assert ask(server, "batched", [[sequence, 2 * sequence, 3 * sequence]], sequence, n == 0, n == 2) == want


@pytest.mark.parametrize("name, value, reason", [
    ("small", -1, "state 'NOBODY' is not a valid state name."),
    ("stateless", 1, "unable to add state 'SUM_OUT'. State configuration is missing for model 'stateless'."),
])
def test_D076_a_state_that_the_model_does_not_have(server, name, value, reason):
    with pytest.raises(InferenceServerException, match=reason):
        ask(server, name, [value], 5, start=True, end=True)


def test_D076_a_crash_ends_the_sequences_of_the_instance(server):
    assert ask(server, "small", [5], 9, start=True) == [5]
    with pytest.raises(InferenceServerException, match="signal 6"):
        ask(server, "small", [-2], 9)
    until(lambda: server.get("/v2/models/small/ready").status == 200, 60, "not restarted", server.log)
    over = "start the sequence again|must specify the START flag"  # while the crash is handled, or after it
    with pytest.raises(InferenceServerException, match=over):
        ask(server, "small", [1], 9)
    assert ask(server, "small", [1], 9, start=True, end=True) == [1]


def test_D076_a_decoupled_model_with_states_is_refused(server):
    assert "is decoupled and has implicit states" in server.index()["streams", "1"][1]
