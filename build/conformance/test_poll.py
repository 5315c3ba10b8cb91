"""Poll mode: changes of the repository are served, and errors in it do not stop any model."""

import shutil
import time

import numpy as np
import pytest
import tritonclient.grpc as tg
import tritonclient.http as th
from tritonclient.utils import InferenceServerException

import models
from harness import REFERENCE, Server, until

LIMIT = 60


@pytest.fixture
def polled(tmp_path):
    """A server that polls every second and has plus_version at version 1. Further versions are in `next`."""
    repo = tmp_path / "models"
    models.write_plus_version(repo, config="version_policy { latest { num_versions: 2 } }\n")
    models.write_plus_version(tmp_path / "next", versions=range(1, 12))
    with Server(repo, tmp_path, "--model-control-mode=poll", "--repository-poll-secs=1") as s:
        s.next = tmp_path / "next/plus_version"
        s.model = repo / "plus_version"
        yield s


def versions(server):
    a = server.get("/v2/models/plus_version")
    return a.json["versions"] if a.status == 200 else []


def answer(server, version=""):
    with th.InferenceServerClient(server.http) as c:
        i = th.InferInput("INPUT0", [1, 16], "FP32")
        i.set_data_from_numpy(np.zeros([1, 16], np.float32))
        r = c.infer("plus_version", [i], model_version=version)
        return r.get_response()["model_version"], float(r.as_numpy("OUTPUT0")[0, 0])


def waits_for(server, condition, what):
    until(condition, LIMIT, what, server.log)


def test_A052_A056_added_and_removed_versions(polled):
    assert versions(polled) == ["1"] and answer(polled) == ("1", 1.0)
    shutil.copytree(polled.next / "2", polled.model / "2")
    waits_for(polled, lambda: versions(polled) == ["1", "2"], "version 2 is not served")
    assert answer(polled) == ("2", 2.0) and answer(polled, "1") == ("1", 1.0)
    shutil.copytree(polled.next / "3", polled.model / "3")
    waits_for(polled, lambda: versions(polled) == ["2", "3"], "version 3 is not served, or version 1 still is")
    assert answer(polled) == ("3", 3.0)
    shutil.rmtree(polled.model / "3")
    waits_for(polled, lambda: versions(polled) == ["1", "2"], "version 3 is still served")
    assert answer(polled) == ("2", 2.0)
    waits_for(polled, lambda: polled.index().get(("plus_version", "3"))[0] == "UNAVAILABLE",
              "version 3 is not UNAVAILABLE")


@pytest.mark.skipif(REFERENCE, reason="the reference takes minutes to notice that the folder of a Python model is gone")
def test_A056_R9_removed_and_unknown_versions_get_different_errors(polled):
    """A removed version answers 503 and UNAVAILABLE, as in Triton, because it may return. An unknown version answers
    404."""
    shutil.copytree(polled.next / "2", polled.model / "2")
    waits_for(polled, lambda: versions(polled) == ["1", "2"], "version 2 is not served")
    shutil.rmtree(polled.model / "2")
    waits_for(polled, lambda: versions(polled) == ["1"], "version 2 is still served")
    body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 16], "data": [0] * 16}]}
    left = "Request for unknown model: 'plus_version' version 2 is not at ready state"
    never = "Request for unknown model: 'plus_version' version 9 is not found"
    for version, code, text in (("2", 503, left), ("9", 404, never)):
        path = f"/v2/models/plus_version/versions/{version}"
        for a in (polled.post(path + "/infer", body), polled.get(path), polled.get(path + "/config")):
            assert (a.status, a.error) == (code, text)
        assert polled.get(path + "/ready").status == 400
    with tg.InferenceServerClient(polled.grpc) as c:
        i = tg.InferInput("INPUT0", [1, 16], "FP32")
        i.set_data_from_numpy(np.zeros([1, 16], np.float32))
        for version, code, text in (("2", "UNAVAILABLE", left), ("9", "NOT_FOUND", never)):
            with pytest.raises(InferenceServerException) as e:
                c.infer("plus_version", [i], model_version=version)
            assert (e.value.status(), e.value.message()) == ("StatusCode." + code, text)
            assert not c.is_model_ready("plus_version", version)
    shutil.copytree(polled.next / "2", polled.model / "2")
    waits_for(polled, lambda: versions(polled) == ["1", "2"], "version 2 is not served again")
    assert answer(polled, "2") == ("2", 2.0)


def test_A055_added_and_removed_models(polled):
    models.write_identity(polled.repositories[0], "late")
    waits_for(polled, lambda: polled.state("late") == "READY", "the new model is not served")
    shutil.rmtree(polled.repositories[0] / "late")
    waits_for(polled, lambda: polled.get("/v2/models/late/ready").status == 400, "the removed model is still served")
    assert polled.state("plus_version") == "READY"


def test_A057_configuration_changes(polled):
    config = polled.model / "config.pbtxt"
    text = config.read_text()
    config.write_text(text.replace("max_batch_size: 32", "max_batch_size: 16"))

    def batch_size():
        return polled.get("/v2/models/plus_version/config").json["max_batch_size"]

    waits_for(polled, lambda: batch_size() == 16, "the new configuration is not in service")
    config.write_text(text + "no_such_field: 1\n")
    waits_for(polled, lambda: polled.log().count("no_such_field") > 0, "the error is not in the log")
    assert batch_size() == 16 and polled.state("plus_version") == "READY" and answer(polled) == ("1", 1.0)
    assert polled.get("/v2/health/ready").status == 200
    config.write_text(text.replace("max_batch_size: 32", "max_batch_size: 8"))
    waits_for(polled, lambda: batch_size() == 8, "the mended configuration is not in service")


