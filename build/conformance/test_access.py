"""Who may use the server: its tokens when the data folder is damaged, and other users of the same machine."""

import contextlib
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile

import pytest
import tritonclient.grpc as tg

import models
from harness import BINARY, REFERENCE, Server
from limits import MIB, small_disk

pytestmark = pytest.mark.skipif(REFERENCE, reason="Triton has no tokens and no GUI")
NOBODY = 65534
root = pytest.mark.skipif(os.getuid() != 0, reason="needs two users, so it must run as root")


def as_nobody(*command, **more):
    """Runs a command as another user than that of the server."""
    return subprocess.run(command, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True,
                          timeout=60, **more)


@pytest.fixture
def folder():
    """A folder that other users can access, with a repository and the program."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="nereid-access-"))
    path.chmod(0o755)
    models.write_sums(path / "models")
    for p in [path / "models", *(path / "models").rglob("*")]:
        p.chmod(0o755 if p.is_dir() else 0o644)
    shutil.copy2(BINARY, path / "nereid")
    yield path
    shutil.rmtree(path)


# Damages of the database. Each returns what ends it.

def lock(db):
    other = sqlite3.connect(db, isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    return other.close


def overwrite(db, start, count):
    with open(db, "r+b") as f:
        f.seek(start)
        f.write(b"\xa5" * count)
    return lambda: None


def newer_schema(db):
    other = sqlite3.connect(db)
    other.execute("PRAGMA user_version = 9999")
    other.commit()
    other.close()
    return lambda: None


def take(db):
    """Makes the database another user's."""
    os.chown(db, 1, 1)
    return lambda: None


def replace_by_folder(db):
    db.unlink()
    db.mkdir()
    return lambda: None


def fill_disk(db):
    """Fills the file system of the data folder, on which only a few bytes were free."""
    with open(db.parent / "filler", "wb", buffering=0) as f:
        for size in 1 << 16, 1 << 12, 1:
            try:
                while True:
                    f.write(b"\0" * size)
            except OSError:
                pass
    return lambda: None


DAMAGES = {
    "locked by another process": lock,
    "a damaged header": lambda db: overwrite(db, 0, 100),
    "damaged pages": lambda db: overwrite(db, 4096, db.stat().st_size - 4096),
    "a newer schema": newer_schema,
    "a folder in its place": replace_by_folder,
    "another user's file": pytest.param(take, marks=root),
    "a full disk": pytest.param(fill_disk, marks=root),
}
# What the damage of the file of tokens may be.
FILE_DAMAGES = {
    "truncated": lambda f: f.write_bytes(f.read_bytes()[:-20]),
    "empty": lambda f: f.write_bytes(b""),
    "without tokens": lambda f: f.write_text("{}"),
    "a folder": lambda f: (f.unlink(), f.mkdir()),
    "another user's": pytest.param(lambda f: os.chown(f, 1, 1), marks=root),
}


def table(damages):
    return [pytest.param(*getattr(d, "values", [d]), id=name, marks=getattr(d, "marks", ()))
            for name, d in damages.items()]


