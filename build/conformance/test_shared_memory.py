"""System shared memory, registered and used with the real client's utilities, over both protocols and in streams."""

import asyncio
import concurrent.futures
import os
import pathlib
import queue
import uuid

import numpy as np
import pytest
import tritonclient.grpc as tg
import tritonclient.grpc.aio as ga
import tritonclient.http as th
import tritonclient.http.aio as ha
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException, serialize_byte_tensor

import models
from harness import REFERENCE, Server, deviates, until
from models import TYPES
from regions import connected, shared_input, shared_output
from test_reliability import processes
from test_types import same, sample

ROW = np.arange(16, dtype=np.float32).reshape(1, 16)
UNTOUCHED = 0xEE


class Region:
    """A region with a unique name and key, created by the client's utility and filled with 0xEE."""

    def __init__(self, size, client=None):
        self.size, self.client = size, client
        self.name = "region_" + uuid.uuid4().hex
        self.key = "/nereid_test_" + uuid.uuid4().hex
        self.handle = shm.create_shared_memory_region(self.name, self.key, size)
        self.fill()
        if client is not None:
            client.register_system_shared_memory(self.name, self.key, size)

    def fill(self):
        shm.set_shared_memory_region(self.handle, [np.full(self.size, UNTOUCHED, np.uint8)])

    @property
    def path(self):
        return "/dev/shm" + self.key

    def bytes(self, offset=0, size=None):
        size = self.size - offset if size is None else size
        return shm.get_contents_as_numpy(self.handle, np.uint8, [size], offset).tobytes()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.client is not None:
            try:
                self.client.unregister_system_shared_memory(self.name)
            # Triton 2.51 counts a request as running until shortly after its answer
            except InferenceServerException as e:
                if not (REFERENCE and "it is currently in use" in e.message()):
                    raise
        try:
            shm.destroy_shared_memory_region(self.handle)
        except FileNotFoundError:
            pass  # the test unlinked it


@pytest.fixture(params=["http", "grpc"])
def client(request, server):
    with connected(server, request.param) as c:
        yield c


def names(client):
    status = client.get_system_shared_memory_status()
    if client.module is tg:
        return {n: (r.key, r.offset, r.byte_size) for n, r in status.regions.items()}
    return {r["name"]: (r["key"], r["offset"], r["byte_size"]) for r in status}


def output_of(module, result, name="OUTPUT0"):
    """Name, type, shape and parameters of an output in the response."""
    o = result.get_output(name)
    if module is tg:
        return o.name, o.datatype, list(o.shape), dict(o.parameters)
    return o["name"], o["datatype"], o["shape"], {k: v for k, v in o.items() if k not in ("name", "datatype", "shape")}


def test_B017_B065_register_status_unregister(client):
    before = names(client)
    with Region(256) as r, Region(256) as other:
        one, two = "one_" + r.name, "two_" + r.name
        client.register_system_shared_memory(one, r.key, 64, offset=0)
        client.register_system_shared_memory(two, other.key, 256)
        assert names(client) == {**before, one: (r.key, 0, 64), two: (other.key, 0, 256)}
        status = client.get_system_shared_memory_status(one)
        assert len(status.regions if client.module is tg else status) == 1
        with pytest.raises(InferenceServerException, match=f"shared memory region '{two}' already in manager"):
            client.register_system_shared_memory(two, r.key, 64)
        client.unregister_system_shared_memory(one)
        client.unregister_system_shared_memory(one)
        assert names(client) == {**before, two: (other.key, 0, 256)}
        with pytest.raises(InferenceServerException, match=f"Unable to find system shared memory region: '{one}'"):
            client.get_system_shared_memory_status(one)
        client.unregister_system_shared_memory()
        assert names(client) == {}


@pytest.mark.skipif(REFERENCE, reason="2.51 uses a closed descriptor: Invalid shared memory region")
def test_B017_B065_DV38_two_regions_of_one_object(client):
    with Region(256, client) as r:
        client.register_system_shared_memory("second_" + r.name, r.key, 64, offset=64)
        assert names(client)["second_" + r.name] == (r.key, 64, 64)
        client.unregister_system_shared_memory("second_" + r.name)


def test_B017_B065_the_protocols_share_one_registry(server):
    with th.InferenceServerClient(server.http) as h, tg.InferenceServerClient(server.grpc) as g:
        with Region(64, h) as r:
            assert g.get_system_shared_memory_status(r.name).regions[r.name].byte_size == 64
            g.unregister_system_shared_memory(r.name)
            assert all(s["name"] != r.name for s in h.get_system_shared_memory_status())


