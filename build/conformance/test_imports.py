"""Imports through the GUI's interface: they run no code before the user agrees, and a crash leaves nothing half
made."""

import contextlib
import http.client
import io
import json
import os
import pathlib
import pickle
import random
import re
import shutil
import signal
import struct
import subprocess
import tarfile
import tempfile
import urllib.parse
import zipfile

import pytest

import models
from harness import REFERENCE, Server, until
from limits import MIB, fill, small_disk

pytestmark = pytest.mark.skipif(REFERENCE, reason="the reference has no GUI")


class Console:
    """Calls the GUI's interface as the page does."""

    def __init__(self, server):
        self.server, self.address = server, server.ui_address

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
PARAMETER = 'parameters { key: "%s" value { string_value: "%s" } }\n'
PROVIDER = """optimization { execution_accelerators { %s_execution_accelerator { name: "mine"
    parameters { key: "library_path" value: "mine.dat" } } } }
"""
OPENVINO = """optimization { execution_accelerators { cpu_execution_accelerator { name: "openvino"
    parameters { key: "load_config" value: "/tmp/p.json" } } } }
"""
SCRIPT = b"#!/bin/sh\nexec true\n"


def code_cases(onnx, config, library, outside):
    """Models that run code, or use the file outside, by what runs: the files, and the path that the question names."""
    ops = 'model_operations { op_library_filename: "%s" }\n'
    python = 'backend: "python"\nmax_batch_size: 0\n'
    return {
        "library": ({"config.pbtxt": config + ops % "ops.dat", "1/model.onnx": onnx, "1/ops.dat": library},
                    "1/ops.dat"),
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
        **{f"{kind}'s execution provider of its own": (
            {"config.pbtxt": config + PROVIDER % kind, "1/model.onnx": onnx, "1/mine.dat": b"x"}, "config.pbtxt")
           for kind in ("cpu", "gpu")},
        **{f"parameter {key}": ({"config.pbtxt": config + PARAMETER % (key, outside), "1/model.onnx": onnx},
                                "config.pbtxt")
           for key in ("ep.mine.library_path", "session.custom_ops_library", "session.execution_provider_library_path",
                       "session.optimized_model_filepath", "session.collect_node_memory_stats_to_file",
                       "ep.context_file_path", "TRITON_BATCH_STRATEGY_PATH")},
        "library of a provider in the version": (
            {"config.pbtxt": config + PARAMETER % ("ep.mine.library_path", "mine.dat"), "1/model.onnx": onnx,
             "1/mine.dat": b"x"}, "1/mine.dat"),
        "options of OpenVINO's provider": ({"config.pbtxt": config + OPENVINO, "1/model.onnx": onnx}, "config.pbtxt"),
        "extension of OpenVINO": ({"config.pbtxt": 'backend: "openvino"\nmax_batch_size: 0\n'
                                   'parameters { key: "CPU_EXTENSION_PATH" value { string_value: "/tmp/e.dat" } }\n',
                                   "1/model.onnx": onnx}, "config.pbtxt"),
    }


@pytest.mark.parametrize("zipped", [False, True])
def test_B13_code_is_found_by_the_configuration_and_the_content(importer, plain, touching, zipped):
    """Whatever its name, a file that would run is in the question, and the commit needs the answer."""
    library, touched = touching
    outside = touched.with_name("outside")
    for name, (files, want) in code_cases(*plain, library, outside).items():
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
    assert not outside.exists(), "a session wrote a file although nobody agreed"
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


def hidden(repo):
    """What an import leaves when it is not finished."""
    return sorted(str(p.relative_to(repo)) for p in repo.rglob(".*nereid*"))