class Damaged:
    """A data folder with one token, in which something is then damaged, and the server on it."""

    def __init__(self, folder, full=False):
        self.folder, self.work, self.mounted = folder, folder / "work", contextlib.ExitStack()
        self.data = self.work / "data"
        self.data.mkdir(parents=True)
        if full:
            self.mounted.enter_context(small_disk(self.data, 2 * MIB))
        self.own()
        self.token = self.run("token", "create", "--name=a", "--scope=infer,control").stdout.strip()
        assert self.token.startswith("nrd_")

    def own(self):
        """Gives the data folder to the user of the server."""
        if os.getuid() == 0:
            for p in [self.work, self.data, *self.data.rglob("*")]:
                os.chown(p, NOBODY, NOBODY)
            self.data.chmod(0o700)

    def run(self, *args):
        command = [str(self.folder / "nereid"), *args[:2], f"--data-dir={self.data}", *args[2:]]
        if os.getuid() == 0:
            return as_nobody(*command)
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def serve(self):
        drop = []
        if os.getuid() == 0:
            drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env",
                    f"HOME={self.data}"]
        return Server(self.folder / "models", self.work, "--exit-on-error=false", wait=None,
                      command=[*drop, str(self.folder / "nereid"), "serve"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.mounted.close()


def statuses(s, token=None):
    """The answers to a client with that token: HTTP statuses, and the code of gRPC."""
    headers = {"Authorization": token} if token else {}
    http = [s.request(method, path, headers=headers).status for method, path in [
        ("GET", "/v2/models/stats"), ("POST", "/v2/repository/index"), ("GET", "/v2")]]
    http.append(s.request("GET", "/metrics", headers=headers, address=s.metrics).status)
    with tg.InferenceServerClient(s.grpc) as c:
        try:
            c.get_model_repository_index(headers={k.lower(): v for k, v in headers.items()})
            code = "OK"
        except tg.InferenceServerException as e:
            code = e.status()
    return [*http, code.removeprefix("StatusCode.")]


REFUSED = [401, 401, 401, 401, "UNAUTHENTICATED"]
SERVED = [200, 200, 200, 200, "OK"]


def warnings(s):
    """What the page of the server's own user shows."""
    return " ".join(w["text"] for w in json.loads(s.request("GET", "/api/server", address=s.ui[7:]).body)["warnings"])


@pytest.mark.parametrize("damage", table(DAMAGES))
def test_H14_tokens_are_needed_whatever_becomes_of_the_database(folder, damage):
    with Damaged(folder, full=damage is fill_disk) as d:
        end = damage(d.data / "nereid.db")
        with d.serve() as s:
            assert statuses(s) == REFUSED
            assert statuses(s, "nrd_WRONG") == REFUSED
            assert statuses(s, d.token) == SERVED
            end()
        with d.serve() as s:  # whatever the first start left behind
            assert statuses(s) == REFUSED
            assert statuses(s, d.token) == SERVED


@pytest.mark.parametrize("damage", table(DAMAGES))
def test_H14_unknown_tokens_are_refused_after_an_upgrade(folder, damage):
    """A version before the file of tokens made the database, which is then damaged."""
    with Damaged(folder, full=damage is fill_disk) as d:
        (d.data / "tokens.json").unlink()
        end = damage(d.data / "nereid.db")
        for _ in range(2):
            with d.serve() as s:
                assert statuses(s) == statuses(s, d.token) == REFUSED
                assert "nereid restore" in warnings(s) and "nereid restore" in s.log()
        end()


@pytest.mark.parametrize("damage", table(FILE_DAMAGES))
def test_H14_unreadable_tokens_are_refused(folder, damage):
    with Damaged(folder) as d:
        damage(d.data / "tokens.json")
        with d.serve() as s:
            assert statuses(s) == statuses(s, d.token) == REFUSED
            assert "tokens.json" in warnings(s) and "tokens.json" in s.log()
            assert "tokens.json" in d.run("token", "create", "--name=b").stderr, "a new token replaced those unread"
        shutil.rmtree(d.data / "tokens.json") if (d.data / "tokens.json").is_dir() else (d.data / "tokens.json").unlink()
        with d.serve() as s:  # mended as the text says: the database has them too
            assert statuses(s) == REFUSED
            assert statuses(s, d.token) == SERVED


def test_H14_a_server_without_tokens_serves_on_a_damaged_database(folder):
    with Damaged(folder) as d:
        d.run("token", "revoke", "a")
        overwrite(d.data / "nereid.db", 0, 100)
        with d.serve() as s:
            assert statuses(s) == SERVED
            d.run("token", "create", "--name=b")
            assert statuses(s) == REFUSED


def test_H14_a_revoked_token_does_not_come_back_with_a_mended_database(folder):
    with Damaged(folder) as d:
        end = lock(d.data / "nereid.db")
        with d.serve() as s:
            assert d.run("token", "revoke", "a").returncode == 0
            assert d.run("token", "create", "--name=b").returncode == 0
            assert statuses(s, d.token) == REFUSED
        end()
        with d.serve() as s:
            assert statuses(s, d.token) == REFUSED


# Other users of the machine.

def curl(s, path, *options, port="ui", uid=NOBODY):
    """The status and the body of a request that another user sends."""
    address = s.ui if port == "ui" else f"http://{s.http}"
    done = subprocess.run(["curl", "-s", "-o", "-", "-w", "\n%{http_code}", *options, address + path], user=uid,
                          group=uid,
                          extra_groups=[], capture_output=True, text=True, timeout=60)
    body, status = done.stdout.rsplit("\n", 1)
    return int(status), body


def post(value):
    return "-H", "X-Nereid: 1", "-H", "Content-Type: application/json", "-d", json.dumps(value)


def cookie_jar(folder):
    """A file that another user's curl may make."""
    (folder / "cookies").mkdir()
    (folder / "cookies").chmod(0o777)
    return folder / "cookies/jar"


NEW_TOKEN = post({"name": "x", "scopes": ["admin"]})


def own(s, path):
    """What the server's own user gets from the GUI's interface."""
    return s.request("GET", path, address=s.ui_address)


@root
@pytest.mark.parametrize("environment", [None, "secret"])
def test_H15_other_users_cannot_use_the_GUI(folder, environment, monkeypatch):
    if environment:
        monkeypatch.setenv("NEREID_TOKEN", environment)
    with Server(folder / "models", folder / "work", wait=None, token=environment) as s:
        for path, *options in [("/api/access/tokens", *NEW_TOKEN), ("/api/access",), ("/api/server",), ("/api/events",),
                               ("/api/imports", *post({"path": str(folder / "models/sums")})),
                               ("/api/infer/sums", *post({})), ("/api/models/sums/archive",), ("/api/nosuch",),
                               ("/api/session", *post({"secret": "guessed"})),
                               ("/api/access", "-H", "Authorization: guessed"), ("//api/access",)]:
            status, body = curl(s, path, "--path-as-is", *options)
            assert status in (401, 307) and "nrd_" not in body, (path, status, body)
        assert curl(s, "/")[0] == curl(s, "/config.js")[0] == 200, "the page that asks for a link is missing"
        assert own(s, "/api/access").json["tokens"] == []
        if environment:
            assert curl(s, "/api/access", "-H", f"Authorization: {environment}")[0] == 200


@root
def test_H15_a_connection_that_its_client_closes_at_once_has_no_rights(folder):
    """The kernel reports root as the user of such a connection."""
    with Server(folder / "models", folder / "work", wait=None) as s:
        host, port = s.ui_address.split(":")
        body = '{"name":"x","scopes":["admin"]}'
        send = f"""for i in $(seq 100); do exec 3<>/dev/tcp/{host}/{port}
            printf 'POST /api/access/tokens HTTP/1.1\\r\\nHost: {host}\\r\\nX-Nereid: 1\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n{body}' >&3
            exec 3>&-; done"""
        assert as_nobody("bash", "-c", send).returncode == 0
        assert own(s, "/api/access").json["tokens"] == []


@root
def test_H15_a_link_opens_the_GUI_once_for_one_user(folder):
    with Server(folder / "models", folder / "work", wait=None) as s:
        link = [BINARY, "link", f"--data-dir={s.work / 'data'}"]
        assert as_nobody(str(folder / "nereid"), *link[1:]).returncode != 0, "another user can make a link"
        url = subprocess.run(link, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
        assert url.startswith(s.ui + "/#/open/")
        secret = url.rpartition("/")[2]
        jar = cookie_jar(folder)
        assert curl(s, "/api/session", "-c", str(jar), *post({"secret": secret}))[0] == 204
        cookie = jar.read_text()
        assert "#HttpOnly_" in cookie and "/api/" in cookie
        assert curl(s, "/api/access", "-b", str(jar))[0] == 200
        assert curl(s, "/api/access", "-b", str(jar), uid=NOBODY - 1)[0] == 401, "a cookie counts for another user"
        assert curl(s, "/api/session", *post({"secret": secret}))[0] == 401, "a link counts twice"
        assert secret not in s.log()


@root
def test_H15_a_token_opens_the_GUI_until_it_is_revoked(folder):
    with Server(folder / "models", folder / "work", wait=None) as s:
        def token(*args):
            return subprocess.run([BINARY, "token", args[0], f"--data-dir={s.work / 'data'}", *args[1:]], text=True,
                                  capture_output=True, timeout=60, check=True).stdout.strip()
        admin, infer = token("create", "--name=a", "--scope=admin"), token("create", "--name=i")
        assert curl(s, "/api/access", "-H", f"Authorization: {infer}")[0] == 401
        assert curl(s, "/api/session", *post({"secret": infer}))[0] == 401
        assert curl(s, "/api/access", "-H", f"Authorization: Bearer {admin}")[0] == 200
        jar = cookie_jar(folder)
        assert curl(s, "/api/session", "-c", str(jar), *post({"secret": admin}))[0] == 204
        assert curl(s, "/api/access", "-b", str(jar))[0] == 200
        token("revoke", "a")
        assert curl(s, "/api/access", "-b", str(jar))[0] == 401


@root
def test_H15_a_token_to_look_changes_nothing(folder):
    """The scope view opens what shows the server's state, and with infer also models. All else needs admin."""
    with Server(folder / "models", folder / "work") as s:
        def as_token(scope):
            made = subprocess.run([BINARY, "token", "create", f"--data-dir={s.work / 'data'}", f"--name={scope}",
                                   f"--scope={scope}"], text=True, capture_output=True, timeout=60, check=True)
            return lambda path, *options: curl(s, path, "-H", f"Authorization: {made.stdout.strip()}", *options)

        view, demo = as_token("view"), as_token("view,infer")
        request = json.dumps({"inputs": [{"name": name, "datatype": "INT32", "shape": [1, 16], "data": [1] * 16}
                                         for name in ("INPUT0", "INPUT1")]})
        for path in ("/api/server", "/api/models", "/api/models/sums", "/api/history", "/api/requests", "/api/alerts"):
            assert view(path)[0] == demo(path)[0] == 200, path
        assert json.loads(view("/api/server")[1])["scopes"] == ["view"]
        assert json.loads(demo("/api/server")[1])["scopes"] == ["infer", "view"]
        infer = ["/api/infer/sums", "-X", "POST", "-H", "X-Nereid: 1", "-d", request]
        assert view(*infer)[0] == 403 and demo(*infer)[0] == 200, demo(*infer)
        delete = ["-X", "DELETE", "-H", "X-Nereid: 1"]
        for path, *options in [("/api/access",), ("/api/access/tokens", *NEW_TOKEN), ("/api/logs",), ("/api/support",),
                               ("/api/requests/1/contents",), ("/api/requests/1/replay", *post({})),
                               ("/api/models/sums/replay", *post({})), ("/api/models/sums/archive",), ("/api/webhook",),
                               ("/api/models/sums/unload", *post({})), ("/api/models/sums", *delete),
                               ("/api/models/sums/capture", *delete), ("/api/models/sums/inspection",),
                               ("/api/imports", *post({"path": str(folder / "models/sums")})),
                               ("/api/downloads", *post({}))]:
            for who in (view, demo):
                status, body = who(path, *options)
                assert status == 403 and "it needs the scope admin" in body, (path, status, body)
        assert own(s, "/api/access").json["tokens"] and s.get("/v2/models/sums/ready").status == 401


@pytest.fixture
def secret():
    """Memory of the server's user, which others cannot open."""
    path = pathlib.Path(tempfile.mkstemp(prefix="nereid-secret-", dir="/dev/shm")[1])
    path.write_bytes(b"secret" * 10)
    yield path.name
    path.unlink()


def register(key):
    return {"key": key, "offset": 0, "byte_size": 60}


GRPC_CLIENT = f"""
import os, sys, tritonclient.grpc as c
os.setgroups([]), os.setgid({NOBODY}), os.setuid({NOBODY})  # another user may not be able to run this Python
c.InferenceServerClient(sys.argv[1]).register_system_shared_memory("g", sys.argv[2], 60)
"""


@root
@pytest.mark.parametrize("allowed", [False, True])
def test_C11_DV88_memory_of_other_users_is_refused(folder, secret, allowed):
    options = ["--client-shm-any-owner=true"] if allowed else []
    with Server(folder / "models", folder / "work", *options, wait=None) as s:
        path = "/v2/systemsharedmemory/region/%s/register"
        status, body = curl(s, path % "r", "-d", json.dumps(register(secret)), port="http")
        assert status == (200 if allowed else 400) and (allowed or "another user" in body), body
        assert s.post(path % "own", register(secret)).status == 200, "the owner is refused"
        done = subprocess.run([sys.executable, "-c", GRPC_CLIENT, s.grpc, secret], capture_output=True, text=True,
                              timeout=60)
        assert (done.returncode == 0) == allowed and (allowed or "another user" in done.stderr), done.stderr
        its = folder / "its"
        os.mknod("/dev/shm/" + its.name + secret)
        try:
            theirs = pathlib.Path("/dev/shm", its.name + secret)
            theirs.write_bytes(bytes(60))
            os.chown(theirs, NOBODY, NOBODY)
            status, body = curl(s, path % "theirs", "-d", json.dumps(register(theirs.name)), port="http")
            assert status == 200, body
        finally:
            theirs.unlink()


@pytest.mark.parametrize("allowed", [False, True])
def test_C11_clients_beyond_loopback_register_nothing_unless_allowed(folder, secret, allowed):
    addresses = subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split()
    addresses = [a for a in addresses if ":" not in a]
    if not addresses:
        pytest.skip("this machine has no address but loopback")
    options = ["--client-shm-any-owner=true"] if allowed else []
    with Server(folder / "models", folder / "work", "--http-address=0.0.0.0", "--metrics-address=127.0.0.1",
                "--allow-anonymous", "--allow-client-shm=true", *options, wait=None) as s:
        at = f"{addresses[0]}:{s.http.rpartition(':')[2]}"
        got = s.request("POST", "/v2/systemsharedmemory/region/r/register", json.dumps(register(secret)), address=at)
        assert got.status == (200 if allowed else 400), got.body
        assert s.post("/v2/systemsharedmemory/region/own/register", register(secret)).status == 200, got.body
