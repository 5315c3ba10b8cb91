"""Promises of docs/reliability.md on a running server. Bounds in time depend on the load of the machine, so only make
soak checks them."""

import base64
import concurrent.futures
import json
import os
import pathlib
import queue
import re
import resource
import signal
import socket
import sqlite3
import stat
import subprocess
import threading
import time

import numpy as np
import pytest
import tritonclient.grpc as tg
import tritonclient.http as th
from tritonclient.utils import InferenceServerException

import models
from harness import BINARY, REFERENCE, Server, free_port, until
from limits import MIB, fill, small_disk
from test_metrics import samples, scrape
from test_options import address, refused
from test_reliability import ECHO, one, processes, python_model
from test_soak import FULL

pytestmark = pytest.mark.skipif(REFERENCE, reason="promises of the server under test")

GATE = """    def execute(self, requests):
        import os, time
        for r in requests:
            n = int(pb.get_input_tensor_by_name(r, "INPUT0").as_numpy()[0])
            open(os.path.join(os.environ["HERE"], "inside.%d" % n), "w").close()
            while not os.path.exists(os.path.join(os.environ["HERE"], "open")):
                time.sleep(0.01)
        return [pb.InferenceResponse([pb.Tensor("OUTPUT0", pb.get_input_tensor_by_name(r, "INPUT0").as_numpy())])
                for r in requests]
"""


def bound(seconds, begin):
    """Checks a time only in make soak, which runs alone."""
    took = time.monotonic() - begin
    print(f"took {took:.3f} s of {seconds}")
    assert not FULL or took <= seconds


def infer(module, at, model, value):
    with module.InferenceServerClient(at, **({"network_timeout": 600, "connection_timeout": 600} if module is th
                                             else {})) as c:
        i = module.InferInput("INPUT0", [1], "INT32")
        i.set_data_from_numpy(np.array([value], np.int32))
        return int(c.infer(model, [i]).as_numpy("OUTPUT0")[0])


def here(folder):
    return ["env", f"HERE={folder}", BINARY, "serve", "--model-env=HERE"]


@pytest.mark.bounds
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_F5_B002_H008_DV105_requests_in_flight_are_answered_at_shutdown(tmp_path, sig):
    """Eight requests are in the server, one of them in the model, when the signal arrives. All get their own answers.
    Meanwhile the server takes no new ones."""
    python_model(tmp_path / "models", "gate", GATE)
    with Server(tmp_path / "models", tmp_path, command=here(tmp_path)) as s, \
            concurrent.futures.ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(infer, *((th, s.http) if n % 2 else (tg, s.grpc)), "gate", n) for n in range(8)]
        waiting = 'nv_inference_pending_request_count{model="gate",version="1"}'
        until(lambda: samples(scrape(s))[waiting] == 7 and list(tmp_path.glob("inside.*")), 60, "not all are in", s.log)
        s.process.send_signal(sig)
        until(lambda: refused(address(s.http)) and refused(address(s.grpc)), 60, "it still listens", s.log)
        assert s.process.poll() is None and not any(c.done() for c in calls)
        begin = time.monotonic()
        (tmp_path / "open").touch()
        assert [c.result(120) for c in calls] == list(range(8))
        assert s.process.wait(120) == 0, s.log()[-2000:]
        bound(30, begin)


def test_F5_G019_the_log_says_which_models_the_exit_waits_for(tmp_path):
    python_model(tmp_path / "models", "gate", GATE)
    with Server(tmp_path / "models", tmp_path, command=here(tmp_path)) as s, concurrent.futures.ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(infer, *((th, s.http) if n else (tg, s.grpc)), "gate", n) for n in range(2)]
        waiting = 'nv_inference_pending_request_count{model="gate",version="1"}'
        until(lambda: samples(scrape(s))[waiting] == 1 and list(tmp_path.glob("inside.*")), 60, "not both are in",
              s.log)
        s.process.send_signal(signal.SIGTERM)
        try:
            until(lambda: "Model 'gate' (version 1) has 2 in-flight inferences" in s.log(), 20, "no line", s.log)
        finally:
            (tmp_path / "open").touch()
        assert [c.result(120) for c in calls] == [0, 1]
        assert s.process.wait(120) == 0, s.log()[-2000:]


