"""The examples of Triton's client repository: image_client, simple_*, grpc_explicit_*, reuse_infer_objects_client, ...

Each test makes the calls of an example with the real client, on models like those that the example uses."""

import asyncio
import queue
from functools import partial

import grpc
import numpy as np
import pytest
import tritonclient.grpc as tg
import tritonclient.grpc.aio as ga
import tritonclient.grpc.model_config_pb2 as mc
import tritonclient.http as th
import tritonclient.http.aio as ha
import tritonclient.utils.shared_memory as shm
from onnx import TensorProto
from PIL import Image
from tritonclient import utils
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException, triton_to_np_dtype

import models
from harness import REFERENCE, Server, until
from models import helper

pytestmark = pytest.mark.skipif(REFERENCE, reason="the reference has no ONNX backend")
COLOURS = ["red", "green", "blue"]


SEQUENCE = """max_batch_size: 8
sequence_batching {
  max_sequence_idle_microseconds: 5000000
  control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }
  control_input { name: "READY" control { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } }
  state { input_name: "SUM_IN" output_name: "SUM_OUT" data_type: TYPE_INT32 dims: 1 }
}
"""


def write_sequence(repo):
    """simple_sequence: the sum of the sequence's inputs so far, kept by the server."""
    i = [(n, "INT32", [1]) for n in ("INPUT", "START", "READY", "SUM_IN")]
    nodes = [helper.make_node("Sub", ["one", "START"], ["goes_on"]),
             helper.make_node("Mul", ["SUM_IN", "goes_on"], ["kept"]),
             helper.make_node("Mul", ["INPUT", "READY"], ["counts"]),
             helper.make_node("Add", ["kept", "counts"], ["OUTPUT"]),
             helper.make_node("Identity", ["OUTPUT"], ["SUM_OUT"])]
    one = [helper.make_tensor("one", TensorProto.INT32, [1], [1])]
    folder = repo / "simple_sequence"
    models.write(folder / "config.pbtxt", 'backend: "onnxruntime"\n' + models.tensors("input", i[:1])
                 + models.tensors("output", [("OUTPUT", "INT32", [1])]) + SEQUENCE)
    models.onnx_graph(folder / "1/model.onnx", nodes, i, [("OUTPUT", "INT32", [1]), ("SUM_OUT", "INT32", [1])], one)


def write_examples(repo):
    """Writes simple, simple_string, simple_identity, image models of both formats, and repeat_int32."""
    models.write_sums(repo, "simple")
    text = [(f"{kind}{i}", "BYTES", [16]) for kind in ("INPUT", "OUTPUT") for i in (0, 1)]
    cast = [helper.make_node("Cast", [f"INPUT{i}"], [f"i{i}"], to=TensorProto.INT32) for i in (0, 1)]
    sums = [helper.make_node(op, ["i0", "i1"], [f"o{i}"]) for i, op in enumerate(("Add", "Sub"))]
    back = [helper.make_node("Cast", [f"o{i}"], [f"OUTPUT{i}"], to=TensorProto.STRING) for i in (0, 1)]
    models.add_model(repo, "simple_string", "max_batch_size: 8\n", text[:2], text[2:], cast + sums + back, "")
    models.write_identity(repo, "simple_identity", dims=(-1,), datatype="BYTES")
    models.write_repeat(repo, "repeat_int32")
    write_sequence(repo)
    for name, shape, axes in (("densenet_onnx", [3, 224, 224], [2, 3]), ("inception_graphdef", [299, 299, 3], [1, 2])):
        nodes = [helper.make_node("ReduceMean", ["image"], ["class"], axes=axes, keepdims=0)]
        folder = models.add_model(repo, name, "max_batch_size: 4\n", [("image", "FP32", shape)],
                                  [("class", "FP32", [3])], nodes, "")
        kind = "FORMAT_NCHW" if shape[0] == 3 else "FORMAT_NHWC"
        config = (folder / "config.pbtxt").read_text().replace('"image" data_type', f'"image" format: {kind} data_type')
        models.write(folder / "config.pbtxt",
                     config.replace("dims: [ 3 ] }", 'dims: [ 3 ] label_filename: "labels.txt" }'))
        models.write(folder / "labels.txt", "\n".join(COLOURS) + "\n")
    return repo


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    work = tmp_path_factory.mktemp("examples")
    with Server(write_examples(work / "models"), work) as s:
        yield s


