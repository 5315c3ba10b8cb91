"""The page fetches a model over the server, and imports it like any folder."""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from onnx import TensorProto, helper

from harness import REFERENCE, Server, until
from test_get import files
from test_onnx_faults import write

pytestmark = pytest.mark.skipif(REFERENCE, reason="Triton has no page")


@pytest.fixture
def server(tmp_path):
    (tmp_path / "models").mkdir()
    with Server(tmp_path / "models", tmp_path / "work", "--model-control-mode=poll", "--repository-poll-secs=1") as s:
        yield s


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with minus.onnx and a text."""
    work = tmp_path_factory.mktemp("files")
    write(work, "minus", [helper.make_node("Neg", ["x"], ["y"])], [("x", TensorProto.FLOAT, [3])],
          [("y", TensorProto.FLOAT, [3])])
    (work / "minus/1/model.onnx").rename(work / "minus.onnx")
    (work / "page.html").write_text("<html>")
    return work


def ui(s, method, path, value=None):
    body = None if value is None else json.dumps(value)
    headers = {"X-Nereid": "1", "Content-Type": "application/json"}
    return s.request(method, path, body, headers, s.ui_address)


def start(s, source):
    reply = ui(s, "POST", "/api/downloads", {"source": source})
    assert reply.status == 201, reply.body
    return reply.json["id"]


def ended(s, job):
    def look():
        view = ui(s, "GET", f"/api/downloads/{job}").json
        return view if view["state"] != "running" else None
    return until(look, 60, "the download does not end")


def left(s):
    """What the downloads have in the data folder."""
    return sorted(p.name for p in (s.work / "data/downloads").glob("*"))


def test_a_model_of_a_url_is_fetched_imported_and_answers(server, folder):
    with files(folder) as url:
        view = ended(server, start(server, f"{url}/minus.onnx"))
    assert view["state"] == "done" and view["reason"] == "", view
    (model,) = view["models"]
    assert model["name"] == "minus" and not server.index()
    imported = ui(server, "POST", "/api/imports", {"path": model["path"]}).json
    assert imported["state"] == "staged" and imported["faults"] == [] and imported["code"] == []
    assert ui(server, "POST", f"/api/imports/{imported['id']}/commit", {}).status == 202
    until(lambda: server.index(ready=True), 60, "the model is not loaded")
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [3], "data": [1, 2, 3]}]}
    assert server.post("/v2/models/minus/infer", body).json["outputs"][0]["data"] == [-1, -2, -3]
    provenance = json.loads((server.repositories[0] / "minus/provenance.json").read_text())
    assert provenance["source"].endswith("/minus.onnx") and len(provenance["sha256"]) == 64
    shown = ui(server, "GET", "/api/models/minus").json["provenance"]
    assert shown["from"].endswith("/minus.onnx") and shown["sha256"] == provenance["sha256"] and shown["fetched"]
    (server.repositories[0] / "minus/provenance.json").write_text("[1]")
    assert ui(server, "GET", "/api/models/minus").json["provenance"] is None


def test_what_is_no_model_says_so_and_the_next_download_removes_it(server, folder):
    with files(folder) as url:
        failed = start(server, f"{url}/page.html")
        view = ended(server, failed)
        assert view["state"] == "failed" and "page.html" in view["reason"] and view["models"] == []
        job = start(server, f"{url}/minus.onnx")
        assert ended(server, job)["state"] == "done"
    assert left(server) == [job]
    assert ui(server, "GET", f"/api/downloads/{failed}").status == 404
    assert ui(server, "POST", "/api/downloads", {"source": " "}).status == 400
    assert ui(server, "DELETE", f"/api/downloads/{job}").status == 204
    assert left(server) == []


def test_a_cancelled_download_leaves_nothing(server):
    release = threading.Event()

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            self.wfile.write(bytes(500_000))
            release.wait(60)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as web:
        thread = threading.Thread(target=web.serve_forever)
        thread.start()
        try:
            job = start(server, f"http://127.0.0.1:{web.server_port}/slow.onnx")
            view = until(lambda: (v := ui(server, "GET", f"/api/downloads/{job}").json)["haveBytes"] == 500_000 and v,
                         60,
                         "no progress")
            assert view["state"] == "running" and view["file"] == "slow.onnx" and view["wholeBytes"] == 1_000_000
            assert ui(server, "DELETE", f"/api/downloads/{job}").status == 204
            until(lambda: left(server) == [], 60, "the download is still there")
        finally:
            release.set()
            web.shutdown()
            thread.join()
    assert ui(server, "GET", f"/api/downloads/{job}").status == 404


def test_B12_only_models_of_the_network_and_of_this_machine_are_fetched(server, folder, tmp_path):
    """Not what cloud machines say about themselves, nor files that are no models of this machine."""
    asked = []

    class Leads(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(302)
            self.send_header("Location", self.path[1:])
            self.end_headers()

        def log_message(self, *_):
            pass

    os.mkfifo(tmp_path / "pipe.onnx")
    (tmp_path / "devices").symlink_to("/dev")
    with ThreadingHTTPServer(("127.0.0.1", 0), Leads) as web:
        thread = threading.Thread(target=web.serve_forever)
        thread.start()
        try:
            here = f"http://127.0.0.1:{web.server_port}"
            for source, reason in {
                "http://169.254.169.254/latest/m.onnx": "is not https",
                f"{here}/http://169.254.169.254/m.onnx": "is not https",
                f"{here}/file:///etc/passwd": "is not https",
                "file:///etc/passwd": "is no source",
                "//169.254.169.254/m.onnx": "is no source",
                ".": "is not absolute",
                "/dev/zero": "nothing can be imported from",
                "/proc/self": "nothing can be imported from",
                str(tmp_path / "devices/zero"): "nothing can be imported from",
                str(tmp_path / "work/data/trash/x/model"): "is no source",
                str(tmp_path / "pipe.onnx"): "neither a file nor a folder",
            }.items():
                view = ended(server, start(server, source))
                assert view["state"] == "failed" and reason in view["reason"], (source, view)
        finally:
            web.shutdown()
            thread.join()
    assert len(asked) == 2, asked


def test_the_gallery_names_sources_and_licences(server):
    models = ui(server, "GET", "/api/gallery").json["models"]
    assert len(models) >= 20 and all(m["source"] and m["license"] and m["for"] and m["bytes"] > 0 for m in models)
