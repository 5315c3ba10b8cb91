"""Imports through the GUI's interface: they run no code before the user agrees, and a crash leaves nothing half made."""

import io
import json
import pathlib
import pickle
import shutil
import subprocess
import tarfile
import urllib.parse
import zipfile

import pytest

import models
from harness import REFERENCE, ROOT, Server, until

pytestmark = pytest.mark.skipif(REFERENCE, reason="the reference has no GUI")


class Console:
    """Calls the GUI's interface as the page does."""

    def __init__(self, server):
        self.server, self.address = server, server.ui.removeprefix("http://")

    def call(self, method, path, value=None):
        body = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
        return self.server.request(method, path, body, {"X-Nereid": "1"}, self.address)

    def ok(self, method, path, value=None):
        answer = self.call(method, path, value)
        assert answer.status < 300, (method, path, answer.status, answer.body)
        return answer.json if answer.body else None

    def stage(self, files):
        """Uploads files and has them analysed."""
        made = self.ok("POST", "/api/imports", {})
        for path, content in files.items():
            self.ok("PUT", f"/api/imports/{made['id']}/files/{urllib.parse.quote(path)}", content)
        return self.ok("POST", f"/api/imports/{made['id']}/analyze")

    def commit(self, staged, **request):
        """Commits an import and waits for its end."""
        path = f"/api/imports/{staged['id']}"
        self.ok("POST", path + "/commit", request)
        return until(lambda: (i := self.ok("GET", path))["state"] != "committing" and i, 60, "the commit does not end")


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The bytes of an ONNX model, and its configuration."""
    repo = tmp_path_factory.mktemp("plain")
    models.write_identity(repo, "plain")
    return (repo / "plain/1/model.onnx").read_bytes(), (repo / "plain/config.pbtxt").read_text()


@pytest.fixture(scope="module")
def touching(tmp_path_factory):
    """A native library that writes a file when it is loaded: its bytes and the file."""
    folder = tmp_path_factory.mktemp("library")
    touched = folder / "touched"
    (folder / "ops.c").write_text(f"""#include <stdio.h>