@pytest.fixture(params=["http", "grpc"])
def protocol(request):
    return request.param


def module_of(protocol):
    return {"http": th, "grpc": tg}[protocol]


def simple_inputs(module, model="simple"):
    a, b = np.arange(16, dtype=np.int32).reshape(1, 16), np.ones((1, 16), dtype=np.int32)
    kind = "INT32"
    if model == "simple_string":
        a, b = (np.array([str(x).encode("utf-8") for x in v.reshape(16)], dtype=np.object_).reshape(1, 16)
                for v in (a, b))
        kind = "BYTES"
    inputs = [module.InferInput("INPUT0", [1, 16], kind), module.InferInput("INPUT1", [1, 16], kind)]
    return inputs, a, b


def check_simple(results, a, b):
    for output, want in (("OUTPUT0", a.astype(np.int32) + b.astype(np.int32)),
                         ("OUTPUT1", a.astype(np.int32) - b.astype(np.int32))):
        got = results.as_numpy(output)
        assert got.astype(np.int32).tolist() == want.tolist()


# --- simple_*_infer_client, simple_*_string_infer_client, simple_*_async_infer_client, simple_*_aio_infer_client ---


def test_F046_I026_simple_http_infer(examples):
    """Mixed binary and JSON data, request parameters, query parameters, and each compression."""
    client = th.InferenceServerClient(url=examples.http, verbose=False)
    inputs, a, b = simple_inputs(th)
    inputs[0].set_data_from_numpy(a, binary_data=False)
    inputs[1].set_data_from_numpy(b, binary_data=True)
    outputs = [th.InferRequestedOutput("OUTPUT0", binary_data=True),
               th.InferRequestedOutput("OUTPUT1", binary_data=False)]
    for request, response in ((None, None), ("gzip", "gzip"), ("deflate", "deflate"), (None, "gzip"), ("gzip", None)):
        results = client.infer("simple", inputs, outputs=outputs, query_params={"test_1": 1, "test_2": 2},
                               headers={"test": "1"},
                               request_compression_algorithm=request, response_compression_algorithm=response)
        check_simple(results, a, b)
    results = client.infer("simple", inputs, outputs=None, request_id="1")
    check_simple(results, a, b)
    assert results.get_response()["id"] == "1"
    statistics = client.get_inference_statistics(model_name="simple")
    assert len(statistics["model_stats"]) == 1 and statistics["model_stats"][0]["inference_count"] >= 6
    with pytest.raises(InferenceServerException, match="Request for unknown model: 'wrong_model_name' is not found"):
        client.infer("wrong_model_name", inputs)
    client.close()


def test_F046_I026_simple_grpc_infer(examples):
    client = tg.InferenceServerClient(url=examples.grpc, verbose=False)
    inputs, a, b = simple_inputs(tg)
    inputs[0].set_data_from_numpy(a)
    inputs[1].set_data_from_numpy(b)
    outputs = [tg.InferRequestedOutput("OUTPUT0"), tg.InferRequestedOutput("OUTPUT1")]
    for compression in (None, "gzip", "deflate"):
        check_simple(client.infer(model_name="simple", inputs=inputs, outputs=outputs, client_timeout=120,
                                  headers={"test": "1"}, compression_algorithm=compression), a, b)
    statistics = client.get_inference_statistics(model_name="simple")
    assert len(statistics.model_stats) == 1
    with pytest.raises(InferenceServerException, match="Request for unknown model: 'wrong_model_name' is not found"):
        client.infer("wrong_model_name", inputs)
    client.close()


def test_F046_simple_string_infer(examples, protocol):
    module = module_of(protocol)
    with module.InferenceServerClient(getattr(examples, protocol)) as client:
        inputs, a, b = simple_inputs(module, "simple_string")
        inputs[0].set_data_from_numpy(a)
        inputs[1].set_data_from_numpy(b)
        outputs = [module.InferRequestedOutput("OUTPUT0"), module.InferRequestedOutput("OUTPUT1")]
        check_simple(client.infer("simple_string", inputs, outputs=outputs), a, b)
        wide = module.InferInput("INPUT0", [1, 3], "BYTES")
        wide.set_data_from_numpy(np.array([["", "a\x00b", "日本".encode()]], dtype=np.object_))
        got = client.infer("simple_identity", [wide]).as_numpy("OUTPUT0")
        assert got.tolist() == [[b"", b"a\x00b", "日本".encode()]]


