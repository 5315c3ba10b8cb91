"""The deliberate differences of docs/deviations.csv that improve reliability and need a complete server to test."""

import contextlib
import os
import pathlib
import socket

import numpy as np
import pytest
import tritonclient.grpc as tg
import tritonclient.http as th
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

import http2
import models
from harness import REFERENCE, ROOT, Server, until
from test_metrics import samples, scrape
from test_options import address

pytestmark = pytest.mark.skipif(REFERENCE, reason="docs/deviations.csv has Triton's answers")

CRASHES = """    def execute(self, requests):
        import os
        x = [pb.get_input_tensor_by_name(r, "INPUT0").as_numpy() for r in requests]
        if any((v == 666).any() for v in x):
            os._exit(3)
        return [pb.InferenceResponse([pb.Tensor("OUTPUT0", v)]) for v in x]
"""
ONE = [[(n, "INT32", [1])] for n in ("INPUT0", "OUTPUT0")]


def python_model(repo, name, code):
    models.write(repo / name / "config.pbtxt",
                 'backend: "python"\n' + models.tensors("input", ONE[0]) + models.tensors("output", ONE[1]))
    (repo / name / "1").mkdir(parents=True)
    if code:
        models.write(repo / name / "1/model.py", models.PYTHON_HEAD + code)


@pytest.fixture
def with_numpy(monkeypatch):
    """The server's Python models use the interpreter of the tests, which has numpy."""
    monkeypatch.setenv("PATH", f"{ROOT / '.cache/venv/bin'}{os.pathsep}{os.environ['PATH']}")


def one(value):
    i = th.InferInput("INPUT0", [1], "INT32")
    i.set_data_from_numpy(np.array([value], np.int32))
    return [i]


def test_R2_DV55_a_crashed_python_process_is_not_ready_and_restarts(tmp_path, with_numpy):
    python_model(tmp_path / "models", "crashes", CRASHES)
    with Server(tmp_path / "models", tmp_path) as s, th.InferenceServerClient(s.http) as c:
        assert c.infer("crashes", one(5)).as_numpy("OUTPUT0").tolist() == [5]
        with pytest.raises(InferenceServerException, match="the process of model instance 'crashes_0' ended"):
            c.infer("crashes", one(666))
        assert not c.is_model_ready("crashes")
        assert c.is_server_ready()  # it asks for the states of models alone, as in Triton
        until(lambda: c.is_model_ready("crashes"), 60, "the model did not become ready again", s.log)
        assert c.infer("crashes", one(7)).as_numpy("OUTPUT0").tolist() == [7]


def test_R3_DV56_a_missing_model_file_is_reported_immediately(tmp_path, with_numpy):
    python_model(tmp_path / "models", "nofile", None)
    with Server(tmp_path / "models", tmp_path, "--model-control-mode=explicit",
                "--backend-config=python,stub-timeout-seconds=600") as s, \
            th.InferenceServerClient(s.http, network_timeout=120) as c:  # less than a process may take to start
        with pytest.raises(InferenceServerException, match="nofile/1/model.py") as e:
            c.load_model("nofile")
        assert e.value.status() == "400"


def test_R8_DV57_correlation_ids_that_are_strings(tmp_path):
    """The id reaches the model as a control tensor, for every position of a request in its batch."""
    repo = tmp_path / "models"
    config = """max_batch_size: 4
sequence_batching { control_input { name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } } }
"""
    io = [("INPUT0", "INT32", [1]), ("ID", "BYTES", [1])], [("OUTPUT0", "INT32", [1]), ("WHO", "BYTES", [1])]
    models.write(repo / "who/config.pbtxt", 'backend: "onnxruntime"\n' + models.tensors("input", io[0][:1])
                 + models.tensors("output", io[1]) + config)
    nodes = [models.helper.make_node("Identity", ["INPUT0"], ["OUTPUT0"]),
             models.helper.make_node("Identity", ["ID"], ["WHO"])]
    models.onnx_graph(repo / "who/1/model.onnx", nodes, *io)
    with Server(repo, tmp_path) as s:
        for module, url in ((th, s.http), (tg, s.grpc)):
            with module.InferenceServerClient(url) as c:
                for name in ("left", "a longer one", "日本"):
                    i = module.InferInput("INPUT0", [1, 1], "INT32")
                    i.set_data_from_numpy(np.array([[3]], np.int32))
                    r = c.infer("who", [i], sequence_id=name, sequence_start=True, sequence_end=True)
                    assert r.as_numpy("WHO").tolist() == [[name.encode()]] and r.as_numpy("OUTPUT0").tolist() == [[3]]