def add(module, at, sequence, value, **flags):
    """Sends one request of a sequence, and returns the sum of the sequence."""
    with module.InferenceServerClient(at) as c:
        i = module.InferInput("INPUT", [1, 1], "INT32")
        i.set_data_from_numpy(np.array([[value]], np.int32))
        return int(c.infer("sum", [i], sequence_id=sequence, **flags).as_numpy("OUTPUT")[0][0])


@pytest.mark.parametrize("strategy", ["direct { }", "oldest { max_candidate_sequences: 8 }"], ids=["direct", "oldest"])
def test_F5_G019_sequences_that_have_begun_can_end_at_shutdown(tmp_path, strategy):
    """Two sequences are live at the signal. Both can go on, and no other can begin. The server exits when both
    ended."""
    models.write_running_sum(tmp_path / "models", "sum", strategy)
    with Server(tmp_path / "models", tmp_path) as s:
        assert add(th, s.http, 1, 10, sequence_start=True) == 10
        assert add(tg, s.grpc, 2, 20, sequence_start=True) == 20
        s.process.send_signal(signal.SIGTERM)
        until(lambda: s.get("/v2/health/ready").status != 200, 60, "it still takes requests", s.log)
        for module, at in (th, s.http), (tg, s.grpc):
            for sequence in 1, 3:
                with pytest.raises(InferenceServerException, match="Server is stopping, scheduler for model has "
                                                                   "stopped accepting new inference requests"):
                    add(module, at, sequence, 1, sequence_start=True)
        assert add(th, s.http, 1, 1) == 11
        assert add(th, s.http, 1, 1, sequence_end=True) == 12
        until(lambda: "Model 'sum' (version 1) has 1 in-flight inferences" in s.log(), 60, "it still has two", s.log)
        assert s.process.poll() is None
        assert add(tg, s.grpc, 2, 2, sequence_end=True) == 22
        assert s.process.wait(120) == 0, s.log()[-2000:]
        assert "Model 'sum' (version 1) has 2 in-flight inferences" in s.log()


def test_F5_H008_a_sequence_whose_client_left_does_not_hold_the_server(tmp_path):
    """Nobody ends the sequence, whose idle time is a minute. The server exits within its timeout for the exit."""
    models.write_running_sum(tmp_path / "models", "sum")
    with Server(tmp_path / "models", tmp_path, "--exit-timeout-secs=1") as s:
        assert add(th, s.http, 1, 10, sequence_start=True) == 10
        assert s.stop() == 0
        assert "Model 'sum' (version 1) has 1 in-flight inferences" in s.log()


def test_F5_DV52_a_second_signal_stops_at_once(tmp_path):
    """The model never answers. The first signal waits for it, the second does not."""
    python_model(tmp_path / "models", "gate", GATE)
    with Server(tmp_path / "models", tmp_path, "--exit-timeout-secs=3600", command=here(tmp_path)) as s, \
            concurrent.futures.ThreadPoolExecutor(1) as pool:
        call = pool.submit(infer, th, s.http, "gate", 1)
        until(lambda: list(tmp_path.glob("inside.*")), 60, "it is not in", s.log)
        s.process.send_signal(signal.SIGTERM)
        until(lambda: refused(address(s.http)), 60, "it still listens", s.log)
        assert s.process.poll() is None
        s.process.send_signal(signal.SIGTERM)
        s.process.wait(60)
        with pytest.raises(Exception):
            call.result(60)


