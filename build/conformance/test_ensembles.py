"""Ensembles: optional inputs, batch dimensions and decoupled steps. The answers are Triton's."""

import queue
import re
import threading

import numpy as np
import pytest
import tritonclient.grpc as grpcclient

from harness import Server, until
from test_metrics import samples, scrape

PAIR = """import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            given = {i: pb.get_input_tensor_by_name(request, f"INPUT{i}") for i in "01"}
            responses.append(pb.InferenceResponse(
                [pb.Tensor(f"OUTPUT{i}", x.as_numpy()) for i, x in given.items() if x is not None]))
        return responses
"""
STREAM = """import numpy as np
import triton_python_backend_utils as pb

# By the number asked for: which outputs each response has.
RESPONSES = {0: [], 1: ["01"], 2: ["0", "1", "01"]}


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            n = int(pb.get_input_tensor_by_name(request, "INPUT0").as_numpy().flat[0])
            sender = request.get_response_sender()
            for i, outputs in enumerate(RESPONSES[n]):
                sender.send(pb.InferenceResponse(
                    [pb.Tensor(f"OUTPUT{o}", np.array([[10 * i + int(o)]], np.float32)) for o in outputs]))
            sender.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
BROKEN = """import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        return [pb.InferenceResponse(error=pb.TritonError("it broke")) for _ in requests]
"""
BOTH = {"INPUT0": "INPUT0", "INPUT1": "INPUT1"}
OUT = {"OUTPUT0": "OUTPUT0", "OUTPUT1": "OUTPUT1"}


def ports(kind, names, more=""):
    return "".join(f'{kind} {{ name: "{n}" data_type: TYPE_FP32 dims: 1 {more} }}\n' for n in names)


def write(root, name, config, code=None):
    (root / name / "1").mkdir(parents=True)
    (root / name / "config.pbtxt").write_text(config)
    if code:
        (root / name / "1/model.py").write_text(code)


def ensemble(root, name, steps, batch=4, inputs="optional: true", ins=("INPUT0", "INPUT1")):
    text = "".join(
        f'step {{ model_name: "{model}" model_version: -1 '
        + " ".join(f'input_map {{ key: "{k}" value: "{v}" }}' for k, v in given.items()) + " "
        + " ".join(f'output_map {{ key: "{k}" value: "{v}" }}' for k, v in made.items()) + " }\n"
        for model, given, made in steps
    )
    write(root, name, f'platform: "ensemble"\nmax_batch_size: {batch}\n{ports("input", ins, inputs)}'
          f'{ports("output", OUT)}ensemble_scheduling {{\n{text}}}\n')


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    work = tmp_path_factory.mktemp("ensembles")
    root = work / "models"
    head = 'backend: "python"\nmax_batch_size: 4\n'
    write(root, "free", head + ports("input", BOTH, "optional: true") + ports("output", OUT), PAIR)
    write(root, "strict", head + ports("input", BOTH) + ports("output", OUT), PAIR)
    write(root, "single", 'backend: "python"\n' + ports("input", BOTH) + ports("output", OUT), PAIR)
    write(root, "stream", head + "model_transaction_policy { decoupled: true }\n" + ports("input", ["INPUT0"])
          + ports("output", OUT), STREAM)
    between = {"OUTPUT0": "a", "OUTPUT1": "b"}
    after = {"INPUT0": "a", "INPUT1": "b"}
    write(root, "fragile", head + ports("input", BOTH) + ports("output", OUT), BROKEN)
    ensemble(root, "hollow", [("fragile", BOTH, OUT)], inputs="")
    ensemble(root, "chain", [("free", BOTH, between), ("free", after, OUT)])
    ensemble(root, "chain_strict", [("free", BOTH, between), ("strict", after, OUT)])
    ensemble(root, "directly_strict", [("strict", BOTH, OUT)])
    ensemble(root, "unbatched", [("strict", BOTH, between), ("single", after, OUT)], batch=0, inputs="")
    ensemble(root, "flow", [("stream", {"INPUT0": "INPUT0"}, between), ("free", after, OUT)], inputs="", ins=["INPUT0"])
    ensemble(root, "direct", [("stream", {"INPUT0": "INPUT0"}, OUT)], inputs="", ins=["INPUT0"])
    with Server(root, work) as s:
        yield s


def infer(server, model, inputs, outputs=None, shape=(1, 1)):
    body = {"inputs": [
        {"name": f"INPUT{i}", "datatype": "FP32", "shape": list(shape), "data": [5.0 + int(i)]} for i in inputs]}
    if outputs:
        body["outputs"] = [{"name": f"OUTPUT{o}"} for o in outputs]
    return server.post(f"/v2/models/{model}/infer", body)


def values(answer):
    assert answer.status == 200, answer.body
    return {o["name"]: o["data"] for o in answer.json["outputs"]}


@pytest.mark.parametrize("inputs, outputs, want", [
    ("01", "", {"OUTPUT0": [5.0], "OUTPUT1": [6.0]}),
    ("0", "", {"OUTPUT0": [5.0]}),
    ("1", "", {"OUTPUT1": [6.0]}),
    ("0", "0", {"OUTPUT0": [5.0]}),
    ("0", "1", {}),
])
def test_what_a_step_does_not_send_is_left_out_C047(server, inputs, outputs, want):
    assert values(infer(server, "chain", inputs, outputs)) == want


@pytest.mark.parametrize("model", ["chain_strict", "directly_strict"])
def test_a_step_that_needs_an_input_fails_without_it_C047(server, model):
    assert values(infer(server, model, "01")) == {"OUTPUT0": [5.0], "OUTPUT1": [6.0]}
    answer = infer(server, model, "0")
    assert answer.status == 400
    assert answer.error.startswith(f"in ensemble '{model}', [request id: <id_unknown>] expected 2 inputs but got 1")


def failures(server, model):
    found = re.findall(r'nv_inference_request_failure\{model="%s",reason="(\w+)",version="1"\} (\d+)' % model,
                       scrape(server))
    return {reason: int(count) for reason, count in found if count != "0"}


def test_E002_DV98_DV99_a_failed_request_of_an_ensemble_is_counted_once_in_each_model(server):
    def fails(model):
        stats = server.get(f"/v2/models/{model}/stats").json["model_stats"]
        return stats[0]["inference_stats"]["fail"]["count"]

    assert failures(server, "fragile") == failures(server, "hollow") == {}
    for n in (1, 2, 3):
        answer = infer(server, "hollow", "01")
        assert (answer.status, answer.error) == (500, "in ensemble 'hollow', it broke")
        assert failures(server, "fragile") == {"BACKEND": n}
        assert failures(server, "hollow") == {"OTHER": n}
        assert (fails("fragile"), fails("hollow")) == (n, n)


def test_an_unbatched_ensemble_of_a_batching_model_is_a_batch_of_one_C045(server):
    answer = infer(server, "unbatched", "01", shape=(1,))
    assert values(answer) == {"OUTPUT0": [5.0], "OUTPUT1": [6.0]}
    assert [o["shape"] for o in answer.json["outputs"]] == [[1], [1]]


@pytest.mark.parametrize("model", ["flow", "direct"])
@pytest.mark.parametrize("n, want", [
    (0, []),
    (1, [{"OUTPUT0": 0.0, "OUTPUT1": 1.0}]),
    (2, [{"OUTPUT0": 0.0}, {"OUTPUT1": 11.0}, {"OUTPUT0": 20.0, "OUTPUT1": 21.0}]),
])
def test_responses_of_a_decoupled_step_pass_with_the_outputs_that_they_have_C048(server, model, n, want):
    answers = queue.Queue()
    with grpcclient.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        x = grpcclient.InferInput("INPUT0", [1, 1], "FP32")
        x.set_data_from_numpy(np.array([[n]], np.float32))
        client.async_stream_infer(model, [x], enable_empty_final_response=True)
        got, last = [], False
        while not last:
            result, error = answers.get(timeout=60)
            assert error is None
            response = result.get_response()
            last = response.parameters["triton_final_response"].bool_param
            if response.outputs:
                got.append({o.name: float(result.as_numpy(o.name).flat[0]) for o in response.outputs})
        assert got == want


def test_classes_of_an_ensemble_have_the_labels_of_its_step_C045_B049(tmp_path):
    root = tmp_path / "models"
    head = 'backend: "python"\nmax_batch_size: 4\n' + ports("input", BOTH)
    labelled = ports("output", ["OUTPUT0"], 'label_filename: "labels.txt"') + ports("output", ["OUTPUT1"])
    write(root, "labelled", head + labelled, PAIR)
    (root / "labelled/labels.txt").write_text("cat\ndog\n")
    ensemble(root, "over", [("labelled", BOTH, OUT)], inputs="")
    ensemble(root, "over_over", [("over", BOTH, OUT)], inputs="")
    tensors = [{"name": n, "datatype": "FP32", "shape": [1, 1], "data": [5]} for n in BOTH]
    wanted = [{"name": n, "parameters": {"classification": 1}} for n in OUT]
    with Server(root, tmp_path) as s:
        for model in ("labelled", "over", "over_over"):
            answer = s.post(f"/v2/models/{model}/infer", {"inputs": tensors, "outputs": wanted})
            got = {o["name"]: o["data"] for o in answer.json["outputs"]}
            assert got == {"OUTPUT0": ["5.000000:0:cat"], "OUTPUT1": ["5.000000:0"]}, model


WAITS = """import os
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        while not os.path.exists(os.path.join(os.path.dirname(__file__), "..", "..", "open")):
            pass
        return [pb.InferenceResponse([pb.Tensor("OUTPUT0", pb.get_input_tensor_by_name(r, "INPUT0").as_numpy())])
                for r in requests]
