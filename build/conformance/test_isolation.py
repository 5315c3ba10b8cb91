"""Hostile model files, in the server's process and in worker processes, and the effects of a crashed worker process."""

import base64
import os
import signal
import socket

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from harness import REFERENCE, Server, until

pytestmark = pytest.mark.skipif(REFERENCE, reason="tests this server's ONNX models")

PROCESS = 'parameters { key: "isolation" value { string_value: "process" } }\n'


def graph(*nodes, weights=(), opset=17):
    """A model with input x and output y, both FP32 [n, 4]."""
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4])
    g = helper.make_graph(list(nodes), "g", [value("x")], [value("y")], list(weights))
    return helper.make_model(g, opset_imports=[helper.make_opsetid("", opset)], ir_version=8).SerializeToString()


def add_external(location, offset=0, length=16):
    """y = x + w, where the values of w are in another file."""
    w = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, "offset": str(offset), "length": str(length)}.items():
        w.external_data.add(key=key, value=value)
    return graph(helper.make_node("Add", ["x", "w"], ["y"]), weights=[w])


def add_short(dims, data):
    """y = x + w, where the shape and the data of w do not match."""
    w = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims, raw_data=data)
    return graph(helper.make_node("Add", ["x", "w"], ["y"]), weights=[w])


GOOD = graph(helper.make_node("Neg", ["x"], ["y"]))
# by name: the content of the model file, and a part of the error text
HOSTILE = {
    "B1 empty": (b"", "empty"),
    "B1 random": (np.random.default_rng(1).bytes(5000), "model.onnx"),
    "B1 truncated": (GOOD[:-7], "cut off or damaged"),
    "B1 wrong magic": (b"PK\x03\x04" + bytes(100), "zip archive"),
    "B1 text": (b"<html><body>404 Not Found</body></html>", "text"),
    "B1 unknown operator": (graph(helper.make_node("Frobnicate", ["x"], ["y"])), "Frobnicate"),
    "B1 opset too new": (graph(helper.make_node("Neg", ["x"], ["y"]), opset=999), "opset"),
    "B1 graph with a cycle": (graph(helper.make_node("Add", ["x", "b"], ["a"]),
                                    helper.make_node("Add", ["a", "y"], ["b"]), helper.make_node("Neg", ["b"], ["y"])),
                              "model"),
    "B8 external data upwards": (add_external("../../../../../../etc/passwd"), "outside the model's folder"),
    "B8 external data absolute": (add_external("/etc/passwd"), "outside the model's folder"),
    "B8 external data through a link": (add_external("link"), "symbolic link"),
    "B8 external data missing": (add_external("none.bin"), "missing"),
    "B8 external data behind the end": (add_external("small.bin", offset=1 << 40), "which has 16 bytes"),
    "B8 external data longer than the file": (add_external("small.bin", length=17), "which has 16 bytes"),
    "B8 external data that is a folder": (add_external("folder"), "not a regular file"),
    "B11 dims beyond the data": (add_short([1 << 20], bytes(16)), "the file has 16"),
    "B11 dims whose product wraps": (add_short([1 << 33, 1 << 33], bytes(16)), "more elements than can be"),
    "B11 negative dims": (add_short([-4], bytes(16)), "-4"),
}


def lay(repo, name, data, config):
    """Writes a model with this model file, and the files that the external data of HOSTILE names."""
    folder = repo / name / "1"
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(data)
    (folder / "small.bin").write_bytes(bytes(16))
    (folder / "folder").mkdir()
    (folder / "link").symlink_to("/etc/passwd")
    (repo / name / "config.pbtxt").write_text('backend: "onnxruntime"\n' + config)