ECHO = """    def execute(self, requests):
        inputs = [pb.get_input_tensor_by_name(r, "INPUT0").as_numpy() for r in requests]
        return [pb.InferenceResponse([pb.Tensor("OUTPUT0", x)]) for x in inputs]
"""


def test_A16_DV110_requests_larger_than_the_shared_memory_are_served(tmp_path, with_numpy):
    """The shared memory grows with the request. It has no name, so no error can show one."""
    repo = tmp_path / "models"
    io = [[(n, "INT32", [-1])] for n in ("INPUT0", "OUTPUT0")]
    models.write(repo / "echo/config.pbtxt",
                 'backend: "python"\n' + models.tensors("input", io[0]) + models.tensors("output", io[1]))
    models.write(repo / "echo/1/model.py", models.PYTHON_HEAD + ECHO)
    options = ["--backend-config=python,shm-default-byte-size=1048576",
               "--backend-config=python,shm-growth-byte-size=1048576"]
    with Server(repo, tmp_path, *options) as s, th.InferenceServerClient(s.http, network_timeout=120) as c:
        x = np.arange((48 << 20) // 4, dtype=np.int32)
        i = th.InferInput("INPUT0", x.shape, "INT32")
        i.set_data_from_numpy(x)
        assert np.array_equal(c.infer("echo", [i]).as_numpy("OUTPUT0"), x)
        assert c.infer("echo", one(7)).as_numpy("OUTPUT0").tolist() == [7]
        for pid in processes(s.process.pid):
            mapped = pathlib.Path(f"/proc/{pid}/maps").read_text()
            opened = [os.readlink(p) for p in pathlib.Path(f"/proc/{pid}/fd").iterdir() if p.is_symlink()]
            assert "/dev/shm/" not in mapped + "".join(opened), (pid, opened)


def processes(pid):
    """A process and its child processes."""
    found = [pid]
    for task in os.listdir(f"/proc/{pid}/task"):
        for child in pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text().split():
            found += processes(int(child))
    return found


RAISES = """    def execute(self, requests):
        import os, sys, time
        n = int(pb.get_input_tensor_by_name(requests[0], "INPUT0").as_numpy()[0])
        if n == 1:
            raise ValueError("not this one")
        if n == 2:
            sys.exit("gone")
        if n == 3:
            raise SystemExit(4)
        if n == 4:
            open("HERE/begun", "w").close()
            while not os.path.exists("HERE/open"):
                time.sleep(0.01)
        return [pb.InferenceResponse([pb.Tensor("OUTPUT0", pb.get_input_tensor_by_name(r, "INPUT0").as_numpy())])
                for r in requests]
"""


def test_D1_what_execute_raises_fails_its_batch_with_the_text(tmp_path):
    """The process stays, and the next request is answered."""
    python_model(tmp_path / "models", "raises", RAISES)
    with Server(tmp_path / "models", tmp_path) as s:
        before = processes(s.process.pid)
        with th.InferenceServerClient(s.http) as h, tg.InferenceServerClient(s.grpc) as g:
            for c, module in (h, th), (g, tg):
                for n, text in (1, "ValueError: not this one"), (2, "SystemExit: gone"), (3, "SystemExit: 4"):
                    with pytest.raises(InferenceServerException, match=text):
                        c.infer("raises", one_of(module, n))
                    assert c.infer("raises", one_of(module, 9)).as_numpy("OUTPUT0").tolist() == [9]
        assert processes(s.process.pid) == before


def one_of(module, value):
    i = module.InferInput("INPUT0", [1], "INT32")
    i.set_data_from_numpy(np.array([value], np.int32))
    return [i]


def held(server):
    """What requests may hold: goroutines, descriptors of all processes, and requests that wait."""
    found = samples(scrape(server))
    descriptors = sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in processes(server.process.pid))
    waiting = found['nv_inference_pending_request_count{model="raises",version="1"}']
    return found["nereid_goroutines"], descriptors, waiting


