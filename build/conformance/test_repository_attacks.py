"""Hostile names, files and changes in model repositories, on a running server: cases B of docs/reliability.md."""

import base64
import os
import shutil
import socket
import urllib.parse

import grpc
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

import models
from harness import REFERENCE, Server, until
from test_imports import Console

pytestmark = pytest.mark.skipif(REFERENCE, reason="promises of the server under test")

POLL = "--model-control-mode=poll", "--repository-poll-secs=1", "--strict-readiness=false"


def everything(folder):
    """All files below a folder, with their contents."""
    return {p.relative_to(folder): p.is_file() and p.read_bytes() for p in folder.rglob("*")}


def added(server, name="plus_version"):
    """What the model adds to its input, or its error."""
    body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 16], "data": [0] * 16}]}
    answer = server.post(f"/v2/models/{name}/infer", body)
    return answer.json["outputs"][0]["data"][0] if answer.status == 200 else answer.error


def reasons(server, name):
    """The reasons that the index has for a model, of all its versions."""
    return " | ".join(reason for (model, _), (_, reason) in server.index().items() if model == name)


def test_B3_names_that_leave_the_repository_are_refused(tmp_path):
    """In paths of HTTP, messages of gRPC, and the GUI. A model lies where some of the names lead."""
    repo = tmp_path / "outside/models"
    models.write_identity(repo, "m")
    models.write_identity(repo.parent, "x")
    names = ["..", ".", "../x", "a/../../x", "..\\x", "%2e%2e", "%252e", f"{repo.parent}/x", "a\0b", "x" * 5000, "-rf",
             "$(x)", ".hidden"]
    with Server(repo, tmp_path / "work", "--model-control-mode=explicit", "--load-model=m") as s, \
            grpc.insecure_channel(s.grpc) as channel:
        stub, gui = service_pb2_grpc.GRPCInferenceServiceStub(channel), Console(s)
        before, rows = everything(tmp_path / "outside"), s.index()
        staged = gui.stage({"m/1/model.onnx": (repo / "m/1/model.onnx").read_bytes()})
        file = {"parameters": {"config": '{"backend": "identity"}', "file:1/x": "eA=="}}
        for name in names:
            quoted = urllib.parse.quote(name, safe="")
            may_be_a_name = name in ("%2e%2e", "%252e", "-rf", "$(x)")  # for which there is no model
            for path, body in ("repository/models/%s/load", {}), ("models/%s/infer", {"inputs": []}), \
                    ("repository/models/%s/load", file):
                if body is not file or not may_be_a_name:
                    answer = s.post("/v2/" + path % quoted, body)
                    # 500 is Triton's answer for a model that is in no repository
                    assert answer.status in (400, 404, 500 if may_be_a_name else 400), (name, path, answer)
            assert s.post(f"/v2/repository/models/{quoted}/unload").status in (200, 400, 404), name
            assert s.get(f"/v2/models/{quoted}/config").status in (400, 404), name
            for call, message in (stub.RepositoryModelLoad, service_pb2.RepositoryModelLoadRequest(model_name=name)), \
                    (stub.ModelInfer, service_pb2.ModelInferRequest(model_name=name)), \
                    (stub.ModelConfig, service_pb2.ModelConfigRequest(name=name)):
                with pytest.raises(grpc.RpcError) as e:
                    call(message)
                refusals = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INTERNAL
                assert e.value.code() in refusals[:3 if may_be_a_name else 2], (name, e.value)
            if not may_be_a_name:
                assert gui.call("PUT", f"/api/imports/{staged['id']}/config", {"name": name}).status == 400, name
            if name not in (".", ".."):  # which the path loses before it is looked at
                gui.call("PUT", f"/api/imports/{staged['id']}/files/{quoted}", b"uploaded")
        assert everything(tmp_path / "outside") == before
        assert s.index() == rows and s.state("m") == "READY"
        for path in tmp_path.rglob("*"):
            assert not path.is_file() or path.read_bytes() != b"uploaded" \
                or path.is_relative_to(tmp_path / "work/data/imports"), path