def kill_during_imports(work, repo, rounds, seed):
    """Replaces a model again and again, and kills the server at some point of each import. Afterwards the model is the
    last acknowledged one or the one in flight, nothing half made is left, and what was replaced is in the trash."""
    chance, served = random.Random(seed), [0]
    models.write_identity(repo, "m")
    config = (repo / "m/config.pbtxt").read_text() + "# version %d\n"
    onnx, weights = (repo / "m/1/model.onnx").read_bytes(), bytes(8 << 20)
    (repo / "m/config.pbtxt").write_text(config % 0)
    s = Server(repo, work, "--model-control-mode=explicit", "--load-model=m")
    s.start()
    try:
        for n in range(1, rounds + 1):
            gui = Console(s)
            staged = gui.stage({"m/config.pbtxt": (config % n).encode(), "m/1/model.onnx": onnx,
                                "m/1/weights.bin": weights})
            path, loaded = f"/api/imports/{staged['id']}", False
            gui.ok("POST", path + "/commit", {"replace": True})
            for _ in range(chance.choice([0, 2, 5, 10, 20, 50, 1000])):
                if loaded := gui.ok("GET", path)["state"] == "loaded":
                    break
            s.kill()
            s.start()
            gui = Console(s)
            assert hidden(repo) == [], f"round {n}"
            now = gui.ok("GET", "/api/models/m")
            expected = [config % n] if loaded else [config % served[-1], config % n]
            assert now["state"] == "READY" and now["configText"] in expected, (n, loaded, now["configText"][-20:])
            if now["configText"] == config % n:
                served.append(n)
            texts = [(p / "config.pbtxt").read_text() for p in (work / "data/trash").glob("*/model")]
            lost = [i for i in served[:-1] if texts.count(config % i) != 1]
            assert not lost, f"round {n}: models that were replaced are not in the trash: {lost}"
            assert len(gui.ok("GET", "/api/trash")["items"]) == len(texts)
            for revision in gui.ok("GET", "/api/models/m/revisions")["revisions"]:
                if revision["source"] != "import" or revision["outcome"] == "failed":
                    continue
                after = gui.ok("GET", f"/api/models/m/revisions/{revision['id']}")["after"]
                assert after in [config % i for i in served], f"round {n}: revision {revision} was never in place"
    finally:
        s.kill()
    print(f"{rounds} imports were killed, {rounds + 1 - len(served)} of them before they were in service")


def test_B23_a_killed_import_leaves_nothing_half_made(tmp_path):
    kill_during_imports(tmp_path, tmp_path / "models", 15, seed=1)


@pytest.mark.soak
def test_B23_many_killed_imports(tmp_path):
    kill_during_imports(tmp_path, tmp_path / "models", 150 if os.environ.get("NEREID_SOAK") == "full" else 5, seed=2)


def test_B23_the_first_start_after_an_older_program_cleans_up(plain, tmp_path):
    """Folders that older programs left: one that was replaced goes to the trash, an empty one is removed."""
    repo = tmp_path / "models"
    models.write_identity(repo, "m")
    shutil.copytree(repo / "m", repo / ".nereid-ABCDEFGHIJKLMNOP")
    with open(repo / ".nereid-ABCDEFGHIJKLMNOP/config.pbtxt", "a") as f:
        f.write('name: "m"\n')
    (repo / ".nereid-ABCDEFGHIJKLMNO2").mkdir()
    (repo / ".nereid-somebody's own").mkdir()
    (repo / "m/.config.pbtxt.nereid-ABCDEFGHIJKLMNOP").write_text("half")
    with Server(repo, tmp_path) as s:
        trash = Console(s).ok("GET", "/api/trash")["items"]
        assert [(t["model"], t["from"]) for t in trash] == [("m", str(repo / "m"))]
        assert hidden(repo) == [".nereid-somebody's own"]
        assert s.state("m") == "READY"


def ending_library(folder):
    """The bytes of a native library that ends the process that loads it."""
    compiler = shutil.which("cc")
    assert compiler, "the tests of native libraries need cc"
    (folder / "ops.c").write_text("""#include <stdlib.h>
__attribute__((constructor)) static void run(void) { _Exit(77); }
void *RegisterCustomOps(void *options, const void *api) { return 0; }
""")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "ops.so", folder / "ops.c"], check=True)
    return (folder / "ops.so").read_bytes()


def test_B23_a_configuration_that_ends_the_server_is_undone_if_it_was_to_load(tmp_path):
    repo = tmp_path / "models"
    models.write_identity(repo, "m")
    (repo / "m/1/ops.so").write_bytes(ending_library(tmp_path))
    config = (repo / "m/config.pbtxt").read_text()
    s = Server(repo, tmp_path, "--model-control-mode=explicit", "--load-model=*")
    s.start()
    try:
        with contextlib.suppress(OSError, http.client.HTTPException):  # the server ends before it answers
            Console(s).call("PUT", "/api/models/m/config", {
                "text": config + 'model_operations { op_library_filename: "ops.so" }\n', "baseRevision": 0,
                "consentCode": True, "onlyIfLoads": True})
        assert s.process.wait(60) == 77
        s.start()
        assert s.state("m") == "READY" and (repo / "m/config.pbtxt").read_text() == config
        revisions = Console(s).ok("GET", "/api/models/m/revisions")["revisions"]
        assert [(r["source"], r["outcome"]) for r in revisions] == [("restore", "saved"), ("console", "failed")]
    finally:
        s.kill()