"""


def test_E010_requests_of_an_ensemble_wait_in_the_queues_of_its_steps(tmp_path):
    repo = tmp_path / "models"
    write(repo, "waits", 'backend: "python"\n' + ports("input", ["INPUT0"]) + ports("output", ["OUTPUT0"]), WAITS)
    write(repo, "outer", 'platform: "ensemble"\n' + ports("input", ["INPUT0"]) + ports("output", ["OUTPUT0"]) +
          'ensemble_scheduling { step { model_name: "waits" model_version: -1 input_map { key: "INPUT0" value: "INPUT0" } '
          'output_map { key: "OUTPUT0" value: "OUTPUT0" } } }')
    with Server(repo, tmp_path) as s:
        def infer():
            with grpcclient.InferenceServerClient(s.grpc) as c:
                i = grpcclient.InferInput("INPUT0", [1], "FP32")
                i.set_data_from_numpy(np.ones(1, np.float32))
                c.infer("outer", [i])

        def waiting(model):
            return samples(scrape(s))[f'nv_inference_pending_request_count{{model="{model}",version="1"}}']

        requests = [threading.Thread(target=infer) for _ in range(3)]
        try:
            for r in requests:
                r.start()
            until(lambda: waiting("waits") == 2, 60, "no request waits in the step", s.log)
            assert waiting("outer") == 0
        finally:
            (repo / "open").touch()
            for r in requests:
                r.join()
        assert (waiting("waits"), waiting("outer")) == (0, 0)
