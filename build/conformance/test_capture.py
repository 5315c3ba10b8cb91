"""Contents of requests are kept for a model only while an administrator wants it, within limits and rules."""

import base64
import json
import shutil
import sqlite3
import stat
import struct

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc

from harness import REFERENCE, ROOT, Server, until
from test_contents import files_with

pytestmark = pytest.mark.skipif(REFERENCE, reason="the data folder is ours")

CONFIG = """backend: "identity"
input { name: "INPUT0" data_type: TYPE_STRING dims: 1 }
output { name: "OUTPUT0" data_type: TYPE_STRING dims: 1 }
"""

FAILING = """import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        texts = [pb_utils.get_input_tensor_by_name(r, "INPUT0").as_numpy()[0].decode() for r in requests]
        return [pb_utils.InferenceResponse(error=pb_utils.TritonError("cannot read " + text)) for text in texts]
"""


@pytest.fixture
def server(tmp_path):
    for name in ("kept", "other"):
        (tmp_path / "models" / name / "1").mkdir(parents=True)
        (tmp_path / "models" / name / "config.pbtxt").write_text(CONFIG)
    with Server(tmp_path / "models", tmp_path / "work", "--kiosk", "--kiosk-port=0") as server:
        yield server


@pytest.fixture
def failing(tmp_path):
    """A server whose model fails with what its input contains."""
    (tmp_path / "models" / "kept" / "1").mkdir(parents=True)
    (tmp_path / "models" / "kept" / "config.pbtxt").write_text(CONFIG.replace("identity", "python"))
    (tmp_path / "models" / "kept" / "1" / "model.py").write_text(FAILING)
    with Server(tmp_path / "models", tmp_path / "work") as server:
        yield server


def page(server, method, path, body=None, want=200):
    answer = server.request(method, "/api" + path, json.dumps(body) if body is not None else None, {"X-Nereid": "1"},
                            address=server.ui_address)
    assert answer.status == want, answer
    return json.loads(answer.body)


def send(server, text, model="kept", **more):
    body = {"inputs": [{"name": "INPUT0", "datatype": "BYTES", "shape": [1], "data": [text]}], **more}
    answer = server.post(f"/v2/models/{model}/infer", body)
    assert answer.status == 200, answer


def status(server):
    return page(server, "GET", "/models/kept/capture")


def wait(server, **want):
    def there():
        now = status(server)
        return all(now[k] == v for k, v in want.items())
    until(there, 60, f"the capture is not {want}", server.log)


def listed(server, n):
    """Returns the recorded requests of the model, the newest first, when there are n. A record follows its answer."""
    def there():
        found = page(server, "GET", "/requests?model=kept")["requests"]
        return found if len(found) == n else None
    return until(there, 60, f"there are not {n} requests", server.log)


def text_of(tensor):
    return base64.b64decode(tensor["data"])[4:].decode()


