"""Runs the commands of a page of docs/tutorials, and compares what they print with the page."""

import os
import pathlib
import re
import subprocess

from harness import BINARY, PYTHON_FIRST, ROOT, Server

LIMIT = 120  # seconds for the commands of a block


def blocks(page):
    """The page's blocks of code, as pairs of language and text."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(), re.S | re.M)


def agrees(printed, wanted):
    """Whether a block of output on a page describes what was printed. On the page … stands for any text."""
    pattern = re.escape(wanted.strip()).replace("…", ".*?")
    return re.fullmatch(pattern, printed.strip(), re.S) is not None


def run(name, work):
    """Runs the `sh` blocks of a page in their order. A block that begins with `nereid serve` starts a server, and ends
    the one before. A `text` block is what the block before it prints. Returns each command and what it printed."""
    for folder in ("docs", "models-sample"):
        (work / folder).symlink_to(ROOT / folder)
    path = os.pathsep.join([str(pathlib.Path(BINARY).parent), PYTHON_FIRST])
    server, done, compared = None, [], 0
    try:
        for language, text in blocks(ROOT / "docs/tutorials" / name):
            if language == "text":
                assert len(done) > compared, f"no command stands before {text}"
                command, printed = done[-1]
                assert agrees(printed, text), f"{command}\nprints\n{printed}\nand the page says\n{text}"
                compared = len(done)
            elif text.startswith("nereid serve"):
                if server:
                    server.stop()
                given = [o for o in text.split()[2:] if not o.startswith("--model-repository=")]
                server = Server(work / "models", work, *given,
                                wait="live" if "--model-control-mode=explicit" in given else "ready")
                server.start()
            elif language == "sh":
                done.append((text, _shell(text, work, path, server)))
    finally:
        if server:
            server.stop()
    return done


def _shell(text, work, path, server):
    env = {"PATH": path, "HOME": str(work)}
    if server:
        text = text.replace("localhost:8000", server.http).replace("localhost:8001", server.grpc)
        env["NEREID_URL"] = f"http://{server.http}"
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=work, env=env, capture_output=True, text=True,
                          timeout=LIMIT)
    assert done.returncode == 0, f"{text}\nends with {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout
