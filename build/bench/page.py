"""How fast the page is with 100 models, a day of their history and 1,000,000 kept requests.

usage: page.py [DATA]
       page.py hour [MINUTES]

Fills the data folder DATA (build/bench/fill) if it is absent, starts a server with 100 builtin models on a copy of it,
and measures with frontend/e2e/speed.mjs in Chromium. With "hour": how much an open page grows (frontend/e2e/hour.mjs).
NEREID is the path of the program.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "conformance"))
from harness import ROOT, Server  # noqa: E402

CONFIG = """backend: "identity"
max_batch_size: 8
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""


def main() -> int:
    grows = sys.argv[1:2] == ["hour"]
    script, arguments = ("hour.mjs", sys.argv[2:]) if grows else ("speed.mjs", [])
    with tempfile.TemporaryDirectory(prefix="nereid-page-") as work:
        repository = pathlib.Path(work) / "models"
        for i in range(100):
            folder = repository / f"model_{i:02}"
            (folder / "1").mkdir(parents=True)
            (folder / "config.pbtxt").write_text(CONFIG)
        if not grows:
            data = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else f"{work}/filled").absolute()
            if not data.exists():
                subprocess.run(["go", "run", "./build/bench/fill", data], cwd=ROOT, check=True)
            shutil.copytree(data, f"{work}/data")
        with Server(repository, work) as server:
            command = ["node", f"e2e/{script}", server.ui, f"http://{server.http}", *arguments]
            return subprocess.run(command, cwd=ROOT / "frontend").returncode


if __name__ == "__main__":
    sys.exit(main())