@pytest.mark.parametrize("datatype", TYPES)
def test_B050_input_and_output_of_each_type(client, datatype):
    x = sample(datatype)
    raw = serialize_byte_tensor(x).item() if datatype == "BYTES" else x.tobytes()
    n = len(raw)
    with Region(n + 24, client) as source, Region(n + 24, client) as target:
        shm.set_shared_memory_region(source.handle, [np.frombuffer(raw, np.uint8)], offset=8)
        r = client.infer(
            "id_" + datatype,
            [shared_input(client.module, source, n, x.shape, datatype, offset=8)],
            outputs=[shared_output(client.module, target, n, offset=8)],
        )
        assert output_of(client.module, r) == ("OUTPUT0", datatype, list(x.shape), {})
        edge = bytes([UNTOUCHED])
        assert target.bytes() == 8 * edge + raw + 16 * edge
        if datatype == "BYTES":
            got = shm.get_contents_as_numpy(target.handle, np.object_, list(x.shape), offset=8)
            assert got.tolist() == x.tolist()
        elif datatype != "BF16":
            same(shm.get_contents_as_numpy(target.handle, x.dtype, list(x.shape), offset=8), x)


def test_B050_only_the_input(client):
    with Region(64, client) as source:
        shm.set_shared_memory_region(source.handle, [ROW])
        r = client.infer("plain", [shared_input(client.module, source, 64, [1, 16], "FP32")])
        np.testing.assert_array_equal(r.as_numpy("OUTPUT0"), ROW)


def test_B050_only_the_output_in_a_larger_region(client):
    with Region(256, client) as target:
        i = client.module.InferInput("INPUT0", [1, 16], "FP32")
        i.set_data_from_numpy(ROW)
        r = client.infer("plain", [i], outputs=[shared_output(client.module, target, 256)])
        assert output_of(client.module, r) == ("OUTPUT0", "FP32", [1, 16], {})
        assert target.bytes() == ROW.tobytes() + bytes([UNTOUCHED]) * 192


def test_B050_mixed_with_ordinary_tensors(client):
    x = np.arange(16, dtype=np.int32).reshape(1, 16)
    with Region(128, client) as region:
        shm.set_shared_memory_region(region.handle, [x])
        plain = client.module.InferInput("INPUT1", [1, 16], "INT32")
        plain.set_data_from_numpy(x)
        r = client.infer(
            "sums",
            [shared_input(client.module, region, 64, [1, 16], "INT32"), plain],
            outputs=[client.module.InferRequestedOutput("OUTPUT0"),
                     shared_output(client.module, region, 64, "OUTPUT1", 64)],
        )
        np.testing.assert_array_equal(r.as_numpy("OUTPUT0"), 2 * x)
        assert region.bytes() == x.tobytes() + bytes(64)


def test_B050_two_inputs_in_one_region(client):
    x = np.arange(32, dtype=np.int32).reshape(2, 1, 16)
    with Region(256, client) as region:
        shm.set_shared_memory_region(region.handle, [x])
        ins = [shared_input(client.module, region, 64, [1, 16], "INT32", f"INPUT{k}", 64 * k) for k in (0, 1)]
        outs = [shared_output(client.module, region, 64, f"OUTPUT{k}", 128 + 64 * k) for k in (0, 1)]
        client.infer("sums", ins, outputs=outs)
        assert region.bytes(128) == (x[0] + x[1]).tobytes() + (x[0] - x[1]).tobytes()


def test_B050_reuses_the_same_objects(client):
    with Region(64, client) as source, Region(64, client) as target:
        ins = [shared_input(client.module, source, 64, [1, 16], "FP32")]
        outs = [shared_output(client.module, target, 64)]
        for k in range(50):
            shm.set_shared_memory_region(source.handle, [ROW + k])
            client.infer("batched", ins, outputs=outs)
            assert target.bytes() == (ROW + k).tobytes()


