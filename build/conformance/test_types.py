"""Sends every data type through an identity model with the real client, over both protocols, as binary and as JSON."""

import ml_dtypes
import numpy as np
import pytest
import tritonclient.grpc as tg
import tritonclient.http as th
from tritonclient.utils import triton_to_np_dtype

from models import TYPES

rng = np.random.default_rng(7)


def sample(datatype):
    """Values of the type, including its smallest and its largest value."""
    if datatype == "BYTES":
        return np.array([b"", b"a", b"nul\x00inside", b"\xff\xfe not utf-8", "日本".encode(), bytes(1000)],
                        dtype=np.object_)
    if datatype == "BOOL":
        return np.array([True, False, False, True])
    if datatype == "BF16":
        return np.array([0.0, -0.0, 1.0, -2.5, 3.3895314e38, np.inf, -np.inf, np.nan], dtype=ml_dtypes.bfloat16)
    dtype = np.dtype(triton_to_np_dtype(datatype))
    if dtype.kind == "f":
        i = np.finfo(dtype)
        return np.array([0, -0.0, 1.5, i.max, i.min, i.tiny, i.smallest_subnormal, np.inf, -np.inf, np.nan],
                        dtype=dtype)
    i = np.iinfo(dtype)
    return np.concatenate([np.array([i.min, i.max, 0, 1], dtype=dtype), rng.integers(i.min, i.max, 50, dtype=dtype)])


def same(got, want):
    assert got.shape == want.shape
    if want.dtype == np.object_:
        assert got.tolist() == want.tolist()
    else:
        assert got.dtype == want.dtype and got.tobytes() == want.tobytes()


@pytest.mark.parametrize("datatype", TYPES)
def test_B027_over_grpc(server, datatype):
    x = sample(datatype)
    with tg.InferenceServerClient(server.grpc) as c:
        i = tg.InferInput("INPUT0", x.shape, datatype)
        i.set_data_from_numpy(x)
        same(c.infer("id_" + datatype, [i]).as_numpy("OUTPUT0"), x)


@pytest.mark.parametrize("datatype", TYPES)
def test_B027_B031_B032_over_http_binary(server, datatype):
    x = sample(datatype)
    with th.InferenceServerClient(server.http) as c:
        i = th.InferInput("INPUT0", x.shape, datatype)
        i.set_data_from_numpy(x, binary_data=True)
        o = th.InferRequestedOutput("OUTPUT0", binary_data=True)
        same(c.infer("id_" + datatype, [i], outputs=[o]).as_numpy("OUTPUT0"), x)


@pytest.mark.parametrize("datatype", [t for t in TYPES if t not in ("FP16", "BF16", "BYTES")])
def test_B027_over_http_json(server, datatype):
    x = sample(datatype)
    if x.dtype.kind == "f":
        x = x[np.isfinite(x)]  # the client does not encode the others as JSON
    with th.InferenceServerClient(server.http) as c:
        i = th.InferInput("INPUT0", x.shape, datatype)
        i.set_data_from_numpy(x, binary_data=False)
        o = th.InferRequestedOutput("OUTPUT0", binary_data=False)
        same(c.infer("id_" + datatype, [i], outputs=[o]).as_numpy("OUTPUT0"), x)


def test_B029_bytes_over_http_json(server):
    x = np.array(["", "a", 'quote " and \\', "日本", "tab\t"], dtype=np.object_)
    with th.InferenceServerClient(server.http) as c:
        i = th.InferInput("INPUT0", x.shape, "BYTES")
        i.set_data_from_numpy(x, binary_data=False)
        o = th.InferRequestedOutput("OUTPUT0", binary_data=False)
        assert c.infer("id_BYTES", [i], outputs=[o]).as_numpy("OUTPUT0").tolist() == x.tolist()