__attribute__((constructor)) static void run(void) {{ FILE *f = fopen("{touched}", "w"); if (f) fclose(f); }}
void *RegisterCustomOps(void *options, const void *api) {{ return 0; }}
""")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "ops.so", folder / "ops.c"], check=True)
    return (folder / "ops.so").read_bytes(), touched


@pytest.fixture(scope="module")
def importer(tmp_path_factory):
    work = tmp_path_factory.mktemp("importer")
    models.write_identity(work / "models", "resident")
    with Server(work / "models", work, "--model-control-mode=explicit", "--load-model=resident") as s:
        yield Console(s)


def packed(content, suffix):
    """A tar or a zip with one executable script."""
    out = io.BytesIO()
    if suffix == ".zip":
        with zipfile.ZipFile(out, "w") as z:
            info = zipfile.ZipInfo("bin/python3")
            info.external_attr = 0o100755 << 16
            z.writestr(info, content)
        return out.getvalue()
    with tarfile.open(fileobj=out, mode="w:gz") as t:
        info = tarfile.TarInfo("bin/python3")
        info.size, info.mode = len(content), 0o755
        t.addfile(info, io.BytesIO(content))
    return out.getvalue()


ENVIRONMENT = 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/%s" } }\n'
SCRIPT = b"#!/bin/sh\nexec true\n"


def code_cases(onnx, config, library):
    """Models that run code, by what runs: the files, and the path that the question must name."""
    ops = 'model_operations { op_library_filename: "%s" }\n'
    python = 'backend: "python"\nmax_batch_size: 0\n'
    return {
        "library": ({"config.pbtxt": config + ops % "ops.dat", "1/model.onnx": onnx, "1/ops.dat": library}, "1/ops.dat"),
        "library in the model's folder": ({"config.pbtxt": config + ops % "lib.so.1", "1/model.onnx": onnx,
                                           "lib.so.1": library}, "lib.so.1"),
        "library that is not named": ({"config.pbtxt": config, "1/model.onnx": onnx, "1/weights.bin": library},
                                      "1/weights.bin"),
        "library outside": ({"config.pbtxt": config + ops % "/opt/ops.dat", "1/model.onnx": onnx}, "config.pbtxt"),
        "Windows program": ({"config.pbtxt": config, "1/model.onnx": onnx, "1/a.dat": b"MZ" + bytes(200)}, "1/a.dat"),
        "macOS library": ({"config.pbtxt": config, "1/model.onnx": onnx, "1/a.dat": b"\xcf\xfa\xed\xfe" + bytes(200)},
                          "1/a.dat"),
        "script": ({"config.pbtxt": config, "1/model.onnx": onnx, "1/start": SCRIPT}, "1/start"),
        "environment": ({"config.pbtxt": config + ENVIRONMENT % "env.tar.gz", "1/model.onnx": onnx,
                         "env.tar.gz": packed(SCRIPT, ".tar.gz")}, "env.tar.gz"),
        "environment in a folder": ({"config.pbtxt": config + ENVIRONMENT % "env", "1/model.onnx": onnx,
                                     "env/bin/python3": SCRIPT}, "env/bin/python3"),
        "environment outside": ({"config.pbtxt": config + ENVIRONMENT.replace("$$TRITON_MODEL_DIRECTORY/", "/tmp/")
                                 % "env", "1/model.onnx": onnx}, "config.pbtxt"),
        "zip of a program": ({"config.pbtxt": config, "1/model.onnx": onnx, "1/data.bin": packed(SCRIPT, ".zip")},
                             "1/data.bin"),
        "pickle": ({"config.pbtxt": config, "1/model.onnx": onnx, "1/data.bin": pickle.dumps([1])}, "1/data.bin"),
        "Python without its suffix": ({"config.pbtxt": python + 'default_model_filename: "weights.bin"\n',
                                       "1/weights.bin": b"print()"}, "1/weights.bin"),
        "requirements": ({"config.pbtxt": python, "1/model.py": b"", "1/requirements.txt": b"./evil"},
                         "1/requirements.txt"),
        "TorchScript without its suffix": ({"config.pbtxt": 'backend: "pytorch"\ndefault_model_filename: "w.bin"\n',
                                            "1/w.bin": b"x"}, "1/w.bin"),
        "backend of its own": ({"config.pbtxt": config, "1/model.onnx": onnx, "1/libtriton_mine.so": library},
                               "1/libtriton_mine.so"),
        "plugins of TensorRT": ({"config.pbtxt": config + """optimization { execution_accelerators {
            gpu_execution_accelerator { name: "tensorrt"
            parameters { key: "trt_extra_plugin_lib_paths" value: "/tmp/p" } } } }
            """, "1/model.onnx": onnx}, "config.pbtxt"),
        "extension of OpenVINO": ({"config.pbtxt": 'backend: "openvino"\nmax_batch_size: 0\n'
                                   'parameters { key: "CPU_EXTENSION_PATH" value { string_value: "/tmp/e.dat" } }\n',
                                   "1/model.onnx": onnx}, "config.pbtxt"),
    }


@pytest.mark.parametrize("zipped", [False, True])
def test_B13_code_is_found_by_the_configuration_and_the_content(importer, plain, touching, zipped):
    """Whatever its name, a file that would run is in the question, and the commit needs the answer."""
    library, touched = touching
    for name, (files, want) in code_cases(*plain, library).items():
        named = {f"m/{path}": content.encode() if isinstance(content, str) else content
                 for path, content in files.items()}
        if zipped:
            out = io.BytesIO()
            with zipfile.ZipFile(out, "w") as z:
                for path, content in named.items():
                    z.writestr(path, content)
            named = {"m.zip": out.getvalue()}
        staged = importer.stage(named)
        code = {c["path"]: c["why"] for c in staged["code"]}
        assert code.get(want), f"{name}: the question lists {code}, not {want}"
        answer = importer.call("POST", f"/api/imports/{staged['id']}/commit", {})
        assert answer.status == 412 or answer.status == 409 and "faults" in answer.error, (name, answer)
        importer.ok("DELETE", f"/api/imports/{staged['id']}")
    assert not touched.exists(), "a library ran although nobody agreed"
    assert [p.name for p in importer.server.repositories[0].iterdir()] == ["resident"]


def test_B13_a_library_runs_only_after_consent(importer, plain, touching):
    """Neither the analysis, nor the check of a text that is being typed, loads a library that a configuration names."""
    (onnx, config), (library, touched) = plain, touching
    config = config.replace('name: "plain"', "") + 'model_operations { op_library_filename: "ops.dat" }\n'
    staged = importer.stage({"ops_model/config.pbtxt": config.encode(), "ops_model/1/model.onnx": onnx,
                             "ops_model/1/ops.dat": library})
    importer.ok("POST", "/api/config/check", {"import": staged["id"], "text": config + "# typed\n"})
    assert not touched.exists(), "the analysis of an import ran its library"
    done = importer.commit(staged, consentCode=True)
    assert done["state"] == "loaded", done["reason"]
    assert touched.exists()


def test_B13_a_configuration_that_begins_to_run_code_needs_consent(importer, plain, touching):
    """Files that came without a question do not run because the configuration is edited later."""
    (onnx, config), (_, touched) = plain, touching
    touched.unlink(missing_ok=True)
    config = config.replace('name: "plain"', "")
    done = importer.commit(importer.stage({"quiet/config.pbtxt": config.encode(), "quiet/1/model.onnx": onnx,
                                           "quiet/1/weights.bin": b"open('/dev/null')"}))
    assert done["state"] == "loaded", done
    was = importer.ok("GET", "/api/models/quiet")
    path = "/api/models/quiet/config"
    for text in (config + 'model_operations { op_library_filename: "weights.bin" }\n',
                 'backend: "python"\ndefault_model_filename: "weights.bin"\nmax_batch_size: 0\n'):
        answer = importer.call("PUT", path, {"text": text, "baseRevision": was["revision"]})
        assert answer.status == 412 and "weights.bin" in answer.error, answer
    assert importer.ok("GET", "/api/models/quiet")["configText"] == config
    saved = importer.ok("PUT", path, {"text": text, "baseRevision": was["revision"], "consentCode": True})
    assert saved["outcome"] == "failed"  # it is no Python model, but it was tried
    back = importer.ok("PUT", path, {"text": config, "baseRevision": saved["revision"]["id"]})
    assert back["outcome"] == "loaded", back
    # A text from the past asks again.
    restore = f"/api/models/quiet/revisions/{saved['revision']['id']}/restore"
    request = {"baseRevision": back["revision"]["id"]}
    assert importer.call("POST", restore, request).status == 412
    importer.ok("POST", restore, {**request, "consentCode": True})