def test_A19_line_breaks_and_escapes_stay_in_one_log_line(tmp_path):
    repo = models.write_identity(tmp_path / "models", "m").parent
    nasty = "x\nI forged\r\x1b[31mred\x07"
    with Server(repo, tmp_path, "--log-verbose=1", "--model-control-mode=explicit", "--load-model=m") as s:
        begin = len(s.log())
        body = {"id": nasty, "inputs": [{"name": nasty, "datatype": "FP32", "shape": [1, 16], "data": [0] * 16}]}
        assert s.post("/v2/models/m/infer", body).status == 400
        quoted = "".join(f"%{b:02x}" for b in nasty.encode())
        assert s.post(f"/v2/repository/models/{quoted}/load").status == 400
        assert s.post(f"/v2/models/{quoted}/infer", body).status in (400, 404)
        with socket.create_connection(address(s.http)) as raw:  # a client library would refuse to send this header
            raw.sendall(b"GET /v2 HTTP/1.1\r\nHost: localhost\r\nX-Note: a\x1b[31m\x07b\r\n\r\n")
            raw.recv(1000)
        override = {"parameters": {"config": json.dumps({"backend": nasty})}}
        assert s.post("/v2/repository/models/m/load", override).status == 400
        s.post("/v2/repository/models/m/unload")
        until(lambda: "successfully unloaded 'm'" in s.log(), 60, "the log does not go on", s.log)
        told = [line for line in s.log()[begin:].splitlines() if "forged" in line]
        assert any(r"'x\nI forged\u000d\u001b[31mred\u0007'" in line for line in told), told
        for line in s.log()[begin:].splitlines():
            assert re.match(r"[VIWE]\d{4} |\d{4}-\d\d-\d\dT", line), line
            assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", line), line


@pytest.mark.bounds
@pytest.mark.parametrize("text", ["x" * (50 << 20), "max_batch_size: 1\n" * 1_000_000,
                                  "parameters { value { " * 100_000, "instance_group [ { count: 1000000000 } ]\n"],
                         ids=["50 MB", "a million fields", "deep nesting", "a billion instances"])
def test_B2_hostile_configurations_cost_little(tmp_path, text):
    """Each is refused by file, and costs less than 200 MB; in less than a second, which make soak checks."""
    repo = models.write_identity(tmp_path / "models", "m").parent
    with Server(repo, tmp_path, "--model-control-mode=explicit", "--load-model=m") as s:
        models.write(repo / "hostile/config.pbtxt", 'backend: "identity"\n' + text)
        (repo / "hostile/1").mkdir()
        before = peak(s.process.pid)
        begin = time.monotonic()
        answer = s.post("/v2/repository/models/hostile/load")
        bound(1, begin)
        assert answer.status in (400, 500) and "config.pbtxt" in answer.error, answer.body[:500]
        assert peak(s.process.pid) - before < 200_000, (before, peak(s.process.pid))
        assert s.get("/v2/models/m/ready").status == 200


def peak(pid):
    """The largest resident memory of a process so far, in kB."""
    return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])


DIES = """    def execute(self, requests):
        import ctypes, os, signal
        n = int(pb.get_input_tensor_by_name(requests[0], "INPUT0").as_numpy()[0])
        if n == 1:
            os._exit(3)
        if n == 2:
            ctypes.string_at(0)
        if n == 3:
            os.abort()
        return [pb.InferenceResponse([pb.Tensor("OUTPUT0", pb.get_input_tensor_by_name(r, "INPUT0").as_numpy())])
                for r in requests]
"""


@pytest.mark.bounds
@pytest.mark.parametrize("how", [1, 2, 3], ids=["os._exit", "SIGSEGV", "abort"])
def test_D2_a_process_that_dies_fails_its_request_and_comes_back(tmp_path, how):
    """Its request fails within 1 s, and it serves again within 30 s. Only make soak checks the times."""
    python_model(tmp_path / "models", "dies", DIES)
    with Server(tmp_path / "models", tmp_path) as s, th.InferenceServerClient(s.http) as c:
        assert c.infer("dies", one(9)).as_numpy("OUTPUT0").tolist() == [9]
        begin = time.monotonic()
        with pytest.raises(InferenceServerException, match="the process of model instance 'dies_0' ended"):
            c.infer("dies", one(how))
        bound(1, begin)
        assert not c.is_model_ready("dies")
        until(lambda: c.is_model_ready("dies"), 120, "it does not come back", s.log)
        bound(30, begin)
        assert c.infer("dies", one(8)).as_numpy("OUTPUT0").tolist() == [8]


