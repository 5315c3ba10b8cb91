"""Starts servers on free ports for the tests, and sends raw requests to them."""

import atexit
import contextlib
import dataclasses
import gzip
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
REFERENCE = bool(os.environ.get("REFERENCE"))
BINARY = os.environ.get("NEREID", str(ROOT / "build/bin/nereid"))
START_LIMIT = int(os.environ.get("NEREID_START_LIMIT", 60))  # seconds; an emulated server takes longer
SANITIZED = bool(os.environ.get("NEREID_SANITIZED"))  # the address sanitizer watches the C code of BINARY
LOADGEN = os.environ.get("LOADGEN", str(ROOT / "build/bin/loadgen"))


def deviates(triton, ours):
    """Marks an answer that differs from Triton's on purpose. Returns the answer expected from the server under test."""
    return triton if REFERENCE else ours


@dataclasses.dataclass
class Answer:
    """A complete HTTP answer."""

    status: int
    reason: str
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]


# Python models use the interpreter of the tests, because it has numpy.
PYTHON_FIRST = os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", "")


class Server:
    """A server process. Use it as a context manager: inside, it is live, but not always ready."""

    def __init__(self, repositories, work, *options, wait="ready", command=None, token=None, limit=START_LIMIT):
        self.work = pathlib.Path(work)
        self.work.mkdir(parents=True, exist_ok=True)
        if isinstance(repositories, (str, pathlib.Path)):
            repositories = [repositories]
        self.repositories = [pathlib.Path(r) for r in repositories]
        self.options = list(options)
        self.wait, self.token, self.limit = wait, token, limit  # limit: seconds until the server must be up
        self.command = command or [BINARY, "serve"]
        self.log_path = self.work / "server.log"
        self.faulty = False  # the address sanitizer shall find a fault
        self.process = None
        self._log_start = 0  # where this process's part of the log begins

    def __enter__(self):
        self.start()
        return self

    def kill(self):
        """Kills the server and its processes, whatever state they are in."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def __exit__(self, *_):
        self.stop()

    def start(self):
        """Starts the server and waits until it is up. Kills it if it does not come up."""
        try:
            self._start()
        except BaseException:
            self.kill()
            raise

    def restart_if_exited(self, patience=0.0):
        """Restarts the server if its process has exited or exits within this many seconds. Returns whether it did."""
        try:
            status = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            return False
        print(f"the server exited with {status}:\n{self.log()[-4000:]}")
        self.start()
        return True

    def _start(self):
        argv, env = _reference_command() if REFERENCE else (self.command, {})
        if REFERENCE:
            ports = [f"--{p}-port={free_port()}" for p in ("http", "grpc", "metrics")]
            addresses = [f"--{p}-address=127.0.0.1" for p in ("http", "grpc", "metrics")]
        else:
            ports = [f"--{p}-port=0" for p in ("http", "grpc", "metrics", "ui")]
            addresses = [f"--data-dir={self.work / 'data'}"]
        argv = argv + [f"--model-repository={r}" for r in self.repositories] + addresses + ports + self.options
        with open(self.log_path, "ab") as log:
            self._log_start = log.tell()
            self.process = subprocess.Popen(
                argv, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, "PATH": PYTHON_FIRST, **env},
                start_new_session=True
            )
        atexit.register(self.kill)  # a failed test may leave it open
        self.http = self._address("Started HTTPService at ")
        self.grpc = self._address("Started GRPCInferenceService at ")
        self.metrics = self._address("Started Metrics Service at ")
        if not REFERENCE:
            scheme = "https://" if "--ui-use-ssl=true" in self.options else "http://"
            self.ui = scheme + self._address("Started GUI at " + scheme)
            self.kiosk = "http://" + self._address("Started public page at http://") if "--kiosk" in self.options else ""
        until(lambda: self.request("GET", "/metrics", address=self.metrics).status in (200, 401), 60, "no metrics",
              self.log)  # 401: the server needs a token
        if self.wait:
            until(lambda: self.get(f"/v2/health/{self.wait}").status == 200, 300 if REFERENCE else 120 + self.limit,
                  f"server not {self.wait}", self.log)

    @property
    def ui_address(self):
        """The host and port of the GUI."""
        return self.ui.partition("://")[2]

    def _address(self, text):
        """Waits for the log line of this process that has the address."""
        pattern = re.compile((re.escape(text) + r'([0-9a-z.:\[\]]+:\d+)').encode())

        def find():
            if self.process.poll() is not None:
                raise AssertionError(f"the server exited with {self.process.returncode}:\n{self.log()[-4000:]}")
            found = pattern.search(self.log_path.read_bytes(), self._log_start)
            return found[1].decode() if found else None

        return until(find, 300 if REFERENCE else self.limit, f"the log has no line with {text!r}", self.log)

    def stop(self, sig=signal.SIGTERM, limit=120):
        """Stops the server and returns its exit status."""
        status = self._stop(sig, limit)
        if SANITIZED and not self.faulty:
            found = re.search(r"ERROR: AddressSanitizer.*", self.log(), re.S)
            assert not found, found[0][:4000]
        return status

    def _stop(self, sig, limit):
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            return self.process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            raise AssertionError(f"the server did not exit within {limit} s of signal {sig}:\n{self.log()[-3000:]}")

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def request(self, method, path, body=None, headers=None, address=None):
        """Sends one request over a new connection."""
        conn = http.client.HTTPConnection(address or self.http, timeout=60)
        try:
            if self.token is not None:
                headers = {"Authorization": self.token, **(headers or {})}
            conn.request(method, path, body=body, headers=headers or {})
            r = conn.getresponse()
            return Answer(r.status, r.reason, {k.lower(): v for k, v in r.getheaders()}, r.read())
        finally:
            conn.close()

    def get(self, path):
        return self.request("GET", path)

    def post(self, path, value=None, headers=None):
        """Posts an object as JSON, or bytes unchanged."""
        body = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
        return self.request("POST", path, body, headers)

    def index(self, ready=False):
        """The repository index as {(name, version): (state, reason)}."""
        rows = self.post("/v2/repository/index", {"ready": True} if ready else {}).json
        return {(r["name"], r.get("version", "")): (r.get("state", ""), r.get("reason", "")) for r in rows}

    def state(self, name, version="1"):
        return self.index().get((name, version), ("", ""))[0]


def _reference_command():
    work = ROOT / ".cache/bench"
    lines = subprocess.run(
        [ROOT / "build/bench/reference.sh", work], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    env = dict(line.split("=", 1) for line in lines[1:])
    return (
        # The reference aborts if a Python process needs more than 30 s to start. On a busy machine this happens.
        [lines[0], f"--backend-directory={env.pop('BACKENDS')}", f"--cache-directory={env.pop('CACHES')}",
         "--backend-config=python,stub-timeout-seconds=300"],
        env,
    )


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def virtual_screen():
    """Starts an X server without a screen. Yields its value for DISPLAY."""
    read, write = os.pipe()
    xvfb = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "1400x900x24", "-nolisten", "tcp", "-noreset"],
        pass_fds=[write],
        stderr=subprocess.DEVNULL,
    )
    os.close(write)
    try:
        with os.fdopen(read) as f:
            number = f.readline().strip()
        assert number, "Xvfb did not start"
        yield ":" + number
    finally:
        xvfb.terminate()
        xvfb.wait()


def until(condition, seconds, what, detail=None):
    """Polls until the condition holds and returns its value. After the time limit it fails with the given message."""
    deadline = time.monotonic() + seconds
    last = None
    while True:
        try:
            value = condition()
            if value:
                return value
        except OSError as e:  # the server does not listen yet
            last = e
        if time.monotonic() > deadline:
            tail = f"\n{detail()[-3000:]}" if detail else ""
            raise AssertionError(f"after {seconds} s: {what} ({last}){tail}")
        before = time.monotonic()
        time.sleep(0.02)
        if (stopped := time.monotonic() - before) > 1:
            deadline += stopped  # a suspended machine stops the server too, so this is no failure


def unpacked_image(layout, architecture, bundle):
    """Unpacks an image of an OCI layout into bundle/rootfs. Returns the bundle and how its containers start."""
    layout, bundle = pathlib.Path(layout), pathlib.Path(bundle)

    def blob(descriptor):
        algorithm, digest = descriptor["digest"].split(":")
        return layout / "blobs" / algorithm / digest

    images = json.loads((layout / "index.json").read_text())["manifests"]
    (entry,) = [m for m in images if m["platform"] == {"architecture": architecture, "os": "linux"}]
    manifest = json.loads(blob(entry).read_text())
    (bundle / "rootfs").mkdir(parents=True)
    for layer in manifest["layers"]:
        subprocess.run(["tar", "-xzf", blob(layer), "-C", bundle / "rootfs", "--exclude=./dev/*"], check=True)
    print(f"the image for {architecture} has {sum(layer['size'] for layer in manifest['layers']) / 1e6:.0f} MB, as pulled")
    return bundle, json.loads(blob(manifest["config"]).read_text())["config"]


def copy_tree(source, target):
    """Copies a folder file by file, directly to its final place."""
    shutil.copytree(source, target, dirs_exist_ok=True)


def tensor_input(name, datatype, shape, data):
    return {"name": name, "datatype": datatype, "shape": shape, "data": data}


def binary_body(header, *tensors):
    """Returns body and headers of a request with binary data. header is the JSON object."""
    text = json.dumps(header).encode()
    return text + b"".join(tensors), {
        "Inference-Header-Content-Length": str(len(text)),
        "Content-Type": "application/octet-stream",
    }


def gunzip(data):
    return gzip.decompress(data)
