"""The packages in a clean Debian that systemd-nspawn boots: installed without network, used as a service, as a public
page and as a window, upgraded and removed.

make test-package runs this as root, in a network and a mount namespace of its own. The tests depend on each other, in
this order. ROOT_TAR names the clean Debian, PACKAGES the folder of the packages, SBOM_SCHEMA the folder of the Python
package that knows the schema of CycloneDX."""

import glob
import json
import os
import pathlib
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from debian import LIMIT, Debian, loopback_on, run
from harness import ROOT, until

PACKAGES = pathlib.Path(os.environ["PACKAGES"]).resolve()
PERSON = "person"  # a user with a graphical session


def package(name, ending="amd64.deb"):
    (found,) = glob.glob(str(PACKAGES / f"{name}_*_{ending}"))
    return found


@pytest.fixture(scope="module")
def debian(tmp_path_factory):
    loopback_on()
    d = Debian(os.environ["ROOT_TAR"], tmp_path_factory.mktemp("debian") / "root")
    yield d
    d.close()


@pytest.fixture(scope="module")
def screen(debian):
    """The number of an X server in the system, with a user who may use it."""
    debian.run("useradd", "--create-home", PERSON)
    debian.run("systemd-run", "--unit=screen", "Xvfb", ":7", "-screen", "0", "1280x800x24", "-nolisten", "tcp", "-ac")
    debian.run("loginctl", "enable-linger", PERSON)
    until(lambda: debian.attempt("test", "-e", "/tmp/.X11-unix/X7").returncode == 0, LIMIT, "no screen")
    yield ":7"
    debian.run("systemctl", "stop", "screen")


def ask(path, body=None, token=None, port=8000):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode() if body else None)
    if token:
        request.add_header("Authorization", token)
    try:
        with urllib.request.urlopen(request, timeout=LIMIT) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as e:
        return e.code, None
    except urllib.error.URLError:
        return 0, None


def add_sub(token=None):
    inputs = [{"name": n, "datatype": "FP32", "shape": [1, 16], "data": [v] * 16}
              for n, v in (("INPUT0", 3), ("INPUT1", 1))]
    status, answer = ask("/v2/models/add_sub/infer", {"inputs": inputs}, token)
    return status, answer and {o["name"]: o["data"][0] for o in answer["outputs"]}


SUM = {"OUTPUT0": 4, "OUTPUT1": 2}


def running_sum(token=None):
    body = {"inputs": [{"name": "value", "datatype": "INT64", "shape": [1, 1], "data": [5]}],
            "parameters": {"sequence_id": 3, "sequence_start": True, "sequence_end": True}}
    status, answer = ask("/v2/models/running_sum/infer", body, token)
    return status, answer and answer["outputs"][0]["data"]


def stop_seconds(debian):
    began = time.monotonic()
    debian.run("systemctl", "stop", "nereid")
    assert debian.show("nereid", "Result") == "success"
    return time.monotonic() - began


STATE = {}  # of one test for the next


def test_the_package_installs_into_a_clean_debian_and_starts(debian):
    debian.run("dpkg", "-i", debian.copy(package("nereid")))
    assert debian.run("systemctl", "is-enabled", "nereid").strip() == "enabled"
    assert debian.run("systemctl", "is-active", "nereid").strip() == "active"
    assert ask("/v2/health/ready")[0] == 200
    assert re.search(r"Started HTTPService at 127\.0\.0\.1:8000", debian.journal("nereid"))
    data = (debian.path / "var/lib/nereid").stat()
    assert data.st_mode & 0o777 == 0o700 and data.st_uid != 0
    assert "nereid " in debian.run("/usr/bin/nereid", "--version")
    assert "data-dir: /var/lib/nereid" in debian.run("nereid", "config", "show",
                                                     "--config-file=/etc/nereid/nereid.yaml")
    print(f"without models: ready in {debian.start_seconds('nereid'):.2f} s, stopped in {stop_seconds(debian):.2f} s")


def test_manual_pages_and_completions_are_there(debian):
    page = debian.run("man", "nereid-serve", MANPAGER="cat", MANWIDTH="100")
    assert "--model-repository" in page and "Nereid" in page
    assert "nereid-serve" in debian.run("man", "nereid", MANPAGER="cat")
    script = (". /usr/share/bash-completion/completions/nereid; COMP_WORDS=(nereid serv); COMP_CWORD=1; _nereid; "
              'echo "${COMPREPLY[@]}"')
    assert debian.run("bash", "-c", script).split() == ["serve", "service"]
    for path in ("usr/share/zsh/vendor-completions/_nereid", "usr/share/fish/vendor_completions.d/nereid.fish"):
        assert "nereid __complete" in (debian.path / path).read_text()
    licences = run("zcat", debian.path / "usr/share/doc/nereid/licenses.txt.gz")
    assert re.search(r"(?m)^== .*\bGo\b", licences) and re.search(r"(?m)^== .*ONNX Runtime", licences)


