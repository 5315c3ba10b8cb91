"""CUDA shared memory, created and registered in this process with the real client's utilities, and used by the server.

The driver is a simulation that behaves like NVIDIA's (gpus.py). make test-gpu runs the same tests on a real GPU."""

import asyncio
import base64
import queue
import re
import subprocess
import uuid

import numpy as np
import pytest
import tritonclient.grpc as tg
import tritonclient.grpc.aio as ga
import tritonclient.http as th
import tritonclient.http.aio as ha
import tritonclient.utils.shared_memory as system
from tritonclient.utils import InferenceServerException, serialize_byte_tensor

from gpus import REAL
from harness import BINARY, REFERENCE, ROOT, Server
from models import TYPES
from regions import connected, shared_input, shared_output
from test_types import sample

pytestmark = [
    pytest.mark.skipif(REFERENCE, reason="it would need a GPU"),
    pytest.mark.skipif(not (ROOT / ".cache/cuda/env").exists(),
                       reason="the program is built without CUDA: make setup-cuda says why"),
]

ROW = np.arange(16, dtype=np.float32).reshape(1, 16)
UNTOUCHED = 0xEE


@pytest.fixture(scope="module")
def cuda(machine):
    return machine.client()


@pytest.fixture(scope="module")
def on_gpus(good, machine, tmp_path_factory):
    with Server(good, tmp_path_factory.mktemp("cuda"), command=machine.command()) as s:
        yield s


@pytest.fixture(params=["http", "grpc"])
def client(request, on_gpus, cuda):
    with connected(on_gpus, request.param) as c:
        yield c


class Region:
    """GPU memory of this process, filled with 0xEE and registered if there is a client."""

    def __init__(self, cuda, size, client=None, device=0):
        self.cuda, self.size, self.client, self.device = cuda, size, client, device
        self.name = "region_" + uuid.uuid4().hex
        self.handle = cuda.create_shared_memory_region(self.name, size, device)
        cuda.set_shared_memory_region(self.handle, [np.full(size, UNTOUCHED, np.uint8)])
        self.raw = cuda.get_raw_handle(self.handle)
        if client is not None:
            client.register_cuda_shared_memory(self.name, self.raw, device, size)

    def set(self, *values):
        self.cuda.set_shared_memory_region(self.handle, list(values))

    def bytes(self):
        return self.cuda.get_contents_as_numpy(self.handle, np.uint8, [self.size]).tobytes()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.client is not None:
            self.client.unregister_cuda_shared_memory(self.name)
        self.free()

    def free(self):
        self.cuda.destroy_shared_memory_region(self.handle)
        self.handle = None  # the utility frees memory without references


def regions(client):
    status = client.get_cuda_shared_memory_status()
    if client.module is tg:
        return {n: (r.device_id, r.byte_size) for n, r in status.regions.items()}
    return {r["name"]: (r["device_id"], r["byte_size"]) for r in status}


def plain(client, source=None, target=None, size=64, offset=0):
    """Sends one row to the identity model. source and target are optional regions for input and output."""
    if source is None:
        i = client.module.InferInput("INPUT0", [1, 16], "FP32")
        i.set_data_from_numpy(ROW)
    else:
        i = shared_input(client.module, source, size, [1, 16], "FP32", offset=offset)
    return client.infer("plain", [i], outputs=None if target is None else [shared_output(client.module, target, 64)])


def refused(call, *args):
    with pytest.raises(InferenceServerException) as e:
        call(*args)
    assert e.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")
    return e.value.message()


def test_the_program_exports_no_driver_functions():
    """Libraries linked against libcuda.so.1, such as ONNX Runtime's CUDA provider, must get the driver's functions."""
    exported = subprocess.run(["nm", "-D", "--defined-only", BINARY], check=True, capture_output=True, text=True).stdout
    drivers = set(re.findall(r"\bcu[A-Z]\w*", (ROOT / ".cache/cuda/include/cuda.h").read_text()))
    assert {line.split()[-1] for line in exported.splitlines()} & drivers == set()
    needed = subprocess.run(["readelf", "-d", BINARY], check=True, capture_output=True, text=True).stdout
    assert "libcuda" not in needed


