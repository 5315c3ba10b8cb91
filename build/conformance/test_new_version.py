"""--new-version-from: the server tells of a newer version, and asks for none without the option."""

import http.server
import subprocess
import threading

import pytest

from harness import REFERENCE, ROOT, Server, until

pytestmark = pytest.mark.skipif(REFERENCE, reason="Triton has no such option")

LINK = "https://example.com/releases"


@pytest.fixture
def text():
    """A server of a text; its list has the path of each request."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(f"v999.0.0\n{LINK}\n".encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/version.txt", asked
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """The program with a release number, which the linker sets as for a tagged commit, and a text next to it."""
    program = tmp_path_factory.mktemp("release") / "nereid"
    flags = "-ldflags=-s -w -X nereid/app.Version=v0.1.0"
    subprocess.run(["go", "build", flags, "-o", program, "."], check=True, cwd=ROOT)
    program.with_name("version.txt").write_text("0.1.1\n")
    return program


def told(program, work, *options):
    """What /api/server says of a new version, as soon as it says something."""
    def version():
        got = s.request("GET", "/api/server", address=s.ui_address).json["newVersion"]
        return got if got["version"] else None

    (work / "models").mkdir(exist_ok=True)
    with Server(work / "models", work, *options, command=[program, "serve"]) as s:
        return until(version, 60, "the page tells of no version", s.log) if options else version()


def test_a_release_tells_of_a_newer_version(tmp_path, release, text):
    url, asked = text
    assert told(release, tmp_path) is None
    assert asked == []
    assert told(release, tmp_path, "--new-version-from=" + url) == {"version": "999.0.0", "link": LINK}
    assert asked == ["/version.txt"]
    assert told(release, tmp_path, "--new-version-from=version.txt") == {"version": "0.1.1", "link": ""}
    assert asked == ["/version.txt"]