def test_the_bill_of_materials_follows_the_schema_of_cyclonedx(debian):
    file = debian.path / "usr/share/doc/nereid/sbom.cdx.json"
    bom = json.loads(file.read_text())
    assert {"google.golang.org/grpc", "svelte", "onnxruntime"} <= {c["name"] for c in bom["components"]}
    check = ("import sys\nfrom cyclonedx.schema import SchemaVersion\n"
             "from cyclonedx.validation.json import JsonStrictValidator\n"
             "print(JsonStrictValidator(SchemaVersion.V1_5).validate_str(sys.stdin.read()))")
    env = {**os.environ, "PYTHONPATH": os.environ["SBOM_SCHEMA"]}
    assert run(sys.executable, "-c", check, input=file.read_text(), env=env).strip() == "None"
    bom["components"][0]["type"] = "thing"
    assert "thing" in run(sys.executable, "-c", check, input=json.dumps(bom), env=env)


def test_onnx_and_python_models_run_under_the_limits_of_the_unit(debian):
    models = debian.path / "var/lib/nereid/models"
    for name in ("add_sub", "running_sum"):
        shutil.copytree(ROOT / "models-sample" / name, models / name)
    debian.run("chown", "-R", "nereid:nereid", "/var/lib/nereid/models")
    debian.run("systemctl", "start", "nereid")
    print(f"with an ONNX and a Python model: ready in {debian.start_seconds('nereid'):.2f} s")
    assert add_sub() == (200, SUM)
    assert running_sum() == (200, [5])
    processes = debian.processes("nereid")
    assert len(processes) >= 2, "the Python model has no process"
    user = str((debian.path / "var/lib/nereid").stat().st_uid)
    for pid in processes:
        status = dict(line.split(":\t", 1) for line in open(f"/proc/{pid}/status").read().splitlines())
        assert status["Uid"].split() == [user] * 4
        assert (status["NoNewPrivs"], int(status["CapEff"], 16), int(status["CapBnd"], 16)) == ("1", 0, 0)
        assert status["Seccomp"] == "2"
    token = debian.run("nereid", "token", "create", "--name=client", "--scope=infer,control",
                       "--data-dir=/var/lib/nereid", user="nereid").strip()
    assert add_sub()[0] == 401
    assert add_sub(token)[0] == 200
    STATE["token"] = token


def test_systemd_finds_no_fault_in_the_unit(debian):
    assert debian.attempt("systemd-analyze", "verify", "--man=no", "nereid.service").stderr == ""
    verdict = debian.run("systemd-analyze", "security", "--no-pager", "nereid.service")
    exposure = float(re.search(r"Overall exposure level for nereid.service: ([0-9.]+)", verdict)[1])
    print(f"exposure {exposure}")
    assert exposure < 3


def restarted(debian, times):
    """Waits until systemd has started the service again, and it serves as before."""
    until(lambda: debian.show("nereid", "NRestarts") == str(times) and debian.show("nereid", "ActiveState") == "active",
          LIMIT, "the service does not start again")
    assert add_sub()[0] == 401
    assert add_sub(STATE["token"]) == (200, SUM)
    assert running_sum(STATE["token"]) == (200, [5])


def test_a_killed_service_starts_again_with_its_data(debian):
    before = debian.processes("nereid")
    debian.run("systemctl", "kill", "--kill-who=main", "--signal=KILL", "nereid")
    restarted(debian, 1)
    print(f"after SIGKILL: ready in {debian.start_seconds('nereid'):.2f} s")
    assert not set(before) & set(debian.processes("nereid")), "a process of the killed service lives"


def test_the_watchdog_restarts_a_service_that_hangs(debian):
    extra = debian.path / "etc/systemd/system/nereid.service.d/watchdog.conf"
    extra.parent.mkdir(parents=True)
    extra.write_text("[Service]\nWatchdogSec=3\nTimeoutAbortSec=1\n")
    debian.run("systemctl", "daemon-reload")
    debian.run("systemctl", "restart", "nereid")
    restarts = int(debian.show("nereid", "NRestarts"))
    debian.run("systemctl", "kill", "--kill-who=main", "--signal=STOP", "nereid")
    restarted(debian, restarts + 1)
    assert "Watchdog timeout" in debian.journal("nereid")
    shutil.rmtree(extra.parent)
    debian.run("systemctl", "daemon-reload")
    debian.run("systemctl", "restart", "nereid")


