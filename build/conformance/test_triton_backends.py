"""Backend libraries of Triton's, made here from small C files, in the host process."""

import concurrent.futures
import os
import re
import shutil
import struct
import subprocess

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

from harness import ROOT, REFERENCE, Server, until

pytestmark = pytest.mark.skipif(REFERENCE, reason="needs a folder with the reference's own backends")

SOURCES = ROOT / "build/conformance/triton"


def library(name, folder, *flags):
    """Compiles a test backend into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"libtriton_{name}.so"
    source = SOURCES / f"{name}.c"
    subprocess.run(["cc", "-O1", "-Werror=implicit", "-shared", "-fPIC", "-I", SOURCES, source, *flags, "-o", path],
                   check=True)
    return path


def model(repository, name, backend, config="", dims="-1", datatype="FP32"):
    (repository / name / "1").mkdir(parents=True, exist_ok=True)
    (repository / name / "config.pbtxt").write_text(
        f'backend: "{backend}"\n'
        f'input {{ name: "IN" data_type: TYPE_{datatype} dims: [ {dims} ] }}\n'
        f'output {{ name: "OUT" data_type: TYPE_{datatype} dims: [ {dims} ] }}\n' + config)


def infer(server, name, values, **more):
    body = {"inputs": [{"name": "IN", "datatype": "FP32", "shape": list(np.shape(values)),
                        "data": np.ravel(values).tolist()}], **more}
    return server.post(f"/v2/models/{name}/infer", body)


def hash_of(name):
    """The hash that the ELF format has of a version's name."""
    h = 0
    for c in name:
        h = (h << 4) + c
        high = h & 0xF0000000
        h = (h ^ high >> 24) & ~high
    return struct.pack("<I", h)


def need_newer(path, name="GLIBC"):
    """Makes a library need a version of the C library, or of C++'s, that does not exist yet."""
    content = path.read_bytes()
    old = re.search(name.encode() + rb"_[0-9][.0-9]+(?=\0)", content)[0]
    new = re.sub(rb"[0-9]", b"9", old)
    assert hash_of(old) in content
    path.write_bytes(content.replace(old + b"\0", new + b"\0").replace(hash_of(old), hash_of(new)))


def throwing_library(backends, name="throws"):
    """Compiles the backend in C++."""
    (backends / f"{name}_test").mkdir()
    subprocess.run(["c++", "-O1", "-shared", "-fPIC", "-pthread", "-I", SOURCES, SOURCES / "throws_test.cc",
                    "-o", backends / f"{name}_test/libtriton_{name}_test.so"], check=True)


def missing_names():
    """The functions that docs/triton-backends.md lists as not supported. TestD076TheTableOfFunctionsIsRight checks
    it."""
    page = (ROOT / "docs/triton-backends.md").read_text()
    return re.findall(r"^\| `(\w+)` \| not supported \|$", page, re.M)


def missing_functions(folder, backends):
    """Compiles a backend that calls each of these when its model loads, and echoes if all are refused by name."""
    code = ['#include "identity_test.c"', "#include <stdio.h>", "int TRITONSERVER_ErrorCode(Error *);",
            *(f"Error *{name}(void);" for name in missing_names()),
            "static const struct { const char *name; Error *(*call)(void); } all[] = {",
            *(f'  {{"{name}", {name}}},' for name in missing_names()), """};

Error *TRITONBACKEND_ModelInitialize(Model *model) {
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    char want[200];
    snprintf(want, sizeof want, "%s is not supported by this server", all[i].name);
    Error *e = all[i].call();
    if (e == NULL) return TRITONSERVER_ErrorNew(1, all[i].name);
    if (TRITONSERVER_ErrorCode(e) != 5 || strcmp(TRITONSERVER_ErrorMessage(e), want) != 0) return e;
    TRITONSERVER_ErrorDelete(e);
  }
  return NULL;
}
"""]
    (folder / "missing.c").write_text("\n".join(code))
    (backends / "missing_test").mkdir()
    subprocess.run(["cc", "-O1", "-Werror", "-shared", "-fPIC", "-I", SOURCES, folder / "missing.c",
                    "-o", backends / "missing_test/libtriton_missing_test.so"], check=True)


