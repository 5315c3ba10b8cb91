"""Runs the browser tests of the GUI (frontend/e2e) against a server with a copy of models-sample.

usage: e2e.py [firefox]        all in Chromium, or the main jobs in Firefox. NEREID is the path of the program,
                               NEREID_SHOTS the folder for screenshots
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import gpus  # noqa: E402
import models  # noqa: E402
from harness import BINARY, ROOT, Server, free_port  # noqa: E402
from tls import Certificates  # noqa: E402


@contextlib.contextmanager
def reachable(work):
    """A server whose GUI other machines can open, with the model add_sub. Yields what entry.mjs needs of it."""
    addresses = [a for a in subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split()
                 if ":" not in a]
    if not addresses or not shutil.which("openssl"):
        yield {"NEREID_ENTRY_WHY": "no openssl" if addresses else "this machine has no address but loopback"}
        return
    shutil.copytree(ROOT / "models-sample/add_sub", work / "models/add_sub")
    token = subprocess.run([BINARY, "token", "create", f"--data-dir={work / 'data'}", "--name=e2e", "--scope=admin"],
                           check=True, capture_output=True, text=True).stdout.strip()
    cert, key = Certificates(work / "pki").server
    files = [f"--http-server-cert={cert}", f"--http-server-key={key}"]
    with Server(work / "models", work, "--ui-address=0.0.0.0", "--ui-use-ssl=true", *files, token=token) as server:
        port = server.ui.rpartition(":")[2]
        yield {"NEREID_ENTRY": f"https://{addresses[0]}:{port}", "NEREID_ENTRY_TOKEN": token}


ECHO = """import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        sounds = [pb_utils.get_input_tensor_by_name(r, "audio_in") for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("audio_out", s.as_numpy())]) for s in sounds]
"""


@contextlib.contextmanager
def in_a_hall(work):
    """A server with a public page that phones can open, and a model of sound. It starts again whenever it ends. Yields
    what kiosk.mjs needs of it."""
    config = 'input [ { name: "audio_in" data_type: TYPE_FP32 dims: [ -1 ] } ]\n' \
             'output [ { name: "audio_out" data_type: TYPE_FP32 dims: [ -1 ] } ]\n'
    models.write(work / "models/echo/config.pbtxt", 'backend: "python"\n' + config)
    models.write(work / "models/echo/1/model.py", ECHO)
    over = threading.Event()
    with Server(work / "models", work, "--kiosk", "--kiosk-address=0.0.0.0", f"--kiosk-port={free_port()}") as server:
        def revive():
            while True:
                server.process.wait()
                if over.is_set():
                    return
                server.start()

        thread = threading.Thread(target=revive)
        thread.start()
        port = server.kiosk.rpartition(":")[2]
        try:
            yield {"NEREID_HALL": f"http://127.0.0.1:{port}", "NEREID_HALL_PID": str(server.process.pid)}
        finally:
            over.set()
            server.kill()
            thread.join()


@contextlib.contextmanager
def with_gpus(work):
    """A server on a machine with two GPUs, which a stand-in of the driver has. Yields what gpus.mjs needs of it."""
    if not (gpus.HEADER / "cuda.h").exists():
        yield {"NEREID_GPUS_WHY": "the headers of CUDA are not here"}
        return
    machine = gpus.Machine(work)
    for name in ("add_sub", "running_sum"):
        shutil.copytree(ROOT / "models-sample" / name, work / "models" / name)
    with Server(work / "models", work, command=machine.command()) as server:
        answer = server.request("GET", "/api/models/running_sum/runtime", address=server.ui_address)
        process = json.loads(answer.body)["instances"][0]["process"]["pid"]
        # From the start, because the history has a minute when that is over.
        (machine.state / "gpu1").write_text(f"process {process} {96 << 20}\n")
        yield {"NEREID_GPUS": server.ui, "NEREID_GPUS_FOLDER": str(machine.state), "NEREID_GPUS_PROCESS": str(process)}


def main() -> int:
    browser, script = ("firefox", "e2e/firefox.mjs") if sys.argv[1:] == ["firefox"] else ("chromium", "e2e/run.mjs")
    with tempfile.TemporaryDirectory(prefix="nereid-e2e-") as work:
        repo = pathlib.Path(work) / "models"
        shutil.copytree(ROOT / "models-sample", repo)
        empty = pathlib.Path(work) / "empty" / "models"
        empty.mkdir(parents=True)
        polls = ["--model-control-mode=poll", "--repository-poll-secs=1"]
        kiosk = ["--kiosk", "--kiosk-port=0", "--kiosk-models=digits,words,running_sum,add_sub"]
        with (Server(repo, work, *polls, *kiosk) as server, Server(empty, empty.parent, *polls) as other,
              reachable(pathlib.Path(work) / "reachable") as entry, in_a_hall(pathlib.Path(work) / "hall") as hall,
              with_gpus(pathlib.Path(work) / "gpus") as cards):
            env = {**os.environ, **entry, **hall, **cards, "NEREID_BROWSER": browser, "NEREID_PYTHON": sys.executable}
            done = subprocess.run(["node", script, server.ui, other.ui, server.kiosk], cwd=ROOT / "frontend", env=env,
                                  timeout=1500)
        print(server.log()[-6000:] if done.returncode else "", file=sys.stderr)
        return done.returncode


if __name__ == "__main__":
    sys.exit(main())
