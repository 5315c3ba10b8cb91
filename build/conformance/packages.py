"""The packages in a clean Debian: installed without network, used as a service and as a window, upgraded and removed.

make test-package runs this as root, in a network and a mount namespace of its own. The tests depend on each other, in
this order. ROOT_TAR names the clean Debian, PACKAGES the folder of the packages. There is no systemd: the test is the
service manager, and starts what the unit says."""

import fcntl
import glob
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from harness import ROOT, until

PACKAGES = pathlib.Path(os.environ["PACKAGES"]).resolve()
LIMIT = 120  # seconds, on a loaded machine
UNIT = "usr/lib/systemd/system/nereid.service"


def package(name, ending="amd64.deb"):
    (found,) = glob.glob(str(PACKAGES / f"{name}_*_{ending}"))
    return found


def run(*argv, **more):
    done = subprocess.run([str(a) for a in argv], text=True, capture_output=True, **more)
    assert done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


DEVICES = ["null", "zero", "full", "random", "urandom", "tty"]


class Clean:
    """A clean Debian in a folder."""

    def __init__(self, path):
        self.path = path
        run("tar", "-xf", os.environ["ROOT_TAR"], "-C", path, "--exclude=./dev/*")
        for name, kind in ("proc", "proc"), ("dev", "tmpfs"):
            (path / name).mkdir(exist_ok=True)
            run("mount", "-t", kind, name, path / name)
        # Its own devices: when the folder is removed, nothing of the machine's /dev may be removed with it.
        run("cp", "-a", *("/dev/" + name for name in DEVICES), path / "dev")
        (path / "dev/fd").symlink_to("/proc/self/fd")
        for name, kind, options in ("shm", "tmpfs", "mode=1777"), ("pts", "devpts", "newinstance,ptmxmode=666"):
            (path / "dev" / name).mkdir()
            run("mount", "-t", kind, "-o", options, name, path / "dev" / name)
        (path / "dev/ptmx").symlink_to("pts/ptmx")

    def close(self):
        for name in "dev", "proc":
            run("umount", "-R", "-l", self.path / name)

    def run(self, *argv, user="root", **more):
        return run("chroot", f"--userspec={user}", self.path, *argv, **more)

    def install(self, deb):
        shutil.copy(deb, self.path / "tmp/new.deb")
        return self.run("dpkg", "--force-confdef", "-i", "/tmp/new.deb", env=self.environ())

    def environ(self, **more):
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **more}

    def unit(self, key):
        return re.findall(rf"(?m)^{key}=(.*)$", (self.path / UNIT).read_text())


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    assert os.geteuid() == 0, "chroot and mount need root; run make test-package as root"
    with socket.socket() as s:  # the loopback device of a new network namespace is down
        flags = struct.unpack("16sh", fcntl.ioctl(s, 0x8913, struct.pack("16sh", b"lo", 0)))[1]
        fcntl.ioctl(s, 0x8914, struct.pack("16sh", b"lo", flags | 1))
    c = Clean(tmp_path_factory.mktemp("clean"))
    yield c
    c.close()


class Service:
    """The service, started as systemd does: its program, user, folder and variables are the unit's."""

    def __init__(self, clean):
        (line,), (user,) = clean.unit("ExecStart"), clean.unit("User")
        variables = dict(v.split("=", 1) for v in clean.unit("Environment"))
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.bind("")  # an abstract address that the kernel chooses
        self.manager.settimeout(LIMIT)
        address = "@" + self.manager.getsockname()[1:].decode()
        self.log = open(clean.path.parent / "service.log", "ab+")
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            ["chroot", f"--userspec={user}:{user}", clean.path, *shlex.split(line)], start_new_session=True,
            stdout=self.log, stderr=self.log, env=clean.environ(**variables, NOTIFY_SOCKET=address))
        self.expect("READY=1")
        self.seconds = time.monotonic() - self.started

    def expect(self, state):
        assert self.manager.recv(4096).decode().startswith(state)

    def ask(self, path, body=None, token=None):
        request = urllib.request.Request("http://127.0.0.1:8000" + path, json.dumps(body).encode() if body else None)
        if token:
            request.add_header("Authorization", token)
        try:
            with urllib.request.urlopen(request, timeout=LIMIT) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as e:
            return e.code, None

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)  # what systemd does with the rest of a unit
        self.process.wait(LIMIT)

    def stop(self):
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.expect("STOPPING=1")
        assert self.process.wait(LIMIT) == 0
        return time.monotonic() - began


def add_sub(service, token=None):
    inputs = [{"name": n, "datatype": "FP32", "shape": [1, 16], "data": [v] * 16}
              for n, v in (("INPUT0", 3), ("INPUT1", 1))]
    status, answer = service.ask("/v2/models/add_sub/infer", {"inputs": inputs}, token)
    return status, answer and {o["name"]: o["data"][0] for o in answer["outputs"]}