def test_A22_clients_that_leave_leave_nothing(tmp_path):
    """In the header, in the body, while a request waits, while one is executed, and before the answer is read."""
    python_model(tmp_path / "models", "raises", RAISES.replace("HERE", str(tmp_path)))
    with Server(tmp_path / "models", tmp_path / "work") as s, th.InferenceServerClient(s.http) as c:
        assert c.infer("raises", one(9)).as_numpy("OUTPUT0").tolist() == [9]
        text = lambda n: b'{"inputs":[{"name":"INPUT0","datatype":"INT32","shape":[1],"data":[%d]}]}' % n
        head = b"POST /v2/models/raises/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
        whole = lambda n: head % len(text(n)) + text(n)
        message = infer_message(4)
        files = lambda: {p for p in (tmp_path / "work/data").rglob("*") if not p.name.startswith("nereid.db")}
        kept = files()
        until(lambda: held(s)[2] == 0, 60, "a request waits")
        begin = held(s)
        for _ in range(5):
            left = []
            for data in whole(4), whole(4), whole(9), whole(4)[:20], whole(4)[:-5]:
                left.append(socket.create_connection(address(s.http)))
                left[-1].sendall(data)
                # Waiting requests are sent to a free process together, and then none of them is pending.
                until((tmp_path / "begun").exists, 60, "the first request is not executed")
            for whatever in "header", "body", "executes", "waits":
                stream = http2.Connection(s.grpc)
                left.append(stream)
                if whatever == "header":
                    stream.send(http2.headers(1, http2.INFER)[:15])
                else:
                    stream.message(stream.open(http2.INFER), message[:None if whatever != "body" else -3],
                                   end=whatever != "body")
            until(lambda: held(s)[2] >= 3, 60, "nothing waits", lambda: str(held(s)))
            for connection in left:
                connection.close()
        (tmp_path / "open").touch()

        def settled():
            goroutines, descriptors, pending = held(s)
            return goroutines <= begin[0] + 2 and descriptors <= begin[1] + 2 and pending == 0

        until(settled, 60, f"something is left: {begin}", lambda: str(held(s)))
        assert not files() - kept
        assert c.infer("raises", one(9)).as_numpy("OUTPUT0").tolist() == [9]


def infer_message(value):
    request = service_pb2.ModelInferRequest(model_name="raises", raw_input_contents=[np.int32(value).tobytes()])
    request.inputs.add(name="INPUT0", datatype="INT32", shape=[1])
    return request.SerializeToString()


@pytest.mark.parametrize("flood", ["resets", "continuations", "pings"])
def test_A13_floods_end_their_connection(tmp_path, flood):
    """Long before the attacker is done. Other clients of the port are served."""
    frames = {"resets": lambda stream: http2.headers(stream, http2.LIVE) + http2.frame(3, 0, stream, b"\0\0\0\x08"),
              "continuations": lambda _: http2.frame(9, 0, 1), "pings": lambda _: http2.frame(6, 0, 0, bytes(8))}[flood]
    python_model(tmp_path / "models", "raises", RAISES)
    with Server(tmp_path / "models", tmp_path) as s, tg.InferenceServerClient(s.grpc) as other:
        with http2.Connection(s.grpc) as c:
            if flood == "continuations":  # of a header block that does not end
                c.send(http2.frame(1, 0, 1, http2.header_block(http2.LIVE)))
            with contextlib.suppress(ConnectionError):
                for n in range(200):  # a thousand at once, so that a slow machine is a flood too
                    c.send(*(frames(2 * (1000 * n + k) + 1) for k in range(1000)))
                pytest.fail("the connection is open after 200,000 of them")
        assert other.infer("raises", one_of(tg, 9)).as_numpy("OUTPUT0").tolist() == [9]