def test_B23_an_import_that_ends_the_server_is_undone(plain, tmp_path):
    """If loading a new model ends the server, the next start serves the model that it replaced."""
    (onnx, config), repo = plain, tmp_path / "models"
    models.write_identity(repo, "m")
    config = config.replace('name: "plain"', "") + 'model_operations { op_library_filename: "ops.so" }\n'
    files = {"m/config.pbtxt": config.encode(), "m/1/model.onnx": onnx,
             "m/1/ops.so": ending_library(tmp_path)}
    s = Server(repo, tmp_path, "--model-control-mode=explicit", "--load-model=*")
    s.start()
    try:
        for name in "m", "other":
            gui = Console(s)
            staged = gui.stage(files)
            gui.ok("PUT", f"/api/imports/{staged['id']}/config", {"name": name})
            with contextlib.suppress(OSError, http.client.HTTPException):  # the server may end before it answers
                gui.call("POST", f"/api/imports/{staged['id']}/commit", {"replace": True, "consentCode": True})
            assert s.process.wait(60) == 77
            s.start()
            assert s.state("m") == "READY" and s.state("other") == ""
            assert name in [t["model"] for t in Console(s).ok("GET", "/api/trash")["items"]]
            assert hidden(repo) == []
    finally:
        s.kill()


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_B24_an_import_is_on_the_disk_before_it_is_acknowledged(plain, tmp_path):
    """Each file and folder of an import is synced before it takes its place, and the repository after that."""
    (onnx, config), repo, calls = plain, tmp_path / "models", tmp_path / "calls"
    models.write_identity(repo, "m")
    with Server(repo, tmp_path, "--model-control-mode=explicit") as s:
        gui = Console(s)
        staged = gui.stage({"m/config.pbtxt": config.replace('name: "plain"', "").encode(), "m/1/model.onnx": onnx,
                            "m/1/weights.bin": b"w"})
        trace = subprocess.Popen(["strace", "-f", "-y", "-s", "4096", "-o", calls, "-e",
                                  "trace=fsync,fdatasync,rename,renameat,renameat2", "-p", str(s.process.pid)],
                                 stderr=subprocess.PIPE, text=True)
        try:
            assert "attached" in trace.stderr.readline()
            done = gui.commit(staged, replace=True)
        finally:
            trace.send_signal(signal.SIGINT)
            trace.wait(60)
    assert done["state"] == "loaded", done
    lines = calls.read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if f'"{repo}/m"' in line and "rename" in line and "/.nereid-" in line)
    part = re.search(rf'"({re.escape(str(repo))}/\.nereid-\w+)"', lines[at])[1]
    synced = {m[1] for line in lines[:at] if (m := re.search(r"(?:fsync|fdatasync)\(\d+<([^>]+)>", line))}
    for path in "", "/1", "/1/model.onnx", "/1/weights.bin":
        assert part + path in synced, f"{path} is not synced before it is in its place; synced: {synced}"
    assert any(f"<{repo}>" in line and "sync(" in line for line in lines[at:]), "the repository is not synced"


def peak(server, action):
    """How many bytes of memory an action needs at most, above what the server had before."""
    proc = pathlib.Path(f"/proc/{server.process.pid}")

    def read(name):
        return int(re.search(rf"^{name}:\s+(\d+) kB", (proc / "status").read_text(), re.M)[1]) << 10

    (proc / "clear_refs").write_text("5")  # the peak begins again
    before = read("VmRSS")
    result = action()
    return read("VmHWM") - before, result