def test_a_reload_reads_the_configuration_again(debian):
    config = debian.path / "etc/nereid/nereid.yaml"
    config.write_text(config.read_text() + "id: mine\nlog-verbose: 1\n")
    pid = debian.show("nereid", "MainPID")
    debian.run("systemctl", "reload", "nereid")
    until(lambda: re.search(r"restart the server for the new values of id\b", debian.journal("nereid")), LIMIT,
          "the journal does not name the option")
    settings = ask("/v2/logging", token=STATE["token"])[1]
    assert settings["log_verbose_level"] == 1
    assert debian.show("nereid", "MainPID") == pid


def events(debian):
    """The events of the history of a service that is stopped, in their order."""
    (database,) = (debian.path / "var/lib/nereid").glob("*.db")
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as db:
        return db.execute("SELECT * FROM event ORDER BY id").fetchall()


def test_an_upgrade_keeps_models_history_tokens_and_the_configuration(debian, tmp_path):
    print(f"with models: stopped in {stop_seconds(debian):.2f} s")
    history = events(debian)
    assert history, "no event is kept"
    debian.run("systemctl", "start", "nereid")
    run("dpkg-deb", "-R", package("nereid"), tmp_path / "tree")
    control = tmp_path / "tree/DEBIAN/control"
    control.write_text(re.sub(r"(?m)^Version: .*$", "Version: 99.0-1", control.read_text()))
    run("dpkg-deb", "-Znone", "-b", tmp_path / "tree", tmp_path / "new.deb")
    pid = debian.show("nereid", "MainPID")
    debian.run("dpkg", "--force-confdef", "-i", debian.copy(tmp_path / "new.deb"))
    assert "99.0-1" in debian.run("dpkg-query", "-W", "nereid")
    assert debian.show("nereid", "MainPID") not in (pid, "0")
    assert add_sub()[0] == 401
    assert add_sub(STATE["token"]) == (200, SUM)
    assert ask("/v2", token=STATE["token"])[1]["name"] == "mine"
    stop_seconds(debian)
    assert events(debian)[:len(history)] == history


def test_removal_leaves_data_and_purge_deletes_it(debian):
    debian.run("systemctl", "start", "nereid")
    debian.run("dpkg", "-r", "nereid")
    assert ask("/v2/health/live")[0] == 0, "the removed service runs"
    assert not (debian.path / "usr/bin/nereid").exists()
    assert (debian.path / "var/lib/nereid/models/add_sub").is_dir() and (debian.path / "etc/nereid/nereid.yaml").exists()
    debian.run("dpkg", "-P", "nereid")
    for path in ("var/lib/nereid", "etc/nereid"):
        assert not (debian.path / path).exists(), path
    assert "nereid" not in (debian.path / "etc/passwd").read_text()


def test_the_program_alone_installs_its_service(debian, tmp_path):
    (archive,) = glob.glob(str(PACKAGES / "nereid-[0-9]*.tar.gz"))
    run("tar", "-xf", archive, "-C", tmp_path)
    (program,) = tmp_path.glob("*/bin/nereid")
    path = debian.copy(program)
    debian.run(path, "service", "install")
    assert "active" in debian.run("nereid", "service", "status")
    assert ask("/v2/health/ready")[0] == 200
    debian.run("nereid", "service", "uninstall")
    assert ask("/v2/health/live")[0] == 0
    assert debian.attempt("systemctl", "list-unit-files", "nereid.service", "--no-legend").stdout == ""
    assert (debian.path / "var/lib/nereid").is_dir()
    debian.run("rm", "-r", "/var/lib/nereid", "/etc/nereid")


def test_the_rpm_installs_and_is_removed(debian):
    # Debian's rpm knows no installed packages, so what the package needs is not found.
    options = "--force-debian", "--nodeps"
    debian.run("rpm", *options, "-i", debian.copy(package("nereid", "x86_64.rpm")))
    debian.run("systemctl", "enable", "--now", "nereid")
    assert ask("/v2/health/ready")[0] == 200
    assert debian.attempt("rpm", "-V", "--nodeps", "nereid").stdout == ""
    debian.run("rpm", *options, "-e", "nereid")
    assert ask("/v2/health/live")[0] == 0
    assert not (debian.path / "usr/bin/nereid").exists() and (debian.path / "var/lib/nereid").is_dir()


def windows(debian, display, name, user=PERSON):
    return debian.attempt("xdotool", "search", "--onlyvisible", "--name", name, user=user,
                          DISPLAY=display).stdout.split()


