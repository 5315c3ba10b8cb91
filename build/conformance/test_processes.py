"""Processes of Python models that hang, crash, leave children behind or lose their files, and what they may see."""

import concurrent.futures
import http.client
import json
import os
import pathlib
import shutil
import signal

import pytest

import models
from harness import REFERENCE, Server, until

pytestmark = pytest.mark.skipif(REFERENCE, reason="tests this server's processes")

HEAD = models.PYTHON_HEAD.replace("import", "import os, signal, subprocess, sys, time\nimport", 1)
ECHO = """    def execute(self, requests):
        answers = []
        for r in requests:
            x = pb.get_input_tensor_by_name(r, "INPUT0").as_numpy()
            act(int(x[0]))
            answers.append(pb.InferenceResponse([pb.Tensor("OUTPUT0", np.array([os.getpid()], np.int32))]))
        return answers
"""
# What execute does with its number. Those below 1000 are harmless.
ACT = """
def act(n):
    if n >= 3000: subprocess.Popen(["sleep", str(n)], start_new_session=True)
    elif n >= 2000: note("hangs"); hang()
    elif n >= 1000: os._exit(3)

def note(what):
    with open(os.path.join(os.environ["TMPDIR"], what + "." + str(os.getpid())), "w") as f: f.write("x")

def hang():
    while True: pass
"""


def write(repo, name, top="", inside="", config="", act=ACT):
    one = lambda kind, n: models.tensors(kind, [(n, "INT32", [1])])
    models.write(repo / name / "config.pbtxt",
                 'backend: "python"\n' + one("input", "INPUT0") + one("output", "OUTPUT0") + config)
    head, klass = HEAD.rsplit("class ", 1)
    models.write(repo / name / "1/model.py", head + act + top + "\nclass " + klass + inside + ECHO)


HANGS = {
    "import": dict(top='note("import")\nhang()\n'),
    "initialize": dict(inside='    def initialize(self, args):\n        note("initialize")\n        time.sleep(3600)\n'),
    "auto_complete": dict(inside="    @staticmethod\n    def auto_complete_config(c):\n"
                                 '        note("auto_complete")\n        hang()\n'),
    "spin": dict(inside='    def initialize(self, args):\n        note("spin")\n        hang()\n'),
}


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """A folder in which models note their process ids. notes(what) waits for one and returns it."""
    folder = tmp_path / "notes"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))

    def find(what):
        (name,) = until(lambda: [p for p in os.listdir(folder) if p.startswith(what + ".")], 60, f"no {what}")
        return int(name.split(".")[1])

    find.folder = folder
    return find


@pytest.fixture
def pool():
    with concurrent.futures.ThreadPoolExecutor(16) as p:
        yield p


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(pid, server):
    until(lambda: not alive(pid), 60, f"process {pid} still runs", server.log)