def test_B050_concurrent_requests(server):
    registered = set()

    async def one(c, module, k):
        with Region(128) as r:
            registered.add(r.name)
            await c.register_system_shared_memory(r.name, r.key, 128)
            shm.set_shared_memory_region(r.handle, [ROW + k])
            ins = [shared_input(module, r, 64, [1, 16], "FP32")]
            await c.infer("batched", ins, outputs=[shared_output(module, r, 64, offset=64)])
            assert r.bytes(64) == (ROW + k).tobytes()
            await c.unregister_system_shared_memory(r.name)

    async def run():
        async with ha.InferenceServerClient(server.http) as h, ga.InferenceServerClient(server.grpc) as g:
            await asyncio.gather(*(one(c, m, k) for k in range(50) for c, m in ((h, th), (g, tg))))
            assert [s for s in await h.get_system_shared_memory_status() if s["name"] in registered] == []

    asyncio.run(run())


def stream_results(c, n):
    results = queue.Queue()
    c.start_stream(callback=lambda result, error: results.put((result, error)))
    return lambda: [results.get(timeout=60) for _ in range(n)]


def test_B050_in_a_stream(server):
    with tg.InferenceServerClient(server.grpc) as c, Region(64 * 8, c) as source, Region(64 * 8, c) as target:
        shm.set_shared_memory_region(source.handle, [np.concatenate([ROW + k for k in range(8)])])
        results = stream_results(c, 8)
        for k in range(8):
            c.async_stream_infer(
                "plain",
                [shared_input(tg, source, 64, [1, 16], "FP32", offset=64 * k)],
                outputs=[shared_output(tg, target, 64, offset=64 * k)],
            )
        assert [e for _, e in results() if e] == []
        c.stop_stream()
        assert target.bytes() == source.bytes()


def test_B050_decoupled_responses_overwrite_the_region_in_order(server):
    with tg.InferenceServerClient(server.grpc) as c, Region(16, c) as source, Region(8, c) as target:
        shm.set_shared_memory_region(source.handle, [np.array([5, 6, 7], np.int32)])
        rest = []
        for name, value in (("DELAY", [0, 0, 0]), ("WAIT", [0])):
            i = tg.InferInput(name, [len(value)], "UINT32")
            i.set_data_from_numpy(np.array(value, np.uint32))
            rest.append(i)
        results = stream_results(c, 3)
        c.async_stream_infer(
            "repeat",
            [shared_input(tg, source, 12, [3], "INT32", "IN"), *rest],
            outputs=[shared_output(tg, target, 4, "OUT"), tg.InferRequestedOutput("IDX")],
        )
        got = results()
        c.stop_stream()
        assert [e for _, e in got if e] == []
        assert [int(r.as_numpy("IDX")[0]) for r, _ in got] == [0, 1, 2]
        assert target.bytes() == np.array([7], np.int32).tobytes() + bytes([UNTOUCHED]) * 4


def plain_from(client, region, size=64, offset=0, outputs=None):
    return client.infer("plain", [shared_input(client.module, region, size, [1, 16], "FP32", offset=offset)],
                        outputs=outputs)


def still_up(client):
    i = client.module.InferInput("INPUT0", [1, 16], "FP32")
    i.set_data_from_numpy(ROW)
    np.testing.assert_array_equal(client.infer("plain", [i]).as_numpy("OUTPUT0"), ROW)


@pytest.mark.skipif(REFERENCE, reason="2.51 does not guard its memory")
@pytest.mark.parametrize("form", ["{}", "/{}", "//{}"])
def test_C1_C2_memory_of_other_servers_is_refused(client, form):
    key = form.format("triton_python_backend_shm_region_0")
    with pytest.raises(InferenceServerException) as e:
        client.register_system_shared_memory("r", key, 64)
    assert e.value.message() == (
        f"cannot register shared memory region 'r' with key '{key}' as the key contains the reserved prefix "
        "'triton_python_backend_shm_region_'"
    )


@pytest.mark.skipif(REFERENCE, reason="2.51 opens them")
@pytest.mark.parametrize("form", ["./{}", "x/../{}", "%74riton_python_backend_shm_region_0", "%2f{}", "{}%00"])
def test_C1_other_forms_of_reserved_keys_are_refused(client, form):
    """No form of the key opens the object, though there is one of this name."""
    key = "triton_python_backend_shm_region_0"
    path = pathlib.Path("/dev/shm") / key
    there = path.exists()
    path.touch()
    try:
        with pytest.raises(InferenceServerException):
            client.register_system_shared_memory("r", form.format(key), 0)
        with pytest.raises(InferenceServerException):
            client.register_system_shared_memory("r", form.format(key), 64)
    finally:
        if not there:
            path.unlink()
    assert "r" not in names(client)