STATE = {}  # of one test for the next


def test_the_package_installs_into_a_clean_debian(clean):
    clean.install(package("nereid"))
    assert "nereid" in (clean.path / "etc/passwd").read_text()
    data = (clean.path / "var/lib/nereid").stat()
    assert data.st_mode & 0o777 == 0o700 and data.st_uid != 0
    assert "nereid " in clean.run("/usr/bin/nereid", "--version")
    assert "data-dir: /var/lib/nereid" in clean.run("nereid", "config", "show", "--config-file=/etc/nereid/nereid.yaml",
                                                    env=clean.environ())


def test_manual_pages_and_completions_are_there(clean):
    page = clean.run("man", "nereid-serve", env=clean.environ(MANPAGER="cat", MANWIDTH="100"))
    assert "--model-repository" in page and "Nereid" in page
    assert "nereid-serve" in clean.run("man", "nereid", env=clean.environ(MANPAGER="cat"))
    script = (". /usr/share/bash-completion/completions/nereid; COMP_WORDS=(nereid serv); COMP_CWORD=1; _nereid; "
              'echo "${COMPREPLY[@]}"')
    assert clean.run("bash", "-c", script, env=clean.environ()).split() == ["serve", "service"]
    for path in ("usr/share/zsh/vendor-completions/_nereid", "usr/share/fish/vendor_completions.d/nereid.fish"):
        assert "nereid __complete" in (clean.path / path).read_text()
    bom = json.loads((clean.path / "usr/share/doc/nereid/sbom.cdx.json").read_text())
    assert {"google.golang.org/grpc", "svelte", "onnxruntime"} <= {c["name"] for c in bom["components"]}
    licences = run("zcat", clean.path / "usr/share/doc/nereid/licenses.txt.gz")
    assert re.search(r"(?m)^== .*\bGo\b", licences) and re.search(r"(?m)^== .*ONNX Runtime", licences)


def test_the_service_serves_onnx_and_python_models_as_its_user(clean):
    empty = Service(clean)
    print(f"without models: ready in {empty.seconds:.2f} s, stopped in {empty.stop():.2f} s")
    models = clean.path / "var/lib/nereid/models"
    for name in ("add_sub", "running_sum"):
        shutil.copytree(ROOT / "models-sample" / name, models / name)
    clean.run("chown", "-R", "nereid:nereid", "/var/lib/nereid/models")
    service = Service(clean)
    print(f"with an ONNX and a Python model: ready in {service.seconds:.2f} s")
    assert add_sub(service) == (200, {"OUTPUT0": 4, "OUTPUT1": 2})
    assert service.ask("/v2/models/running_sum/ready")[0] == 200
    uid = pathlib.Path(f"/proc/{service.process.pid}/status").read_text()
    assert re.search(r"(?m)^Uid:\s+(\d+)", uid)[1] != "0"
    token = clean.run("nereid", "token", "create", "--name=client", "--data-dir=/var/lib/nereid", user="nereid:nereid",
                      env=clean.environ()).strip()
    assert add_sub(service)[0] == 401
    assert add_sub(service, token)[0] == 200
    STATE.update(service=service, token=token)


def test_a_killed_service_starts_again_with_its_data(clean):
    STATE["service"].kill()
    service = Service(clean)
    print(f"after SIGKILL: ready in {service.seconds:.2f} s")
    assert add_sub(service)[0] == 401
    assert add_sub(service, STATE["token"]) == (200, {"OUTPUT0": 4, "OUTPUT1": 2})
    print(f"with models: stopped in {service.stop():.2f} s")


def test_an_upgrade_keeps_models_history_tokens_and_the_configuration(clean, tmp_path):
    config = clean.path / "etc/nereid/nereid.yaml"
    config.write_text(config.read_text() + "id: mine\n")
    history = sorted(p.name for p in (clean.path / "var/lib/nereid").glob("*.db"))
    assert history, os.listdir(clean.path / "var/lib/nereid")
    run("dpkg-deb", "-R", package("nereid"), tmp_path / "tree")
    control = tmp_path / "tree/DEBIAN/control"
    control.write_text(re.sub(r"(?m)^Version: .*$", "Version: 99.0-1", control.read_text()))
    run("dpkg-deb", "-b", tmp_path / "tree", tmp_path / "new.deb")
    clean.install(tmp_path / "new.deb")
    assert "99.0-1" in clean.run("dpkg-query", "-W", "nereid")
    assert history == sorted(p.name for p in (clean.path / "var/lib/nereid").glob("*.db"))
    service = Service(clean)
    assert add_sub(service)[0] == 401
    assert add_sub(service, STATE["token"])[0] == 200
    assert service.ask("/v2", token=STATE["token"])[1]["name"] == "mine"
    service.stop()


