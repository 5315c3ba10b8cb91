"""A clean Debian that systemd-nspawn boots, for the tests of packages. It has the network and the loopback device of
the tests, and needs root."""

import fcntl
import os
import re
import shutil
import signal
import socket
import struct
import subprocess

from harness import until

LIMIT = 120  # seconds, on a loaded machine
ENVIRON = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
           "DEBIAN_FRONTEND": "noninteractive"}


def run(*argv, **more):
    done = subprocess.run([str(a) for a in argv], text=True, capture_output=True, **more)
    assert done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def loopback_on():
    """Turns the loopback device on: that of a new network namespace is down."""
    with socket.socket() as s:
        flags = struct.unpack("16sh", fcntl.ioctl(s, 0x8913, struct.pack("16sh", b"lo", 0)))[1]
        fcntl.ioctl(s, 0x8914, struct.pack("16sh", b"lo", flags | 1))


class Debian:
    """The system. path is its root, as this machine sees it."""

    def __init__(self, archive, path):
        assert os.geteuid() == 0, "systemd-nspawn needs root; run make test-package as root"
        self.path = path
        path.mkdir()
        run("tar", "-xf", archive, "-C", path, "--exclude=./dev/*")
        self.log = open(path.parent / "boot.log", "wb")
        self.nspawn = subprocess.Popen(
            ["systemd-nspawn", "-q", "-D", path, "-b", "--register=no", "--keep-unit"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        try:
            until(self.booted, LIMIT, "the system does not boot; see boot.log")
        except BaseException:
            self.close()
            raise

    def booted(self):
        assert self.nspawn.poll() is None, (self.path.parent / "boot.log").read_text(errors="replace")
        children = open(f"/proc/{self.nspawn.pid}/task/{self.nspawn.pid}/children").read().split()
        self.leader = children[0] if children else None
        # nspawn's child becomes systemd when the root is set up.
        return self.leader and open(f"/proc/{self.leader}/comm").read() == "systemd\n" and \
            self.attempt("systemctl", "is-system-running").stdout in ("running\n", "degraded\n")

    def close(self):
        self.nspawn.send_signal(signal.SIGTERM)  # shuts the system down
        self.nspawn.wait(LIMIT)
        self.log.close()

    def argv(self, *argv, user=None, **environ):
        variables = [f"{k}={v}" for k, v in {**ENVIRON, **environ}.items()]
        return ["nsenter", "-t", self.leader, "-m", "-u", "-i", "-p", "env", "-i", *variables,
                *(["runuser", "-u", user, "--"] if user else []), *map(str, argv)]

    def attempt(self, *argv, **more):
        return subprocess.run(self.argv(*argv, **more), text=True, capture_output=True)

    def run(self, *argv, **more):
        return run(*self.argv(*argv, **more))

    def copy(self, source, name=None):
        """Copies a file to /root, and returns its path in there."""
        target = self.path / "root" / (name or os.path.basename(source))
        shutil.copy(source, target)
        return "/root/" + target.name

    def show(self, unit, key):
        """One property of a unit."""
        return self.run("systemctl", "show", unit, "--value", f"--property={key}").strip()

    def journal(self, unit):
        return self.run("journalctl", "-u", unit, "-o", "cat", "--no-pager")

    def start_seconds(self, unit):
        """How long the last start of a unit took, until it said that it is ready."""
        keys = "ActiveEnterTimestampMonotonic", "InactiveExitTimestampMonotonic"
        active, begin = (int(self.show(unit, key)) for key in keys)
        return (active - begin) / 1e6

    def processes(self, unit):
        """The processes of a unit: their numbers on this machine, as the kernel's control groups list them."""
        group = self.show(unit, "ControlGroup")
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if re.search(rf"(?m)^\d+:name=systemd:.*{re.escape(group)}$|^0::.*{re.escape(group)}$",
                             open(f"/proc/{pid}/cgroup").read()):
                    found.append(int(pid))
            except FileNotFoundError:
                pass  # it ended
        return found