SENDS = """    def execute(self, requests):
        import os
        for r in requests:
            sender = r.get_response_sender()
            for n in range(1 << 30):
                if sender.is_cancelled():
                    break
                sender.send(pb.InferenceResponse([pb.Tensor("OUTPUT0", np.array([n], np.int32))]))
            sender.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def held(pid):
    """What a server holds: open files of it and of its processes, the processes, and named shared memory."""
    files = sum(len(os.listdir(f"/proc/{p}/fd")) for p in processes(pid))
    return files, len(processes(pid)), sorted(n for n in os.listdir("/dev/shm") if "nereid" in n or "triton" in n)


@pytest.mark.bounds
def test_D7_a_cancelled_stream_stops_a_model_that_still_sends(tmp_path):
    """Each client leaves after the first responses. The model then stops, and nothing of the stream is left."""
    repo = tmp_path / "models"
    python_model(repo, "sends", SENDS)
    config = repo / "sends/config.pbtxt"
    config.write_text(config.read_text() + "model_transaction_policy { decoupled: true }\n")
    with Server(repo, tmp_path) as s:
        def stream():
            got = queue.Queue()
            with tg.InferenceServerClient(s.grpc) as c:
                c.start_stream(callback=lambda result, error: got.put(error or result))
                i = tg.InferInput("INPUT0", [1], "INT32")
                i.set_data_from_numpy(np.zeros(1, np.int32))
                c.async_stream_infer("sends", [i])
                assert [int(got.get(timeout=60).as_numpy("OUTPUT0")[0]) for _ in range(3)] == [0, 1, 2]
                c.stop_stream(cancel_requests=True)

        rounds = 100 if FULL else 10
        for _ in range(rounds):  # as many as are measured: until then the memory for responses that wait still grows
            stream()
        until(lambda: ended(s) == rounds, 60, "the model does not stop", s.log)
        before = held(s.process.pid)
        memory = resident(s.process.pid)
        for _ in range(rounds):
            stream()
        until(lambda: ended(s) == 2 * rounds, 60, "the model does not stop", s.log)
        until(lambda: all(now <= then for now, then in zip(held(s.process.pid), before)), 60, "something is left",
              lambda: f"{before}, {held(s.process.pid)}")
        assert resident(s.process.pid) < memory * 1.1 + 16_000, "memory grew"


def ended(server):
    stats = server.get("/v2/models/sends/stats").json["model_stats"][0]["inference_stats"]
    return stats["success"]["count"] + stats["fail"]["count"]


def resident(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])


@pytest.mark.parametrize("strategy", ["direct { }", "oldest { max_candidate_sequences: 8 }"], ids=["direct", "oldest"])
def test_E3_slots_of_sequences_whose_clients_left_are_freed(tmp_path, strategy):
    """Sequences fill all slots, and their clients leave without END. After the idle time the slots serve others. A
    request for a sequence that has gone is an error; a repeated START begins again."""
    repo = tmp_path / "models"
    folder = models.write_running_sum(repo, "sum", strategy)
    config = (folder / "config.pbtxt").read_text().replace("60000000", "300000")
    (folder / "config.pbtxt").write_text(config + "instance_group [ { count: 1 kind: KIND_CPU } ]\n")
    models.write_running_sum(repo, "patient", strategy)

    def ask(client, sequence, value, model="sum", **flags):
        i = th.InferInput("INPUT", [1, 1], "INT32")
        i.set_data_from_numpy(np.array([[value]], np.int32))
        return int(client.infer(model, [i], sequence_id=sequence, **flags).as_numpy("OUTPUT")[0][0])

    with Server(repo, tmp_path) as s, th.InferenceServerClient(s.http, network_timeout=120) as c:
        for n in range(16):  # twice as many as there are slots: the later ones wait until the first are dropped
            with th.InferenceServerClient(s.http, network_timeout=120) as leaves:
                assert ask(leaves, 1 + n, 5, sequence_start=True) == 5
        for n in range(8):
            with pytest.raises(InferenceServerException, match="must specify the START flag"):
                ask(c, 1 + n, 1)
        assert ask(c, 99, 2, "patient", sequence_start=True) == 2
        assert ask(c, 99, 3, "patient", sequence_start=True) == 3, "a repeated START does not begin again"
        assert ask(c, 99, 4, "patient", sequence_end=True) == 7


@pytest.mark.parametrize("service", ["http", "grpc", "metrics", "ui"])
def test_F6_a_busy_port_stops_the_start(tmp_path, service):
    """One line names the port and its holder. No other port is open, and the exit status is 1."""
    repo = models.write_identity(tmp_path / "models", "m").parent
    with socket.create_server(("127.0.0.1", 0)) as busy:
        ports = {n: free_port() for n in ("http", "grpc", "metrics", "ui")}
        ports[service] = busy.getsockname()[1]
        argv = [BINARY, "serve", f"--model-repository={repo}", f"--data-dir={tmp_path / 'data'}"]
        done = subprocess.run(argv + [f"--{n}-port={p}" for n, p in ports.items()], capture_output=True, text=True,
                              timeout=120)
        lines = [line for line in done.stderr.splitlines() if f":{ports[service]}'" in line]
        assert done.returncode == 1 and len(lines) == 1 and f"pid {os.getpid()}" in lines[0], done.stderr
        assert all(refused(("127.0.0.1", p)) for n, p in ports.items() if n != service)


def test_F7_the_lock_of_a_killed_server_is_taken_over(tmp_path):
    """Two servers on one data folder: the second refuses. After kill -9 of the first, a new one starts."""
    repo = models.write_identity(tmp_path / "models", "m").parent
    first = Server(repo, tmp_path)
    first.start()
    try:
        done = subprocess.run([BINARY, "serve", f"--model-repository={repo}", f"--data-dir={tmp_path / 'data'}",
                               *(f"--{p}-port=0" for p in ("http", "grpc", "metrics", "ui"))], capture_output=True,
                              text=True, timeout=120)
        assert done.returncode == 1 and str(tmp_path / "data") in done.stderr, done.stderr
        assert first.get("/v2/health/ready").status == 200
    finally:
        first.kill()
    with Server(repo, tmp_path) as s:
        assert s.get("/v2/models/m/ready").status == 200


def test_F10_unusual_folders(tmp_path):
    """Folders with spaces, other scripts and paths of over 250 bytes, and a program whose folder stays as it is."""
    odd = tmp_path / "a folder" / "家 ünïcode" / ("long" * 40)
    python_model(odd / "models", "echo", GATE)
    (tmp_path / "open").touch()
    models.write_identity(odd / "models", "onnx")
    program = odd / "bin"
    program.mkdir()
    os.link(BINARY, program / "nereid") if os.stat(BINARY).st_dev == os.stat(program).st_dev else None
    if not (program / "nereid").exists():
        (program / "nereid").write_bytes(pathlib.Path(BINARY).read_bytes())
        (program / "nereid").chmod(0o755)
    program.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        command = ["env", f"HERE={tmp_path}", f"HOME={odd}", str(program / "nereid"), "serve",
                   "--model-env=HERE"]
        with Server(odd / "models", odd / "work", command=command) as s:
            assert infer(th, s.http, "echo", 5) == 5
            assert s.get("/v2/models/onnx/ready").status == 200
        assert len(os.fsencode(odd / "models/echo/1/model.py")) > 250
        assert os.listdir(program) == ["nereid"], "the server writes beside its program"  # root may, in any folder
    finally:
        program.chmod(0o755)


def test_F11_a_link_in_place_of_the_log_is_not_followed(tmp_path):
    """The log has one file for the whole run. What is put in its place later is neither followed nor written."""
    repo = models.write_identity(tmp_path / "models", "m").parent
    log, victim = tmp_path / "server.log", tmp_path / "victim"
    victim.write_text("precious")
    with Server(repo, tmp_path / "work") as s:
        http, grpc_ = free_port(), free_port()
        process = subprocess.Popen([BINARY, "serve", f"--model-repository={repo}", f"--data-dir={tmp_path / 'data'}",
                                    f"--http-port={http}", f"--grpc-port={grpc_}", "--metrics-port=0", "--ui-port=0",
                                    "--model-control-mode=explicit", f"--log-file={log}"], stderr=subprocess.DEVNULL)
        try:
            until(lambda: not refused(("127.0.0.1", http)), 60, "it does not listen", s.log)
            log.rename(tmp_path / "moved")
            log.symlink_to(victim)
            at = f"127.0.0.1:{http}"
            assert s.request("POST", "/v2/repository/models/m/load", address=at).status == 200
            until(lambda: "successfully loaded 'm'" in (tmp_path / "moved").read_text(), 60, "the log ends", s.log)
        finally:
            process.terminate()
            process.wait(120)
    assert victim.read_text() == "precious"


def test_F14_few_descriptors_little_memory_one_core(tmp_path):
    """With 256 descriptors, 512 MB of data and one core the server starts. It sheds what is too much, and recovers."""
    repo = models.write_identity(tmp_path / "models", "m").parent
    limits = ["prlimit", "--nofile=256:256", f"--data={512 << 20}", "taskset", "-c", "0"]
    with Server(repo, tmp_path, command=[*limits, BINARY, "serve"]) as s:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
        many = []
        try:
            for _ in range(600):
                try:
                    c = socket.create_connection(address(s.http), 5)
                    c.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    many.append(c)
                except OSError:
                    pass
            answers = {}
            for c in many:
                c.settimeout(30)
                try:
                    first = c.recv(1000).split(b"\r\n")[0].decode()
                except OSError:
                    first = ""
                answers[first] = answers.get(first, 0) + 1
            assert answers.get("HTTP/1.1 200 OK", 0) > 50, answers
            assert sum(answers.values()) > answers["HTTP/1.1 200 OK"], f"nothing was shed: {answers}"
            assert set(answers) <= {"HTTP/1.1 200 OK", "HTTP/1.1 503 Service Unavailable", ""}, answers
        finally:
            for c in many:
                c.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        until(lambda: s.get("/v2/health/ready").status == 200, 60, "it does not recover", s.log)
        body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 16], "data": [1] * 16}]}
        assert s.post("/v2/models/m/infer", body).json["outputs"][0]["data"] == [1] * 16


def begins(db, how):
    """Whether a transaction can begin."""
    try:
        db.execute("BEGIN " + how)
    except sqlite3.OperationalError:
        return False
    return True


@pytest.mark.bounds
def test_F4_requests_do_not_wait_for_the_history(tmp_path):
    """For some seconds nothing can be written to the database, as while it is shortened. Requests are answered."""
    python_model(tmp_path / "models", "m", ECHO)
    with Server(tmp_path / "models", tmp_path) as s:
        def longest():
            """The longest of the requests of three seconds, with its connection; the server writes each second."""
            end, worst, n = time.monotonic() + 3, 0.0, 0
            while time.monotonic() < end or n < 50:
                for module, at in (th, s.http), (tg, s.grpc):
                    begin = time.monotonic()
                    assert infer(module, at, "m", n) == n
                    worst = max(worst, time.monotonic() - begin)
                n += 1
            return worst

        free = longest()
        history, other = [sqlite3.connect(tmp_path / "data/nereid.db", 0, isolation_level=None) for _ in range(2)]
        until(lambda: begins(history, "EXCLUSIVE"), 60, "the database is always in use")
        assert not begins(other, "IMMEDIATE")
        taken = longest()
        history.close()
        other.close()
    print(f"the longest request: {taken * 1000:.1f} ms; while the database was free: {free * 1000:.1f} ms")
    assert not FULL or taken - free < 0.05


@pytest.mark.bounds
def test_A2_deep_JSON_is_refused_at_once(tmp_path):
    """100,000 levels cost no more than the few that are allowed. Only make soak checks the time."""
    repo = models.write_identity(tmp_path / "models", "m").parent
    tensor = '{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1,16],"data":%s}]}'
    with Server(repo, tmp_path) as s:
        for text in tensor % ("[" * 100_000), '{"parameters":' + '{"a":' * 100_000, '{"x":' + "[" * 100_000:
            begin = time.monotonic()
            assert s.post("/v2/models/m/infer", text.encode()).status == 400
            bound(0.1, begin)


WAITS = """    def execute(self, requests):
        import os, time
        at = os.environ["HERE"]
        open(os.path.join(at, "inside"), "w").close()
        end = time.monotonic() + 60
        while not requests[0].is_cancelled() and time.monotonic() < end:
            time.sleep(0.001)
        with open(os.path.join(at, "seen.part"), "w") as f:
            f.write(str(time.monotonic() if requests[0].is_cancelled() else "never"))
        os.rename(os.path.join(at, "seen.part"), os.path.join(at, "seen"))
        return [pb.InferenceResponse([pb.Tensor("OUTPUT0", pb.get_input_tensor_by_name(r, "INPUT0").as_numpy())])
                for r in requests]