WAITS = """    def execute(self, requests):
        import os, time
        x = pb.get_input_tensor_by_name(requests[0], "INPUT0").as_numpy()
        if x[0, 0] == 666:
            os._exit(3)
        open("HERE/inside", "w").close()
        while not os.path.exists("HERE/open"):
            time.sleep(0.01)
        return [pb.InferenceResponse([pb.Tensor("OUTPUT0", x)])]
"""


@pytest.fixture
def waiting(tmp_path):
    """A server with a Python model that executes until the file "open" is there."""
    models.write_identity(tmp_path / "models", "plain")
    io = [("INPUT0", "FP32", [16])], [("OUTPUT0", "FP32", [16])]
    config = 'backend: "python"\nmax_batch_size: 8\n' + models.tensors("input", io[0]) + models.tensors("output", io[1])
    models.write(tmp_path / "models/waits/config.pbtxt", config)
    models.write(tmp_path / "models/waits/1/model.py", models.PYTHON_HEAD + WAITS.replace("HERE", str(tmp_path)))
    with Server(tmp_path / "models", tmp_path / "work") as s:
        yield s


def row_input(module, row):
    i = module.InferInput("INPUT0", [1, 16], "FP32")
    i.set_data_from_numpy(row)
    return i


@pytest.mark.skipif(REFERENCE, reason="the reference's Python models use /dev/shm")
def test_C1_C2_memory_of_processes_has_no_name_that_a_client_could_use(waiting, tmp_path):
    """What the server shares with a Python model is in no answer, metric or log line, and cannot be registered."""
    (tmp_path / "open").touch()
    shared = {}
    with connected(waiting, "http") as c:
        c.infer("waits", [row_input(th, ROW)])
        for pid in processes(waiting.process.pid):
            for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                if fd.is_symlink() and os.readlink(fd).startswith("/memfd:"):
                    shared[str(fd)] = os.readlink(fd).removeprefix("/memfd:").removesuffix(" (deleted)")
        assert shared, "nothing is shared, so the check is meaningless"
        keys = set(shared.values()) | {"memfd:" + name for name in shared.values()} | set(shared) \
            | {"../.." + fd for fd in shared}
        for key in keys:
            with pytest.raises(InferenceServerException):
                c.register_system_shared_memory("r", key, 1)
        with pytest.raises(InferenceServerException) as e:
            c.infer("waits", [row_input(th, np.full((1, 16), 666, np.float32))])
    said = e.value.message() + waiting.log() + waiting.request("GET", "/metrics", address=waiting.metrics).body.decode()
    assert "memfd" not in said and "/dev/shm" not in said and not any(fd in said for fd in shared), said


@pytest.mark.skipif(REFERENCE, reason="2.51 refuses to unregister a region that is in use")
@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("leave", ["unregister", "unlink", "both"])
def test_C6_a_region_that_leaves_during_a_request(waiting, tmp_path, protocol, leave):
    """The model executes while the regions of its input and output leave."""
    def infer():
        with connected(waiting, protocol) as c:
            c.infer("waits", [shared_input(c.module, source, 64, [1, 16], "FP32")],
                    outputs=[shared_output(c.module, target, 64)])

    with connected(waiting, protocol) as other, Region(64, other) as source, Region(64, other) as target, \
            concurrent.futures.ThreadPoolExecutor() as pool:
        shm.set_shared_memory_region(source.handle, [ROW])
        call = pool.submit(infer)
        try:
            until((tmp_path / "inside").exists, 60, "the model does not execute", waiting.log)
            for r in source, target:
                if leave != "unlink":
                    other.unregister_system_shared_memory(r.name)
                if leave != "unregister":
                    os.unlink(r.path)
        finally:
            (tmp_path / "open").touch()
        try:
            call.result(60)
            assert target.bytes() == ROW.tobytes()
        except InferenceServerException as e:
            assert target.name in e.message() and target.bytes() == bytes([UNTOUCHED]) * 64, e
        still_up(other)


@pytest.mark.skipif(REFERENCE, reason="the reference's Python models use /dev/shm")
def test_C2_the_server_creates_no_named_objects(server):
    """The server creates no named objects that clients could open."""
    for entry in os.listdir(f"/proc/{server.process.pid}/fd"):
        try:
            path = os.readlink(f"/proc/{server.process.pid}/fd/{entry}")
        except FileNotFoundError:
            continue
        assert not path.startswith("/dev/shm/")