def ask(server, name, value=1.0):
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [value] * 4}]}
    return server.post(f"/v2/models/{name}/infer", body)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A server with a good model in its own process, and one in a worker process."""
    work = tmp_path_factory.mktemp("hostile")
    repo = work / "models"
    lay(repo, "good", GOOD, "")
    lay(repo, "isolated", GOOD, PROCESS + "instance_group { count: 1 kind: KIND_CPU }\n")
    with Server(repo, work, "--model-control-mode=explicit", "--load-model=good", "--load-model=isolated") as s:
        s.repo = repo
        yield s


@pytest.mark.parametrize("config", ["", PROCESS], ids=["in process", "isolated"])
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_file_is_refused(hostile, case, config):
    data, words = HOSTILE[case]
    name = case.replace(" ", "_") + ("_isolated" if config else "")
    lay(hostile.repo, name, data, config)
    answer = hostile.post(f"/v2/repository/models/{name}/load")
    assert 400 <= answer.status < 500, (answer.status, answer.body)
    assert words in answer.error, answer.error
    assert "root:" not in answer.error, "the answer shows another file's contents"
    state, reason = hostile.index()[name, "1"]
    assert state == "UNAVAILABLE" and words in reason, (state, reason)
    for good in "good", "isolated":
        assert ask(hostile, good).json["outputs"][0]["data"] == [-1.0] * 4


def resident(pid):
    """The resident memory of a process in bytes."""
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("config", ["", PROCESS], ids=["in process", "isolated"])
def test_B6_an_empty_model_file_of_3_GB_is_refused(hostile, config):
    """The file is sparse, so it needs no disk space. Refusing it must need no memory."""
    name = "B6_sparse" + ("_isolated" if config else "")
    lay(hostile.repo, name, b"", config)
    os.truncate(hostile.repo / name / "1/model.onnx", 3 << 30)
    before = resident(hostile.process.pid)
    answer = hostile.post(f"/v2/repository/models/{name}/load")
    assert 400 <= answer.status < 500 and "model.onnx" in answer.error, (answer.status, answer.body)
    assert resident(hostile.process.pid) - before < 200 << 20
    assert ask(hostile, "good").status == 200


def test_B6_a_load_request_of_3_GB_is_refused_before_it_is_read(hostile):
    """The answer is 413 after the first 64 KB. The model keeps serving, and the server's memory does not grow."""
    before = resident(hostile.process.pid)
    host, port = hostile.http.split(":")
    for length in f"Content-Length: {3 << 30}", "Content-Length: 4611686018427387904":
        with socket.create_connection((host, int(port)), 20) as c:
            c.sendall(f"POST /v2/repository/models/good/load HTTP/1.1\r\nHost: {hostile.http}\r\nContent-Type: "
                      f"application/json\r\n{length}\r\n\r\n".encode())
            c.sendall(b"{" + b" " * (64 << 10))
            assert c.recv(100).startswith(b"HTTP/1.1 413"), length
    assert resident(hostile.process.pid) - before < 64 << 20
    assert ask(hostile, "good").status == 200


def test_B5_an_invalid_load_request_changes_nothing(hostile):
    config = '{"backend": "onnxruntime"}'
    for case, parameters, words in [
        ("bad base64", {"config": config, "file:1/model.onnx": "!!! no base64 !!!"}, "base64"),
        ("no configuration", {"file:1/model.onnx": base64.b64encode(GOOD).decode()},
         "must have the parameter 'config'"),
        ("another model's configuration", {"config": '{"name": "other", "backend": "onnxruntime"}'},
         "unexpected directory name 'good' for model 'other'"),
        ("a number for a configuration", {"config": 7}, "non-string"),
    ]:
        answer = hostile.post("/v2/repository/models/good/load", {"parameters": parameters})
        # Triton answers 500 and only says that polling failed; this server gives the reason
        assert answer.status >= 400 and words in answer.error, (case, answer.status, answer.body)
        assert ask(hostile, "good").json["outputs"][0]["data"] == [-1.0] * 4, case


def children(pid):
    """The child processes of a process, from its threads' lists."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/children") as f:
                found += [int(p) for p in f.read().split()]
        except OSError:
            continue  # the thread has exited
    return found


def workers(server):
    def is_worker(pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                return f.read().split(b"\0")[1:2] == [b"worker"]
        except OSError:
            return False  # the process has exited

    return [p for p in children(server.process.pid) if is_worker(p)]


def test_a_crashed_process_only_affects_its_model(hostile):
    until(lambda: len(workers(hostile)) == 1, 60, "processes of models that failed to load still run", hostile.log)
    (before,) = workers(hostile)
    os.kill(before, signal.SIGKILL)
    assert ask(hostile, "good").status == 200
    until(lambda: ask(hostile, "isolated").status == 200, 60, "the model does not recover", hostile.log)
    (after,) = workers(hostile)
    assert after != before
    assert ask(hostile, "isolated", 2.0).json["outputs"][0]["data"] == [-2.0] * 4


def test_unload_stops_the_process(hostile):
    lay(hostile.repo, "passing", GOOD, PROCESS + "instance_group { count: 2 kind: KIND_CPU }\n")
    before = set(workers(hostile))
    assert hostile.post("/v2/repository/models/passing/load").status == 200
    assert len(set(workers(hostile)) - before) == 2
    assert ask(hostile, "passing").status == 200
    assert hostile.post("/v2/repository/models/passing/unload").status == 200
    until(lambda: set(workers(hostile)) == before, 60, "processes still run", hostile.log)


def test_workers_exit_with_the_server(tmp_path):
    lay(tmp_path / "models", "isolated", GOOD, PROCESS)
    s = Server(tmp_path / "models", tmp_path)
    s.start()
    pids = workers(s)
    assert len(pids) == 2  # the default for ONNX Runtime on CPUs
    s.process.kill()
    s.process.wait()
    until(lambda: not any(alive(p) for p in pids), 60, "workers still run after the server was killed")


def alive(pid):
    """Whether a process exists and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