def body(n):
    return {"inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1], "data": [n]}]}


def ask(server, name, n=1):
    return server.post(f"/v2/models/{name}/infer", body(n))


def pid_of(server, name):
    return until(lambda: (a := ask(server, name)).status == 200 and a.json["outputs"][0]["data"][0], 60,
                 f"{name} does not answer", server.log)


def load(server, name):
    return server.post(f"/v2/repository/models/{name}/load")


def unload(server, name):
    return server.post(f"/v2/repository/models/{name}/unload")


class Leaving:
    """A client that sends a request and leaves on a signal."""

    def __init__(self, server, name, n):
        import socket
        host, port = server.http.split(":")
        text = json.dumps(body(n)).encode()
        self.socket = socket.create_connection((host, int(port)))
        self.socket.sendall(f"POST /v2/models/{name}/infer HTTP/1.1\r\nHost: {server.http}\r\nContent-Length: "
                            f"{len(text)}\r\n\r\n".encode() + text)

    def leave(self):
        self.socket.close()

    def answer(self):
        response = http.client.HTTPResponse(self.socket)
        response.begin()
        return response.status, response.read().decode()


def test_D12_a_load_that_hangs_ends_at_its_limit(tmp_path, notes, pool):
    repo = tmp_path / "models"
    for name, code in HANGS.items():
        write(repo, name, **code)
    write(repo, "good")
    with Server(repo, tmp_path, "--model-control-mode=explicit", "--model-load-timeout-secs=8") as s:
        for answer in pool.map(lambda name: load(s, name), HANGS):
            assert answer.status == 400 and "--model-load-timeout-secs" in answer.error, answer.body
        for name in HANGS:
            gone(notes(name), s)
            state, reason = s.index()[name, "1"]
            assert state == "UNAVAILABLE" and "8 s" in reason, (state, reason)
        assert load(s, "good").status == 200 and ask(s, "good").status == 200


def test_D13_DV104_unload_cancels_a_load_that_hangs(tmp_path, notes, pool):
    """As many loads hang as may run at once. Unloading one of them makes place for another model."""
    repo = tmp_path / "models"
    for name, code in HANGS.items():
        write(repo, name, **code)
    write(repo, "good")
    with Server(repo, tmp_path, "--model-control-mode=explicit") as s:
        loads = {name: pool.submit(load, s, name) for name in HANGS}
        pids = {name: notes(name) for name in HANGS}
        good = pool.submit(load, s, "good")
        for name in HANGS:
            assert unload(s, name).status == 200
            answer = loads[name].result(60)
            assert answer.status == 400 and "unloaded" in answer.error, answer.body
            gone(pids[name], s)
            assert s.state(name) == "UNAVAILABLE"
            assert good.result(60).status == 200 and ask(s, "good").status == 200


def test_D14_an_abandoned_execution_is_stopped(tmp_path, notes):
    """The client of an endless execution leaves. The process is stopped, and the model serves again."""
    repo = tmp_path / "models"
    write(repo, "m")
    with Server(repo, tmp_path, "--backend-config=python,abandoned-timeout-seconds=2") as s:
        before = pid_of(s, "m")
        client = Leaving(s, "m", 2000)
        assert notes("hangs") == before
        client.leave()
        gone(before, s)
        assert pid_of(s, "m") != before


def test_D14_a_slow_execution_whose_client_waits_goes_on(tmp_path, notes):
    repo = tmp_path / "models"
    write(repo, "m", act=ACT.replace("note(\"hangs\"); hang()", "note(\"hangs\"); time.sleep(n - 2000)"))
    with Server(repo, tmp_path, "--backend-config=python,abandoned-timeout-seconds=1") as s:
        before = pid_of(s, "m")
        assert ask(s, "m", 2004).json["outputs"][0]["data"] == [before]


def test_D15_unload_stops_a_process_that_hangs(tmp_path, notes):
    repo = tmp_path / "models"
    write(repo, "m")
    with Server(repo, tmp_path, "--model-control-mode=explicit", "--load-model=m",
                "--backend-config=python,abandoned-timeout-seconds=600") as s:
        pid = pid_of(s, "m")
        client = Leaving(s, "m", 2000)
        assert notes("hangs") == pid
        client.leave()
        assert unload(s, "m").status == 200
        gone(pid, s)  # within a minute, far less than abandoned-timeout-seconds
        until(lambda: s.state("m") == "UNAVAILABLE", 60, "still not unloaded", s.log)
        assert load(s, "m").status == 200 and pid_of(s, "m") != pid


def test_D15_DV103_unload_ends_though_clients_of_endless_executions_stay(tmp_path, notes, pool):
    """As many models as may load at once are unloaded, two of them after another load, while an endless execution of
    each goes on and its client stays. Meanwhile another model loads and answers."""
    repo = tmp_path / "models"
    names = ["a", "b", "c", "d"]
    for name in names:
        write(repo, name, act=ACT.replace('"hangs"', f'"{name}"'))
    write(repo, "good")
    with Server(repo, tmp_path, "--model-control-mode=explicit", "--backend-config=python,unload-timeout-seconds=3",
                *(f"--load-model={n}" for n in names)) as s:
        pids = {name: pid_of(s, name) for name in names}
        clients = [Leaving(s, name, 2000) for name in names]
        for name in names:
            assert notes(name) == pids[name]
        for name in names[:2]:
            assert load(s, name).status == 200
        unloads = [pool.submit(unload, s, name) for name in names]
        assert load(s, "good").status == 200 and ask(s, "good").status == 200
        assert unload(s, "good").status == 200 and load(s, "good").status == 200
        for answer in unloads:
            assert answer.result(120).status == 200, answer.result().body
        for name in names:
            until(lambda: s.state(name) == "UNAVAILABLE", 60, f"{name} is still not unloaded", s.log)
            gone(pids[name], s)
        for client in clients:
            code, text = client.answer()
            assert code == 503 and "unload-timeout-seconds" in text, (code, text)
        assert load(s, "a").status == 200 and pid_of(s, "a") != pids["a"]


def test_D16_DV52_the_server_stops_within_its_limit_with_processes_that_hang(tmp_path, notes, pool):
    repo = tmp_path / "models"
    for name, code in HANGS.items():
        write(repo, name, **code)
    write(repo, "m")
    write(repo, "waits", act=ACT.replace('"hangs"', '"waits"'))
    endless = '    def finalize(self):\n        note("finalize")\n        hang()\n'
    write(repo, "f", inside=endless)
    s = Server(repo, tmp_path, "--model-control-mode=explicit", "--load-model=m", "--load-model=f",
               "--load-model=waits", "--exit-timeout-secs=20")
    with s:
        pids = [pid_of(s, "m"), pid_of(s, "f"), pid_of(s, "waits")]
        loads = [pool.submit(load, s, name) for name in HANGS]
        pids += [notes(name) for name in HANGS]
        client = Leaving(s, "m", 2000)
        notes("hangs")
        client.leave()
        Leaving(s, "waits", 2000)  # this client stays
        notes("waits")
        assert s.stop() == 0, s.log()[-3000:]  # within two minutes: without a limit, the hangs do not end
        assert not any(alive(p) for p in pids)
        for x in loads:
            x.exception(60)


def test_D16_an_abandoned_process_does_not_hold_the_server(tmp_path, notes):
    repo = tmp_path / "models"
    write(repo, "m")
    with Server(repo, tmp_path, "--exit-timeout-secs=600") as s:
        pid = pid_of(s, "m")
        client = Leaving(s, "m", 2000)
        notes("hangs")
        client.leave()
        assert s.stop() == 0, s.log()[-3000:]  # within two minutes
        assert not alive(pid)


ENDS = 7  # one more than the failed starts after which a process is not started again


def test_D17_crashes_by_requests_do_not_turn_the_model_off(tmp_path, notes):
    """Different inputs crash the process, one after the other, and nothing else is answered between them."""
    repo = tmp_path / "models"
    write(repo, "m")
    with Server(repo, tmp_path) as s:
        for n in range(1000, 1000 + ENDS):
            until(lambda: "ended while it had the request" in ask(s, "m", n).error, 60, "no crash", s.log)
        assert pid_of(s, "m")


def test_D17_kills_while_idle_do_not_turn_the_model_off(tmp_path, notes):
    repo = tmp_path / "models"
    write(repo, "m")
    with Server(repo, tmp_path) as s:
        dead = set()
        for _ in range(ENDS):
            (pid,) = until(lambda: python_children(s) - dead, 60, "no process", s.log)
            until(lambda: s.get("/v2/models/m/ready").status == 200, 60, "not ready", s.log)
            os.kill(pid, signal.SIGKILL)
            dead.add(pid)
        assert pid_of(s, "m") not in dead


def python_children(server, word=b"python"):
    """The processes of models whose command line has a word."""
    found = set()
    for children in pathlib.Path(f"/proc/{server.process.pid}/task").glob("*/children"):
        for pid in map(int, children.read_text().split()):
            if word in b" ".join(pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:2]):
                found.add(pid)
    return found