def test_B4_B5_load_requests_that_leave_the_folder_or_cannot_be_used(tmp_path):
    """They are refused, the model in service stays, and nothing stays in the folder of such files."""
    repo = tmp_path / "models"
    models.write_plus_version(repo)
    onnx = base64.b64encode((repo / "plus_version/1/model.onnx").read_bytes()).decode()
    config, file = '{"backend": "onnxruntime"}', "file:1/model.onnx"
    with Server(repo, tmp_path / "work", "--model-control-mode=explicit", "--load-model=*") as s:
        load = lambda parameters: s.post("/v2/repository/models/plus_version/load", {"parameters": parameters})
        for path in "../../x", "/abs", "1/../../x", "1/", "", "..\\x", "1/a\0b":
            answer = load({"config": config, "file:" + path: onnx})
            assert answer.status == 400 and "inside the model folder" in answer.error, (path, answer)
            assert added(s) == 1
        for more in ({"file:" + "a/" * 3000 + "b": onnx}, {"file:1/" + "a" * 300: onnx},
                     {"file:1/a": onnx, "file:1/a/b": onnx}):
            answer = load({"config": config, **more})
            assert answer.status == 500 and "use shorter names" in answer.error and len(answer.error) < 400, answer
            assert added(s) == 1
        for parameters, status, reason in (
            ({"config": config, file: "!!!"}, 400, "base64"),
            ({"config": '{"backend": "nosuch"}'}, 400, "unable to find backend"),
            ({"config": 7}, 400, "non-string"),
            ({file: onnx}, 500, "must have the parameter 'config'"),  # Triton answers 500 too
            ({"config": '{"name": "other", "backend": "onnxruntime"}', file: onnx}, 500, "unexpected directory name"),
            ({"config": "{bad"}, 500, "config:1:2"),
        ):
            answer = load(parameters)
            assert answer.status == status and reason in answer.error, (parameters, answer)
            assert added(s) == 1
        assert list((tmp_path / "work/data").rglob("override*/*")) == []
        assert load({"config": config, file: onnx}).status == 200 and added(s) == 1
        assert list((tmp_path / "work/data").rglob("override*/*")) != [], "the check above looks in the wrong folder"


def test_B7_files_that_are_none_only_affect_their_model(tmp_path, monkeypatch):
    """Loops, links that lead out, pipes, sockets and devices. Polling goes on, and another model is served."""
    repo = tmp_path / "models"
    models.write_plus_version(repo)
    bad = {}
    for name in "loop", "itself", "pipe", "piped_configuration", "socket", "device", "outside", "folder":
        models.write_plus_version(repo, name)
        bad[name] = repo / name / "1/model.onnx"
        if name != "piped_configuration":
            bad[name].unlink()
    bad["loop"].symlink_to(repo / "loop")
    bad["itself"].symlink_to(bad["itself"])
    os.mkfifo(bad["pipe"])
    (repo / "piped_configuration/config.pbtxt").unlink()
    os.mkfifo(repo / "piped_configuration/config.pbtxt")
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(bad["socket"].parent)  # the path of a socket has 108 bytes at most
        listener.bind("model.onnx")
    bad["device"].symlink_to("/dev/zero")
    bad["outside"].symlink_to(tmp_path / "nothing")
    bad["folder"].mkdir()
    with Server(repo, tmp_path / "work", *POLL) as s:
        for name in bad:
            assert reasons(s, name) and s.get(f"/v2/models/{name}/ready").status != 200, (name, s.index())
        assert added(s) == 1
        models.write_plus_version(tmp_path, "late")
        os.rename(tmp_path / "late", repo / "late")
        until(lambda: s.state("late") == "READY", 60, "polling stopped", s.log)
        for name in bad:
            shutil.rmtree(repo / name)
        until(lambda: {m for m, _ in s.index()} == {"plus_version", "late"}, 60, "the index has them still",
              lambda: str(s.index()))