def test_B25_a_list_of_large_revisions_needs_little_memory(tmp_path):
    """The list has no texts, comes in pages, and old revisions are removed."""
    repo, count, size = tmp_path / "models", 12, 4 << 20
    models.write_identity(repo, "m")
    config = (repo / "m/config.pbtxt").read_text()
    with Server(repo, tmp_path, "--model-control-mode=explicit", wait="live") as s:
        gui, base = Console(s), 0
        for n in range(count):
            text = config + f"# {n}\n" + ("#" * 1023 + "\n") * (size >> 10)
            saved = gui.ok("PUT", "/api/models/m/config", {"text": text, "baseRevision": base})
            base = saved["revision"]["id"]
        gui.ok("PUT", "/api/models/m/config", {"text": config, "baseRevision": base})
        gui.ok("GET", "/api/models/m/revisions")  # the first call may grow the heap for good
    with Server(repo, tmp_path, "--model-control-mode=explicit", wait="live") as s:
        gui = Console(s)
        needed, first = peak(s, lambda: gui.ok("GET", "/api/models/m/revisions?limit=10"))
        assert needed < 32 << 20, f"{needed >> 20} MiB"
        assert len(first["revisions"]) == 10 and first["more"]
        assert (first["revisions"][0]["added"], first["revisions"][0]["removed"]) == (0, (size >> 10) + 1)
        seen = [r["id"] for r in first["revisions"]]
        while first["more"]:
            first = gui.ok("GET", f"/api/models/m/revisions?limit=10&before={seen[-1]}")
            seen += [r["id"] for r in first["revisions"]]
        assert seen == sorted(seen, reverse=True) and len(seen) == len(set(seen)) == count + 1
        assert gui.call("GET", "/api/models/m/revisions?limit=0").status == 400


def test_B26_a_zip_of_millions_of_entries_is_refused_with_little_memory(importer):
    """The directory of a zip is read only up to a limit, whatever the zip says about it."""
    entries, out = 1_000_000, io.BytesIO()
    local = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 0, 0, 0, 0, 0, 0, 1, 0) + b"a"
    record = struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    out.write(local + record * entries)
    out.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, entries & 0xFFFF, entries & 0xFFFF, len(record), len(local), 0))
    made = importer.ok("POST", "/api/imports", {})
    importer.ok("PUT", f"/api/imports/{made['id']}/files/m.zip", out.getvalue())
    needed, answer = peak(importer.server, lambda: importer.call("POST", f"/api/imports/{made['id']}/analyze"))
    assert needed < 100 << 20, f"{needed >> 20} MiB"
    assert answer.status == 413 and "too many entries" in answer.error, answer
    importer.ok("DELETE", f"/api/imports/{made['id']}")


@pytest.fixture
def small_disks(tmp_path):
    """Two file systems of 96 MiB, as the data folder and as the repository."""
    if os.getuid() != 0:
        pytest.skip("only root can mount a small disk")
    with small_disk(tmp_path / "data", 96 * MIB) as data, small_disk(tmp_path / "models", 96 * MIB) as repo:
        yield data, repo


def test_H12_a_full_disk_is_said(plain, tmp_path, small_disks):
    """Every write of the GUI's interface to a full disk is 507 with the reason, and works again with free space."""
    (onnx, _), (data, repo) = plain, small_disks
    models.write_identity(repo, "m")
    config = (repo / "m/config.pbtxt").read_text()
    large = config + ("#" * 1023 + "\n") * 500
    with Server(repo, tmp_path, "--model-control-mode=explicit", "--load-model=m") as s:
        gui = Console(s)
        made = gui.ok("POST", "/api/imports", {})
        ready = gui.stage({"new/1/model.onnx": onnx, "new/1/weights.bin": bytes(1 << 20)})
        save = {"text": large, "baseRevision": gui.ok("GET", "/api/models/m")["revision"]}
        for full in data, repo:
            filled = fill(full)
            calls = [("PUT", "/api/models/m/config", save)]
            if full == data:
                calls += [("PUT", f"/api/imports/{made['id']}/files/m.onnx", bytes(1 << 20)),
                          ("DELETE", "/api/models/m", None)]
            for method, path, value in calls:
                answer = gui.call(method, path, value)
                assert answer.status == 507 and answer.json["code"] == "disk_full", (full.name, method, path, answer)
                assert "full" in answer.error and "free some space" in answer.error
            for n in range(20):  # what is small may still fit
                for method, path, value in (("PUT", "/api/models/m/pin", {"pinned": n % 2 == 0}),
                                            ("POST", "/api/access/tokens",
                                             {"name": f"t{full.name}{n}", "scopes": ["infer"]})):
                    answer = gui.call(method, path, value)
                    assert answer.status in (200, 201, 507), (full.name, method, path, answer)
            assert (repo / "m/config.pbtxt").read_text() == config
            assert gui.ok("GET", "/api/models/m")["state"] == "READY"
            if full == repo:
                failed = gui.commit(ready)
                assert failed["state"] == "failed" and "no space" in failed["reason"], failed
            filled.unlink()
            assert hidden(repo) == []
            save["baseRevision"] = gui.ok("GET", "/api/models/m")["revision"]
        assert gui.ok("PUT", "/api/models/m/config", save)["outcome"] == "loaded"