def test_F046_simple_async_infer(examples, protocol):
    module = module_of(protocol)
    n = 8
    with module.InferenceServerClient(getattr(examples, protocol),
                                      **({"concurrency": n} if protocol == "http" else {})) as client:
        inputs, a, b = simple_inputs(module)
        inputs[0].set_data_from_numpy(a)
        inputs[1].set_data_from_numpy(b)
        if protocol == "http":
            for r in [client.async_infer("simple", inputs, query_params={"n": i}) for i in range(n)]:
                check_simple(r.get_result(), a, b)
            return
        done = queue.Queue()
        for _ in range(n):
            client.async_infer(model_name="simple", inputs=inputs,
                               callback=partial(lambda q, result, error: q.put((result, error)), done),
                               client_timeout=120)
        for _ in range(n):
            result, error = done.get(timeout=60)
            assert error is None
            check_simple(result, a, b)


def test_F046_simple_aio_infer(examples, protocol):
    async def run():
        module = {"http": ha, "grpc": ga}[protocol]
        async with module.InferenceServerClient(url=getattr(examples, protocol)) as client:
            inputs, a, b = simple_inputs(module)
            inputs[0].set_data_from_numpy(a)
            inputs[1].set_data_from_numpy(b)
            outputs = [module.InferRequestedOutput("OUTPUT0"), module.InferRequestedOutput("OUTPUT1")]
            for r in await asyncio.gather(*(client.infer("simple", inputs, outputs=outputs) for _ in range(4))):
                check_simple(r, a, b)

    asyncio.run(run())


def test_F046_reuse_infer_objects(examples, protocol):
    """The same objects are used for bytes, then for shared memory, then for bytes again."""
    module = module_of(protocol)
    with module.InferenceServerClient(getattr(examples, protocol)) as client:
        inputs, a, b = simple_inputs(module)
        inputs[0].set_data_from_numpy(a)
        inputs[1].set_data_from_numpy(b)
        outputs = [module.InferRequestedOutput("OUTPUT0"), module.InferRequestedOutput("OUTPUT1")]
        check_simple(client.infer("simple", inputs, outputs=outputs), a, b)
        with_shared_memory(client, inputs, outputs, a, b, "reuse_" + protocol)
        for i, v in zip(inputs, (a, b)):
            i.set_data_from_numpy(v)
        check_simple(client.infer("simple", inputs), a, b)


# --- simple_*_shm_client, simple_*_shm_string_client ---


def with_shared_memory(client, inputs, outputs, a, b, name):
    client.unregister_system_shared_memory()
    size = a.nbytes
    regions = {}
    try:
        for kind in ("input", "output"):
            regions[kind] = shm.create_shared_memory_region(f"{kind}_data", f"/{name}_{kind}", 2 * size)
            client.register_system_shared_memory(f"{kind}_data", f"/{name}_{kind}", 2 * size)
        shm.set_shared_memory_region(regions["input"], [a])
        shm.set_shared_memory_region(regions["input"], [b], offset=size)
        for k, (i, o) in enumerate(zip(inputs, outputs)):
            i.set_shared_memory("input_data", size, offset=k * size)
            o.set_shared_memory("output_data", size, offset=k * size)
        results = client.infer(model_name="simple", inputs=inputs, outputs=outputs)
        for k, want in enumerate((a + b, a - b)):
            got = results.get_output(f"OUTPUT{k}")
            shape, kind = (got["shape"], got["datatype"]) if isinstance(got, dict) else (got.shape, got.datatype)
            data = shm.get_contents_as_numpy(regions["output"], utils.triton_to_np_dtype(kind), shape, offset=k * size)
            assert data.tolist() == want.tolist()
        status = client.get_system_shared_memory_status()
        assert len(status) == 2 if isinstance(status, list) else len(status.regions) == 2
    finally:
        client.unregister_system_shared_memory()
        for r in regions.values():
            shm.destroy_shared_memory_region(r)
    assert not shm.mapped_shared_memory_regions()


def test_F046_simple_shm(examples, protocol):
    module = module_of(protocol)
    with module.InferenceServerClient(getattr(examples, protocol)) as client:
        inputs, a, b = simple_inputs(module)
        outputs = [module.InferRequestedOutput("OUTPUT0"), module.InferRequestedOutput("OUTPUT1")]
        with_shared_memory(client, inputs, outputs, a, b, "simple_" + protocol)