@pytest.mark.skipif(REFERENCE, reason="errors of a Python model show differently")
def test_A061_A063_a_broken_version_keeps_the_old_one_serving(polled):
    (polled.model / "2").mkdir()
    (polled.model / "2/model.onnx").write_bytes(b"this is no ONNX file")
    waits_for(polled, lambda: polled.index().get(("plus_version", "2"), ("", ""))[0] == "UNAVAILABLE",
              "version 2 is not UNAVAILABLE")
    reason = polled.index()[("plus_version", "2")][1]
    assert "model.onnx" in reason
    assert polled.state("plus_version", "1") == "READY" and answer(polled) == ("1", 1.0)
    shutil.copy(polled.next / "2/model.onnx", polled.model / "2/model.onnx")
    waits_for(polled, lambda: versions(polled) == ["1", "2"], "the mended version is not served")
    assert answer(polled) == ("2", 2.0)


@pytest.mark.skipif(REFERENCE, reason="Triton loads incomplete models")
def test_A059_B14_an_incomplete_model_is_not_loaded(polled, record_property):
    data = (polled.next / "2/model.onnx").read_bytes()
    for attempt in range(10):
        before = polled.log().count("failed to load 'plus_version'")
        (polled.model / "2").mkdir()
        begin, longest = time.monotonic(), 0
        with open(polled.model / "2/model.onnx", "wb") as f:
            for i in range(8):  # two seconds; no pause is as long as the second for which a folder must be unchanged
                f.write(data[i * len(data) // 8 : (i + 1) * len(data) // 8])
                f.flush()
                until_time(0.25)
                begin, longest = time.monotonic(), max(longest, time.monotonic() - begin)
        waits_for(polled, lambda: versions(polled) == ["1", "2"], "the copied version is not served")
        if polled.log().count("failed to load 'plus_version'") == before:
            return
        assert longest > 0.7, "half a model was loaded"  # else this machine was too busy to copy the parts fast enough
        record_property("again", "the copy paused for as long as an unchanged folder")
        shutil.rmtree(polled.model / "2")
        waits_for(polled, lambda: versions(polled) == ["1"], "version 2 is still served")
    raise AssertionError("this machine never copied eight parts without a pause of 0.7 s")


def until_time(seconds):
    time.sleep(seconds)  # the time is spent on the copy


@pytest.mark.skipif(REFERENCE, reason="a deliberate difference: an unreadable repository unloads nothing")
def test_A060_an_unreadable_repository_unloads_no_models(polled):
    repo = polled.repositories[0]
    away = repo.with_name("away")
    before = len(polled.log())
    repo.rename(away)
    waits_for(polled, lambda: len(polled.log()) > before, "nothing was logged about the repository")
    until_time(2.2)  # two polls
    assert polled.state("plus_version") == "READY" and answer(polled) == ("1", 1.0)
    away.rename(repo)
    shutil.copytree(polled.next / "2", polled.model / "2")
    waits_for(polled, lambda: versions(polled) == ["1", "2"], "changes are not seen after the repository came back")


@pytest.mark.skipif(REFERENCE, reason="a deliberate difference: editors' files do not count")
def test_A058_editor_files_are_ignored(polled):
    (polled.model / ".config.pbtxt.swp").write_text("x")
    (polled.model / "config.pbtxt~").write_text("x")
    before = polled.log().count("loading: plus_version")
    until_time(2.5)
    assert polled.log().count("loading: plus_version") == before


def test_A052_load_is_refused_in_poll_mode(polled):
    a = polled.post("/v2/repository/models/plus_version/load")
    assert (a.status, a.error) == (503, "explicit model load / unload is not allowed if polling is enabled")


def test_H014_zero_seconds_serve_what_was_there_at_the_start(tmp_path):
    repo = tmp_path / "models"
    models.write_plus_version(repo)
    with Server(repo, tmp_path, "--model-control-mode=poll", "--repository-poll-secs=0") as s:
        assert answer(s) == ("1", 1.0)
        refused = s.post("/v2/repository/models/plus_version/load")
        assert "explicit model load / unload is not allowed if polling is enabled" in refused.json["error"]


def test_A052_a_removed_model_has_no_available_versions(polled):
    shutil.rmtree(polled.model)
    waits_for(polled, lambda: not any(name == "plus_version" for name, _ in polled.index()),
              "the model is in the index")
    for path, text in {"": "has no available versions", "/versions/1": "version 1 is not at ready state"}.items():
        refused = polled.get("/v2/models/plus_version" + path)
        assert refused.json["error"] == f"Request for unknown model: 'plus_version' {text}"
    with pytest.raises(InferenceServerException, match="has no available versions"):
        answer(polled)
    shutil.copytree(polled.next / "3", polled.model / "3")
    shutil.copy(polled.next / "config.pbtxt", polled.model)
    waits_for(polled, lambda: versions(polled) == ["3"], "the model is not served again")