def test_D18_an_input_that_crashes_twice_is_refused(tmp_path, notes):
    repo, saved = tmp_path / "models", tmp_path / "saved"
    saved.mkdir()
    write(repo, "m", config="instance_group { count: 2 kind: KIND_CPU }\n")
    with Server(repo, tmp_path, f"--crash-inputs-dir={saved}") as s:
        for _ in range(2):
            pid_of(s, "m")
            assert ask(s, "m", 1000).status == 503
        pid = pid_of(s, "m")
        answer = ask(s, "m", 1000)
        assert answer.status == 400 and "crashed the process of model 'm' twice" in answer.error, answer.body
        assert "until 20" in answer.error and s.get("/v2/models/m/ready").status == 200
        assert ask(s, "m").json["outputs"][0]["data"][0] in (pid, pid_of(s, "m"))
        (file,) = saved.iterdir()
        assert file.stat().st_mode & 0o777 == 0o600
        length = file.name.rsplit("-", 1)[1].removesuffix(".bin")
        answer = s.post("/v2/models/m/infer", file.read_bytes(), {"Inference-Header-Content-Length": length})
        assert answer.status == 400 and "twice" in answer.error, answer.body


def test_D18_without_a_folder_no_input_is_saved(tmp_path, notes):
    repo = tmp_path / "models"
    write(repo, "m")
    with Server(repo, tmp_path) as s:
        for _ in range(2):
            pid_of(s, "m")
            assert ask(s, "m", 1000).status == 503
        until(lambda: ask(s, "m", 1000).status == 400, 60, "the input is not refused", s.log)
        assert not [p for p in tmp_path.rglob("*") if p.suffix == ".bin"]