"""


@pytest.mark.bounds
def test_A23_a_model_sees_that_its_request_is_cancelled(tmp_path):
    """Within 100 ms, which only make soak checks."""
    python_model(tmp_path / "models", "waits", WAITS)
    with Server(tmp_path / "models", tmp_path, command=here(tmp_path)) as s, tg.InferenceServerClient(s.grpc) as c:
        i = tg.InferInput("INPUT0", [1], "INT32")
        i.set_data_from_numpy(np.zeros(1, np.int32))
        call = c.async_infer("waits", [i], lambda result, error: None)
        until(lambda: (tmp_path / "inside").exists(), 60, "it is not in", s.log)
        begin = time.monotonic()
        call.cancel()
        until(lambda: (tmp_path / "seen").exists(), 90, "the model does not end", s.log)
        seen = (tmp_path / "seen").read_text()
        assert seen != "never"
        assert not FULL or float(seen) - begin < 0.1


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a small disk")
def test_F2_a_full_disk_does_not_disturb_requests(tmp_path):
    """The database, the log, the trace and the folder of overrides are on a disk that is full for a while. Requests are
    answered, the page and a metric say what is wrong, and everything goes on when there is space again."""
    repo = models.write_identity(tmp_path / "models", "m").parent
    python_model(repo, "echo", ECHO)
    with small_disk(tmp_path / "data", 48 * MIB) as data:
        options = ["--log-verbose=1", f"--log-file={data / 'server.log'}",
                   f"--trace-config=triton,file={data / 'trace'}", "--trace-config=rate=1",
                   "--trace-config=level=TIMESTAMPS",
                   "--model-control-mode=explicit", "--load-model=*"]
        s = Server(repo, tmp_path, *options)
        s.log_path = data / "server.log"
        with s:
            def ask(n):
                for module, at in (th, s.http), (tg, s.grpc):
                    assert infer(module, at, "echo", n) == n

            def said():
                page = s.request("GET", "/api/server", address=s.ui_address).json
                banner = any("history database cannot be written" in w["text"] for w in page["warnings"])
                return banner and samples(scrape(s))["nereid_history_failing"] == 1

            ask(1)
            assert not said() and samples(scrape(s))["nereid_history_failing"] == 0
            full = fill(data)
            until(lambda: ask(2) or said(), 90, "the page does not say it", s.log)
            large = {"config": '{"backend": "onnxruntime"}', "file:1/model.onnx": base64.b64encode(bytes(MIB)).decode()}
            answer = s.post("/v2/repository/models/m/load", {"parameters": large})
            assert answer.status >= 400 and "no space" in answer.error, answer
            assert s.get("/v2/models/m/ready").status == 200
            for n in range(20):
                ask(n)
            written = (data / "trace").stat().st_size
            full.unlink()
            until(lambda: ask(3) or not said() and samples(scrape(s))["nereid_history_failing"] == 0, 90,
                  "the history does not go on", s.log)
            until(lambda: ask(4) or (data / "trace").stat().st_size > written, 60, "the trace does not go on", s.log)
            assert s.post("/v2/repository/models/m/unload").status == 200
            until(lambda: "successfully unloaded 'm'" in s.log(), 60, "the log does not go on", s.log)