@pytest.mark.parametrize("key", ["../../etc/hostname", "/../../etc/hostname", "", "/", "a/b", ".", "..", "k" * 300],
                         ids=lambda k: k[:20] or "empty")
def test_C3_invalid_keys_are_refused(client, key):
    with pytest.raises(InferenceServerException) as e:
        client.register_system_shared_memory("r", key, 64)
    refused = f"cannot register shared memory region 'r' - invalid shm key '{key}'"
    assert e.value.message() == deviates(f"Unable to open shared memory region: '{key}'", refused)
    assert "r" not in names(client)


@pytest.mark.parametrize("offset, size", [(2**64 - 1, 2), (2**63, 2**63), (1, 2**64 - 1), (65, 0), (0, 65)])
def test_C4_registrations_beyond_the_object_are_refused(client, offset, size):
    if REFERENCE and offset + size >= 2**64:
        pytest.skip("2.51 does not check the sum")
    with Region(64) as r:
        with pytest.raises(InferenceServerException, match=f"failed to register shared memory region '{r.name}'"):
            client.register_system_shared_memory(r.name, r.key, size, offset)


@pytest.mark.parametrize(
    "offset, size, text",
    [
        (64, 64, "Invalid offset for shared memory region: '{}'"),
        (8, 64, "Invalid offset \\+ byte size for shared memory region: '{}'"),
        (8, 2**63 - 1, "Invalid offset \\+ byte size for shared memory region: '{}'"),
    ],
)
def test_C4_tensors_beyond_the_region_are_refused(client, offset, size, text):
    with Region(64, client) as r, Region(64, client) as target:
        with pytest.raises(InferenceServerException, match=text.format(r.name)):
            plain_from(client, r, size, offset)
        with pytest.raises(InferenceServerException, match=text.format(target.name)):
            plain_from(client, r, outputs=[shared_output(client.module, target, size, offset=offset)])
        assert target.bytes() == bytes([UNTOUCHED]) * 64


@pytest.mark.skipif(REFERENCE, reason="2.51 crashes with SIGBUS")
def test_C5_a_shrunk_region_is_an_error_of_the_request(client):
    with Region(8192, client) as r:
        os.truncate(r.path, 32)
        with pytest.raises(InferenceServerException, match="the client may have shrunk it after its registration"):
            plain_from(client, r)
        with pytest.raises(InferenceServerException, match="the client may have shrunk it after its registration"):
            i = client.module.InferInput("INPUT0", [1, 16], "FP32")
            i.set_data_from_numpy(ROW)
            client.infer("plain", [i], outputs=[shared_output(client.module, r, 64)])
        assert os.stat(r.path).st_size == 32
        still_up(client)
        os.truncate(r.path, 8192)  # for the client's own mapping


def test_C6_unlinked_memory_stays_usable(client):
    with Region(64, client) as source, Region(64, client) as target:
        shm.set_shared_memory_region(source.handle, [ROW])
        for r in (source, target):
            os.unlink(r.path)
        plain_from(client, source, outputs=[shared_output(client.module, target, 64)])
        assert target.bytes() == ROW.tobytes()
        client.unregister_system_shared_memory(source.name)
        with pytest.raises(InferenceServerException, match=f"Unable to find shared memory region: '{source.name}'"):
            plain_from(client, source)
        for r in (source, target):  # the client's utility needs an object to unlink
            open(r.path, "wb").close()


def test_C7_an_output_larger_than_its_region(client):
    with Region(128, client) as source, Region(128, client) as target:
        shm.set_shared_memory_region(source.handle, [ROW])
        with pytest.raises(InferenceServerException) as e:
            plain_from(client, source, outputs=[shared_output(client.module, target, 63, offset=1)])
        assert e.value.message().endswith(
            "shared memory size specified with the request for output 'OUTPUT0' (63 bytes) should be at least 64 bytes "
            "to hold the results"
        )
        assert target.bytes() == bytes([UNTOUCHED]) * 128


def test_C7_an_output_without_bytes(client):
    with Region(128, client) as source, Region(128, client) as target:
        shm.set_shared_memory_region(source.handle, [ROW])
        with pytest.raises(InferenceServerException) as e:
            plain_from(client, source, outputs=[shared_output(client.module, target, 0)])
        assert e.value.message().endswith(f"Invalid offset + byte size for shared memory region: '{target.name}'")
        assert e.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")