def test_B10_environments_that_would_fill_the_disk_are_refused(tmp_path, small_disks):
    """An archive for EXECUTION_ENV_PATH is bounded by its ratio and by the space that is free."""
    data, _ = small_disks
    repo = tmp_path / "python"
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as t:
        info = tarfile.TarInfo("bin/python3")
        info.size = 512 << 20
        t.addfile(info, open("/dev/zero", "rb"))
    bomb = out.getvalue()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        info = tarfile.TarInfo("lib/large")
        info.size = 96 << 20
        t.addfile(info, open("/dev/zero", "rb"))
    for name, content in ("bomb", bomb), ("large", out.getvalue()):
        models.write(repo / name / "config.pbtxt", 'backend: "python"\n' + ENVIRONMENT % "env.tar")
        models.write(repo / name / "1/model.py", "")
        (repo / name / "env.tar").write_bytes(content)
    with Server(repo, tmp_path, "--model-control-mode=explicit", wait="live") as s:
        for name, reason in ("bomb", "200 times its size"), ("large", "does not fit"):
            answer = s.post(f"/v2/repository/models/{name}/load")
            assert answer.status >= 400 and reason in answer.error, answer
        used = sum(p.stat().st_blocks * 512 for p in (data / "runtime/python/environments").rglob("*") if p.is_file())
        assert used < 1 << 20, "what was unpacked is still there"


def test_B3_names_that_look_like_others_are_refused(importer, plain):
    """Names of spaces, with control characters or with marks that change the direction of text."""
    staged = importer.stage({"m/1/model.onnx": plain[0]})
    for name in " ", "   ", "a\u202eb", "\u2066a", "a\u2069", "a\u200fb", "a\u0085b", "a\u2028b", "a\tb":
        answer = importer.call("PUT", f"/api/imports/{staged['id']}/config", {"name": name})
        assert answer.status == 400, (name, answer)
        load = importer.server.post(f"/v2/repository/models/{urllib.parse.quote(name)}/load")
        assert load.status == 400, (name, load)
    assert importer.ok("PUT", f"/api/imports/{staged['id']}/config", {"name": "模型 ü 1"})["name"] == "模型 ü 1"
    importer.ok("DELETE", f"/api/imports/{staged['id']}")


def test_B27_a_download_follows_no_link_out_of_the_repository(importer, tmp_path):
    """The zip of a model has the files that links in the repository lead to, and nothing from elsewhere."""
    repo, secret = importer.server.repositories[0], tmp_path / "secret"
    secret.write_text("secret")
    models.write_identity(repo, "linked")
    try:
        (repo / "linked/1/near.bin").symlink_to("../../resident/config.pbtxt")
        answer = importer.call("GET", "/api/models/linked/archive")
        with zipfile.ZipFile(io.BytesIO(answer.body)) as z:
            assert z.read("linked/1/near.bin") == (repo / "resident/config.pbtxt").read_bytes()
        for target in secret, "/etc/hostname":
            (repo / "linked/1/far.bin").symlink_to(target)
            answer = importer.call("GET", "/api/models/linked/archive")
            assert answer.status == 403 and "1/far.bin" in answer.error, answer
            (repo / "linked/1/far.bin").unlink()
    finally:
        shutil.rmtree(repo / "linked")


