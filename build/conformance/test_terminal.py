"""The commands of the terminal against the server, and against one that speaks plain KServe v2 and nothing more."""

import http.server
import json
import os
import pty
import shutil
import subprocess
import threading

import numpy as np
import pytest
from onnx import TensorProto, helper
from PIL import Image

from harness import BINARY, REFERENCE, Server, until
from test_onnx_faults import write

ours = pytest.mark.skipif(REFERENCE, reason="their servers are this program's")

FLOAT = TensorProto.FLOAT
DOUBLE = """import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        x = [pb_utils.get_input_tensor_by_name(r, "x").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", 2 * v)]) for v in x]
"""

COUNT = """import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for r in requests:
            sender = r.get_response_sender()
            for n in range(pb_utils.get_input_tensor_by_name(r, "n").as_numpy()[0]):
                if n == 3:
                    sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError("there is no three")))
                else:
                    sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("y", np.array([n], np.int32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
COUNT_CONFIG = """backend: "python"
model_transaction_policy { decoupled: true }
input { name: "n" data_type: TYPE_INT32 dims: 1 }
output { name: "y" data_type: TYPE_INT32 dims: 1 }
"""


def run(server, *argv, code=0, env=None, stdin=None):
    """Runs a command and returns its output; what it prints on the standard error comes after that."""
    url = getattr(server, "http", server)
    done = subprocess.run([BINARY, *argv], capture_output=True, text=True, timeout=60, input=stdin,
                          env={**os.environ, "NEREID_URL": url, **(env or {})})
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def infer(server, *argv):
    """The outputs of nereid infer by name: numpy arrays."""
    reply = json.loads(run(server, "infer", "--json", *argv))
    return {o["name"]: np.array(o["data"]).reshape(o["shape"]) for o in reply["outputs"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    work = tmp_path_factory.mktemp("terminal")
    repo = work / "models"
    for name, dt, shape in [("vector", FLOAT, ["n", 4]), ("half", TensorProto.FLOAT16, [3]),
                            ("words", TensorProto.STRING, ["a", "b"]), ("pixels", FLOAT, [1, 3, 2, 4]),
                            ("bytes", TensorProto.UINT8, ["b", "h", "w", 3]), ("many", FLOAT, [40])]:
        write(repo, name, [helper.make_node("Identity", ["x"], ["y"])], [("x", dt, shape)], [("y", dt, shape)])
    with Server(repo, work, "--model-control-mode=explicit", "--load-model=*") as s:
        yield s


@ours
def test_models_are_listed_unloaded_and_loaded(server):
    assert "half    1        READY" in run(server, "list")
    assert run(server, "unload", "half", "words").splitlines()[0].startswith("half is unloaded")
    until(lambda: {"name": "words", "version": "1", "state": "UNAVAILABLE", "reason": "unloaded"}
          in json.loads(run(server, "list", "--json")), 30, "not unloaded")
    assert run(server, "list", "-q", "--ready").split() == ["bytes", "many", "pixels", "vector"]
    assert run(server, "load", "half", "words") == "half is loaded\nwords is loaded\n"
    assert "error: nosuch: failed to load 'nosuch'" in run(server, "load", "nosuch", code=1)


@ours
def test_a_model_that_was_never_loaded_and_a_server_that_polls_are_explained(tmp_path):
    write(tmp_path / "models", "half", [helper.make_node("Identity", ["x"], ["y"])], [("x", FLOAT, [3])],
          [("y", FLOAT, [3])])
    with Server(tmp_path / "models", tmp_path / "explicit", "--model-control-mode=explicit") as s:
        assert run(s, "list").splitlines()[1].split() == ["half", "not", "loaded"]
    for mode in ("poll", "none"):
        with Server(tmp_path / "models", tmp_path / mode, f"--model-control-mode={mode}") as s:
            said = run(s, "load", "half", code=1)
            assert "polling is enabled" in said and "in poll mode it loads what is copied" in said, said
            assert "in the mode none it loads models only when it starts" in said, said


@ours
def test_numbers_texts_and_json_are_sent(server):
    assert infer(server, "vector", "-i", "x=1,2,3,4")["y"].tolist() == [[1, 2, 3, 4]]
    assert infer(server, "vector", "-i", "x=1 2 3 4 5 6 7 8")["y"].shape == (2, 4)
    assert infer(server, "vector", "-i", "x=[[1,2,3,4],[5,6,7,8]]")["y"].tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert infer(server, "half", "-i", "x=[0.1, 65504, -2]")["y"].tolist() == [0.099975586, 65504, -2]
    assert infer(server, "words", "-i", "x=one, two")["y"].tolist() == [["one, two"]]
    assert infer(server, "words", "-i", 'x=["one", "zwei"]')["y"].tolist() == [["one", "zwei"]]
    assert json.loads(run(server, "infer", "words", "-i", "x=@-", "--json", "--id=7", stdin="a\nb\n")) == {
        "model_name": "words", "model_version": "1", "id": "7",
        "outputs": [{"name": "y", "datatype": "BYTES", "shape": [1, 1], "data": ["a\nb"]}]}
    nothing = json.loads(run(server, "infer", "words", "-i", "x=[]", "--shape=x:1,0", "--json"))
    assert nothing["outputs"] == [{"name": "y", "datatype": "BYTES", "shape": [1, 0], "data": []}]
    text = run(server, "infer", "many", "-i", "x=" + ",".join(map(str, range(40))))
    assert text.splitlines() == ["OUTPUT  TYPE  SHAPE  VALUES", "y       FP32  [40]   0 1 2 3 4 5 6 7 8 9 … 30 more"]


@ours
def test_F049_responses_of_a_decoupled_model_are_printed_as_they_come(tmp_path):
    (tmp_path / "models/count/1").mkdir(parents=True)
    (tmp_path / "models/count/config.pbtxt").write_text(COUNT_CONFIG)
    (tmp_path / "models/count/1/model.py").write_text(COUNT)
    with Server(tmp_path / "models", tmp_path / "server", "--http-restricted-api=model-config:key=value") as s:
        lines = run(s, "infer", "count", "-i", "n=3", "--json", "--id=7").splitlines()
        assert [json.loads(line)["outputs"] for line in lines] == [
            [{"name": "y", "datatype": "INT32", "shape": [1], "data": [n]}] for n in range(3)]
        assert {json.loads(line)["id"] for line in lines} == {"7"}
        assert run(s, "infer", "count", "-i", "n=1") == "OUTPUT  TYPE   SHAPE  VALUES\ny       INT32  [1]    0\n"
        assert run(s, "infer", "count", "-i", "n=0") == ""
        said = run(s, "infer", "count", "-i", "n=5", "--json", code=1).splitlines()
        assert [json.loads(line)["outputs"][0]["data"] for line in said[:4]] == [[0], [1], [2], [4]]
        assert len(said) == 5 and "there is no three" in said[4]
        refused = run(s, "infer", "count", "-i", "n=1", "-o", f"y=@{tmp_path}/y.npy", code=1)
        assert "decoupled" in refused and not (tmp_path / "y.npy").exists()
        assert "HTTP status 400" in run(s, "infer", "count", "-i", "n=1", "-o", "nosuch", code=1)


@ours
def test_files_are_sent_and_written(server, tmp_path):
    array = np.arange(8, dtype=np.float32).reshape(2, 4) / 7
    np.save(tmp_path / "in.npy", array)
    run(server, "infer", "vector", "-i", f"x=@{tmp_path}/in.npy", "-o", f"y=@{tmp_path}/out.npy")
    assert np.array_equal(np.load(tmp_path / "out.npy"), array) and np.load(tmp_path / "out.npy").dtype == np.float32
    (tmp_path / "in.json").write_text(json.dumps(array.tolist()))
    run(server, "infer", "vector", "-i", f"x=@{tmp_path}/in.json", "-o", f"y=@{tmp_path}/out.bin")
    assert (tmp_path / "out.bin").read_bytes() == array.tobytes()
    np.save(tmp_path / "words.npy", np.array(["eins", "Größe"]))
    assert infer(server, "words", "-i", f"x=@{tmp_path}/words.npy")["y"].tolist() == [["eins", "Größe"]]
    (tmp_path / "all.csv").write_text("1,2\n3,4\n")
    assert infer(server, "vector", "-i", f"x=@{tmp_path}/all.csv")["y"].tolist() == [[1, 2, 3, 4]]
    np.save(tmp_path / "wide.npy", array.astype(np.float64))
    assert "has elements of type FP64; convert it with astype" in run(
        server, "infer", "vector", "-i", f"x=@{tmp_path}/wide.npy", code=1)


@ours
def test_images_are_scaled_to_the_input(server, tmp_path):
    pixels = np.zeros((4, 8, 3), np.uint8)  # twice the size of the input
    pixels[:, :4] = (255, 51, 0)
    pixels[2:, 4:] = (0, 0, 102)
    Image.fromarray(pixels).save(tmp_path / "image.png")
    want = pixels[::2, ::2] / np.float32(255)
    given = f"x=@{tmp_path}/image.png"
    got = infer(server, "pixels", "-i", given)["y"]
    assert np.allclose(got[0].transpose(1, 2, 0), want)
    assert np.allclose(infer(server, "pixels", "-i", given, "--bgr", "--scale=none")["y"][0, ::-1], got[0] * 255)
    assert np.array_equal(infer(server, "bytes", "-i", given)["y"][0], pixels)


@ours
def test_wrong_inputs_are_explained_before_anything_is_sent(server):
    for argv, text in {
        ("vector",): "give the inputs with -i NAME=VALUE; the model has x FP32 [-1,4]",
        ("vector", "-i", "z=1"): "-i z=1: the model has no input \"z\", but x FP32 [-1,4]",
        ("vector", "-i", "z"): "-i z: want NAME=VALUE; the model has x FP32 [-1,4]",
        ("vector", "-i", "x=1,2,3"): "a value of shape [3] does not fit; give another one, or --shape",
        ("vector", "-i", "x=[[1,2],[3]]"): "the lists of its value are not all of one length",
        ("vector", "-i", "x=one"): "its value is neither numbers nor JSON",
        ("half", "-i", 'x=["a","b","c"]'): "a is no value of type FP16",
        ("vector", "-i", "x=@/nosuch.npy"): "no such file",
        ("vector", "-i", "x=1,2,3,4", "--shape", "x:5"): "has 4 elements, which do not fit the shape [5]",
        ("nosuch", "-i", "x=1"): "Request for unknown model: 'nosuch' is not found",
    }.items():
        assert text in run(server, "infer", *argv, code=1), argv


@ours
def test_statistics_metrics_and_the_log_are_shown(server):
    before = {m["name"]: m for m in json.loads(run(server, "stats", "--json"))}["many"]["requests"]
    run(server, "infer", "many", "-i", "x=" + ",".join(["0"] * 40))
    after = json.loads(run(server, "stats", "many", "--json"))[0]
    assert after["requests"] == before + 1 and after["latency_ms"] > 0
    assert run(server, "stats").startswith("MODEL   VERSION  REQUESTS  FAILED")
    ran = json.loads(run(server, "top", "--json", "-n=1", "-d=0.01"))["models"]
    assert {m["name"] for m in ran} == {"bytes", "half", "many", "pixels", "vector", "words"}
    assert "REQUESTS/s" in run(server, "top", "many", "-n", "1", "--interval", "0.01")
    at = ["--metrics-url", server.metrics]
    lines = run(server, "metrics", "nv_inference_request_success", 'model="many"', *at).splitlines()
    assert any(x.startswith("nv_inference_request_success{") for x in lines)
    sample = [m for m in json.loads(run(server, "metrics", "--json", *at)) if m["name"] == "nv_inference_request_success"
              and m["labels"]["model"] == "many"]
    assert sample[0]["value"] == str(after["requests"])
    log = ["logs", "--ui-url", server.ui]
    assert "Started HTTPService" in run(server, *log, "-n", "1000")
    first = json.loads(run(server, *log, "--json", "-n=1000", "--text=Started HTTP").splitlines()[0])
    assert first["level"] == "info" and server.http in first["text"]


@ours
def test_the_log_is_followed(server, tmp_path):
    with open(tmp_path / "out", "wb") as out:
        follow = subprocess.Popen([BINARY, "logs", "-f", "-u", server.http, "--ui-url", server.ui], stdout=out)
    try:
        until(lambda: b"Started HTTPService" in (tmp_path / "out").read_bytes(), 30, "no line")
        run(server, "unload", "words")
        seen = (tmp_path / "out").stat().st_size
        run(server, "load", "words")
        until(lambda: b"words" in (tmp_path / "out").read_bytes()[seen:], 30, "no new line")
    finally:
        follow.terminate()
    assert follow.wait(30) == 0


def answered(server, answer, *argv):
    """Runs a command on a terminal on which somebody types an answer. Returns the exit status."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer)  # the terminal keeps it until the command reads
        return subprocess.run([BINARY, *argv], stdin=theirs, capture_output=True, timeout=60,
                              env={**os.environ, "NEREID_URL": server.http}).returncode
    finally:
        os.close(ours)
        os.close(theirs)


