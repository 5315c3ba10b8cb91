"""Python models that are not decoupled, take a response sender and do not send their response."""

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException

from harness import REFERENCE, Server, until
from test_processes import Leaving, alive, ask, gone, notes, pid_of, write  # noqa: F401: notes is a fixture

pytestmark = pytest.mark.skipif(REFERENCE, reason="Triton's instance goes on, and the client waits without end")

ECHO = """    def execute(self, requests):
        answers = []
        for r in requests:
            x = int(pb.get_input_tensor_by_name(r, "INPUT0").as_numpy().flat[0])
            if x >= 1000:
                self.kept = r.get_response_sender()  # and never sends
                note("silent")
                answers.append(None)
                continue
            answers.append(pb.InferenceResponse([pb.Tensor("OUTPUT0", np.array([os.getpid()], np.int32))]))
        return answers
"""


def silent(repo, config=""):
    write(repo, "m", config="instance_group { count: 1 kind: KIND_CPU }\n" + config)
    file = repo / "m/1/model.py"
    text = file.read_text()
    file.write_text(text[:text.index("    def execute")] + ECHO)


@pytest.mark.parametrize("config", ["", "dynamic_batching { }\n"])
def test_DV92_an_instance_is_free_when_the_client_of_a_silent_sender_has_left(tmp_path, notes, config):  # noqa: F811
    """Over HTTP by a connection that ends, over gRPC by a deadline. The process stays."""
    repo = tmp_path / "models"
    silent(repo, config)
    with Server(repo, tmp_path) as s:
        pid = pid_of(s, "m")
        client = Leaving(s, "m", 1000)
        assert notes("silent") == pid
        waiting = Leaving(s, "m", 1)
        client.leave()
        assert pid_of(s, "m") == pid
        waiting.leave()
        with grpcclient.InferenceServerClient(s.grpc) as c:
            x = grpcclient.InferInput("INPUT0", [1], "INT32")
            x.set_data_from_numpy(np.array([1000], np.int32))
            with pytest.raises(InferenceServerException, match="DEADLINE_EXCEEDED"):
                c.infer("m", [x], client_timeout=1)
        assert pid_of(s, "m") == pid


def test_DV92_a_silent_sender_ends_with_the_limit_of_an_execution(tmp_path, notes):  # noqa: F811
    repo = tmp_path / "models"
    silent(repo)
    with Server(repo, tmp_path, "--backend-config=python,execute-timeout-seconds=2") as s:
        pid = pid_of(s, "m")
        answer = ask(s, "m", 1000)
        assert answer.status == 503 and "longer than 2s" in answer.error, answer.body
        gone(pid, s)
        assert pid_of(s, "m") != pid


def test_DV92_unload_and_exit_do_not_wait_for_a_silent_sender(tmp_path, notes):  # noqa: F811
    repo = tmp_path / "models"
    silent(repo)
    with Server(repo, tmp_path, "--model-control-mode=explicit", "--load-model=m") as s:
        pid = pid_of(s, "m")
        client = Leaving(s, "m", 1000)
        assert notes("silent") == pid
        assert s.post("/v2/repository/models/m/unload", {}).status == 200
        client.leave()
        until(lambda: s.state("m") == "UNAVAILABLE", 60, "still not unloaded", s.log)
        assert not alive(pid)
