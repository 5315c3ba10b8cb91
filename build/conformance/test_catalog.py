"""Two nodes serve what a platform publishes: the platform of docs/examples/catalog."""

import json
import pathlib
import shutil
import subprocess
import urllib.request

import pytest
from onnx import TensorProto, helper

from harness import REFERENCE, Server, tensor_input, until
from test_onnx_faults import write

pytestmark = pytest.mark.skipif(REFERENCE, reason="tests an option of this server")

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKEN = "a token of the catalog"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("platform") / "catalog"
    subprocess.run(["go", "build", "-o", path, "./docs/examples/catalog"], check=True, cwd=ROOT)
    return path


class Platform:
    def __init__(self, program, work, *options, address="127.0.0.1:0"):
        self.models = work / "published"
        self.models.mkdir(exist_ok=True)
        self.token = work / "token"
        self.token.write_text(TOKEN + "\n")
        self.process = subprocess.Popen([program, f"-models={self.models}", f"-token-file={self.token}",
                                         f"-address={address}", *options], stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().split()[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def publish(self, work, name, version, op):
        """Publishes a version of a model in one step."""
        made, model = work / "made" / name, self.models / name
        write(work / "made", name, [helper.make_node(op, ["x"], ["y"])], [("x", TensorProto.FLOAT, [3])],
              [("y", TensorProto.FLOAT, [3])])
        (made / "1").rename(made / version if not model.exists() else model / version)
        if not model.exists():
            made.rename(model)

    def get(self, path):
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def report(self, node, model):
        """What a node reports of a model; {} if nothing yet."""
        models = self.get("/v1/nodes").get(node, {}).get("models", [])
        return next((m for m in models if m["name"] == model), {})


def node(platform, work, number, *options):
    work = work / f"node{number}"
    models = work / "own"
    models.mkdir(parents=True, exist_ok=True)
    return Server(models, work, f"--catalog={platform.url}", f"--catalog-token-file={platform.token}",
                  f"--catalog-node=node{number}", "--catalog-interval-secs=0.2", "--catalog-peer=127.0.0.1:0", *options)


def answers(server, model):
    """What a model answers to 1, 4, 9; the text of the error if it does not."""
    a = server.post(f"/v2/models/{model}/infer", {"inputs": [tensor_input("x", "FP32", [3], [1, 4, 9])]})
    return a.json["outputs"][0]["data"] if a.status == 200 else a.body


def wait(server, model, want):
    until(lambda: answers(server, model) == want, 60, f"{model} does not answer {want}", server.log)


@pytest.mark.parametrize("mode", [[], ["--model-control-mode=poll"]], ids=["none", "poll"])
def test_A023_B29_two_nodes_serve_what_a_platform_publishes(program, tmp_path, mode):
    """One node downloads and two serve, versions follow, and both serve on without the platform, restarted too."""
    with Platform(program, tmp_path) as p, node(p, tmp_path, 1, *mode) as one, \
            node(p, tmp_path, 2, "--model-control-mode=explicit") as two:
        write(one.repositories[0], "mine", [helper.make_node("Abs", ["x"], ["y"])], [("x", TensorProto.FLOAT, [3])],
              [("y", TensorProto.FLOAT, [3])])
        p.publish(tmp_path, "calc", "1", "Neg")
        for s in (one, two):
            wait(s, "calc", [-1, -4, -9])
        size = sum(f.stat().st_size for f in p.models.glob("calc/**/*") if f.is_file())
        assert sum(p.get("/v1/files").values()) == size, "the platform has sent each file once"
        p.publish(tmp_path, "calc", "2", "Sqrt")
        for s in (one, two):
            wait(s, "calc", [1, 2, 3])
        assert {name for name, _ in two.index(ready=True)} == {"calc"}
        until(lambda: answers(one, "calc") and p.get("/v1/nodes")["node1"]["load"]["requests_per_second"] > 0, 60,
              "no requests are reported", one.log)
        report = p.get("/v1/nodes")["node1"]
        assert report["load"]["memory_bytes"] > 0 and report["load"]["disk_free_bytes"] > 0, report
        p.process.kill()
        for s in (one, two):
            assert answers(s, "calc") == [1, 2, 3]
        two.stop()
        two.start()
        wait(two, "calc", [1, 2, 3])  # in mode explicit the node loads it
        one.stop()
        one.start()
        assert answers(one, "calc") == [1, 2, 3]
        # The platform comes back and publishes nothing: the model is in the trash, and the operator's model is there.
        shutil.rmtree(p.models / "calc")
        with Platform(program, tmp_path, address=p.url.removeprefix("http://")):
            for s in (one, two):
                until(lambda s=s: not list((s.work / "data/catalog/models").glob("calc")), 60, "still there", s.log)
                assert list((s.work / "data/trash").glob("*/model/2/model.onnx"))
        assert (one.repositories[0] / "mine/1/model.onnx").exists()


def test_A023_B29_a_broken_pull_is_resumed(program, tmp_path):
    with Platform(program, tmp_path, "-cut=16") as p, node(p, tmp_path, 1) as one:
        p.publish(tmp_path, "calc", "1", "Neg")
        wait(one, "calc", [-1, -4, -9])
        for digest, sent in p.get("/v1/files").items():
            assert sent == (one.work / "data/catalog/files" / digest).stat().st_size, "no byte was sent twice"
        assert any(size > 16 for size in p.get("/v1/files").values()), "a file was cut"


def test_A023_B28_models_that_run_code_need_the_operator(program, tmp_path):
    with Platform(program, tmp_path) as p, node(p, tmp_path, 1) as one, \
            node(p, tmp_path, 2, "--catalog-allow-code") as two:
        (tmp_path / "coded/1").mkdir(parents=True)
        (tmp_path / "coded/1/model.py").write_text(
            "import triton_python_backend_utils as pb_utils\n\n\n"
            "class TritonPythonModel:\n    def execute(self, requests):\n"
            "        return [pb_utils.InferenceResponse([pb_utils.Tensor('y', pb_utils.get_input_tensor_by_name(\n"
            "            r, 'x').as_numpy() + 1)]) for r in requests]\n")
        (tmp_path / "coded/config.pbtxt").write_text(
            'backend: "python" input { name: "x" data_type: TYPE_FP32 dims: 3 } '
            'output { name: "y" data_type: TYPE_FP32 dims: 3 }')
        (tmp_path / "coded").rename(p.models / "coded")
        until(lambda: p.report("node1", "coded").get("state") == "REFUSED", 60, "node 1 does not refuse", one.log)
        assert "--catalog-allow-code" in p.report("node1", "coded")["reason"]
        wait(two, "coded", [2, 5, 10])
        assert not (one.work / "data/catalog/models/coded").exists()


def test_A023_wrong_options_are_refused(tmp_path):
    for options, text in {
        ("--catalog=http://192.0.2.1/",): "is not https",
        ("--catalog-allow-code",): "works only with --catalog",
        ("--catalog=http://127.0.0.1:1", "--catalog-peer=127.0.0.1:0"): "--catalog-token-file is needed",
        ("--catalog=http://127.0.0.1:1", "--catalog-node=a/b"): "is not a name",
        ("--catalog=http://127.0.0.1:1", f"--catalog-token-file={tmp_path}/none"): "no such file",
    }.items():
        with pytest.raises(AssertionError, match="the server exited") as failed:
            Server(tmp_path, tmp_path / "work", *options).start()
        assert text in str(failed.value), options