def test_B018_B066_the_extension_is_listed(client):
    found = client.get_server_metadata()
    assert "cuda_shared_memory" in (found.extensions if client.module is tg else found["extensions"])


def test_B018_B066_register_status_unregister(client, cuda, machine, on_gpus):
    with Region(cuda, 256) as r, Region(cuda, 512, device=machine.second) as other:
        one, two = "one_" + r.name, "two_" + r.name
        client.register_cuda_shared_memory(one, r.raw, 0, 64)
        client.register_cuda_shared_memory(two, other.raw, machine.second, 512)
        assert regions(client) == {one: (0, 64), two: (machine.second, 512)}
        status = client.get_cuda_shared_memory_status(two)
        assert len(status.regions if client.module is tg else status) == 1
        machine.holds(on_gpus.process, "open", 2)
        client.unregister_cuda_shared_memory(one)
        client.unregister_cuda_shared_memory(one)
        assert regions(client) == {two: (machine.second, 512)}
        with pytest.raises(InferenceServerException, match=f"Unable to find cuda shared memory region: '{one}'"):
            client.get_cuda_shared_memory_status(one)
        client.unregister_cuda_shared_memory()
        assert regions(client) == {}
        machine.holds(on_gpus.process, "open", 0)


def test_B018_B066_the_protocols_share_one_registry(on_gpus, cuda):
    with th.InferenceServerClient(on_gpus.http) as h, tg.InferenceServerClient(on_gpus.grpc) as g:
        h.module = th
        with Region(cuda, 64, h) as r:
            assert g.get_cuda_shared_memory_status(r.name).regions[r.name].byte_size == 64
            g.unregister_cuda_shared_memory(r.name)
            assert regions(h) == {}


@pytest.mark.parametrize("datatype", TYPES)
def test_B018_B066_input_and_output_of_each_type(client, cuda, machine, datatype):
    x = sample(datatype)
    raw = serialize_byte_tensor(x).item() if datatype == "BYTES" else x.tobytes()
    n, edge = len(raw), bytes([UNTOUCHED])
    with Region(cuda, n + 24, client) as source, Region(cuda, n + 24, client, machine.second) as target:
        source.set(np.frombuffer(8 * edge + raw, np.uint8))
        i = shared_input(client.module, source, n, x.shape, datatype, offset=8)
        r = client.infer("id_" + datatype, [i], outputs=[shared_output(client.module, target, n, offset=8)])
        o = r.get_output("OUTPUT0")
        got = (o.datatype, list(o.shape)) if client.module is tg else (o["datatype"], o["shape"])
        assert got == (datatype, list(x.shape))
        assert target.bytes() == 8 * edge + raw + 16 * edge


def test_B018_B066_the_client_reads_bytes_back(client, cuda):
    words = np.array([["a", "", "é", "x" * 100]], dtype=object)
    raw = serialize_byte_tensor(words)
    with Region(cuda, len(raw.item()), client) as source, Region(cuda, len(raw.item()), client) as target:
        source.set(raw)
        i = shared_input(client.module, source, source.size, [4], "BYTES")
        client.infer("id_BYTES", [i], outputs=[shared_output(client.module, target, target.size)])
        got = cuda.get_contents_as_numpy(target.handle, np.object_, [4])
        assert [b.decode() for b in got] == list(words[0])