def test_F046_simple_shm_string(examples, protocol):
    module = module_of(protocol)
    with module.InferenceServerClient(getattr(examples, protocol)) as client:
        inputs, a, b = simple_inputs(module, "simple_string")
        serialized = [utils.serialize_byte_tensor(v) for v in (a, b)]
        sizes = [utils.serialized_byte_size(v) for v in serialized]
        key = f"/string_{protocol}_in"
        region = shm.create_shared_memory_region("string_data", key, sum(sizes))
        try:
            client.register_system_shared_memory("string_data", key, sum(sizes))
            shm.set_shared_memory_region(region, serialized)
            inputs[0].set_shared_memory("string_data", sizes[0])
            inputs[1].set_shared_memory("string_data", sizes[1], offset=sizes[0])
            check_simple(client.infer("simple_string", inputs), a, b)
        finally:
            client.unregister_system_shared_memory("string_data")
            shm.destroy_shared_memory_region(region)


def test_F046_simple_cudashm_without_a_gpu(examples, protocol):
    """The status and unregister calls of the CUDA examples succeed. A handle is refused, as by a Triton without
    GPUs."""
    module = module_of(protocol)
    with module.InferenceServerClient(getattr(examples, protocol)) as client:
        client.unregister_cuda_shared_memory()
        status = client.get_cuda_shared_memory_status()
        assert status == [] if isinstance(status, list) else len(status.regions) == 0
        with pytest.raises(InferenceServerException, match="failed to register CUDA shared memory region"):
            client.register_cuda_shared_memory("input_data", b"QUJDRA==" * 11, 0, 64)


# --- simple_*_sequence_sync_infer_client, simple_grpc_sequence_stream_infer_client,
# simple_grpc_aio_sequence_stream_infer_client ---

VALUES = [11, 7, 5, 3, 2, 0, 1]
# The requests of two sequences alternate. Ids are numbers or strings.
SEQUENCES = [pytest.param((1001, 1002), id="numbers"), pytest.param(("left", "right"), id="texts")]


def steps_of(sequences):
    """Returns the requests in their order: (sequence, value, first, last)."""
    for k, v in enumerate([0, *VALUES]):
        for sequence, sign in zip(sequences, (1, -1)):
            yield sequence, sign * v, k == 0, k == len(VALUES)


def sums_of(sequences):
    sums = np.cumsum([0, *VALUES]).tolist()
    return {sequences[0]: sums, sequences[1]: [-s for s in sums]}


def sequence_input(module, value):
    i = module.InferInput("INPUT", [1, 1], "INT32")
    i.set_data_from_numpy(np.full((1, 1), value, dtype=np.int32))
    return [i]


@pytest.mark.parametrize("sequences", SEQUENCES)
def test_F046_simple_sequence_sync(examples, protocol, sequences):
    module = module_of(protocol)
    got = {s: [] for s in sequences}
    with module.InferenceServerClient(getattr(examples, protocol)) as client:
        for sequence, value, first, last in steps_of(sequences):
            result = client.infer("simple_sequence", sequence_input(module, value),
                                  outputs=[module.InferRequestedOutput("OUTPUT")],
                                  sequence_id=sequence, sequence_start=first, sequence_end=last)
            got[sequence].append(int(result.as_numpy("OUTPUT")[0][0]))
    assert got == sums_of(sequences)


@pytest.mark.parametrize("sequences", SEQUENCES)
def test_F046_simple_sequence_stream(examples, sequences):
    done, got = queue.Queue(), {s: [] for s in sequences}
    with tg.InferenceServerClient(examples.grpc) as client:
        client.start_stream(callback=partial(lambda q, result, error: q.put((result, error)), done))
        n = 0
        for sequence, value, first, last in steps_of(sequences):
            client.async_stream_infer("simple_sequence", sequence_input(tg, value), request_id=f"{sequence}_{n}",
                                      sequence_id=sequence, sequence_start=first, sequence_end=last)
            n += 1
        for _ in range(n):
            result, error = done.get(timeout=60)
            assert error is None, error
            sequence = result.get_response().id.split("_")[0]
            got[sequence if sequence in got else int(sequence)].append(int(result.as_numpy("OUTPUT")[0][0]))
        client.stop_stream()
    assert got == sums_of(sequences)


