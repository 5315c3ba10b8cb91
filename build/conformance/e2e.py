"""Runs the browser tests of the GUI (frontend/e2e) against a server with a copy of models-sample.

usage: e2e.py [firefox]        all in Chromium, or the main jobs in Firefox. NEREID is the path of the program,
                               NEREID_SHOTS the folder for screenshots
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from harness import ROOT, Server  # noqa: E402


def main() -> int:
    browser, script = ("firefox", "e2e/firefox.mjs") if sys.argv[1:] == ["firefox"] else ("chromium", "e2e/run.mjs")
    with tempfile.TemporaryDirectory(prefix="nereid-e2e-") as work:
        repo = pathlib.Path(work) / "models"
        shutil.copytree(ROOT / "models-sample", repo)
        empty = pathlib.Path(work) / "empty" / "models"
        empty.mkdir(parents=True)
        polls = ["--model-control-mode=poll", "--repository-poll-secs=1"]
        kiosk = ["--kiosk", "--kiosk-port=0", "--kiosk-models=digits,words,running_sum,add_sub"]
        with Server(repo, work, *polls, *kiosk) as server, Server(empty, empty.parent, *polls) as other:
            done = subprocess.run(["node", script, server.ui, other.ui, server.kiosk], cwd=ROOT / "frontend", timeout=1500,
                                  env={**os.environ, "NEREID_BROWSER": browser, "NEREID_PYTHON": sys.executable})
        print(server.log()[-6000:] if done.returncode else "", file=sys.stderr)
        return done.returncode


if __name__ == "__main__":
    sys.exit(main())
