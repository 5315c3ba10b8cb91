"""The log level of the server reaches models in running processes with their next execution."""

import pytest

from harness import REFERENCE, Server, until
from test_triton_backends import infer, library, model

pytestmark = pytest.mark.skipif(REFERENCE, reason="needs a folder with the reference's own backends")

MODEL = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        pb_utils.Logger.log_verbose("a verbose line of Python")
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", pb_utils.get_input_tensor_by_name(
            r, "IN").as_numpy())]) for r in requests]
"""


def test_D076_a_changed_log_level_reaches_running_processes(tmp_path):
    models, backends = tmp_path / "models", tmp_path / "backends"
    library("logs_test", backends / "logs_test")
    model(models, "logs", "logs_test")
    model(models, "python", "python")
    (models / "python/1/model.py").write_text(MODEL)

    with Server(models, tmp_path, f"--backend-directory={backends}") as server:
        def levels():
            return infer(server, "logs", [1]).json["parameters"]["levels"]

        def change(**settings):
            assert server.post("/v2/logging", settings).status == 200

        assert levels() == 7
        assert infer(server, "python", [1]).status == 200
        change(log_verbose_level=1)
        assert levels() == 15
        assert infer(server, "python", [1]).status == 200
        for line in ("a verbose line", "a verbose line of Python"):
            until(lambda: line in server.log(), 30, "no verbose line", server.log)
        change(log_verbose_level=0, log_info=False, log_warning=False)
        assert levels() == 4
        assert infer(server, "python", [1]).status == 200
        change(log_info=True, log_warning=True, log_error=False)
        assert levels() == 3
        assert server.log().count("a verbose line of Python") == 1
