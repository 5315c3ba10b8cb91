"""The desktop build: a real window under Xvfb that shows the page which a browser gets."""

import os
import pathlib
import shutil
import subprocess

import pytest
from PIL import Image

import models
from harness import ROOT, REFERENCE, Server, until

pytestmark = [pytest.mark.desktop, pytest.mark.skipif(REFERENCE, reason="about this program's window")]
DESKTOP = os.environ.get("NEREID_DESKTOP", str(ROOT / "build/bin/nereid-desktop"))
SHOTS = pathlib.Path(os.environ.get("SHOTS", ROOT / ".cache/test-logs/desktop"))


@pytest.fixture
def display():
    """A virtual screen of its own; the value for DISPLAY."""
    for program in ("Xvfb", "xdotool", "import"):
        assert shutil.which(program), f"{program} is missing; run build/setup/system.sh test"
    read, write = os.pipe()
    xvfb = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "1400x900x24", "-nolisten", "tcp"],
        pass_fds=[write],
        stderr=subprocess.DEVNULL,
    )
    os.close(write)
    with os.fdopen(read) as f:
        number = f.readline().strip()
    assert number, "Xvfb did not start"
    yield ":" + number
    xvfb.terminate()
    xvfb.wait()


def test_window_shows_the_page(tmp_path, display):
    repo = tmp_path / "models"
    models.write_identity(repo, "shown_in_window")
    env = {**os.environ, "DISPLAY": display, "LANG": "C.UTF-8", "LIBGL_ALWAYS_SOFTWARE": "1", "WEBKIT_DISABLE_COMPOSITING_MODE": "1"}
    if os.geteuid() == 0:
        env["WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS"] = "1"
    argv = [DESKTOP, f"--model-repository={repo}", f"--data-dir={tmp_path / 'data'}"]
    argv += [f"--{p}-port=0" for p in ("http", "grpc", "metrics", "ui")]
    log = open(tmp_path / "window.log", "wb")
    program = subprocess.Popen(argv, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    def text():
        return (tmp_path / "window.log").read_text(errors="replace")

    def window():
        assert program.poll() is None, text()
        found = subprocess.run(
            ["xdotool", "search", "--onlyvisible", "--name", "Nereid"], env=env, capture_output=True, text=True
        ).stdout.split()
        return found[0] if found else None

    SHOTS.mkdir(parents=True, exist_ok=True)
    shot = SHOTS / "window.png"

    def painted():
        """The window's picture has text in it: many shades, not one colour."""
        subprocess.run(["import", "-window", "root", str(shot)], env=env, check=True)
        with Image.open(shot) as picture:
            grey = picture.convert("L").resize((700, 450))
            counts = sorted(grey.histogram(), reverse=True)
            return counts[0] < 0.97 * 700 * 450 and sum(1 for c in counts if c > 20) > 20

    try:
        until(window, 60, "no window named Nereid", text)
        until(painted, 60, f"the window stays blank, see {shot}", text)
        # The same loopback server answers a browser, and the page in the window has asked it for its data.
        assert "Started HTTPService at" in text()
    finally:
        program.terminate()
        try:
            program.wait(20)
        finally:
            log.close()
    assert program.returncode == 0, text()