@ours
def test_F049_a_model_is_removed_after_a_question(server, tmp_path):
    repo = tmp_path / "models"
    for name in "half", "words", "many":
        shutil.copytree(server.repositories[0] / name, repo / name)
    with Server(repo, tmp_path, "--model-control-mode=explicit", "--load-model=*") as s:
        remove = ["remove", "--ui-url", s.ui]
        assert "this needs --yes" in run(s, *remove, "half", code=1, stdin="y\n")
        assert answered(s, b"n\n", *remove, "half") == 1 and (repo / "half").is_dir()
        assert answered(s, b"y\n", *remove, "half") == 0 and not (repo / "half").exists()
        gone = json.loads(run(s, *remove, "--yes", "--json", "words"))
        assert gone["model"] == "words" and gone["from"] == str(repo / "words")
        assert (tmp_path / "data/trash" / gone["id"] / "model/1/model.onnx").is_file()
        assert run(s, "list", "-q", "--ready").split() == ["many"]
        assert "error: words: " in run(s, *remove, "--yes", "words", code=1)
        assert "name the GUI of the server" in run(s, "remove", "--yes", "many", code=1)
        assert (repo / "many").is_dir()


@ours
def test_F049_status_and_configuration_of_a_model_are_printed(server):
    status = json.loads(run(server, "status", "--json"))
    assert status["live"] and status["ready"] and "model_configuration" in status["extensions"]
    text = run(server, "config", "get", "vector")
    assert 'name: "vector"' in text and "TYPE_FP32" in text
    config = json.loads(run(server, "config", "get", "vector", "--json", "-x", "1"))
    assert config == server.get("/v2/models/vector/config").json
    assert "unknown model: 'nosuch'" in run(server, "config", "get", "nosuch", code=1)


@ours
def test_a_token_is_sent_and_no_server_is_explained(tmp_path, server):
    repo = tmp_path / "models"
    shutil.copytree(server.repositories[0] / "half", repo / "half")
    with Server(repo, tmp_path) as s:
        made = subprocess.run([BINARY, "token", "create", "--name=t", "--scope=admin", f"--data-dir={tmp_path}/data"],
                              capture_output=True, text=True, check=True).stdout.split()
        token = max(made, key=len)
        assert "error: " in run(s, "list", code=1)
        assert "READY" in run(s, "list", "--token", token)
        assert "READY" in run(s, "list", env={"NEREID_TOKEN": token})
        address = s.http
    assert "cannot be reached" in run(address, "list", code=1)


class Plain(http.server.BaseHTTPRequestHandler):
    """KServe v2 as its specification has it: no extension, and JSON only. It is live and never ready."""

    def log_message(self, *_):
        pass

    def reply(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        known = {"/v2/health/live": {"live": True}, "/v2": {"name": "plain", "version": "1.2", "extensions": []},
                 "/v2/models/double": {"name": "double", "versions": ["1"], "platform": "", "inputs": [
                     {"name": "x", "datatype": "FP32", "shape": [-1, 2]}], "outputs": [
                     {"name": "y", "datatype": "FP32", "shape": [-1, 2]}]}}
        if self.path == "/v2/health/ready":
            return self.reply(400, {})
        found = known.get(self.path)
        self.reply(200 if found else 404, found or {"error": "Not Found"})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path != "/v2/models/double/infer":
            return self.reply(404, {"error": "Not Found"})
        x = json.loads(body)["inputs"][0]
        self.reply(200, {"model_name": "double", "id": "", "outputs": [
            {"name": "y", "datatype": "FP32", "shape": x["shape"], "data": [2 * v for v in x["data"]]}]})


@pytest.fixture
def plain():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Plain) as s:
        thread = threading.Thread(target=s.serve_forever)
        thread.start()
        yield f"127.0.0.1:{s.server_port}"
        s.shutdown()
        thread.join()


@ours
def test_a_plain_kserve_server_infers_and_what_it_lacks_is_named(plain):
    assert infer(plain, "double", "-i", "x=[[1,2],[3,4]]")["y"].tolist() == [[2, 4], [6, 8]]
    for argv, extension in {("list",): "model_repository", ("load", "double"): "model_repository",
                            ("stats",): "statistics", ("top", "-n=1"): "statistics",
                            ("config", "get", "double"): "model_configuration"}.items():
        assert f'(plain 1.2) has no extension "{extension}", which this command needs' in run(plain, *argv, code=1)
    for argv in ("logs",), ("remove", "--yes", "double"):
        assert "only Nereid has one" in run(plain, *argv, "--ui-url", plain, code=1)
    text = run(plain, "status", code=1)
    assert "plain  1.2      true  false" in text and "error: the server is not ready" in text
    assert "--metrics-url" in run(plain, "metrics", "--metrics-url", plain, code=1)


@pytest.mark.skipif(not REFERENCE, reason="make conformance-reference runs it, with a real Triton")
def test_the_commands_work_with_a_real_triton(tmp_path):
    folder = tmp_path / "models/double/1"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(DOUBLE)
    (folder.parent / "config.pbtxt").write_text('backend: "python"\nmax_batch_size: 4\n' + "".join(
        f'{kind} [ {{ name: "{name}" data_type: TYPE_FP32 dims: [ 2 ] }} ]\n' for kind, name in (("input", "x"), ("output", "y"))))
    with Server(tmp_path / "models", tmp_path, "--model-control-mode=explicit", "--load-model=double") as s:
        assert json.loads(run(s, "list", "--json")) == [{"name": "double", "version": "1", "state": "READY"}]
        assert infer(s, "double", "-i", "x=[[1,2],[3,4]]")["y"].tolist() == [[2, 4], [6, 8]]
        assert json.loads(run(s, "stats", "--json"))[0]["requests"] == 1
        assert "REQUESTS/s" in run(s, "top", "-n=1", "-d=0.01")
        assert 'name: "double"' in run(s, "config", "get", "double")
        assert json.loads(run(s, "status", "--json"))["name"] == "triton"
        assert run(s, "__complete", "infer", "d") == "double\n"
        assert "nv_inference_request_success" in run(s, "metrics", "--metrics-url", s.metrics)
        run(s, "unload", "double")
        until(lambda: json.loads(run(s, "list", "--json"))[0]["state"] == "UNAVAILABLE", 60, "it is not unloaded",
              s.log)
        assert "double is loaded" in run(s, "load", "double")
        assert "failed to load 'nosuch'" in run(s, "load", "nosuch", code=1)
        assert "only Nereid has one" in run(s, "logs", "--ui-url", s.http, code=1)


@ours
def test_shells_complete_commands_options_and_models(server):
    def completed(*words):
        return run(server, "__complete", *words).split()

    assert completed("li") == ["licenses", "link", "list"]
    assert "--model-version" in completed("infer", "--") and "--model-repository" in completed("serve", "--model-r")
    assert completed("perf", "--percent") == ["--percentile"]
    assert completed("load", "v") == completed("remove", "v") == completed("config", "get", "v") == ["vector"]
    assert completed("config", "") == ["generate", "get", "show"]
    assert completed("infer", "-u", "127.0.0.1:1", "v") == []
    assert completed("completion", "") == ["bash", "fish", "zsh"]
    for shell in "bash", "zsh", "fish":
        assert "nereid __complete" in run(server, "completion", shell)
    assert "name a shell" in run(server, "completion", code=2)
    script = f'PATH={os.path.dirname(BINARY)}:$PATH; source <(nereid completion bash); COMP_WORDS=(nereid infer ma); ' \
             'COMP_CWORD=2; _nereid; echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "NEREID_URL": server.http})
    assert done.stdout == "many\n", done.stderr