def test_C8_the_same_memory_for_input_and_output(client):
    with Region(96, client) as r:
        shm.set_shared_memory_region(r.handle, [ROW])
        plain_from(client, r, outputs=[shared_output(client.module, r, 64, offset=32)])
        if not REFERENCE:  # the model reads the memory while it writes it
            assert r.bytes() == ROW.tobytes()[:32] + ROW.tobytes()
        still_up(client)


@pytest.mark.skipif(REFERENCE, reason="2.51 has no limit")
def test_C9_ten_thousand_registrations(good, tmp_path):
    with Server(good, tmp_path,
                "--model-control-mode=explicit") as s, tg.InferenceServerClient(s.grpc) as c, Region(64) as r:
        fds = f"/proc/{s.process.pid}/fd"
        before = len(os.listdir(fds))
        refused = 0
        for k in range(10_000):
            try:
                c.register_system_shared_memory(f"r{k}", r.key, 64)
            except InferenceServerException as e:
                assert "1024 regions are registered, which is the limit" in e.message()
                refused += 1
        assert refused == 10_000 - 1024
        c.unregister_system_shared_memory()
        assert len(c.get_system_shared_memory_status().regions) == 0
        until(lambda: len(os.listdir(fds)) <= before + 2, 60, "descriptors leaked")
        maps = pathlib.Path(f"/proc/{s.process.pid}/maps")
        until(lambda: r.key.strip("/") not in maps.read_text(), 60, "memory stays mapped", maps.read_text)
        c.register_system_shared_memory("again", r.key, 64)


DISABLED = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable."


@pytest.mark.skipif(REFERENCE, reason="2.51 has no such option")
@pytest.mark.parametrize(
    "options, allowed",
    [
        ([], True),
        (["--allow-client-shm=false"], False),
        (["--http-address=0.0.0.0", "--allow-anonymous"], False),
        (["--grpc-address=0.0.0.0", "--allow-anonymous"], False),
        (["--http-address=0.0.0.0", "--grpc-address=0.0.0.0", "--allow-anonymous", "--allow-client-shm=true"], True),
    ],
    ids=["loopback", "off", "http", "grpc", "on"],
)
def test_C10_B053_H086_off_beyond_loopback(good, tmp_path, options, allowed):
    with Server(good, tmp_path, "--model-control-mode=explicit", *options) as s, Region(64) as r:
        http = s.http.replace("0.0.0.0", "127.0.0.1")
        grpc = s.grpc.replace("0.0.0.0", "127.0.0.1")
        with th.InferenceServerClient(http) as h, tg.InferenceServerClient(grpc) as g:
            assert ("system_shared_memory" in h.get_server_metadata()["extensions"]) == allowed
            for c, code in ((h, "501"), (g, "StatusCode.UNIMPLEMENTED")):
                if allowed:
                    c.register_system_shared_memory(r.name, r.key, 64)
                    c.unregister_system_shared_memory(r.name)
                    continue
                for call in (
                    lambda c=c: c.register_system_shared_memory(r.name, r.key, 64),
                    lambda c=c: c.unregister_system_shared_memory(r.name),
                    lambda c=c: c.unregister_cuda_shared_memory(),
                ):
                    with pytest.raises(InferenceServerException) as e:
                        call()
                    assert (e.value.status(), e.value.message()) == (code, DISABLED)
            assert h.get_system_shared_memory_status() == []


def test_C10_CUDA_memory_without_a_GPU(client):
    empty = client.get_cuda_shared_memory_status()
    assert (len(empty.regions) if client.module is tg else len(empty)) == 0
    client.unregister_cuda_shared_memory()
    if REFERENCE:
        pytest.skip("the reference's build has CUDA")
    with pytest.raises(InferenceServerException,
                       match="failed to register CUDA shared memory region: 'g', GPUs not supported"):
        client.register_cuda_shared_memory("g", b"A" * 88, 0, 64)


@pytest.mark.skipif(REFERENCE, reason="tests an option of this server")
def test_direct_mapping_gives_the_same_answers(good, tmp_path):
    """The option changes how inputs are read, but not the answers."""
    with Server(good, tmp_path, "--client-shm-direct=true") as s, th.InferenceServerClient(s.http) as c:
        c.module = th
        with Region(256, c) as source, Region(64, c) as target:
            for offset in (0, 3, 128):  # aligned and not
                shm.set_shared_memory_region(source.handle, [ROW + offset], offset=offset)
                plain_from(c, source, offset=offset, outputs=[shared_output(th, target, 64)])
                assert target.bytes() == (ROW + offset).tobytes()