def test_B018_B066_mixed_with_system_memory_and_ordinary_tensors(client, cuda):
    x = np.arange(16, dtype=np.int32).reshape(1, 16)
    key = "/nereid_test_" + uuid.uuid4().hex
    memory = system.create_shared_memory_region(key, key, 64)
    try:
        with Region(cuda, 64, client) as region:
            client.register_system_shared_memory("system_" + region.name, key, 64)
            region.set(x)
            ordinary = client.module.InferInput("INPUT1", [1, 16], "INT32")
            ordinary.set_data_from_numpy(3 * x)
            to_system = client.module.InferRequestedOutput("OUTPUT1")
            to_system.set_shared_memory("system_" + region.name, 64)
            r = client.infer("sums", [shared_input(client.module, region, 64, [1, 16], "INT32"), ordinary],
                             outputs=[client.module.InferRequestedOutput("OUTPUT0"), to_system])
            np.testing.assert_array_equal(r.as_numpy("OUTPUT0"), 4 * x)
            np.testing.assert_array_equal(system.get_contents_as_numpy(memory, np.int32, [1, 16]), -2 * x)
            client.unregister_system_shared_memory("system_" + region.name)
    finally:
        system.destroy_shared_memory_region(memory)


def test_B018_B066_repeated_requests(client, cuda):
    with Region(cuda, 64, client) as source, Region(cuda, 64, client) as target:
        for k in range(30):
            source.set(ROW + k)
            plain(client, source, target)
            assert target.bytes() == (ROW + k).tobytes()


def test_B018_B066_a_large_tensor(client, cuda):
    x = np.random.default_rng(5).standard_normal(4 << 20, np.float32)
    with Region(cuda, x.nbytes, client) as source, Region(cuda, x.nbytes, client) as target:
        source.set(x)
        i = shared_input(client.module, source, x.nbytes, x.shape, "FP32")
        client.infer("id_FP32", [i], outputs=[shared_output(client.module, target, x.nbytes)])
        assert target.bytes() == x.tobytes()


def test_B018_B066_concurrent_requests(on_gpus, cuda, machine):
    async def one(c, module, r):
        await c.register_cuda_shared_memory(r.name, r.raw, r.device, 128)
        ins = [shared_input(module, r, 64, [1, 16], "FP32")]
        await c.infer("batched", ins, outputs=[shared_output(module, r, 64, offset=64)])
        await c.unregister_cuda_shared_memory(r.name)

    async def run(all_):
        async with ha.InferenceServerClient(on_gpus.http) as h, ga.InferenceServerClient(on_gpus.grpc) as g:
            await asyncio.gather(*(one(*((h, th) if k % 4 < 2 else (g, tg)), r) for k, r in enumerate(all_)))

    all_ = [Region(cuda, 128, device=k % 2 * machine.second) for k in range(60)]
    for k, r in enumerate(all_):
        r.set(ROW + k)
    asyncio.run(run(all_))
    for k, r in enumerate(all_):
        assert r.bytes() == 2 * (ROW + k).tobytes()
        r.__exit__()


def test_B066_in_a_stream(on_gpus, cuda):
    with tg.InferenceServerClient(on_gpus.grpc) as c, Region(cuda, 64 * 8,
                                                             c) as source, Region(cuda, 64 * 8, c) as target:
        source.set(np.concatenate([ROW + k for k in range(8)]))
        results = queue.Queue()
        c.start_stream(callback=lambda result, error: results.put(error))
        for k in range(8):
            c.async_stream_infer("plain", [shared_input(tg, source, 64, [1, 16], "FP32", offset=64 * k)],
                                 outputs=[shared_output(tg, target, 64, offset=64 * k)])
        assert [e for e in (results.get(timeout=60) for _ in range(8)) if e] == []
        c.stop_stream()
        assert target.bytes() == source.bytes()


def test_B018_B066_system_and_cuda_regions_share_their_names(client, cuda):
    with Region(cuda, 64, client) as r:
        assert r.name in refused_exists(client.register_cuda_shared_memory, r.name, r.raw, 0, 64)
        key = "/nereid_test_" + uuid.uuid4().hex
        memory = system.create_shared_memory_region(key, key, 64)
        try:
            refused_exists(client.register_system_shared_memory, r.name, key, 64)
            client.unregister_system_shared_memory(r.name)  # has no effect: the region is of the other kind
            assert r.name in regions(client)
            with pytest.raises(InferenceServerException,
                               match="is registered as CUDA shared memory, not system shared memory"):
                client.get_system_shared_memory_status(r.name)
        finally:
            system.destroy_shared_memory_region(memory)