@pytest.mark.parametrize("sequences", SEQUENCES)
def test_F046_simple_aio_sequence_stream(examples, sequences):
    async def run():
        got = {s: [] for s in sequences}

        async def requests():
            for n, (sequence, value, first, last) in enumerate(steps_of(sequences)):
                yield {"model_name": "simple_sequence", "inputs": sequence_input(ga, value),
                       "request_id": f"{sequence}_{n}",
                       "sequence_id": sequence, "sequence_start": first, "sequence_end": last}

        async with ga.InferenceServerClient(examples.grpc) as client:
            async for result, error in client.stream_infer(inputs_iterator=requests(), stream_timeout=120):
                assert error is None, error
                sequence = result.get_response().id.split("_")[0]
                got[sequence if sequence in got else int(sequence)].append(int(result.as_numpy("OUTPUT")[0][0]))
        return got

    assert asyncio.run(run()) == sums_of(sequences)


# --- simple_*_health_metadata, simple_*_model_control, keepalive and channel arguments ---


def test_F046_simple_health_metadata(examples, protocol):
    module = module_of(protocol)
    with module.InferenceServerClient(getattr(examples, protocol)) as client:
        more = {"query_params": {"test_1": 1}} if protocol == "http" else {}
        assert client.is_server_live(headers={"test": "1"},
                                     **more) and client.is_server_ready(headers={"test": "1"}, **more)
        assert client.is_model_ready("simple", headers={"test": "1"}, **more)
        server, model = client.get_server_metadata(), client.get_model_metadata("simple")
        config = client.get_model_config("simple")
        if protocol == "http":
            assert server["name"] == "triton" and "model_repository(unload_dependents)" in server["extensions"]
            assert model["name"] == "simple" and len(model["inputs"]) == 2 and config["name"] == "simple"
        else:
            assert server.name == "triton" and model.name == "simple" and config.config.name == "simple"
        with pytest.raises(InferenceServerException,
                           match="Request for unknown model: 'wrong_model_name' is not found"):
            client.get_model_metadata("wrong_model_name")


def test_F046_simple_model_control(examples, protocol, tmp_path):
    module = module_of(protocol)
    repo = tmp_path / "models"
    models.write_sums(repo, "simple")
    with Server(repo, tmp_path,
                "--model-control-mode=explicit") as s, module.InferenceServerClient(getattr(s, protocol)) as client:
        client.load_model("simple")
        assert client.is_model_ready("simple")
        client.unload_model("simple")
        assert not client.is_model_ready("simple")
        with pytest.raises(InferenceServerException,
                           match="failed to load 'wrong_model_name', failed to poll from model repository"):
            client.load_model("wrong_model_name")
        client.load_model("simple", config='{"max_batch_size": 2, "backend": "onnxruntime"}')
        config = client.get_model_config("simple")
        assert (config["max_batch_size"] if protocol == "http" else config.config.max_batch_size) == 2


def test_F046_simple_grpc_keepalive_and_channel_arguments(examples):
    for options in (
        {"keepalive_options": tg.KeepAliveOptions(keepalive_time_ms=2**31 - 1, keepalive_timeout_ms=20000,
                                                  keepalive_permit_without_calls=False,
                                                  http2_max_pings_without_data=2)},
        {"channel_args": [("grpc.primary_user_agent", "triton"), ("grpc.lb_policy_name", "pick_first"),
                          ("grpc.max_send_message_length", tg.MAX_GRPC_MESSAGE_SIZE)]},
    ):
        with tg.InferenceServerClient(url=examples.grpc, **options) as client:
            inputs, a, b = simple_inputs(tg)
            inputs[0].set_data_from_numpy(a)
            inputs[1].set_data_from_numpy(b)
            check_simple(client.infer("simple", inputs), a, b)


# --- simple_grpc_custom_repeat, grpc_client, grpc_explicit_*_content_client ---


def test_F046_simple_grpc_custom_repeat(examples):
    n, offset = 10, 100
    done = queue.Queue()
    with tg.InferenceServerClient(url=examples.grpc) as client:
        client.start_stream(callback=partial(lambda q, result, error: q.put((result, error)), done))
        inputs = [tg.InferInput("IN", [n], "INT32"), tg.InferInput("DELAY", [n], "UINT32"),
                  tg.InferInput("WAIT", [1], "UINT32")]
        inputs[0].set_data_from_numpy(np.arange(offset, offset + n, dtype=np.int32))
        inputs[1].set_data_from_numpy(np.ones(n, dtype=np.uint32))
        inputs[2].set_data_from_numpy(np.array([2], dtype=np.uint32))
        client.async_stream_infer(model_name="repeat_int32", inputs=inputs, request_id="0",
                                  outputs=[tg.InferRequestedOutput("OUT")])
        got = []
        while len(got) < n:
            result, error = done.get(timeout=60)
            assert error is None
            got.append(int(result.as_numpy("OUT")[0]))
        client.stop_stream()
    assert got == list(range(offset, offset + n))