def depend(backends, name, without=False):
    """Makes a backend NAME_test that needs libmiddle_NAME.so, which needs libend_NAME.so. Returns the path of the one
    in the middle. without: that at the end is missing."""
    folder = backends / f"{name}_test"
    folder.mkdir()
    end, middle = folder / f"libend_{name}.so", folder / f"libmiddle_{name}.so"
    for code, path, *flags in (("int end(void) { return 1; }", end),
                               ("#include <stdlib.h>\nint end(void); void middle(void) { if (end()) abort(); }", middle,
                                end, "-Wl,-rpath,$ORIGIN")):
        (folder / "part.c").write_text(code)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", path, folder / "part.c", *flags], check=True)
    library("identity_test", folder, "-Wl,--no-as-needed", middle, "-Wl,-rpath,$ORIGIN").rename(
        folder / f"libtriton_{name}_test.so")
    if without:
        end.unlink()
    return middle


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("triton")
    models, backends = folder / "models", folder / "backends"
    library("identity_test", backends / "identity_test")
    library("faults_test", backends / "faults_test")
    (backends / "empty_test").mkdir()
    (backends / "wrong_test").mkdir()
    (backends / "wrong_test/libtriton_wrong_test.so").write_text("not a library")
    (folder / "absent.c").write_text("int absent(void) { return 1; }")
    subprocess.run(["cc", "-shared", "-o", folder / "libabsent_test.so", folder / "absent.c"], check=True)
    library("identity_test", backends / "lacking_test", "-Wl,--no-as-needed", folder / "libabsent_test.so").rename(
        backends / "lacking_test/libtriton_lacking_test.so")
    (folder / "libabsent_test.so").unlink()
    need_newer(library("identity_test", backends / "newer_test").rename(
        backends / "newer_test/libtriton_newer_test.so"))
    for name, version in (("newstd", "GLIBCXX"), ("newabi", "CXXABI")):
        throwing_library(backends, name)
        need_newer(backends / f"{name}_test/libtriton_{name}_test.so", version)
    missing_functions(folder, backends)
    depend(backends, "deep", without=True)
    need_newer(depend(backends, "beneath"))
    depend(backends, "whole")
    library("identity_test", models / "own" / "1").rename(models / "own/1/libtriton_own_test.so")
    model(models, "own", "own_test")
    model(models, "faulty", "faults_test")
    for name in ("wrong", "lacking", "empty", "newer", "newstd", "newabi", "deep", "beneath", "whole", "missing"):
        model(models, name, f"{name}_test")
    model(models, "plain", "identity_test")
    model(models, "batched", "identity_test", "max_batch_size: 8 dynamic_batching { }")
    model(models, "texts", "identity_test", datatype="STRING")
    with Server(models, folder, f"--backend-directory={backends}", "--exit-on-error=false", wait="live") as s:
        until(lambda: all(state != "LOADING" for state, _ in s.index().values()), 60, "models load", s.log)
        yield s


def test_D076_a_backend_library_answers(server):
    answer = infer(server, "plain", [1, 2.5, -3])
    assert answer.status == 200, answer.body
    assert answer.json["outputs"][0]["data"] == [1, 2.5, -3]
    assert answer.json["parameters"]["batch"] == 1


def test_D076_a_library_in_the_folder_of_a_version(server):
    assert infer(server, "own", [7]).json["outputs"][0]["data"] == [7]


def test_D076_requests_are_batched(server):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda n: infer(server, "batched", [[n, n + 1]]), range(64)))
    assert [a.json["outputs"][0]["data"] for a in answers] == [[n, n + 1] for n in range(64)]


def test_D076_large_tensors_and_texts(server):
    values = np.arange(300_000, dtype=np.float32)
    with httpclient.InferenceServerClient(server.http) as client:
        tensor = httpclient.InferInput("IN", values.shape, "FP32")
        tensor.set_data_from_numpy(values)
        for _ in range(20):
            assert np.array_equal(client.infer("plain", [tensor]).as_numpy("OUT"), values)
        texts = np.array([b"a" * 9000, "é".encode(), b""], dtype=object)
        tensor = httpclient.InferInput("IN", texts.shape, "BYTES")
        tensor.set_data_from_numpy(texts)
        assert client.infer("texts", [tensor]).as_numpy("OUT").tolist() == texts.tolist()


# Parameters of each type.
PARAMETERS = {"text": "é", "none": "", "large": -2**62, "small": 7, "yes": True, "no": False, "real": 0.1, "whole": 2.0}


def test_D076_parameters_of_all_types_over_http(server):
    answer = infer(server, "plain", [1], parameters=PARAMETERS)
    got = answer.json["parameters"]
    assert got == {**PARAMETERS, "batch": 1}
    assert {k: type(v) for k, v in got.items()} == {k: type(v) for k, v in {**PARAMETERS, "batch": 1}.items()}


def test_D076_parameters_of_all_types_over_grpc(server):
    with grpcclient.InferenceServerClient(server.grpc) as client:
        tensor = grpcclient.InferInput("IN", [1], "FP32")
        tensor.set_data_from_numpy(np.array([1], np.float32))
        got = client.infer("plain", [tensor], parameters=PARAMETERS).get_response().parameters
    kinds = {str: "string_param", int: "int64_param", bool: "bool_param", float: "double_param"}
    assert {k: (p.WhichOneof("parameter_choice"), getattr(p, p.WhichOneof("parameter_choice")))
            for k, p in got.items()} == {k: (kinds[type(v)], v) for k, v in {**PARAMETERS, "batch": 1}.items()}