def refused_exists(call, *args):
    with pytest.raises(InferenceServerException, match="already in manager") as e:
        call(*args)
    return e.value.message()


def test_B018_B066_invalid_registrations_are_refused(client, cuda, machine, on_gpus):
    open_failed = "failed to register CUDA shared memory region 'r': failed to open CUDA IPC handle: "
    register = client.register_cuda_shared_memory
    assert refused(register, "r", base64.b64encode(bytes(64)), 0, 64).startswith(open_failed)
    with Region(cuda, 64) as r:
        assert refused(register, "r", r.raw, 64, 64) == open_failed + "invalid device ordinal"
        machine.fail("cuIpcOpenMemHandle", 2)
        try:
            assert refused(register, "r", r.raw, 0, 64) == open_failed + "out of memory"
        finally:
            machine.heal()
        assert refused(register, "r", base64.b64encode(bytes(64)), 0, 64) == open_failed + "invalid argument"
        assert refused(register, "r", r.raw, 1,
                       64) == open_failed + "peer access is not supported between these two devices"
        assert refused(register, "r", r.raw, 0, 65) == "failed to register shared memory region 'r': invalid args"
        assert refused(register, "r", r.raw, 0, 0) == "failed to register shared memory region 'r': invalid args"
        short = refused(register, "r", base64.b64encode(bytes(63)), 0, 64)
        assert short == ("'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t" if client.module is th else
                         "failed to register CUDA shared memory region 'r': its handle has 63 bytes, want 64")
    # the memory was freed
    assert refused(client.register_cuda_shared_memory, "r", r.raw, 0, 64) == open_failed + "invalid argument"
    assert regions(client) == {}
    machine.holds(on_gpus.process, "open", 0)


def test_C4_tensors_beyond_the_region_are_refused(client, cuda):
    with Region(cuda, 96) as r, Region(cuda, 64, client) as target:
        client.register_cuda_shared_memory(r.name, r.raw, 0, 80)  # the memory is larger than the region
        assert refused(plain, client, r, None, 64, 80) == f"Invalid offset for shared memory region: '{r.name}'"
        assert refused(plain, client, r, None, 64,
                       24) == f"Invalid offset + byte size for shared memory region: '{r.name}'"
        assert refused(plain, client, r, target, 2**63 - 1,
                       8) == f"Invalid offset + byte size for shared memory region: '{r.name}'"
        client.unregister_cuda_shared_memory(r.name)
        assert target.bytes() == bytes([UNTOUCHED]) * 64
        with pytest.raises(InferenceServerException, match=f"Unable to find shared memory region: '{r.name}'"):
            plain(client, r)


def test_C5_a_failed_device_is_an_error_of_the_request(client, cuda, machine):
    with Region(cuda, 64, client) as r:
        machine.fail("cuStreamSynchronize", 700)
        try:
            for source, target, verb in ((r, None, "read"), (None, r, "write")):
                assert (f"cannot {verb} 64 bytes at offset 0 of shared memory region '{r.name}': CUDA says an illegal "
                        "memory access was "
                        "encountered (CUDA_ERROR_ILLEGAL_ADDRESS)") in refused(plain, client, source, target)
        finally:
            machine.heal()
        plain(client, r, r)
        assert plain(client).as_numpy("OUTPUT0").tolist() == ROW.tolist()


@pytest.mark.skipif(REAL, reason="CUDA does not define this")
def test_C6_freed_memory_stays_usable(client, cuda):
    """Memory that the client frees remains valid while the server has it open."""
    source, target = Region(cuda, 64, client), Region(cuda, 64, client)
    source.set(ROW)
    source.free()
    plain(client, source, target)
    assert target.bytes() == ROW.tobytes()
    client.unregister_cuda_shared_memory(source.name)
    target.__exit__()


