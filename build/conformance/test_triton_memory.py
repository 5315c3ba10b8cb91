"""make test-shim runs the tests of backend libraries with the address sanitizer, which would notice a fault."""

import pytest

from harness import REFERENCE, SANITIZED, Server
from test_triton_backends import infer, library, model

pytestmark = pytest.mark.skipif(REFERENCE, reason="needs a folder with the reference's own backends")


@pytest.mark.skipif(not SANITIZED, reason="make test-shim builds the program with the address sanitizer")
def test_the_address_sanitizer_notices_memory_that_is_used_after_it_is_freed(tmp_path):
    library("freed_test", tmp_path / "backends/freed_test", "-fno-builtin")
    model(tmp_path / "models", "m", "freed_test")
    with Server(tmp_path / "models", tmp_path, f"--backend-directory={tmp_path / 'backends'}") as server:
        server.faulty = True
        answer = infer(server, "m", [1])
        assert answer.status == 503, answer.body
        assert "AddressSanitizer: heap-use-after-free" in server.log()
