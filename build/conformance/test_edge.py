"""--edge: the options for a small machine."""

import os
import subprocess

import numpy as np
import pytest
import tritonclient.http as httpclient

from harness import BINARY, REFERENCE, ROOT, Server, copy_tree

pytestmark = pytest.mark.skipif(REFERENCE, reason="Triton has no such option")


def test_a_server_with_edge_says_what_it_set_and_serves(tmp_path):
    for name in ("add_sub", "digits", "mlp"):
        copy_tree(ROOT / "models-sample" / name, tmp_path / "models" / name)
    with Server(tmp_path / "models", tmp_path, "--edge", "--keep-requests=5") as s:
        (line,) = [text for text in s.log().splitlines() if "--edge sets" in text]
        for setting in ("model-memory-budget=1GiB", "request-memory-limit=256MiB", "history-max-bytes=64MiB"):
            assert setting in line
        assert "keep-requests" not in line  # it was given
        adds(s)


def adds(server):
    """Checks an answer of the ONNX model add_sub."""
    values = np.arange(16, dtype=np.float32).reshape(1, 16)
    both = [httpclient.InferInput(n, [1, 16], "FP32") for n in ("INPUT0", "INPUT1")]
    for i in both:
        i.set_data_from_numpy(values)
    answer = httpclient.InferenceServerClient(server.http).infer("add_sub", both)
    assert (answer.as_numpy("OUTPUT0") == 2 * values).all()


# Enters a root in which all is read-only but the folder that is named, if it is not empty.
READ_ONLY = """set -e
root="$1"; writable="$2"; shift 2
mount --rbind / "$root" && mount --make-rprivate "$root"
while read -r _ folder _; do case "$folder" in
    "$root"/proc*|"$root"/sys*) ;;
    "$root"*) mount -o remount,bind,ro "$folder" ;;
esac; done </proc/mounts
[ -z "$writable" ] || mount --bind "$writable" "$root$writable"
exec chroot "$root" env -u TMPDIR "$@"
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root may change mounts")
def test_a_read_only_machine(tmp_path):
    """One folder that may be written, such as a tmpfs, is enough. Without any, a line says what is needed."""
    root, models, work = tmp_path / "root", tmp_path / "models", tmp_path / "work"
    for folder in (root, work):
        folder.mkdir()
    copy_tree(ROOT / "models-sample/add_sub", models / "add_sub")

    def entered(writable, program):
        return ["unshare", "--mount", "sh", "-c", READ_ONLY, "enter", str(root), writable, *program]

    as_triton = tmp_path / "tritonserver"
    as_triton.symlink_to(BINARY)
    for program in ([BINARY, "serve"], [as_triton]):
        command = [*map(str, program), f"--model-repository={models}"]
        failed = subprocess.run(entered("", command), capture_output=True, text=True)
        (line,) = failed.stderr.splitlines()
        assert failed.returncode == 1
        assert "needs one folder that it may write" in line and "read-only file system" in line
        assert line.count("--data-dir=<folder>") == 1
    with Server(models, work, command=entered(str(work), [str(BINARY), "serve"])) as s:
        adds(s)