def test_C7_an_output_larger_than_its_region(client, cuda):
    with Region(cuda, 128, client) as source, Region(cuda, 128, client) as target:
        source.set(ROW)
        with pytest.raises(InferenceServerException,
                           match=r"for output 'OUTPUT0' \(63 bytes\) should be at least 64 bytes to hold the results"):
            client.infer("plain", [shared_input(client.module, source, 64, [1, 16], "FP32")],
                         outputs=[shared_output(client.module, target, 63, offset=1)])
        assert target.bytes() == bytes([UNTOUCHED]) * 128


def test_C8_the_same_memory_for_input_and_output(client, cuda):
    with Region(cuda, 96, client) as r:
        r.set(ROW)
        client.infer("plain", [shared_input(client.module, r, 64, [1, 16], "FP32")],
                     outputs=[shared_output(client.module, r, 64, offset=32)])
        assert r.bytes() == ROW.tobytes()[:32] + ROW.tobytes()


def test_C9_two_thousand_registrations(on_gpus, cuda, machine):
    with tg.InferenceServerClient(on_gpus.grpc) as c, Region(cuda, 64) as r, Region(cuda, 64) as other:
        full = 0
        for k in range(2000):
            try:
                c.register_cuda_shared_memory(f"r{k}", (r, other)[k % 2].raw, 0, 64)
            except InferenceServerException as e:
                assert "1024 regions are registered, which is the limit" in e.message()
                full += 1
        assert full == 2000 - 1024
        machine.holds(on_gpus.process, "open", 2)  # each handle is opened once
        c.unregister_cuda_shared_memory()
        machine.holds(on_gpus.process, "open", 0)


def test_C10_refused_without_a_driver_or_a_device_or_the_option(good, machine, cuda, tmp_path):
    """The server does not use the driver before a region is registered. A driver that fails does not stop the
    server."""
    gpus_not_supported = "failed to register CUDA shared memory region: 'r', GPUs not supported"
    machine.fail("cuInit", 100)
    try:
        with Server(good, tmp_path / "a", "--model-control-mode=explicit",
                    command=machine.command()) as s, Region(cuda, 64) as r:
            with tg.InferenceServerClient(s.grpc) as c:
                c.module = tg
                machine.holds(s.process, "context", 0)
                assert refused(c.register_cuda_shared_memory, "r", r.raw, 0, 64) == gpus_not_supported
                machine.heal()
                c.register_cuda_shared_memory("r", r.raw, 0, 64)
                machine.holds(s.process, "context", 1)
                assert s.stop() == 0
                machine.holds(s.process, "context", 0)
                machine.holds(s.process, "open", 0)
    finally:
        machine.heal()
    hidden = machine.command(CUDA_VISIBLE_DEVICES="")
    with Server(good, tmp_path / "b", "--model-control-mode=explicit",
                command=hidden) as s, tg.InferenceServerClient(s.grpc) as c:
        assert refused(c.register_cuda_shared_memory, "r", base64.b64encode(bytes(64)), 0, 64) == gpus_not_supported
    off = ["--model-control-mode=explicit", "--allow-client-shm=false"]
    with Server(good, tmp_path / "c", *off, command=machine.command()) as s, tg.InferenceServerClient(s.grpc) as c:
        with pytest.raises(InferenceServerException, match="Client shared memory is disabled"):
            c.register_cuda_shared_memory("r", base64.b64encode(bytes(64)), 0, 64)


def test_B018_B066_device_ids_are_those_visible_to_the_server(good, machine, cuda, tmp_path):
    """If CUDA_VISIBLE_DEVICES leaves one GPU, it is the server's device 0."""
    if machine.second == 0:
        pytest.skip("there is only one GPU")
    only = machine.command(CUDA_VISIBLE_DEVICES="1")
    with Server(good, tmp_path, "--model-control-mode=explicit",
                command=only) as s, tg.InferenceServerClient(s.grpc) as c:
        with Region(cuda, 64, device=1) as r:
            c.register_cuda_shared_memory("r", r.raw, 0, 64)
            assert c.get_cuda_shared_memory_status("r").regions["r"].device_id == 0
            assert refused(c.register_cuda_shared_memory, "s", r.raw, 1, 64).endswith("invalid device ordinal")