def test_the_desktop_entry_starts_the_window_and_opens_a_file(debian, screen):
    debian.run("dpkg", "-i", debian.copy(package("nereid-desktop")))
    entry = debian.path / "usr/share/applications/nereid-desktop.desktop"
    debian.run("desktop-file-validate", "/usr/share/applications/nereid-desktop.desktop")
    (command,) = re.findall(r"(?m)^Exec=(.*)$", entry.read_text())
    (icon,) = re.findall(r"(?m)^Icon=(.*)$", entry.read_text())
    assert (debian.path / f"usr/share/icons/hicolor/256x256/apps/{icon}.png").exists()
    debian.run("update-desktop-database", "/usr/share/applications")
    assert "application/x-onnx=nereid-desktop.desktop;" in (entry.parent / "mimeinfo.cache").read_text()
    debian.run("update-mime-database", "/usr/share/mime")
    assert "application/x-onnx:*.onnx" in (debian.path / "usr/share/mime/globs").read_text()
    model = debian.path / f"home/{PERSON}/my model.onnx"
    shutil.copyfile(ROOT / "models-sample/add_sub/1/model.onnx", model)
    words = [f"/home/{PERSON}/{model.name}" if word == "%F" else word for word in shlex.split(command)]
    with open(debian.path.parent / "window.log", "wb") as log:
        window = subprocess.Popen(debian.argv(*words, user=PERSON, DISPLAY=screen, HOME=f"/home/{PERSON}"),
                                  stdout=log, stderr=log)
    until(lambda: windows(debian, screen, "Nereid"), LIMIT, "no window")
    imports = debian.path / f"home/{PERSON}/.local/share"
    until(lambda: list(imports.glob("**/imports/*/in/my model.onnx")), LIMIT, "no import opens")
    debian.run("pkill", "-TERM", "-u", PERSON, "nereid-desktop")
    window.wait(LIMIT)


def asks_the_server():
    """Whether a browser has a connection to the public page's port, 8004."""
    return any(line.split()[2].endswith(":1F44") and line.split()[3] == "01" for line in open("/proc/net/tcp"))


def test_the_public_page_comes_back_after_its_browser_and_after_the_server(debian, screen):
    debian.run("dpkg", "-i", debian.copy(package("nereid")))
    config = debian.path / "etc/nereid/nereid.yaml"
    config.write_text(config.read_text() + "kiosk: true\n")
    debian.run("systemctl", "restart", "nereid")
    uid = debian.run("id", "-u", PERSON).strip()

    def person(*argv):
        return debian.run("systemctl", "--user", *argv, user=PERSON, XDG_RUNTIME_DIR=f"/run/user/{uid}").strip()

    def browser():
        return person("show", "nereid-kiosk", "--value", "--property=MainPID")

    person("set-environment", f"DISPLAY={screen}")
    person("start", "nereid-kiosk")
    until(lambda: windows(debian, screen, "Nereid") and asks_the_server(), LIMIT, "no public page")
    first = browser()
    person("kill", "--signal=KILL", "nereid-kiosk")
    until(lambda: browser() not in (first, "0"), LIMIT, "the browser does not start again")
    until(lambda: windows(debian, screen, "Nereid") and asks_the_server(), LIMIT, "no public page after the kill")
    second = browser()
    debian.run("systemctl", "stop", "nereid")
    until(lambda: not asks_the_server(), LIMIT, "the server is not gone")
    debian.run("systemctl", "start", "nereid")
    until(asks_the_server, LIMIT, "the page does not come back")
    assert browser() == second, "the browser was started again"
    person("stop", "nereid-kiosk")


def test_rpms_have_the_same_files(tmp_path):
    for name in ("nereid", "nereid-desktop"):
        rpm = package(name, "x86_64.rpm")
        run("rpm", "-K", "--nosignature", rpm)
        listed = set(run("rpm", "-qpl", "--nosignature", rpm).splitlines())
        run("dpkg-deb", "-x", package(name), tmp_path / name)
        want = {"/" + str(p.relative_to(tmp_path / name)) for p in (tmp_path / name).rglob("*") if p.is_file()}
        assert want <= listed, want - listed


def test_the_same_files_are_packed_into_the_same_bytes(tmp_path):
    for name in ("nereid", "nereid-desktop"):
        version = os.path.basename(package(name)).split("_")[1]
        run("go", "run", "./build/tools/package", "-name", name, "-program", f"build/bin/{name}",
            "-generator", "build/bin/nereid", "-version", version, "-out", tmp_path, cwd=ROOT)
    made = sorted(os.listdir(tmp_path))
    assert made == sorted(os.listdir(PACKAGES)) and len(made) == 6
    for name in made:
        assert (tmp_path / name).read_bytes() == (PACKAGES / name).read_bytes(), name
