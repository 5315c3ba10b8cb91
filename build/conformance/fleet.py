"""What the tests of docs/examples for platforms share: environments of make setup-fleet, and runs of an example."""

import os
import re
import subprocess

from harness import BINARY, ROOT

EXAMPLES = ROOT / "docs/examples"


def environment(name, **more):
    """The variables that put an environment of make setup-fleet and the program under test first."""
    programs = ROOT / ".cache/fleet" / name / "bin"
    assert (programs / "python").exists(), f"{programs} is missing: run make test-fleet"
    path = os.pathsep.join((os.path.dirname(BINARY), str(programs), os.environ["PATH"]))
    return {**os.environ, "PATH": path, **{k: str(v) for k, v in more.items()}}


def run(argv, env, limit=300):
    """Runs a command of a platform and returns what it printed on standard output."""
    done = subprocess.run(list(map(str, argv)), env=env, capture_output=True, text=True, timeout=limit)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    return done.stdout


def promised(name, command=0):
    """What the README of an example says that a command prints, the first one if no other is named."""
    return re.findall(r"```text\n(.*?)```", (EXAMPLES / name / "README.md").read_text(), re.S)[command]


def lines(text):
    return [line.rstrip() for line in text.splitlines() if line.strip()]