SECRETS = {"NEREID_TOKEN": "t0ken", "TRITONCACHE_REDIS_PASSWORD": "pw", "AWS_SECRET_ACCESS_KEY": "k",
           "GOOGLE_APPLICATION_CREDENTIALS": "/x", "AZURE_STORAGE_KEY": "k", "PRIVATE_THING": "1",
           "TORCH_HUB_TOKEN": "t", "HTTPS_PROXY": "http://me:secret@proxy", "HF_TOKEN": "h"}
PLAIN = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "HF_HOME": "/tmp/hf",
         "CUDA_CACHE_DISABLE": "1", "TZ": "UTC", "http_proxy": "http://proxy:3128"}
SHOW = 'import json\nopen(os.environ["TMPDIR"] + "/environ", "w").write(json.dumps(dict(os.environ)))\n'


def test_D19_DV86_models_do_not_see_the_servers_secrets(tmp_path, notes, monkeypatch):
    for name, value in {**SECRETS, **PLAIN, "MINE": "1", "MY_OTHER": "2"}.items():
        monkeypatch.setenv(name, value)
    repo = tmp_path / "models"
    write(repo, "m", top=SHOW)
    with Server(repo, tmp_path, "--model-env=MINE,MY_*", token="Bearer t0ken"):
        seen = json.loads((notes.folder / "environ").read_text())
    assert not SECRETS.keys() & seen.keys(), SECRETS.keys() & seen.keys()
    for name, value in {**PLAIN, "MINE": "1", "MY_OTHER": "2"}.items():
        assert seen.get(name) == value, name
    assert seen["PATH"] == os.environ["PATH"] or seen["PATH"].endswith(os.environ["PATH"])


