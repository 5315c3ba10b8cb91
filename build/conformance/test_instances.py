"""A reload that changes only instance groups keeps the instances that the new groups still ask for."""

from harness import Server, until

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