def test_F046_grpc_client_and_explicit_contents(examples):
    """Each call of the generated stub, and the three ways to send a tensor."""
    with grpc.insecure_channel(examples.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        assert stub.ServerLive(service_pb2.ServerLiveRequest()).live
        assert stub.ServerReady(service_pb2.ServerReadyRequest()).ready
        assert stub.ModelReady(service_pb2.ModelReadyRequest(name="simple", version="")).ready
        assert stub.ServerMetadata(service_pb2.ServerMetadataRequest()).version == "2.51.0"
        assert stub.ModelMetadata(service_pb2.ModelMetadataRequest(name="simple", version="1")).name == "simple"
        assert stub.ModelConfig(service_pb2.ModelConfigRequest(name="simple", version="")).config.max_batch_size == 8

        def request(model, kind):
            r = service_pb2.ModelInferRequest(model_name=model, model_version="", id="my request id")
            for name in ("INPUT0", "INPUT1"):
                r.inputs.add(name=name, datatype=kind, shape=[1, 16])
            for name in ("OUTPUT0", "OUTPUT1"):
                r.outputs.add(name=name)
            return r

        raw = request("simple", "INT32")
        raw.raw_input_contents.extend([np.arange(16, dtype=np.int32).tobytes(), np.ones(16, dtype=np.int32).tobytes()])
        typed = request("simple", "INT32")
        typed.inputs[0].contents.int_contents[:] = range(16)
        typed.inputs[1].contents.int_contents[:] = [1] * 16
        text = request("simple_string", "BYTES")
        text.inputs[0].contents.bytes_contents[:] = [str(i).encode() for i in range(16)]
        text.inputs[1].contents.bytes_contents[:] = [b"1"] * 16
        for r in (raw, typed):
            response = stub.ModelInfer(r)
            assert response.id == "my request id" and response.outputs[0].shape == [1, 16]
            sums, differences = (np.frombuffer(c, dtype=np.int32).tolist() for c in response.raw_output_contents)
            assert sums == [i + 1 for i in range(16)] and differences == [i - 1 for i in range(16)]
        got = utils.deserialize_bytes_tensor(stub.ModelInfer(text).raw_output_contents[0])
        assert got.tolist() == [str(i + 1).encode() for i in range(16)]
        wrong = request("simple", "INT32")
        wrong.raw_input_contents.extend(raw.raw_input_contents)
        wrong.inputs[0].contents.int_contents[:] = range(16)
        with pytest.raises(grpc.RpcError, match="contents field must not be specified when using raw_input_contents"):
            stub.ModelInfer(wrong)


# --- image_client, grpc_image_client ---


def picture(colour, path):
    image = Image.new("RGB", (64, 48), (20, 20, 20))
    image.paste({"red": (250, 30, 10), "green": (10, 250, 30), "blue": (30, 10, 250)}[colour], (4, 4, 60, 44))
    image.save(path)
    return str(path)


def parse_model(metadata, config):
    """Returns the names of the input and the output, and the image's layout, from metadata and configuration."""
    assert len(metadata.inputs) == 1 and len(metadata.outputs) == 1 and len(config.input) == 1
    i = metadata.inputs[0]
    batched = config.max_batch_size > 0
    assert len(i.shape) == (4 if batched else 3)
    assert config.input[0].format in (mc.ModelInput.FORMAT_NCHW, mc.ModelInput.FORMAT_NHWC)
    first = i.shape[1 if batched else 0 :]
    c, h, w = first if config.input[0].format == mc.ModelInput.FORMAT_NCHW else (first[2], first[0], first[1])
    return config.max_batch_size, i.name, metadata.outputs[0].name, c, h, w, config.input[0].format, i.datatype


def preprocess(path, layout, datatype, c, h, w, scaling):
    image = Image.open(path).convert("L" if c == 1 else "RGB").resize((w, h), Image.BILINEAR)
    x = np.array(image).astype(triton_to_np_dtype(datatype))
    if scaling == "INCEPTION":
        x = (x / 127.5) - 1
    elif scaling == "VGG":
        x = x - np.asarray((123, 117, 104), dtype=x.dtype)
    return np.transpose(x, (2, 0, 1)) if layout == mc.ModelInput.FORMAT_NCHW else x


class Record(dict):
    def __getattr__(self, name):
        v = self[name]
        return [Record(x) if isinstance(x, dict) else x for x in v] if isinstance(v, list) else v


@pytest.mark.parametrize("protocol, mode", [("http", "sync"), ("http", "async"), ("grpc", "sync"), ("grpc", "async"),
                                            ("grpc", "streaming")])
@pytest.mark.parametrize("scaling", ["NONE", "INCEPTION", "VGG"])
@pytest.mark.parametrize("model", ["densenet_onnx", "inception_graphdef"])
def test_F046_image_client(examples, protocol, tmp_path, model, scaling, mode):
    """Three pictures in batches of two, with a padded last batch. Each gets its two best classes."""
    module = module_of(protocol)
    more = {"concurrency": 2} if protocol == "http" and mode == "async" else {}
    with module.InferenceServerClient(getattr(examples, protocol), **more) as client:
        metadata = client.get_model_metadata(model_name=model, model_version="")
        config = client.get_model_config(model_name=model, model_version="")
        if protocol == "http":
            metadata, config = Record(metadata), Record(config)
            config["input"][0]["format"] = getattr(mc.ModelInput, config["input"][0]["format"])
        else:
            config = config.config
        largest, input_name, output_name, c, h, w, layout, datatype = parse_model(metadata, config)
        batch = 2
        assert batch <= largest
        files = [picture(colour, tmp_path / f"{colour}.png") for colour in COLOURS]
        images = [preprocess(f, layout, datatype, c, h, w, scaling) for f in files]
        responses, at, sent, done = [], 0, 0, queue.Queue()
        if mode == "streaming":
            client.start_stream(partial(lambda q, result, error: q.put((result, error)), done))
        while at < len(images):
            data = np.stack([images[(at + k) % len(images)] for k in range(batch)])
            i = module.InferInput(input_name, data.shape, datatype)
            i.set_data_from_numpy(data)
            o = module.InferRequestedOutput(output_name, class_count=2)
            more = {"request_id": str(sent), "model_version": "", "outputs": [o]}
            if mode == "sync":
                responses.append(client.infer(model, [i], **more))
            elif mode == "streaming":
                client.async_stream_infer(model, [i], **more)
            elif protocol == "http":
                responses.append(client.async_infer(model, [i], **more))
            else:
                client.async_infer(model, [i], partial(lambda q, result, error: q.put((result, error)), done), **more)
            at, sent = at + batch, sent + 1
        if mode == "async" and protocol == "http":
            responses = [r.get_result() for r in responses]
        elif mode != "sync":
            got = [done.get(timeout=60) for _ in range(sent)]
            assert all(error is None for _, error in got)
            responses = sorted((r for r, _ in got), key=lambda r: int(r.get_response().id))
        if mode == "streaming":
            client.stop_stream()
        shown = []
        for r in responses:
            for classes in r.as_numpy(output_name):
                assert len(classes) == 2
                best = [entry.decode("utf-8").split(":") for entry in classes]
                assert float(best[0][0]) >= float(best[1][0]) and COLOURS[int(best[0][1])] == best[0][2]
                shown.append(best[0][2])
        if scaling != "VGG":  # the colours get different offsets
            assert shown == ["red", "green", "blue", "red"]
        else:
            assert len(shown) == 4


def test_F046_I025_memory_growth(examples, protocol):
    """Many requests with large and small tensors do not increase the server's memory."""
    module = module_of(protocol)
    with module.InferenceServerClient(getattr(examples, protocol)) as client:
        x = np.array([[b"x" * 4096] * 64], dtype=np.object_)
        i = module.InferInput("INPUT0", x.shape, "BYTES")
        i.set_data_from_numpy(x)

        def resident():
            with open(f"/proc/{examples.process.pid}/statm") as f:
                return int(f.read().split()[1]) * 4096

        for _ in range(100):
            client.infer("simple_identity", [i])
        before = resident()
        for _ in range(300):
            assert client.infer("simple_identity", [i]).as_numpy("OUTPUT0").shape == x.shape
        until(lambda: resident() - before < 32 << 20, 60, "the server has grown",
              lambda: f"from {before} to {resident()} bytes")
