"""Each example in docs/examples runs by one command, which its README names with what it prints."""

import re
import socket
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from fleet import EXAMPLES, lines, promised
from harness import BINARY, PYTHON_FIRST, REFERENCE, ROOT

pytestmark = pytest.mark.skipif(REFERENCE, reason="examples of this server")

# Those whose platform make test-fleet has are run there: test_fleet_NAME.py.
FLEET = {"eas", "helm", "kserve", "mlflow", "modelmesh", "ray"}
HERE = {"catalog": [], "ocr": [], "scale": [], "style": ["redrawn.png"]}


def free_ports(count):
    """The first of some ports in a row that are free. Others may take them before the example does."""
    for first in range(20000, 32000, count):
        sockets = []
        try:
            for port in range(first, first + count):
                sockets.append(socket.create_server(("127.0.0.1", port)))
            return first
        except OSError:
            continue
        finally:
            for s in sockets:
                s.close()
    raise AssertionError("no free ports")


def test_every_example_has_a_command():
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    assert folders == FLEET | set(HERE)
    missing = [name for name in FLEET if not (ROOT / f"build/conformance/test_fleet_{name}.py").exists()]
    assert not missing


@pytest.mark.parametrize("name", HERE)
def test_the_command_prints_what_the_readme_says(name, tmp_path):
    readme = (EXAMPLES / name / "README.md").read_text()
    (command,) = re.findall(r"^    PATH=\$PWD/build/bin:\$PATH (docs/examples/\S+/run\.sh)$", readme, re.M)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "nereid").symlink_to(BINARY)
    env = {"PATH": f"{programs}:{PYTHON_FIRST}", "HOME": str(Path.home()), "PORT": str(free_ports(3)),
           "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([ROOT / command], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert lines(done.stdout) == lines(promised(name)), done.stderr
    for file in HERE[name]:
        assert Image.open(tmp_path / file).size == (256, 256)
    left = [path.name for path in tmp_path.iterdir() if path.name not in {"bin", *HERE[name]}]
    assert not left, "the command leaves files"