def test_B15_changes_that_keep_times_and_sizes_are_noticed(tmp_path):
    """The answer tells which file is served: each one adds another number."""
    repo, stock = tmp_path / "models", tmp_path / "stock"
    models.write_plus_version(stock, versions=range(1, 8))
    models.write_plus_version(repo)
    file = repo / "plus_version/1/model.onnx"
    new = lambda n: stock / f"plus_version/{n}/model.onnx"
    assert len({new(n).stat().st_size for n in range(1, 8)}) == 1, "the files have different sizes"
    now = file.stat()

    def renamed_over():
        os.utime(new(2), ns=(now.st_atime_ns, now.st_mtime_ns))
        os.rename(new(2), file)

    def hard_link():
        os.utime(new(3), ns=(now.st_atime_ns, now.st_mtime_ns))
        file.unlink()
        os.link(new(3), file)

    def overwritten(n, at):
        content = new(n).read_bytes()
        with open(file, "r+b") as f:
            f.write(content)
        os.utime(file, (at, at))

    def renamed_folder():
        os.utime(new(6), (0, 0))
        os.rename(file.parent, tmp_path / "old")
        os.rename(new(6).parent, file.parent)

    with Server(repo, tmp_path / "work", *POLL) as s:
        assert added(s) == 1
        for n, change in enumerate([renamed_over, hard_link, lambda: overwritten(4, 0), lambda: overwritten(5, 1 << 34),
                                    renamed_folder, lambda: overwritten(7, 0)], 2):
            change()
            until(lambda: added(s) == n, 60, f"change {n} is not noticed", s.log)


def test_B16_loaded_models_serve_while_their_repository_is_gone(tmp_path):
    """It is renamed, then a file. The page and the log say so, and what changes after its return is seen."""
    repo, away = tmp_path / "models", tmp_path / "away"
    models.write_plus_version(repo)
    with Server(repo, tmp_path / "work", *POLL) as s:
        gui = Console(s)
        error = lambda: gui.ok("GET", "/api/server")["repositories"][0].get("error", "")
        assert not error()
        os.rename(repo, away)
        for reason in "no such file", "not a directory":
            until(lambda: reason in error() and reason in s.log(), 60, f"nothing says {reason!r}", s.log)
            assert added(s) == 1 and s.state("plus_version") == "READY" and s.get("/v2/health/ready").status == 200
            if not repo.exists():
                repo.write_text("a file")
        repo.unlink()
        os.rename(away, repo)
        until(lambda: not error(), 60, "the reason stays", s.log)
        models.write_plus_version(tmp_path, "late")
        os.rename(tmp_path / "late", repo / "late")
        until(lambda: s.state("late") == "READY" and added(s) == 1, 60, "it does not recover", s.log)


def test_B17_a_broken_version_leaves_the_old_one_in_service(tmp_path):
    repo = tmp_path / "models"
    models.write_plus_version(repo)
    models.write_plus_version(tmp_path / "stock", versions=(2,))
    with Server(repo, tmp_path / "work", *POLL) as s:
        models.write(tmp_path / "broken/model.onnx", "no model")
        os.rename(tmp_path / "broken", repo / "plus_version/2")
        until(lambda: s.state("plus_version", "2") == "UNAVAILABLE", 60, "version 2 is not tried", s.log)
        assert "model.onnx" in s.index()["plus_version", "2"][1] and s.state("plus_version") == "READY"
        assert added(s) == 1
        shutil.copy(tmp_path / "stock/plus_version/2/model.onnx", repo / "plus_version/2/model.onnx")
        until(lambda: added(s) == 2, 60, "the mended version is not served", s.log)
        assert not reasons(s, "plus_version").replace("unloaded", "").strip(" |"), s.index()


