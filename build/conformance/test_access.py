"""Who may use the server: its tokens when the data folder is damaged, and other users of the same machine."""

import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import tempfile

import grpc
import pytest
import tritonclient.grpc as tg

import models
from harness import BINARY, REFERENCE, Server

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
        self.folder, self.work, self.mounted = folder, folder / "work", full
        self.data = self.work / "data"
        self.data.mkdir(parents=True)
        if full:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", self.data], check=True, timeout=60)
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
        if self.mounted:
            subprocess.run(["umount", self.data], check=True, timeout=60)


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
