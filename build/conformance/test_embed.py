"""libtritonserver.so in a C program: make library builds the library, and the tests compile the program."""

import csv
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from tritonclient.grpc import model_config_pb2

from harness import BINARY, PYTHON_FIRST, REFERENCE, ROOT, free_port
from test_triton_backends import library, model

pytestmark = pytest.mark.skipif(REFERENCE, reason="the tests are of our library")

LIBRARY = pathlib.Path(os.environ.get("NEREID_LIBRARY", ROOT / "build/bin/libtritonserver.so")).resolve()
# A library whose C code the address sanitizer watches needs programs with it: make sanitized-library.
SANITIZE = ["-fsanitize=address"] if "NEREID_LIBRARY" in os.environ else []
HEADERS = ROOT / "app/library/include"
NUMBERS = " ".join(str(n) for n in range(16))


def compile_program(path, *flags, source="simple.c"):
    assert LIBRARY.exists(), "run make library"
    subprocess.run(["cc", "-Wall", "-Werror", "-g", "-O1", "-I", HEADERS, ROOT / "build/conformance/embed" / source,
                    "-L", LIBRARY.parent, "-ltritonserver", "-pthread", *SANITIZE, *flags, "-o", path], check=True)


@pytest.fixture(scope="module")
def simple(tmp_path_factory):
    """The compiled program."""
    path = tmp_path_factory.mktemp("embed") / "simple"
    compile_program(path)
    return path