def ensemble(steps):
    """Steps are of models, and the tensors they read and write."""
    head = 'platform: "ensemble"\nmax_batch_size: 32\n'
    ends = [f'{side} {{ name: "{name}" data_type: TYPE_FP32 dims: 16 }}\n' for side, name in
            (("input", "INPUT0"), ("output", "OUTPUT0"))]
    text = "".join(f'step {{ model_name: "{m}" model_version: -1 input_map {{ key: "INPUT0" value: "{a}" }}\n'
                   f'output_map {{ key: "OUTPUT0" value: "{b}" }} }}\n' for m, a, b in steps)
    return head + "".join(ends) + "ensemble_scheduling {\n" + text + "}\n"


def test_B19_ensembles_that_cannot_be_run_are_refused_with_the_reason(tmp_path):
    repo = tmp_path / "models"
    models.write_plus_version(repo)
    models.write_identity(repo, "bytes", datatype="INT8", config="max_batch_size: 32\n")
    models.write_identity(repo, "short", dims=(8,), config="max_batch_size: 32\n")
    chain = [f"t{i}" for i in range(1, 1000)]
    cases = {
        "good": ([("plus_version", a, b) for a, b in zip(["INPUT0", *chain], [*chain, "OUTPUT0"])], ""),
        "circle": ([("plus_version", "b", "a"), ("plus_version", "a", "b"), ("plus_version", "b", "OUTPUT0")],
                   "break the cycle"),
        "itself": ([("itself", "INPUT0", "OUTPUT0")], "itself"),
        "pair_a": ([("pair_b", "INPUT0", "OUTPUT0")], "pair"),
        "pair_b": ([("pair_a", "INPUT0", "OUTPUT0")], "pair"),
        "missing": ([("nosuch", "INPUT0", "OUTPUT0")], "nosuch"),
        "datatype": ([("bytes", "INPUT0", "OUTPUT0")], "data type"),
        "shape": ([("short", "INPUT0", "OUTPUT0")], "shape"),
    }
    for name, (steps, _) in cases.items():
        models.write(repo / name / "config.pbtxt", ensemble(steps))
        (repo / name / "1").mkdir()
    with Server(repo, tmp_path / "work", "--model-control-mode=explicit", "--load-model=plus_version") as s:
        for name, (_, reason) in cases.items():
            answer = s.post(f"/v2/repository/models/{name}/load")
            if reason:
                assert answer.status == 400 and reason in answer.error, (name, answer)
                assert s.get(f"/v2/models/{name}/ready").status != 200
            else:
                assert answer.status == 200 and added(s, name) == 1000, (name, answer)
        assert added(s) == 1


def test_B20_a_name_in_two_repositories_is_not_served(tmp_path):
    """Whichever comes first. The one that is served already goes on; when one is removed, the other serves."""
    first, second = tmp_path / "first", tmp_path / "second"
    models.write_plus_version(first, versions=(1,))
    models.write_plus_version(second, "more", versions=(2,))
    with Server([first, second], tmp_path / "work", *POLL) as s:
        assert added(s) == 1
        models.write_plus_version(tmp_path / "stock", versions=(2,))
        os.rename(tmp_path / "stock/plus_version", second / "plus_version")
        until(lambda: "two repositories" in reasons(s, "plus_version"), 60, "the index does not say it",
              lambda: str(s.index()))
        assert added(s) == 1
    for order in [first, second], [second, first]:
        with Server(order, tmp_path / "work", *POLL) as s:
            assert "two repositories" in reasons(s, "plus_version"), s.index()
            assert s.get("/v2/models/plus_version/ready").status != 200 and added(s, "more") == 2
    with Server([first, second], tmp_path / "work", *POLL) as s:
        shutil.rmtree(first / "plus_version")
        until(lambda: added(s) == 2, 60, "the other one is not served", s.log)
