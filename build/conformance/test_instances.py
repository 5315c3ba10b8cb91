"""Reloads keep the instances and versions that are still asked for; configurations of one value, and readiness."""

import json

from harness import Server, until
from models import identity_python, tensors, write_builtin

MODEL = """
import triton_python_backend_utils as pb


def note(what):
    with open("%s", "a") as f:
        f.write(what)


class TritonPythonModel:
    def initialize(self, args):
        note("+")

    def execute(self, requests):
        return [pb.InferenceResponse([pb.Tensor("OUTPUT0", pb.get_input_tensor_by_name(r, "INPUT0").as_numpy())])
                for r in requests]

    def finalize(self):
        note("-")
"""
CONFIG = """backend: "python"
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1 ] }
"""


def group(count, more=""):
    return f"instance_group {{ count: {count} kind: KIND_CPU {more} }}\n"


def test_a_reload_of_instance_groups_keeps_instances(tmp_path):
    folder, notes = tmp_path / "models/m", tmp_path / "notes"
    (folder / "1").mkdir(parents=True)
    (folder / "1/model.py").write_text(MODEL % notes)
    (folder / "config.pbtxt").write_text(CONFIG + group(2))
    body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1], "data": [1]}]}
    with Server(tmp_path / "models", tmp_path, "--model-control-mode=explicit", "--load-model=m",
                "--rate-limit=execution_count") as s:
        for groups, made, ended in (
            (group(1, 'name: "a"') + group(1, 'name: "b"'), 2, 0),
            (group(2, 'name: "c"'), 2, 0),
            (group(1, 'name: "a"') + group(2, 'name: "d"'), 3, 0),
            (group(1, 'name: "e"'), 3, 2),
            (group(1, 'name: "e" rate_limiter { priority: 2 }'), 4, 3),  # not like the one before
        ):
            (folder / "config.pbtxt").write_text(CONFIG + groups)
            assert s.post("/v2/repository/models/m/load").status == 200
            assert s.post("/v2/models/m/infer", body).status == 200
            assert notes.read_text().count("+") == made, groups
            until(lambda: notes.read_text().count("-") == ended, 60, f"instances still run with {groups}")


def test_a_prediction_takes_no_requests_of_other_instances(tmp_path):
    folder = tmp_path / "models/m"
    (folder / "1").mkdir(parents=True)
    (folder / "1/model.py").write_text(MODEL % (tmp_path / "notes"))
    body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1], "data": [1]}]}
    with Server(tmp_path / "models", tmp_path, "--model-control-mode=explicit") as s:
        def what_if():
            asked = json.dumps({"instances": 1, "speed": 1})
            return s.request("POST", "/api/models/m/what-if", asked, {"X-Nereid": "1"}, s.ui_address)

        for count in (1, 2):
            (folder / "config.pbtxt").write_text(CONFIG + group(count))
            assert s.post("/v2/repository/models/m/load").status == 200
            few = what_if()
            assert few.status == 503 and "has executed only 0 of the last requests" in few.body.decode(), few
            for _ in range(20 + count):
                assert s.post("/v2/models/m/infer", body).status == 200
            assert what_if().json["requests"] == 20 + count


def test_a_reload_of_the_version_policy_keeps_versions(tmp_path):
    """Versions whose files are the same are not loaded again (L0_lifecycle, test_load_new_model_version)."""
    folder, notes = tmp_path / "models/m", tmp_path / "notes"
    for v in "123":
        (folder / v).mkdir(parents=True)
        (folder / v / "model.py").write_text(MODEL % notes)

    def serve(*versions):
        policy = f"version_policy {{ specific {{ versions: {list(versions)} }} }}\n"
        (folder / "config.pbtxt").write_text(CONFIG + group(1) + policy)

    serve(1, 2)
    with Server(tmp_path / "models", tmp_path, "--model-control-mode=explicit", "--load-model=m") as s:
        for versions, notes_then in ((2, 3), "+++-"), ((3,), "+++--"):
            serve(*versions)
            assert s.post("/v2/repository/models/m/load").status == 200
            assert [v for v in (1, 2, 3) if s.get(f"/v2/models/m/versions/{v}/ready").status == 200] == list(versions)
            policy = s.get("/v2/models/m/config").json["version_policy"]
            assert policy == {"specific": {"versions": list(versions)}}
            until(lambda: sorted(notes.read_text()) == sorted(notes_then), 60,
                  "not as many loads and unloads as needed",
                  notes.read_text)


def test_an_override_may_give_one_value_for_a_list(tmp_path):
    """Triton's JSON parser accepts that (L0_lifecycle, test_concurrent_model_instance_load_sanity)."""
    write_builtin(tmp_path / "models", "m", "identity", identity_python(("INPUT0", "OUTPUT0")),
                  [("INPUT0", "FP32", [1])], [("OUTPUT0", "FP32", [1])])
    with Server(tmp_path / "models", tmp_path, "--model-control-mode=explicit", "--load-model=m") as s:
        config = s.get("/v2/models/m/config").json
        config |= {"instance_group": {"count": 3, "kind": "KIND_CPU"}}
        answer = s.post("/v2/repository/models/m/load", {"parameters": {"config": json.dumps(config)}})
        assert answer.status == 200, answer
        (group,) = s.get("/v2/models/m/config").json["instance_group"]
        assert group["count"] == 3


def test_a_server_is_ready_after_a_step_of_an_ensemble_is_unloaded(tmp_path):
    """The ensemble is unloaded with it (L0_lifecycle, test_concurrent_model_load_unload)."""
    repo = tmp_path / "models"
    io = [("INPUT0", "FP32", [1])], [("OUTPUT0", "FP32", [1])]
    write_builtin(repo, "step", "identity", identity_python(("INPUT0", "OUTPUT0")), *io)
    (repo / "all/1").mkdir(parents=True)
    (repo / "all/config.pbtxt").write_text(
        'platform: "ensemble"\n' + tensors("input", io[0]) + tensors("output", io[1]) +
        'ensemble_scheduling { step { model_name: "step" model_version: -1 input_map { key: "INPUT0" value: "INPUT0" } '
        'output_map { key: "OUTPUT0" value: "OUTPUT0" } } }\n')
    with Server(repo, tmp_path, "--model-control-mode=explicit", "--load-model=all") as s:
        assert s.post("/v2/repository/models/step/unload").status == 200
        assert s.get("/v2/models/all/ready").status == 400
        assert s.get("/v2/health/ready").status == 200
        assert s.post("/v2/repository/models/step/load").status == 200
        until(lambda: s.get("/v2/models/all/ready").status == 200, 60, "the ensemble is not loaded again")