@pytest.mark.parametrize("name, reason", [
    ("wrong", "libtriton_wrong_test.so is not a library of Linux"),
    ("lacking", "libabsent_test.so: cannot open shared object file"),
    ("empty", "unable to find backend library for backend 'empty_test'"),
    ("newer", "libtriton_newer_test.so needs glibc 9."),
    ("newer", f"and this machine has {os.confstr('CS_GNU_LIBC_VERSION').split()[1]}"),
    ("newstd", "version `GLIBCXX_9."),
    ("newstd", "libtriton_newstd_test.so"),
    ("newabi", "version `CXXABI_9."),
    ("newabi", "libtriton_newabi_test.so"),
    ("deep", "libend_deep.so: cannot open shared object file"),
    ("beneath", "version `GLIBC_9."),
    ("beneath", "libmiddle_beneath.so"),
])
def test_D076_a_library_that_cannot_be_opened_is_named(server, name, reason):
    assert reason in server.index()[name, "1"][1]


def test_D076_each_function_that_is_not_built_says_so(server):
    """The backend fails to load if one of them answers otherwise."""
    assert len(missing_names()) == 59
    assert infer(server, "missing", [7]).json["outputs"][0]["data"] == [7], server.index()


def test_D076_a_library_finds_its_own_dependencies_beside_itself(server):
    assert infer(server, "whole", [7]).json["outputs"][0]["data"] == [7]


def test_D076_errors_of_a_batch_and_of_a_request(server):
    assert "the batch is refused" in infer(server, "faulty", [1]).error
    answer = infer(server, "faulty", [0])
    assert answer.status == 503 and answer.error == "the request is refused"


def test_D076_a_crash_ends_only_its_own_instance(server):
    for cause in (2, 3):
        assert infer(server, "faulty", [cause]).status == 503
        assert infer(server, "plain", [1]).status == 200
        until(lambda: server.get("/v2/models/faulty/ready").status == 200, 60, "not restarted", server.log)
    assert "refused" in infer(server, "faulty", [0]).error


def test_D076_the_steps_of_the_page_use_a_library(tmp_path):
    """docs/triton-backends.md, "Use a library": the files, the line of the configuration and the command."""
    text = (ROOT / "docs/triton-backends.md").read_text().split("## Use a library")[1]
    (file, _), (config, line), (version, _) = re.findall(r"^    (\S+/\S*)(?: +(.*))?$", text, re.M)[:3]
    made = library("identity_test", (tmp_path / file).parent)
    made.rename(tmp_path / file)
    (tmp_path / version).mkdir(parents=True)
    name = (tmp_path / config).parent.name
    model(tmp_path / "models", name, re.fullmatch('backend: "(\\w+)"', line)[1])
    options = re.search(r"nereid serve (--.*)", text)[1].replace("=", f"={tmp_path}/").split()
    with Server([], tmp_path, *options) as server:
        answer = infer(server, name, [1, 2])
        assert answer.json["outputs"][0]["data"] == [1, 2], answer.body


def test_A034_D076_a_library_that_runtime_names_is_used_or_missed_also_for_names_of_own_backends(tmp_path):
    """Neither the server's own backend of the name nor one in Python is a replacement for it."""
    repository, backends = tmp_path / "models", tmp_path / "backends"
    built = library("identity_test", backends / "square").rename(backends / "square/libtriton_mine.so")
    model(repository, "directory", "square", 'runtime: "libtriton_mine.so"')
    model(repository, "folder", "identity", 'runtime: "libtriton_own.so"')
    shutil.copy(built, repository / "folder/1/libtriton_own.so")
    (backends / "scripted").mkdir()
    (backends / "scripted/model.py").write_text("class TritonPythonModel:\n    def execute(self, requests): pass\n")
    absent = ("sequence", "square", "identity", "python", "scripted")
    for name in absent:
        model(repository, "no_" + name, name, 'runtime: "libtriton_absent.so"')
    with Server(repository, tmp_path, f"--backend-directory={backends}", "--exit-on-error=false", wait="live") as s:
        index = until(lambda: (i := s.index()) and len(i) == 7 and
                      all(state in ("READY", "UNAVAILABLE") for state, _ in i.values()) and i, 60, "not loaded", s.log)
        for name in ("directory", "folder"):
            assert infer(s, name, [1.5, 2.5]).json["outputs"][0]["data"] == [1.5, 2.5], index
        for name in absent:
            state, reason = index["no_" + name, "1"]
            assert state == "UNAVAILABLE", name
            assert f"unable to find backend library 'libtriton_absent.so' for model 'no_{name}'" in reason, reason