def in_file(text):
    """Returns how the files have an element: in base64, as far as whole groups of three bytes go."""
    raw = struct.pack("<I", len(text)) + text.encode()
    return base64.b64encode(raw[:len(raw) // 3 * 3]).decode()


def test_H16_contents_are_kept_only_while_capture_is_on_and_until_forgotten(server):
    data = server.work / "data"
    send(server, "before-it-is-on")
    page(server, "PUT", "/models/kept/capture", {"on": True})
    send(server, "over-http")
    send(server, "of-the-other-model", model="other")
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        given = triton_grpc.InferInput("INPUT0", [1], "BYTES")
        given.set_data_from_numpy(np.array([b"over-grpc"], dtype=object))
        client.infer("kept", [given])
    wait(server, captured=2, kept=2, dropped=0, on=True)
    page(server, "PUT", "/models/kept/capture", {"on": False})
    send(server, "after-it-is-off")
    got = listed(server, 4)
    found = [page(server, "GET", f"/requests/{r['id']}/contents") for r in got[1:3]]
    assert [text_of(c["inputs"][0]) for c in found] == ["over-grpc", "over-http"]
    assert [text_of(c["outputs"][0]) for c in found] == ["over-grpc", "over-http"]
    for r in (got[0], got[3]):
        page(server, "GET", f"/requests/{r['id']}/contents", want=404)
    files = [p for p in (data / "captures").rglob("*") if p.is_file()]
    assert len(files) == 2 and all(stat.S_IMODE(p.stat().st_mode) == 0o600 for p in files)
    assert len(files_with(data, in_file("over-http"))) == 1  # the search finds what is there
    assert files_with(data, in_file("of-the-other-model")) == [] == files_with(data, in_file("after-it-is-off"))
    page(server, "DELETE", "/models/kept/capture")
    assert [p for p in (data / "captures").rglob("*") if p.is_file()] == []
    assert server.stop() == 0
    for text in ("before-it-is-on", "of-the-other-model", "after-it-is-off", "over-http", "over-grpc"):
        assert files_with(data, text) == [] and files_with(data, in_file(text)) == []


def test_H16_rules_and_limits_leave_contents_out(server):
    rules = {"on": True, "leaveOut": ["OUT*", "secret*"], "maxBytes": 30}
    page(server, "PUT", "/models/kept/capture", rules)
    send(server, "short", parameters={"secret/word": "hidden-value", "plain": 7})
    wait(server, kept=1)
    send(server, "longer-than-thirty-bytes-in-all")
    wait(server, kept=2)
    large, small = [page(server, "GET", f"/requests/{r['id']}/contents") for r in listed(server, 2)]
    assert large["inputs"][0]["leftOut"] == "size" and large["inputs"][0]["data"] == ""
    assert text_of(small["inputs"][0]) == "short"
    assert small["outputs"][0]["leftOut"] == "rule" and small["outputs"][0]["data"] == ""
    assert {p["name"]: (p["value"], p["leftOut"]) for p in small["parameters"]} == {
        "secret/word": ("", "rule"), "plain": ("7", "")}
    assert files_with(server.work / "data", "hidden-value") == []
    size = status(server)["keptBytes"]
    page(server, "PUT", "/models/kept/capture", {**rules, "budgetBytes": size})
    for _ in range(3):
        send(server, "short")
    wait(server, captured=3)
    assert status(server)["keptBytes"] <= size
    for wrong in ({"minutes": -1}, {"minutes": 10081}, {"maxBytes": -1}, {"budgetBytes": -1}, {"leaveOut": ["[x"]}):
        page(server, "PUT", "/models/kept/capture", {"on": True, **wrong}, want=400)
    page(server, "GET", "/models/nobody/capture", want=404)


def test_H16_capture_survives_a_restart_and_leaves_with_the_model(server):
    page(server, "PUT", "/models/kept/capture", {"on": True})
    assert server.stop() == 0
    server.start()
    assert status(server)["on"]
    send(server, "after-the-restart")
    wait(server, kept=1)
    page(server, "DELETE", "/models/kept")
    assert [p for p in (server.work / "data" / "captures").rglob("*") if p.is_file()] == []


def test_H16_H17_contents_of_visitors_are_never_kept(server):
    page(server, "PUT", "/models/kept/capture", {"on": True})
    body = json.dumps({"inputs": [{"name": "INPUT0", "datatype": "BYTES", "shape": [1], "data": ["visitors words"]}]})
    answer = server.request("POST", "/api/infer/kept", body, {"X-Nereid": "1"}, server.kiosk.removeprefix("http://"))
    assert answer.status == 200 and answer.json["outputs"][0]["data"] == ["visitors words"]
    send(server, "words of a client")
    wait(server, captured=1, kept=1)
    assert len(listed(server, 2)) == 2, "both requests are listed"
    assert not files_with(server.work / "data", "visitors words")


def test_H16_the_list_says_whose_contents_are_kept(server):
    send(server, "before")
    page(server, "PUT", "/models/kept/capture", {"on": True})
    send(server, "while")
    assert [r["kept"] for r in listed(server, 2)] == [True, False]
    wait(server, kept=1)
    newest = listed(server, 2)[0]
    assert newest["kept"] and page(server, "GET", f"/requests/{newest['id']}")["request"]["kept"]
    page(server, "DELETE", "/models/kept/capture")
    assert [r["kept"] for r in listed(server, 2)] == [False, False]


def test_H16_errors_are_left_out_when_they_may_quote_what_a_rule_leaves_out(failing):
    def fail(text):
        body = {"inputs": [{"name": "INPUT0", "datatype": "BYTES", "shape": [1], "data": [text]}]}
        assert failing.post("/v2/models/kept/infer", body).status >= 400
    page(failing, "PUT", "/models/kept/capture", {"on": True})
    fail("open-words")
    wait(failing, captured=1)
    page(failing, "PUT", "/models/kept/capture", {"on": True, "leaveOut": ["INPUT*"]})
    fail("secret-words")
    wait(failing, captured=1, kept=2)
    ruled, whole = [page(failing, "GET", f"/requests/{r['id']}/contents") for r in listed(failing, 2)]
    assert "open-words" in whole["error"] and whole["errorLeftOut"] == "" and whole["outputs"] == []
    assert (ruled["error"], ruled["errorLeftOut"]) == ("", "rule")
    assert files_with(failing.work / "data" / "captures", "open-words")
    assert not files_with(failing.work / "data" / "captures", "secret-words")


SCALED = """import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        def answer(r):
            x = pb_utils.get_input_tensor_by_name(r, "X").as_numpy()
            if x[0] < 0:
                raise ValueError("negative")
            named = pb_utils.Tensor("NAME", np.array([b"FACTOR"], dtype=object))
            return pb_utils.InferenceResponse([pb_utils.Tensor("Y", (x * FACTOR).astype(np.float32)), named])
        out = []
        for r in requests:
            try:
                out.append(answer(r))
            except ValueError as e:
                out.append(pb_utils.InferenceResponse(error=pb_utils.TritonError(str(e))))
        return out
"""
SCALED_CONFIG = """backend: "python"
version_policy { all {} }
input { name: "X" data_type: TYPE_FP32 dims: 3 }
output { name: "Y" data_type: TYPE_FP32 dims: 3 }
output { name: "NAME" data_type: TYPE_STRING dims: 1 }
"""


@pytest.fixture
def scaled(tmp_path):
    """A server with a model whose versions 1 and 2 multiply by 1 and by -2."""
    folder = tmp_path / "models" / "kept"
    for version, factor in (("1", "1"), ("2", "-2")):
        (folder / version).mkdir(parents=True)
        (folder / version / "model.py").write_text(SCALED.replace("FACTOR", factor))
    (folder / "config.pbtxt").write_text(SCALED_CONFIG)
    with Server(tmp_path / "models", tmp_path / "work") as server:
        yield server


def test_kept_requests_are_sent_to_another_version_and_the_answers_are_compared(scaled):
    def scale(*values, **more):
        body = {"inputs": [{"name": "X", "datatype": "FP32", "shape": [3], "data": values}], **more}
        return scaled.post("/v2/models/kept/versions/1/infer", body).status
    page(scaled, "PUT", "/models/kept/capture", {"on": True, "leaveOut": ["secret"]})
    assert scale(1, 2, 4, parameters={"plain": 2**60 + 1}) == 200
    assert scale(-1, 0, 0) >= 400
    assert scale(1, 2, 3, parameters={"secret": "word"}) == 200
    wait(scaled, kept=3)
    ruled, failed, good = listed(scaled, 3)

    same = page(scaled, "POST", f"/requests/{good['id']}/replay", {"version": "1"})
    assert same["compared"] and same["same"] and same["version"] == "1" and same["ms"] > 0 and same["error"] == ""
    other = page(scaled, "POST", f"/requests/{good['id']}/replay", {})
    assert other["compared"] and not other["same"] and other["version"] == "2"
    y, name = other["differences"]
    assert (y["name"], y["differing"], y["maxAbs"], y["at"], y["maxRel"]) == ("Y", 3, 12, 2, 1.5)
    assert y["topK"] == [{"k": 1, "rows": 1, "same": 0}]
    assert (name["name"], name["dataType"], name["differing"], name["maxAbs"]) == ("NAME", "BYTES", 1, 0)
    assert struct.unpack("<3f", base64.b64decode(other["outputs"][0]["data"])) == (-2, -4, -8)

    new = page(scaled, "POST", f"/requests/{failed['id']}/replay", {"version": "2"})
    assert not new["compared"] and "negative" in new["error"] and new["differences"] == []
    refused = page(scaled, "POST", f"/requests/{ruled['id']}/replay", {}, want=400)
    assert "a rule left out parameter" in refused["error"]
    page(scaled, "POST", f"/requests/{good['id']}/replay", {"version": "3"}, want=503)

    last = page(scaled, "POST", "/models/kept/replay", {"version": "1", "count": 2})["replays"]
    assert [r["id"] for r in last] == [ruled["id"], failed["id"]]
    assert "a rule left out" in last[0]["whyNot"] and last[1]["error"] != "" and last[1]["outputs"] == []
    for wrong in (-1, 101):
        page(scaled, "POST", "/models/kept/replay", {"count": wrong}, want=400)

    again = [r for r in listed(scaled, 7) if r["protocol"] == "replay"]  # two of one, one and one of the failed one
    assert len(again) == 4 and not any(r["kept"] for r in again)
    assert status(scaled)["kept"] == 3

    page(scaled, "PUT", "/models/kept/capture", {"on": True, "leaveOut": ["NAME"]})
    assert scale(1, 2, 4) == 200
    wait(scaled, kept=4)
    part = page(scaled, "POST", f"/requests/{listed(scaled, 8)[0]['id']}/replay", {"version": "1"})
    assert part["compared"] and part["same"], "what was left out is no difference"
    assert part["differences"][1]["reason"] == "the kept answer is without this output: a rule left it out"


def test_kept_requests_that_are_not_whole_say_why_they_are_not_sent_again(server):
    page(server, "PUT", "/models/kept/capture", {"on": True, "maxBytes": 20})
    send(server, "more-than-twenty-bytes")
    wait(server, kept=1)
    found = listed(server, 1)[0]
    assert "was too large to be kept" in page(server, "POST", f"/requests/{found['id']}/replay", {}, want=400)["error"]
    send(server, "fifteen-bytes!!")  # the input is kept, its equal output is not
    wait(server, kept=2)
    found = listed(server, 2)[0]
    got = page(server, "POST", f"/requests/{found['id']}/replay", {})
    assert "was too large to be kept" in got["differences"][0]["reason"] and not got["compared"]
    send(server, "word", parameters={"sequence_id": 5, "sequence_start": True})
    wait(server, kept=3)
    found = next(r for r in listed(server, 4) if r["protocol"] == "http")
    assert "part of a sequence" in page(server, "POST", f"/requests/{found['id']}/replay", {}, want=400)["error"]
    page(server, "DELETE", "/models/kept/capture")
    page(server, "POST", f"/requests/{found['id']}/replay", {}, want=404)


def test_a_kept_request_can_be_a_golden_request_that_versions_must_pass(scaled, tmp_path):
    golden = {"data": [{"X": {"b64": base64.b64encode(struct.pack("<3f", 1, 2, 4)).decode(), "shape": [3]}}],
              "validation_data": [{"Y": {"b64": base64.b64encode(struct.pack("<3f", 1, 2, 4)).decode(), "shape": [3]}}]}
    save = {"text": json.dumps(golden), "golden": True}
    assert [i["name"] for i in page(scaled, "PUT", "/models/kept/requests/one", save)["items"]] == ["one"]
    page(scaled, "PUT", "/models/kept/requests/one", save, want=409)
    page(scaled, "PUT", "/models/kept/requests/two", {"text": "{}", "golden": True}, want=400)
    assert json.loads((tmp_path / "models" / "kept" / "golden" / "one.json").read_text()) == golden
    assert page(scaled, "GET", "/models/kept/requests")["items"] == [], "it is no saved request of the page"
    shown = page(scaled, "POST", "/models/kept/load")
    assert not shown["ok"] and "one.json" in json.dumps(shown), "version 2 answers otherwise"


def test_captures_of_a_model_that_was_removed_by_hand_can_be_seen_and_removed(server, tmp_path):
    page(server, "PUT", "/models/kept/capture", {"on": True})
    send(server, "words that stay")
    wait(server, kept=1)
    request = listed(server, 1)[0]
    assert server.stop() == 0
    shutil.rmtree(tmp_path / "models" / "kept")
    server.start()
    assert status(server)["kept"] == 1
    assert text_of(page(server, "GET", f"/requests/{request['id']}/contents")["inputs"][0]) == "words that stay"
    page(server, "PUT", "/models/kept/capture", {"on": True}, want=404)
    gone = page(server, "DELETE", "/models/kept/capture")
    assert (gone["on"], gone["kept"]) == (False, 0)
    assert [p for p in (server.work / "data" / "captures").rglob("*") if p.is_file()] == []
    page(server, "DELETE", "/models/kept/capture", want=404)


def test_H16_a_capture_whose_time_ended_while_the_server_was_down_keeps_nothing(server):
    page(server, "PUT", "/models/kept/capture", {"on": True})
    assert server.stop() == 0
    with sqlite3.connect(next((server.work / "data").glob("*.db"))) as db:
        (text,) = db.execute("SELECT value FROM setting WHERE key = 'capture.kept'").fetchone()
        settings = {**json.loads(text), "until": "2026-01-01T00:00:00Z"}
        assert db.execute("UPDATE setting SET value = ? WHERE key = 'capture.kept'",
                          (json.dumps(settings),)).rowcount == 1
    db.close()
    server.start()
    assert not status(server)["on"]
    send(server, "too-late")
    assert not listed(server, 1)[0]["kept"]
    assert status(server)["kept"] == 0


def test_all_responses_of_decoupled_models_are_kept_and_compared_again(tmp_path):
    repo = tmp_path / "models"
    shutil.copytree(ROOT / "models-sample" / "words", repo / "words")
    code = (repo / "words" / "1" / "model.py").read_text()
    for version, old, new in (("2", "word.encode()", "word.upper().encode()"),
                              ("3", "text.split()", "text.split()[:1]")):
        (repo / "words" / version).mkdir()
        (repo / "words" / version / "model.py").write_text(code.replace(old, new))
    with (repo / "words" / "config.pbtxt").open("a") as f:
        f.write("\nversion_policy { all { } }\n")
    with Server(repo, tmp_path / "work") as server:
        page(server, "PUT", "/models/words/capture", {"on": True})
        assert server.post("/v2/models/words/versions/1/generate_stream", {"text_input": "two WORDS"}).status == 200
        until(lambda: page(server, "GET", "/models/words/capture")["kept"] == 1, 60, "nothing is kept", server.log)
        # The contents are kept before the request is in the list.
        (found,) = until(lambda: page(server, "GET", "/requests?model=words")["requests"], 60, "no request is listed",
                         server.log)
        kept = page(server, "GET", f"/requests/{found['id']}/contents")
        assert found["responses"] == kept["responses"] == 2
        texts, index = kept["outputs"]
        assert (texts["name"], texts["shape"], index["shape"]) == ("text_output", [2], [2])
        assert base64.b64decode(texts["data"]) == b"\3\0\0\0two\5\0\0\0WORDS"
        assert struct.unpack("<2i", base64.b64decode(index["data"])) == (0, 1)

        same = page(server, "POST", f"/requests/{found['id']}/replay", {"version": "1"})
        assert same["compared"] and same["same"] and same["error"] == "", same
        other = page(server, "POST", f"/requests/{found['id']}/replay", {"version": "2"})
        assert (other["version"], other["same"]) == ("2", False)
        assert [(d["name"], d["elements"], d["differing"]) for d in other["differences"]] == [
            ("text_output", 2, 1), ("index", 2, 0)]
        assert base64.b64decode(other["outputs"][0]["data"]) == b"\3\0\0\0TWO\5\0\0\0WORDS"
        (last,) = page(server, "POST", "/models/words/replay", {"version": "1"})["replays"]
        assert last["same"] and last["outputs"] == []

        shorter = page(server, "POST", f"/requests/{found['id']}/replay", {"version": "3"})
        assert not shorter["same"] and "BYTES [1], want BYTES [2]" in shorter["differences"][0]["reason"], shorter
