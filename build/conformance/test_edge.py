"""--edge: the options for a small machine."""

import numpy as np
import pytest
import tritonclient.http as httpclient

from harness import REFERENCE, ROOT, Server, copy_tree

pytestmark = pytest.mark.skipif(REFERENCE, reason="Triton has no such option")


def test_a_server_with_edge_says_what_it_set_and_serves(tmp_path):
    for name in ("add_sub", "digits", "mlp"):
        copy_tree(ROOT / "models-sample" / name, tmp_path / "models" / name)
    with Server(tmp_path / "models", tmp_path, "--edge", "--keep-requests=5") as s:
        (line,) = [text for text in s.log().splitlines() if "--edge sets" in text]
        for setting in ("model-memory-budget=1GiB", "request-memory-limit=256MiB", "history-max-bytes=64MiB"):
            assert setting in line
        assert "keep-requests" not in line  # it was given
        values = np.arange(16, dtype=np.float32).reshape(1, 16)
        both = [httpclient.InferInput(n, [1, 16], "FP32") for n in ("INPUT0", "INPUT1")]
        for i in both:
            i.set_data_from_numpy(values)
        answer = httpclient.InferenceServerClient(s.http).infer("add_sub", both)
        assert (answer.as_numpy("OUTPUT0") == 2 * values).all()