def test_D19_installers_do_not_see_the_servers_secrets(tmp_path, notes, monkeypatch):
    """An installer runs the code of source packages. A program in place of uv notes what they would see."""
    tools = tmp_path / "tools"
    models.write(tools / "uv", f'#!/bin/sh\nenv > "{tmp_path}/environ"\nexit 1\n')
    (tools / "uv").chmod(0o755)
    monkeypatch.setattr("harness.PYTHON_FIRST", f"{tools}{os.pathsep}{os.environ['PATH']}")
    for name, value in {**SECRETS, "PIP_INDEX_URL": "https://pip", "UV_INDEX_URL": "https://uv"}.items():
        monkeypatch.setenv(name, value)
    repo = tmp_path / "models"
    write(repo, "m")
    models.write(repo / "m/requirements.txt", "nothing\n")
    with Server(repo, tmp_path, "--model-control-mode=explicit", token="Bearer t0ken") as s:
        assert load(s, "m").status == 400
    seen = dict(line.split("=", 1) for line in (tmp_path / "environ").read_text().splitlines() if "=" in line)
    hidden = SECRETS.keys() - {"HTTPS_PROXY"}  # packages come through the proxy
    assert not hidden & seen.keys(), hidden & seen.keys()
    assert seen["PIP_INDEX_URL"] == "https://pip" and seen["UV_INDEX_URL"] == "https://uv" and "HTTPS_PROXY" in seen


DAEMON = """    def initialize(self, args):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                note("daemon")
                for fd in range(3, 64):
                    try: os.close(fd)
                    except OSError: pass
                os.execvp("sleep", ["sleep", "3600"])
            os._exit(0)
        os.wait()
        self.child = subprocess.Popen(["sleep", "3601"], start_new_session=True, env={})
        with open(os.environ["TMPDIR"] + "/child." + str(self.child.pid), "w") as f: f.write("x")
"""


def clear(notes):
    for p in notes.folder.iterdir():
        p.unlink()


@pytest.fixture
def bystander():
    """A process of the same user in a separate session, which must not be killed."""
    import subprocess
    p = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    yield p
    assert p.poll() is None
    p.kill()
    p.wait()


def test_D20_children_in_other_sessions_end_with_the_model(tmp_path, notes, bystander):
    repo = tmp_path / "models"
    write(repo, "m", inside=DAEMON)
    with Server(repo, tmp_path, "--model-control-mode=explicit", "--load-model=m") as s:
        pids = notes("daemon"), notes("child")
        assert all(map(alive, pids))
        assert unload(s, "m").status == 200
        for pid in pids:
            gone(pid, s)
        clear(notes)
        assert load(s, "m").status == 200
        first = notes("daemon")
        clear(notes)
        os.kill(pid_of(s, "m"), signal.SIGKILL)  # the daemon ends when the process is started again
        gone(first, s)
        pids = notes("daemon"), notes("child")
        assert all(map(alive, pids))
        assert s.stop() == 0
        for pid in pids:
            gone(pid, s)


def test_D20_children_in_other_sessions_end_with_a_killed_server(tmp_path, notes, bystander):
    repo = tmp_path / "models"
    write(repo, "m", inside=DAEMON)
    with Server(repo, tmp_path) as s:
        pid = notes("daemon")
        s.process.kill()
        s.process.wait()
        gone(pid, s)


def test_D21_runtime_files_that_a_cleaner_removed_are_unpacked_again(tmp_path, notes):
    repo = tmp_path / "models"
    write(repo, "m")
    with Server(repo, tmp_path) as s:
        before = pid_of(s, "m")
        shutil.rmtree(tmp_path / "data/runtime/python/runtime")
        os.kill(before, signal.SIGKILL)
        assert pid_of(s, "m") != before
        assert not s.index()["m", "1"][1]


def test_D21_the_library_that_a_cleaner_removed_is_unpacked_again(tmp_path):
    """ONNX Runtime, for a model in a process."""
    repo = tmp_path / "models"
    models.write(repo / "m/config.pbtxt", 'backend: "onnxruntime"\nparameters { key: "isolation" value { string_value: '
                 '"process" } }\ninstance_group { count: 1 kind: KIND_CPU }\n')
    one = [("INPUT0", "INT32", [1])], [("OUTPUT0", "INT32", [1])]
    (repo / "m/1").mkdir(parents=True)
    models.onnx_graph(repo / "m/1/model.onnx", [models.helper.make_node("Neg", ["INPUT0"], ["OUTPUT0"])], *one)
    with Server(repo, tmp_path) as s:
        batch = {"inputs": [{**body(7)["inputs"][0], "shape": [1, 1]}]}
        ready = lambda: s.post("/v2/models/m/infer", batch).json.get("outputs", [{}])[0].get("data") == [-7]
        until(ready, 60, "no answer", s.log)
        shutil.rmtree(tmp_path / "data/runtime")
        (pid,) = python_children(s, b"worker")
        os.kill(pid, signal.SIGKILL)
        until(lambda: python_children(s, b"worker") - {pid} and ready(), 60, "no answer", s.log)