def run(*command, **env):
    """Returns what a program prints."""
    env = {"LD_LIBRARY_PATH": str(LIBRARY.parent), "NEREID_PROGRAM": BINARY, "PATH": PYTHON_FIRST, **env}
    done = subprocess.run([str(c) for c in command], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    return done.stdout


def python_model(folder, execute, config=""):
    """Writes a model with one input and one output of 16 numbers. execute is the body of its method."""
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(
        'backend: "python" max_batch_size: 8\n'
        'input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 16 ] }\n'
        'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 16 ] }\n' + config)
    (folder / "1/model.py").write_text(
        "import triton_python_backend_utils as pb_utils\n\n\nclass TritonPythonModel:\n"
        "    def execute(self, requests):" + execute)


@pytest.fixture(scope="module")
def printed(simple, tmp_path_factory):
    """What the program prints with models in the process, in a process of Python's and in one of nereid's."""
    folder = tmp_path_factory.mktemp("printed")
    python_model(folder / "models/plus_one", """
        return [pb_utils.InferenceResponse([pb_utils.Tensor(
            "OUTPUT0", pb_utils.get_input_tensor_by_name(r, "INPUT0").as_numpy() + 1)]) for r in requests]
""")
    python_model(folder / "models/three", """
        for r in requests:
            for n in (1, 2, 3):
                values = pb_utils.get_input_tensor_by_name(r, "INPUT0").as_numpy() + n
                r.get_response_sender().send(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", values)]))
            r.get_response_sender().send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
""", "model_transaction_policy { decoupled: true }")
    for name in ("builtin_identity", "identity_fp32"):
        (folder / "models" / name).symlink_to(ROOT / "models-sample" / name)
    isolated = folder / "models/isolated"
    shutil.copytree(ROOT / "models-sample/identity_fp32", isolated)
    config = (isolated / "config.pbtxt").read_text().replace('"identity_fp32"', '"isolated"')
    (isolated / "config.pbtxt").write_text(
        config + 'parameters { key: "isolation" value { string_value: "process" } }\n')
    return run(simple, folder / "models", "identity_fp32", "plus_one", "isolated", "three")


def line(printed, start):
    found = [text for text in printed.splitlines() if text.startswith(start)]
    assert found, printed
    return found[0]


def test_D078_a_c_program_infers(printed):
    assert line(printed, "answer of builtin_identity") == (
        f"answer of builtin_identity 1 to one: OUTPUT0 FP32 [1,16] 64: {NUMBERS}")
    assert line(printed, "of builtin_identity") == "of builtin_identity: 1 released, 1 of 1 buffers freed"


def test_D078_models_are_loaded_and_answer(printed):
    assert line(printed, "answer of identity_fp32").endswith(f"[1,16] 64: {NUMBERS}")
    assert line(printed, "answer of plus_one").endswith(f"[1,16] 64: {' '.join(str(n + 1) for n in range(16))}")
    assert line(printed, "answer of isolated").endswith(f"[1,16] 64: {NUMBERS}")
    assert line(printed, "index") == 'index: [{"name":"builtin_identity","version":"1","state":"READY"}]'


def test_D078_the_state_of_the_server(printed):
    assert line(printed, "api") == "api 1.34"
    assert line(printed, "live ") == "live 1 ready 1 model 1 other 0 batch 2 transactions 1"
    assert line(printed, "live after stop") == "live after stop 0"
    assert line(printed, "server").startswith('server: {"name":"inside","version":')
    assert '"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[-1,16]}]' in line(printed, "model:")
    assert '"max_batch_size":64' in line(printed, "config")
    assert '"inference_count":1' in line(printed, "statistics")
    assert 'nv_inference_request_success{model="builtin_identity",version="1"} 1' in printed.splitlines()


def test_D078_metrics_of_the_program(printed):
    assert line(printed, "own counter") == "own counter 3.5 kind 0"
    assert line(printed, "counter down").startswith("counter down: 3 Invalid argument: ")
    assert line(printed, "counter set").startswith("counter set: 5 Unsupported: ")
    assert line(printed, "taken name").startswith("taken name: 6 Already exists: ")
    assert line(printed, "other kind") == (
        "other kind: 3 Invalid argument: Family name already exists with different type")
    assert line(printed, "no buckets").startswith("no buckets: 3 Invalid argument: a histogram needs its buckets")
    shown = [text for text in printed.splitlines() if "own_" in text]
    assert shown == [
        "# HELP own_sizes sizes", "# TYPE own_sizes histogram", "own_sizes_count 1", "own_sizes_sum 3",
        'own_sizes_bucket{le="1"} 0', 'own_sizes_bucket{le="10"} 1', 'own_sizes_bucket{le="+Inf"} 1',
        "# HELP own_total what the program counts", "# TYPE own_total counter", 'own_total{kind="own"} 4']


def test_D078_errors_have_codes_and_texts(printed):
    assert line(printed, "no repository").startswith(
        "no repository: 1 Internal: failed to stat file /nowhere: no such file or directory")
    assert line(printed, "bad option").startswith("bad option: 3 Invalid argument: --model-load-thread-count")
    assert line(printed, "no model") == (
        "no model: 2 Not found: Request for unknown model: 'absent' is not found")
    assert line(printed, "not sent").startswith("not sent: 3 Invalid argument: ")
    assert line(printed, "no load").startswith("no load: 1 Internal: failed to load 'absent'")


def test_D078_the_header_has_what_the_library_exports():
    names = subprocess.run(["nm", "-D", LIBRARY], capture_output=True, text=True, check=True).stdout
    exported = set(re.findall(r" T (\w+)", names))
    declared = set(re.findall(r"(TRITONSERVER_\w+)\(", (HEADERS / "triton/core/tritonserver.h").read_text()))
    assert declared <= exported, declared - exported
    page = (ROOT / "docs/embed.md").read_text()
    functions = (ROOT / "engine/backend/triton/capi/functions.h").read_text()
    published = set(re.findall(r"\((TRITONSERVER_\w+)\)", functions))
    listed = {name for name in published if f"`{name.removeprefix('TRITONSERVER_')}`" in page}
    assert listed == published - declared, "docs/embed.md lists the functions that are missing"
    assert all(name.startswith(("TRITONSERVER_", "NEREID_")) for name in exported), "a program could replace what is inside"
    # The sanitizer's functions have no versions.
    assert SANITIZE or not re.search(r" U (?!_|.*@)", names), "a program could not be linked"


def test_D078_the_program_and_the_library_lose_no_memory(simple, tmp_path):
    """The address sanitizer watches the memory of both: what is used after it is freed, and what is never freed."""
    checked = simple.with_name("checked")
    compile_program(checked, "-fsanitize=address,undefined")
    for name in ("builtin_identity", "identity_fp32"):
        (tmp_path / name).symlink_to(ROOT / "models-sample" / name)
    assert run(checked, tmp_path, "identity_fp32", ASAN_OPTIONS="detect_leaks=1").endswith("done\n")


@pytest.mark.skipif(not SANITIZE, reason="make sanitized-library builds it with the address sanitizer")
def test_the_sanitizer_watches_the_library(tmp_path):
    (tmp_path / "program.c").write_text("""#include "must.h"

int main(void) {
  TRITONSERVER_Message *m;
  const char *text;
  size_t size;
  must(TRITONSERVER_MessageNewFromSerializedJson(&m, "{}", 2));
  must(TRITONSERVER_MessageDelete(m));
  must(TRITONSERVER_MessageSerializeToJson(m, &text, &size));
}
""")
    compile_program(tmp_path / "program", "-I", ROOT / "build/conformance/embed", source=tmp_path / "program.c")
    done = subprocess.run([tmp_path / "program"], env={"LD_LIBRARY_PATH": str(LIBRARY.parent)}, capture_output=True,
                          text=True, timeout=60)
    assert done.returncode != 0 and "heap-use-after-free" in done.stderr and "MessageSerializeToJson" in done.stderr


def test_D078_requests_come_from_several_threads(printed):
    assert line(printed, "8 threads asked")


def test_D078_functions_of_the_program_send_and_delete_requests(printed):
    assert line(printed, "5000 answers to one request")


def test_D078_a_decoupled_model_gives_several_responses(printed):
    answers = [text.split(":")[2].split()[0] for text in printed.splitlines() if text.startswith("answer of three")]
    assert answers == ["1", "2", "3"]
    assert line(printed, "of three") == "of three: 1 released, 3 of 3 buffers freed"


def test_D078_options_control_and_two_servers(tmp_path):
    """Each option is one that the server takes, and a server does not disturb another."""
    compile_program(tmp_path / "options", "-fsanitize=address,undefined", source="options.c")
    models = tmp_path / "models"
    models.mkdir()
    shutil.copytree(ROOT / "models-sample/builtin_identity", models / "builtin_identity")
    log = tmp_path / "log"
    printed = run(tmp_path / "options", models, log, ASAN_OPTIONS="detect_leaks=1").splitlines()
    assert printed[0].startswith("cache: 3 Invalid argument: the configuration of a cache must be a JSON object")
    assert printed[1:7] == [
        "device: 5 Unsupported: a limit of memory for loads is supported for GPUs only",
        "start: 1 Internal: failed to load all models",
        "second: not ready",
        "metrics: 5 Unsupported: metrics are disabled: see TRITONSERVER_ServerOptionsSetMetrics",
        "unregister: 3 Invalid argument: failed to unregister 'absent', repository not found",
        "names: 3 Invalid argument: failed to register '.', there is a conflicting mapping for 'mine'"]
    assert printed[7] == "mine: ready"
    assert '"shape":[-1,1]' in printed[8], "the configuration of the load request counts"
    assert printed[9:] == ["stopped: 4 Unavailable: the server is stopping"]
    said = log.read_text()
    assert "all options" in said, "the log is in its file"
    page = (ROOT / "docs/embed.md").read_text()
    listed = re.findall(r"`(Set\w+)`", page.split("**Without effect.**")[1].split("**Functions.**")[0])
    options = dict(re.findall(r'\((\w+), "([\w-]+)"', (ROOT / "app/library/options.c").read_text()))
    options.update({"SetCudaMemoryPoolByteSize": "cuda-memory-pool-byte-size", "SetCudaVirtualAddressSize":
                    "cuda-virtual-address-size", "SetModelLoadDeviceLimit": "model-load-gpu-limit"})
    assert sorted(options[name] for name in listed) == sorted(
        re.findall(r"the option --([\w-]+) has no effect in this server", said)), "docs/embed.md lists them"


def test_D078_the_example_of_the_documentation(tmp_path):
    page = (ROOT / "docs/embed.md").read_text()
    (tmp_path / "program.c").write_text(re.search(r"```c\n(.*?)```", page, re.S)[1])
    compile_command = re.search(r"^    (cc .*)$", page, re.M)[1].replace("program", str(tmp_path / "program"))
    compile_command = compile_command.replace("-L build/bin", "-L %s" % LIBRARY.parent)
    subprocess.run(" ".join([compile_command, *SANITIZE]), shell=True, cwd=ROOT, check=True)
    assert run(tmp_path / "program", ROOT / "models-sample") == "OUTPUT0: 3 1 4\n"


def test_D081_the_steps_of_the_page_embed_the_engine_in_another_module(tmp_path):
    """The lines of go.mod as they stand there, with the example as the program."""
    page = (ROOT / "docs/embed.md").read_text().split("\n## Go\n")[1]
    source = (ROOT / "docs" / re.search(r"\((\S+_test\.go)\)", page)[1]).read_text()
    wanted = re.findall(r"^\t// (.*)$", source.split("// Output:\n")[1], re.M)
    source = re.sub(r"^package \w+", "package main", source, flags=re.M)
    source = source.replace("../models-sample", f"{ROOT}/models-sample")
    (tmp_path / "main.go").write_text(re.sub(r"func Example_\w+\(\)", "func main()", source))
    lines = re.findall(r"^    (\w.*)$", page, re.M)
    (tmp_path / "go.mod").write_text("\n".join(["module program", *lines]).replace("../nereid", str(ROOT)))

    def go(*arguments):
        done = subprocess.run(["go", *arguments], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    go("mod", "tidy")
    assert go("run", ".").splitlines() == wanted


def test_D078_functions_that_send_the_next_request_do_not_keep_their_threads(simple, tmp_path):
    """With one processor, each of them could wait for it while the next ones run. Then there are hundreds of
    threads."""
    (tmp_path / "builtin_identity").symlink_to(ROOT / "models-sample/builtin_identity")
    threads = line(run(simple, tmp_path, GOMAXPROCS="1"), "5000 answers to one request").split()[-1]
    assert int(threads) < 300


@pytest.fixture(scope="module")
def checks(tmp_path_factory):
    """What the program checks.c prints, and the log of its server."""
    folder = tmp_path_factory.mktemp("checks")
    compile_program(folder / "checks", source="checks.c")
    python_model(folder / "models/parameters_alone", """
        return [pb_utils.InferenceResponse([], parameters={"tokens": 7}) for r in requests]
""")
    (folder / "models/builtin_identity").symlink_to(ROOT / "models-sample/builtin_identity")
    # A locale whose decimal point is a comma, if this machine has its source.
    subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", folder / "de_DE.UTF-8"], check=False)
    printed = run(folder / "checks", folder / "models", folder / "log", LOCPATH=str(folder), LC_ALL="de_DE.UTF-8")
    return printed, (folder / "log").read_text()


def test_D078_options_do_not_depend_on_the_locale(checks):
    if line(checks[0], "decimal point") != "decimal point: ,":
        pytest.skip("there is no source of a locale with another decimal point")


def test_D078_null_pointers_are_refused(checks):
    lines = [text for text in checks[0].splitlines() if text.startswith("null ")]
    assert len(lines) == 26
    assert all(": 3 Invalid argument: the " in text and text.endswith("NULL") for text in lines), lines


def test_D078_a_request_for_an_unknown_model_is_not_made(checks):
    assert line(checks[0], "unknown model") == (
        "unknown model: 2 Not found: Request for unknown model: 'absent' is not found")
    assert line(checks[0], "unknown version") == (
        "unknown version: 2 Not found: Request for unknown model: 'builtin_identity' version 7 is not found")


def test_D078_inputs_that_do_not_fit_are_refused(checks):
    assert line(checks[0], "type 258") == "type 258: 3 Invalid argument: input 'a' has no data type 258"
    assert line(checks[0], "type 0") == "type 0: 3 Invalid argument: input 'a' has no data type 0"
    assert line(checks[0], "dims").startswith("dims: 3 Invalid argument: input 'a' has 18446744073709551615 dim")
    assert line(checks[0], "no data") == "no data: 3 Invalid argument: the data of the input is NULL"
    assert line(checks[0], "bytes").startswith("bytes: 3 Invalid argument: input 'a' has more than ")


def test_D078_the_log_options_hold_for_the_program(checks):
    printed, log = checks
    assert line(printed, "logs") == "logs 0 1"
    assert "an error of the program" in log and "an information of the program" not in log


def test_D078_responses_with_parameters_alone_keep_them(checks):
    assert line(checks[0], "parameters without outputs") == "parameters without outputs: 1"


def test_D078_faults_of_the_functions_for_memory_are_seen(checks):
    printed, log = checks
    assert line(printed, "no memory") == (
        "no memory: the allocator returned no memory for the 64 bytes of output 'OUTPUT0'")
    assert "failed to release the memory of an output: it is stuck" in log


def test_D078_a_deleted_server_calls_no_function_of_the_program(checks):
    assert line(checks[0], "the function has returned") == "the function has returned: 1"


MODEL = """
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ %d ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ %d ] %s}
"""


def write_model(folder, config, code=None, output="", dims=4, batch=8):
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(f"max_batch_size: {batch}" + MODEL % (dims, dims, output) + config)
    if code:
        (folder / "1/model.py").write_text(
            "import triton_python_backend_utils as pb_utils\n\n\nclass TritonPythonModel:\n"
            "    def execute(self, requests):" + code)


def fails_and_three(models):
    """Writes a model that fails and one that answers three times."""
    write_model(models / "fails", 'backend: "python"', """
        return [pb_utils.InferenceResponse([], pb_utils.TritonError("it cannot")) for r in requests]
""")
    write_model(models / "three", 'backend: "python" model_transaction_policy { decoupled: true }', """
        for r in requests:
            for n in (1, 2, 3):
                values = pb_utils.get_input_tensor_by_name(r, "INPUT0").as_numpy() + n
                r.get_response_sender().send(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", values)]))
            r.get_response_sender().send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
""")


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """What the program traces.c prints. The address sanitizer watches its memory and the library's."""
    folder = tmp_path_factory.mktemp("traces")
    compile_program(folder / "traces", "-fsanitize=address,undefined", source="traces.c")
    models = folder / "models"
    write_model(models / "one", 'backend: "identity"')
    write_model(models / "labels", 'backend: "identity"', output='label_filename: "labels.txt" ')
    (models / "labels/labels.txt").write_text("cat\ndog\n\nbird\n")
    write_model(models / "steps", """platform: "ensemble" ensemble_scheduling {
  step { model_name: "one" model_version: -1 input_map { key: "INPUT0" value: "INPUT0" }
         output_map { key: "OUTPUT0" value: "between" } }
  step { model_name: "one" model_version: -1 input_map { key: "INPUT0" value: "between" }
         output_map { key: "OUTPUT0" value: "OUTPUT0" } } }""")
    write_model(models / "caller", 'backend: "python"', """
        answers = []
        for r in requests:
            call = pb_utils.InferenceRequest(model_name="one", requested_output_names=["OUTPUT0"], inputs=r.inputs(),
                                             trace=r.trace(), request_id="call")
            answers.append(pb_utils.InferenceResponse(call.exec().output_tensors()))
        return answers
""")
    fails_and_three(models)
    write_model(models / "busy", 'backend: "busy_test"')
    library("busy_test", models / "busy/1")
    printed = run(folder / "traces", models, ASAN_OPTIONS="detect_leaks=1")
    assert printed.endswith("done\n"), printed
    return printed


def part(printed, title):
    """The lines of one part, without their indents."""
    lines = printed.split("\n%s:\n" % title, 1)[1].splitlines()
    end = next(i for i, text in enumerate(lines) if not text.startswith("  "))
    return [text.strip() for text in lines[:end]]


QUEUE = ["REQUEST_START", "QUEUE_START"]
COMPUTE = ["COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END"]


def of(who, *activities):
    return ["%s: %s" % (who, a) for a in activities]


def test_D078_a_trace_reports_the_times_of_a_request(traces):
    assert part("\n" + traces, "one, level 4") == [
        *of("one 1 'mine' own", *QUEUE, *COMPUTE, "REQUEST_END", "released"), "response, final"]
    assert part(traces, "one, level 0") == ["one 1 'mine' own: released", "response, final"]


def test_D078_a_trace_reports_the_tensors_of_a_request(traces):
    values = "FP32 [1,4] 16 CPU 5"
    assert part(traces, "one, level 12") == [*of("one 1 'mine' own", "REQUEST_START", *(
        "TENSOR_%s %s" % (name, values) for name in ("QUEUE_INPUT INPUT0", "BACKEND_INPUT INPUT0",
                                                     "BACKEND_OUTPUT OUTPUT0")),
        "QUEUE_START", *COMPUTE, "REQUEST_END", "released"), "response, final"]


def test_D078_steps_and_calls_have_child_traces(traces):
    child = of("one 1 'mine' child", *QUEUE, *COMPUTE, "REQUEST_END", "released")
    lines = part(traces, "steps, level 1")
    assert [text for text in lines if " child:" in text] == child + child
    assert [text for text in lines if " child:" not in text] == [
        *of("steps 1 'mine' own", *QUEUE, "REQUEST_END", "released"), "response, final"]
    lines = part(traces, "caller, level 4")
    assert [text for text in lines if " child:" in text] == [text.replace("mine", "call") for text in child]
    assert [text for text in lines if " child:" not in text] == [
        *of("caller 1 'mine' own", *QUEUE, *COMPUTE, "REQUEST_END", "released"), "response, final"]


def test_D078_each_response_of_a_decoupled_model_is_in_the_trace(traces):
    lines = part(traces, "three, level 8")
    outputs = ["three 1 'mine' own: TENSOR_BACKEND_OUTPUT OUTPUT0 FP32 [1,4] 16 CPU %d" % (5 + n) for n in (1, 2, 3)]
    assert [text for text in lines if "OUTPUT" in text] == outputs
    for n, text in enumerate(outputs):
        assert lines.index(text) < [i for i, one in enumerate(lines) if one.startswith("response")][n]
    assert lines[-2:] == ["three 1 'mine' own: released", "response, final"]


def test_D078_the_trace_of_a_request_that_fails_is_released_once(traces):
    assert part(traces, "refused") == ["one -1 'mine' own: released"]
    assert "absent input: 3 Invalid argument: " in traces and "open 0" in traces
    assert part(traces, "failed")[-3:] == ["fails 1 'mine' own: released", "response, final", "Internal"]


def test_D078_a_backend_that_does_not_stop_is_in_the_trace_1024_times(traces):
    assert "1024 activities" in part(traces, "busy, level 4")


def test_D078_a_program_reports_its_own_activities(traces):
    custom = " -1 '' own: CUSTOM_ACTIVITY "
    assert [text.lstrip() for text in part(traces, "own")] == [
        "parent 77", custom.strip() + ' {"1000":"a \\"first\\" one"}',
        custom.strip() + ' {"1000":"a \\"first\\" one","2000":"second"}', custom.strip() + ' {"3000":"third"}',
        'context {"traceparent": "00-1-2-01"}', "child of own 1, of another number 1"]
    for what, why in (("no release", "function that releases the trace"), ("no place", "place for the trace"),
                      ("no trace", "trace")):
        assert line(traces, what) == "%s: 3 Invalid argument: the %s is NULL" % (what, why)


def test_D078_an_allocator_is_asked_and_told_where_outputs_are(traces):
    assert part(traces, "memory") == [
        "query OUTPUT0 16 CPU", "allocate OUTPUT0 CPU_PINNED", "attributes OUTPUT0 16 CPU_PINNED", "response, final"]


def test_D078_labels_of_outputs(traces):
    assert part(traces, "labels") == ["cat", "dog", "none", "bird", "none"]
    assert line(traces, "no output") == (
        "no output: 3 Invalid argument: out of bounds index 1: response has 1 outputs")


def test_D078_a_raw_input_gets_its_shape_from_the_model(traces):
    assert line(traces, "raw") == "raw: OUTPUT0 FP32 [1,4] 9, label none"
    assert line(traces, "another input").startswith(
        "another input: 3 Invalid argument: [request id: mine] raw input 'IN2' can't be added to request")


def test_D078_polling_and_the_exit_timeout(traces):
    assert line(traces, "poll") == "poll: 4 Unavailable: polling is disabled"
    assert line(traces, "no server").startswith("no server: 3 Invalid argument: ")


@pytest.fixture(scope="module")
def requests(tmp_path_factory):
    """What the program requests.c prints."""
    folder = tmp_path_factory.mktemp("requests")
    compile_program(folder / "requests", "-fsanitize=address,undefined", source="requests.c")
    models, gate, entered = folder / "models", folder / "gate", folder / "entered"
    write_model(models / "tells", 'backend: "python" output { name: "OUTPUT1" data_type: TYPE_FP32 dims: [ 2 ] }', """
        answers = []
        for r in requests:
            x = r.inputs()[0].as_numpy()
            answers.append(pb_utils.InferenceResponse(
                [pb_utils.Tensor("OUTPUT0", x), pb_utils.Tensor("OUTPUT1", -x)],
                parameters={"seen": r.parameters(), "correlation": str(r.correlation_id()), "flags": r.flags(),
                            "limited": r.timeout() == 60000000,
                            "wanted": " ".join(sorted(r.requested_output_names()))}))
        return answers
""", dims=2)
    write_model(models / "steps", """platform: "ensemble" ensemble_scheduling {
  step { model_name: "tells" model_version: -1 input_map { key: "INPUT0" value: "INPUT0" }
         output_map { key: "OUTPUT0" value: "OUTPUT0" } } }""", dims=2)
    write_model(models / "sums", 'backend: "python" sequence_batching { oldest { max_candidate_sequences: 4 } }', """
        self.sums = getattr(self, "sums", {})
        answers = []
        for r in requests:
            key, x = r.correlation_id(), r.inputs()[0].as_numpy()
            self.sums[key] = x if r.flags() & 1 else self.sums[key] + x
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", self.sums[key])]))
        return answers
""", dims=2)
    write_model(models / "gated", """backend: "python"
dynamic_batching { preferred_batch_size: 1 priority_levels: 2 default_priority_level: 1 }
""", f"""
        if not getattr(self, "open", False):
            self.open = True
            open({str(entered)!r}, "w").close()
            open({str(gate)!r}).close()
        self.turn = getattr(self, "turn", 0) + 1
        turn = pb_utils.Tensor("OUTPUT0", requests[0].inputs()[0].as_numpy() * self.turn)
        return [pb_utils.InferenceResponse([turn])]
""", dims=2, batch=1)
    library("identity_test", models / "echo/1")
    model(models, "echo", "identity_test", dims="1, 2")
    os.mkfifo(gate)
    os.mkfifo(entered)
    printed = run(folder / "requests", models, gate, entered, ASAN_OPTIONS="detect_leaks=1")
    assert printed.endswith("done\n"), printed
    return printed


def test_D078_numbers_have_names(requests):
    assert line(requests, "types") == (
        "types: BOOL=1/1 UINT8=2/1 UINT16=3/2 UINT32=4/4 UINT64=5/8 INT8=6/1 INT16=7/2 INT32=8/4 INT64=9/8 FP16=10/2 "
        "FP32=11/4 FP64=12/8 BYTES=13/0 BF16=14/2")
    assert line(requests, "no type") == "no type: 0 0"
    assert line(requests, "kinds") == "kinds: AUTO CPU GPU MODEL <invalid>"
    assert line(requests, "parameters:") == "parameters: STRING INT BOOL DOUBLE BYTES <invalid>"
    assert line(requests, "levels") == "levels: DISABLED MIN MAX TIMESTAMPS TENSORS <unknown>"


def test_D078_messages_and_families_of_the_program(requests):
    assert line(requests, "message") == 'message: {"a":1}'
    assert line(requests, "family") == "family: 1"


def test_D078_what_a_request_has_is_read_back_and_reaches_the_model(requests):
    assert line(requests, "fields") == "fields: flags 2, number 18446744073709551615, priority 0, timeout 60000000"
    # before a priority is set, then after 0, 1, 2, 3 and one of many bits
    assert line(requests, "levels of tells") == "levels of tells: 0 0 0 0 0 0", "it has no levels"
    assert line(requests, "levels of gated") == "levels of gated: 1 1 1 2 1 1", "it has two, and 1 is the default"
    assert line(requests, "levels of steps") == "levels of steps: 0 0 1 2 3 1099511627776", "an ensemble passes all on"
    assert line(requests, "numbers") == (
        'numbers: OUTPUT0=1,2 OUTPUT1=-1,-2 STRING seen {"s": "text", "i": -7, "b": true, "d": 0.5} '
        "STRING correlation 18446744073709551615 INT flags 2 BOOL limited 1 "
        "STRING wanted OUTPUT0 OUTPUT1")
    assert line(requests, "text ") == "text seven"
    assert line(requests, "texts").endswith(
        " STRING correlation seven INT flags 2 BOOL limited 1 STRING wanted OUTPUT1")
    assert line(requests, "echo") == "echo: OUT=1,2 STRING s text INT i -7 BOOL b 1 DOUBLE d 0.5 INT batch 1"


def test_D078_what_a_request_cannot_have_is_refused(requests):
    for start, text in (
            ("not a text", "given request's correlation id is not a string"),
            ("not a number", "given request's correlation id is not an unsigned int"),
            ("priority:", "request priority overflows uint32_t, use TRITONSERVER_InferenceRequestPriorityUInt64, "
                          "priority=1099511627776"),
            ("input twice", "[request id: <id_unknown>] input 'INPUT0' already exists in request"),
            ("output twice", "[request id: <id_unknown>] output 'OUTPUT1' already exists in request"),
            ("removed", "[request id: <id_unknown>] input 'INPUT0' does not exist in request"),
            ("data of none", "[request id: <id_unknown>] input 'INPUT0' does not exist in request"),
            ("no parameter", "out of bounds index 5: response has 5 parameters")):
        assert line(requests, start) == f"{start.rstrip(':')}: 3 Invalid argument: {text}"
    assert line(requests, "long text") == (
        "long text: 5 Unsupported: string correlation ID cannot be longer than 128 characters")
    assert line(requests, "gpu") == "gpu: 5 Unsupported: input 'INPUT0' must be in memory of the CPU"
    assert line(requests, "no cancel") == (
        "no cancel: 1 Internal: It is not possible to cancel an inference request before calling "
        "TRITONSERVER_InferAsync.")
    assert line(requests, "no state").startswith("no state: 1 Internal: It is not possible to query cancellation")


def test_D078_inputs_and_outputs_are_removed(requests):
    assert line(requests, "no data").startswith(
        "no data: 3 Invalid argument: [request id: <id_unknown>] input byte size")
    assert line(requests, "attributes") == "attributes: CPU_PINNED 5 4"
    assert line(requests, "other data").startswith("other data: OUTPUT0=3,4 OUTPUT1=-3,-4 ")
    assert line(requests, "one output").startswith("one output: OUTPUT1=-3,-4 STRING")
    assert line(requests, "all outputs").startswith("all outputs: OUTPUT0=3,4 OUTPUT1=-3,-4 ")
    assert line(requests, "after all").startswith("after all: OUTPUT0=1,2 OUTPUT1=-1,-2 ")


def test_D078_sequences_with_numbers_and_texts(requests):
    must_start = "to model 'sums' must specify the START flag on the first request of the sequence"
    assert must_start in line(requests, "not started") and must_start in line(requests, "seven is over")
    assert [text.split("=")[1] for text in requests.splitlines() if text.startswith(("seven ", "text ")) and "=" in text
            ] == ["1,0", "10,0", "3,0", "30,0", "6,0"]


def test_D078_a_request_is_cancelled_in_the_queue_and_priorities_order_the_others(requests):
    """The model says in which turn it has executed a request. The responses come from several threads, in any order."""
    assert line(requests, "cancelled:") == "cancelled: 0 1 0 0"
    came = sorted(text for text in requests.splitlines() if " came: " in text)
    assert came[0] == " came: OUTPUT0=1,0" and came[1].startswith("cancelled came: 7 ")
    assert came[2:] == ["first came: OUTPUT0=2,0", "last came: OUTPUT0=3,0"]


def test_D078_files_of_a_load_and_the_models_that_depend_on_one(requests):
    assert line(requests, "bytes") == "bytes: OUTPUT0=3,6"
    assert line(requests, "before") == "before: tells 1, steps 1"
    assert line(requests, "after:") == "after: tells 0, steps 0"


def test_D078_the_calls_of_the_python_package_lose_no_memory(tmp_path):
    compile_program(tmp_path / "calls", "-fsanitize=address,undefined", source="calls.c")
    write_model(tmp_path / "models/one", 'backend: "identity"')
    fails_and_three(tmp_path / "models")
    printed = run(tmp_path / "calls", tmp_path / "models", free_port(), ASAN_OPTIONS="detect_leaks=1").splitlines()
    assert printed[:2] == ["one: call 0, words: 7 OUTPUT0 2 5", "three: call 1, words: 7 OUTPUT0 2 6"]
    assert printed[2] == "no model: 2 Not found: Request for unknown model: 'absent' is not found"
    assert printed[3] == "no input: 3 Invalid argument: unexpected inference input 'absent' for model 'one'"
    assert printed[4] == "error: call 0, words: -1"
    assert printed[5:8] == ["stream: 1 OUTPUT0 2 %d" % (5 + n) for n in (1, 2, 3)]
    assert printed[8:12] == ["stream: 0", "first: 1 OUTPUT0 2 6", "tag 42", "tagged: 1 OUTPUT0 2 6"]
    assert printed[12].startswith("port: ") and " already in use by calls" in printed[12]
    assert printed[13:] == ["done"]


def declared_functions():
    """The functions of the header: the type of each, its name and its parameters."""
    text = re.sub(r"//[^\n]*", "", (HEADERS / "triton/core/tritonserver.h").read_text())
    return re.findall(r"^([\w ]+\*?) (TRITONSERVER_\w+)\(([^;]*)\);", text, re.M)


def published_numbers():
    """The numbers that Triton publishes in the header of TRITONSERVER 1.34: (name, number, tag of the enumeration)."""
    rows = list(csv.reader((ROOT / "build/conformance/embed/numbers.csv").read_text().splitlines()[1:]))
    return [(name, int(number), tag) for name, number, tag in rows]


def test_D078_the_numbers_of_the_header_are_the_published_ones(tmp_path):
    """Names and tags that the header lacks do not compile. The compiler counts the numbers."""
    numbers = published_numbers()
    checks = "".join(f'_Static_assert((enum {tag}){name} == {number}, "{name}");\n' for name, number, tag in numbers)
    (tmp_path / "numbers.c").write_text(
        "#include <triton/core/tritonserver.h>\n" + checks +
        '_Static_assert(TRITONSERVER_API_VERSION_MAJOR == 1 && TRITONSERVER_API_VERSION_MINOR == 34, "version");\n')
    subprocess.run(["cc", "-c", "-Werror", "-I", HEADERS, tmp_path / "numbers.c", "-o", tmp_path / "numbers.o"],
                   check=True)
    text = re.sub(r"//[^\n]*", "", (HEADERS / "triton/core/tritonserver.h").read_text())
    declared = [(tag, set(re.findall(r"TRITONSERVER_\w+", body))) for tag, body in
                re.findall(r"typedef enum (\w+) \{([^}]*)\}", text)]
    assert {(tag, name) for tag, names in declared for name in names} == {(tag, name) for name, _, tag in numbers}


def test_D078_the_numbers_of_data_types_are_those_of_tritons_client():
    """model_config.proto, as tritonclient has it, numbers them too. It calls BYTES a string."""
    types = {name.removeprefix("TRITONSERVER_TYPE_"): number for name, number, tag in published_numbers()
             if "datatype" in tag}
    assert types == {name.removeprefix("TYPE_").replace("STRING", "BYTES"): number
                     for name, number in model_config_pb2.DataType.items()}


def test_D078_each_function_of_the_header_is_called_here(tmp_path):
    """The compiler says what the programs call: names that they have from another library."""
    called = set()
    for source in sorted((ROOT / "build/conformance/embed").glob("*.c")):
        subprocess.run(["cc", "-c", "-I", HEADERS, source, "-o", tmp_path / "program.o"], check=True)
        names = subprocess.run(["nm", "-u", tmp_path / "program.o"], capture_output=True, text=True, check=True).stdout
        called.update(re.findall(r"TRITONSERVER_\w+", names))
    declared = {name for _, name, _ in declared_functions()}
    assert len(declared) == 170
    assert declared <= called, declared - called


def test_D078_each_function_refuses_null_in_place_of_its_object(tmp_path):
    """The program is made from the header. An argument that is not the object is 0, or memory that may be written.
    What is deleted may be NULL."""
    calls, deletes = [], []
    for result, name, parameters in declared_functions():
        first, *others = re.split(r",\s*", " ".join(parameters.split()))
        if result != "TRITONSERVER_Error*" or not re.match(r"TRITONSERVER_\w+\* \w+$", first):
            continue
        if name.endswith("Delete"):
            deletes.append(f"  must({name}(NULL));")
            continue
        others = ["memory" if "*" in one else "0" for one in others]
        calls.append(f'  refused("{name}", {name}({", ".join(["NULL", *others])}));')
    assert len(calls) > 120
    (tmp_path / "null.c").write_text('#include "must.h"\n\nint main(void) {\n  void *memory = calloc(64, 8);\n'
                                     + "\n".join(calls + deletes) + "\n  free(memory);\n}\n")
    compile_program(tmp_path / "null", "-fsanitize=address,undefined", "-I", ROOT / "build/conformance/embed",
                    source=tmp_path / "null.c")
    lines = run(tmp_path / "null").splitlines()
    assert len(lines) == len(calls)
    assert not [text for text in lines if not re.search(r": 3 Invalid argument: the .* NULL$", text)], lines