def test_removal_leaves_data_and_purge_deletes_it(clean):
    clean.run("dpkg", "-r", "nereid", env=clean.environ())
    assert not (clean.path / "usr/bin/nereid").exists()
    assert (clean.path / "var/lib/nereid/models/add_sub").is_dir() and (clean.path / "etc/nereid/nereid.yaml").exists()
    clean.run("dpkg", "-P", "nereid", env=clean.environ())
    for path in ("var/lib/nereid", "etc/nereid"):
        assert not (clean.path / path).exists(), path
    assert "nereid" not in (clean.path / "etc/passwd").read_text()


def test_systemd_finds_no_fault_in_the_unit(tmp_path):
    run("dpkg-deb", "-x", package("nereid"), tmp_path)
    unit = tmp_path / UNIT
    unit.write_text(unit.read_text().replace("/usr/bin/nereid", str(tmp_path / "usr/bin/nereid")))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], text=True, capture_output=True)
    assert done.returncode == 0 and "nereid" not in done.stderr, done.stderr
    verdict = run("systemd-analyze", "security", "--offline=true", "--no-pager", unit)
    exposure = float(re.search(r"Overall exposure level for nereid.service: ([0-9.]+)", verdict)[1])
    print(f"exposure {exposure}")
    assert exposure < 3


def test_the_unit_of_the_public_page_is_valid(tmp_path):
    run("dpkg-deb", "-x", package("nereid"), tmp_path)
    unit = tmp_path / "usr/lib/systemd/user/nereid-kiosk.service"
    unit.write_text(unit.read_text().replace("/usr/bin/chromium", "/bin/true"))
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(["systemd-analyze", "--user", "verify", "--man=no", unit], text=True, capture_output=True,
                          env=env)
    assert done.returncode == 0 and "kiosk" not in done.stderr, done.stderr


def test_the_desktop_entry_starts_the_window(tmp_path):
    run("dpkg-deb", "-x", package("nereid-desktop"), tmp_path)
    entry = tmp_path / "usr/share/applications/nereid-desktop.desktop"
    run("desktop-file-validate", entry)
    (command,) = re.findall(r"(?m)^Exec=(.*)$", entry.read_text())
    (icon,) = re.findall(r"(?m)^Icon=(.*)$", entry.read_text())
    assert (tmp_path / f"usr/share/icons/hicolor/256x256/apps/{icon}.png").exists()
    run("update-mime-database", tmp_path / "usr/share/mime")
    assert "application/x-onnx:*.onnx" in (tmp_path / "usr/share/mime/globs").read_text()
    read, write = os.pipe()
    screen = subprocess.Popen(["Xvfb", "-displayfd", str(write), "-screen", "0", "1280x800x24", "-nolisten", "tcp"],
                              pass_fds=[write], stderr=subprocess.DEVNULL)
    os.close(write)
    try:
        with os.fdopen(read) as f:
            display = ":" + f.readline().strip()
        env = {**os.environ, "DISPLAY": display, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data"),
               "PATH": f"{tmp_path}/usr/bin:{os.environ['PATH']}"}
        window = subprocess.Popen(shlex.split(command), env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until(lambda: subprocess.run(["xdotool", "search", "--onlyvisible", "--name", "Nereid"], env=env,
                                         stdout=subprocess.DEVNULL).returncode == 0, LIMIT, "no window")
        finally:
            window.terminate()
            window.wait(LIMIT)
    finally:
        screen.terminate()
        screen.wait(LIMIT)


def test_rpms_have_the_same_files(tmp_path):
    for name in ("nereid", "nereid-desktop"):
        rpm = package(name, "x86_64.rpm")
        run("rpm", "-K", "--nosignature", rpm)
        listed = set(run("rpm", "-qpl", "--nosignature", rpm).splitlines())
        run("dpkg-deb", "-x", package(name), tmp_path / name)
        want = {"/" + str(p.relative_to(tmp_path / name)) for p in (tmp_path / name).rglob("*") if p.is_file()}
        assert want <= listed, want - listed


def test_two_builds_are_equal(tmp_path):
    for name in ("nereid", "nereid-desktop"):
        version = os.path.basename(package(name)).split("_")[1]
        run("go", "run", "./build/tools/package", "-name", name, "-program", f"build/bin/{name}",
            "-generator", "build/bin/nereid", "-version", version, "-out", tmp_path, cwd=ROOT)
    made = sorted(os.listdir(tmp_path))
    assert made == sorted(os.listdir(PACKAGES)) and len(made) == 6
    for name in made:
        assert (tmp_path / name).read_bytes() == (PACKAGES / name).read_bytes(), name