def test_D21_an_environment_that_a_cleaner_removed_is_unpacked_again(tmp_path, notes):
    """The environment is an archive of the tests' own one, with links to its packages."""
    import sys
    import tarfile
    repo = tmp_path / "models"
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (venv / "bin/python3").chmod(0o755)
    (venv / "pyvenv.cfg").write_text("home = /nowhere\n")
    write(repo, "m", config='parameters { key: "EXECUTION_ENV_PATH" value { string_value: '
                            '"$$TRITON_MODEL_DIRECTORY/env.tar.gz" } }\n')
    with tarfile.open(repo / "m/env.tar.gz", "w:gz") as t:
        t.add(venv, ".")
    with Server(repo, tmp_path) as s:
        before = pid_of(s, "m")
        shutil.rmtree(tmp_path / "data/runtime")
        os.kill(before, signal.SIGKILL)
        assert pid_of(s, "m") != before


FORK = """
import asyncio, gc, multiprocessing

def act(n):
    pass

def forked(n, requests):
    "What a forked process does with its number. Its exit status is the answer."
    if n == 1: sys.exit(3)
    if n == 2: raise ValueError("on purpose")
    if n == 3:
        try:
            pb.InferenceRequest(model_name="m", requested_output_names=["OUTPUT0"], inputs=[]).exec()
        except pb.TritonModelException as e:
            os._exit(7 if "forked" in str(e) else 8)
    if n == 4:
        pb.Logger.log_info("said by a forked process")
        del requests[:]
        gc.collect()
        sys.exit()
    if n == 5:
        p = multiprocessing.get_context("fork").Process(target=lambda: sys.exit(9))
        p.start()
        p.join()
        os._exit(p.exitcode)

def children(n, requests):
    child = os.fork()
    if child == 0:
        forked(n, requests)
        return None
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def answer(requests):
    answers = []
    for r in requests:
        status = children(int(pb.get_input_tensor_by_name(r, "INPUT0").as_numpy()[0]), requests)
        if status is None:
            return answers
        answers.append(pb.InferenceResponse([pb.Tensor("OUTPUT0", np.array([status], np.int32))]))
    return answers

async def later(requests):
    await asyncio.sleep(0)
    return answer(requests)
"""
EXITS = {0: 0, 1: 3, 2: 1, 3: 7, 4: 0, 5: 9}


@pytest.mark.parametrize("method", ["def execute(self, requests): return answer(requests)",
                                    "async def execute(self, requests): return await later(requests)"])
def test_D24_DV108_a_forked_process_ends_like_a_program_and_leaves_the_connection_alone(tmp_path, method):
    """Whether it returns, exits, fails, logs or calls the server. The process that forked it answers all requests."""
    repo = tmp_path / "models"
    write(repo, "m", top=FORK)
    program = repo / "m/1/model.py"
    program.write_text(program.read_text().replace(ECHO, f"    {method}\n"))
    write(repo, "starts", inside="    def initialize(self, args):\n        self.child = os.fork()\n"
                                 "        if self.child: os.waitpid(self.child, 0)\n")
    with Server(repo, tmp_path) as s:
        for _ in range(3):
            for n, status in EXITS.items():
                answer = ask(s, "m", n)
                assert answer.status == 200 and answer.json["outputs"][0]["data"] == [status], (n, answer, s.log())
        assert ask(s, "starts").status == 200
        until(lambda: "said by a forked process" in s.log() and "ValueError: on purpose" in s.log(), 60,
              "what forked processes say is lost", s.log)