@pytest.fixture
def other_disk(tmp_path):
    """A folder in another file system than tmp_path."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="nereid-") as folder:
        assert os.stat(folder).st_dev != os.stat(tmp_path).st_dev, "there is one file system only"
        yield pathlib.Path(folder)


def test_B23_imports_from_another_disk_lose_and_leave_nothing(plain, tmp_path, other_disk):
    """With the data folder on another disk than the repository, files of an import and of a replaced model are
    copied."""
    (onnx, config), repo, data = plain, other_disk / "models", tmp_path / "data"
    config = config.replace('name: "plain"', "") + "# version %d\n"
    repo.mkdir()

    def files(n):
        return {"m/config.pbtxt": (config % n).encode(), "m/1/model.onnx": onnx, "m/1/weights.bin": bytes([n]) * MIB}

    def whole(folder, n):
        for path, content in files(n).items():
            assert (folder / path.removeprefix("m/")).read_bytes() == content, (folder, path)

    with Server(repo, tmp_path, "--model-control-mode=explicit") as s:
        gui = Console(s)
        for n in 1, 2:
            assert gui.commit(gui.stage(files(n)), replace=n > 1)["state"] == "loaded"
        staged = gui.stage({"m/config.pbtxt": b'backend: "python"', "m/1/model.py": b"raise ValueError"})
        assert gui.commit(staged, replace=True, consentCode=True)["state"] == "failed"
        gui.ok("DELETE", f"/api/imports/{staged['id']}")
        assert sorted(p.name for p in repo.iterdir()) == ["m"]
        assert gui.ok("GET", "/api/models/m")["state"] == "READY"
        whole(repo / "m", 2)
        assert not any((data / "imports").iterdir()), list((data / "imports").rglob("*"))
        trashed = gui.ok("GET", "/api/trash")["items"]
        assert [t["model"] for t in trashed] == ["m"]
        whole(data / "trash" / trashed[0]["id"] / "model", 1)
        gui.ok("DELETE", "/api/models/m")
        assert list(repo.iterdir()) == []
        [last] = [t for t in gui.ok("GET", "/api/trash")["items"] if t != trashed[0]]
        gui.ok("POST", f"/api/trash/{last['id']}/restore")
        whole(repo / "m", 2)
        assert sorted(p.name for p in repo.iterdir()) == ["m"]
        assert [t.name for t in (data / "trash").iterdir()] == [trashed[0]["id"]]


def test_B23_a_killed_import_from_another_disk_leaves_nothing_half_made(tmp_path, other_disk):
    kill_during_imports(tmp_path, other_disk / "models", 6, seed=3)


def test_B9_B10_archives_that_leave_their_folder_or_fill_the_disk_are_refused(importer, plain, tmp_path):
    """Nothing is written outside the folder of the import, and a bomb is not unpacked. A good one is taken."""
    def zipped(*entries):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
            for name, content, mode in entries:
                info = zipfile.ZipInfo(name)
                info.external_attr, info.compress_type = mode << 16, zipfile.ZIP_DEFLATED
                z.writestr(info, content)
        return out.getvalue()

    def tarred(*entries):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as t:
            for name, kind, target in entries:
                info = tarfile.TarInfo(name)
                info.type, info.linkname = kind, target
                t.addfile(info)
        return out.getvalue()

    model, outside = ("m/1/model.onnx", plain[0], 0o100644), str(tmp_path / "evil")
    inner = zipped(model)
    cases = {
        "climbs.zip": zipped(model, ("../evil", b"x", 0o100644)),
        "later.zip": zipped(model, ("m/1/../../../evil", b"x", 0o100644)),
        "absolute.zip": zipped(model, (outside, b"x", 0o100644)),
        "backslash.zip": zipped(model, ("..\\evil", b"x", 0o100644)),
        "through.zip": zipped(model, ("m/out", str(tmp_path).encode(), 0o120777), ("m/out/evil", b"x", 0o100644)),
        "case.zip": zipped(model, ("m/1/Model.onnx", b"x", 0o100644)),
        "many.zip": zipped(model, *((f"m/1/{n}", b"", 0o100644) for n in range(10_001))),
        "nested.zip": zipped(("inner.zip", inner, 0o100644)),
        "bomb.zip": zipped(("m/1/model.onnx", bytes(256 << 20), 0o100644)),
        "climbs.tar.gz": tarred(("m/1/model.onnx", tarfile.REGTYPE, ""), ("../evil", tarfile.REGTYPE, "")),
        "link.tar.gz": tarred(("m/out", tarfile.SYMTYPE, str(tmp_path)), ("m/out/evil", tarfile.REGTYPE, "")),
        "hard.tar.gz": tarred(("m/1/model.onnx", tarfile.LNKTYPE, "/etc/hostname")),
        "device.tar.gz": tarred(("m/1/model.onnx", tarfile.CHRTYPE, "")),
    }
    work = importer.server.work
    for name, content in cases.items():
        made = importer.ok("POST", "/api/imports", {})
        importer.ok("PUT", f"/api/imports/{made['id']}/files/{name}", content)
        answer = importer.call("POST", f"/api/imports/{made['id']}/analyze")
        assert answer.status in (400, 413), (name, answer)
        assert not list(work.rglob("evil")) and not list(tmp_path.rglob("evil")), name
        unpacked = sum(p.stat().st_size for p in (work / "data/imports").rglob("*") if p.is_file()) - len(content)
        assert unpacked < 80 << 20, (name, unpacked)
        importer.ok("DELETE", f"/api/imports/{made['id']}")
    assert not list((work / "data/imports").iterdir())
    assert importer.stage({"good.zip": inner})["faults"] == []
