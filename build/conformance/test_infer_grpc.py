"""Inference over gRPC, with the real client and with raw stubs, and invalid requests."""

import struct

import grpc
import numpy as np
import pytest
import tritonclient.grpc as tg
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

ROW = np.arange(16, dtype="<i4")


@pytest.fixture(scope="module")
def stub(server):
    with grpc.insecure_channel(server.grpc) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def tensor(name="INPUT0", datatype="INT32", shape=(1, 16), **contents):
    t = pb.ModelInferRequest.InferInputTensor(name=name, datatype=datatype, shape=list(shape))
    for field, values in contents.items():
        getattr(t.contents, field).extend(values)
    return t


def sums(first=None, second=None, raw=(ROW.tobytes(), ROW.tobytes()), **more):
    return pb.ModelInferRequest(
        model_name="sums", inputs=[first or tensor(), second or tensor("INPUT1")], raw_input_contents=list(raw), **more
    )


def values(response, index=0, dtype="<i4"):
    return np.frombuffer(response.raw_output_contents[index], dtype).tolist()


def test_B060_raw_contents(stub):
    r = stub.ModelInfer(sums(id="7"))
    assert (r.model_name, r.model_version, r.id) == ("sums", "1", "7")
    got = [(o.name, o.datatype, list(o.shape)) for o in r.outputs]
    assert got == [("OUTPUT0", "INT32", [1, 16]), ("OUTPUT1", "INT32", [1, 16])]
    assert values(r) == (2 * ROW).tolist() and values(r, 1) == [0] * 16


def test_B060_typed_contents(stub):
    r = stub.ModelInfer(sums(tensor(int_contents=range(16)), tensor("INPUT1", int_contents=range(16)), raw=()))
    assert values(r) == (2 * ROW).tolist()


TYPED = [
    ("BOOL", "bool_contents", [True, False, True], "?"),
    ("UINT8", "uint_contents", [0, 7, 255], "<u1"),
    ("UINT16", "uint_contents", [0, 7, 65535], "<u2"),
    ("UINT32", "uint_contents", [0, 7, 2**32 - 1], "<u4"),
    ("UINT64", "uint64_contents", [0, 7, 2**64 - 1], "<u8"),
    ("INT8", "int_contents", [-128, 0, 127], "<i1"),
    ("INT16", "int_contents", [-(2**15), 0, 2**15 - 1], "<i2"),
    ("INT32", "int_contents", [-(2**31), 0, 2**31 - 1], "<i4"),
    ("INT64", "int64_contents", [-(2**63), 0, 2**63 - 1], "<i8"),
    ("FP32", "fp32_contents", [0.5, -1.25, 3e38], "<f4"),
    ("FP64", "fp64_contents", [0.1, -1e300, 5e-324], "<f8"),
]


@pytest.mark.parametrize("datatype, field, data, dtype", TYPED, ids=[t[0] for t in TYPED])
def test_B060_typed_contents_of_each_type(stub, datatype, field, data, dtype):
    r = stub.ModelInfer(pb.ModelInferRequest(model_name="id_" + datatype,
                                             inputs=[tensor("INPUT0", datatype, [3], **{field: data})]))
    assert values(r, 0, dtype) == np.array(data, dtype).tolist()


def test_B060_typed_bytes_with_nul(stub):
    t = tensor("INPUT0", "BYTES", [3], bytes_contents=[b"a", b"b\x00c", b""])
    r = stub.ModelInfer(pb.ModelInferRequest(model_name="id_BYTES", inputs=[t]))
    assert r.raw_output_contents[0] == struct.pack("<I1sI3sI", 1, b"a", 3, b"b\x00c", 0)


def test_B025_one_output(stub):
    r = stub.ModelInfer(sums(outputs=[pb.ModelInferRequest.InferRequestedOutputTensor(name="OUTPUT1")]))
    assert [o.name for o in r.outputs] == ["OUTPUT1"] and len(r.raw_output_contents) == 1


def test_B049_classification(server):
    with tg.InferenceServerClient(server.grpc) as c:
        i = tg.InferInput("INPUT0", [1, 16], "FP32")
        i.set_data_from_numpy(np.arange(16, dtype=np.float32).reshape(1, 16))
        r = c.infer("labelled", [i], outputs=[tg.InferRequestedOutput("OUTPUT0", class_count=2)])
        assert r.as_numpy("OUTPUT0").tolist() == [[b"15.000000:15:label15", b"14.000000:14:label14"]]


def test_B060_client_and_request_id(server, sixteen):
    with tg.InferenceServerClient(server.grpc) as c:
        inputs = [tg.InferInput(n, [1, 16], "INT32") for n in ("INPUT0", "INPUT1")]
        for i in inputs:
            i.set_data_from_numpy(sixteen)
        r = c.infer("sums", inputs, request_id="r1", priority=1, timeout=1_000_000, parameters={"mine": "x"})
        assert r.get_response().id == "r1"
        np.testing.assert_array_equal(r.as_numpy("OUTPUT0"), 2 * sixteen)
        for way in ("gzip", "deflate"):
            np.testing.assert_array_equal(c.infer("sums", inputs, compression_algorithm=way).as_numpy("OUTPUT1"),
                                          0 * sixteen)


def test_B060_client_async_calls(server):
    """Each of many concurrent requests gets the answer to its own row."""
    import queue

    done = queue.Queue()
    with tg.InferenceServerClient(server.grpc) as c:
        for k in range(100):
            x = np.full([1, 16], k, np.float32)
            i = tg.InferInput("INPUT0", x.shape, "FP32")
            i.set_data_from_numpy(x)
            c.async_infer("batched", [i], callback=lambda result, error, x=x: done.put((x, result, error)))
        for _ in range(100):
            x, result, error = done.get(timeout=60)
            assert error is None
            np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), x)


def test_B071_unknown_shared_memory(stub):
    request_ = sums()
    del request_.raw_input_contents[:]
    for i in request_.inputs:
        i.parameters["shared_memory_region"].string_param = "none"
        i.parameters["shared_memory_byte_size"].int64_param = 64
    with pytest.raises(grpc.RpcError) as e:
        stub.ModelInfer(request_)
    assert (e.value.code().name, e.value.details()) == ("NOT_FOUND", "Unable to find shared memory region: 'none'")


def test_B070_large_messages(server):
    """16 MiB each way, which is above gRPC's default limit of 4 MiB."""
    x = np.arange(4 << 20, dtype=np.int32)
    with tg.InferenceServerClient(server.grpc) as c:
        i = tg.InferInput("INPUT0", x.shape, "INT32")
        i.set_data_from_numpy(x)
        np.testing.assert_array_equal(c.infer("id_INT32", [i]).as_numpy("OUTPUT0"), x)


def test_unknown_protobuf_fields_are_ignored(server):
    """Unknown fields from newer clients are ignored."""
    with grpc.insecure_channel(server.grpc) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer", None, pb.ModelInferResponse.FromString)
        extra = b"\xfa\x3f\x03new" + b"\xc0\x3e\x05"  # field 1023 as bytes, field 1000 as varint
        assert values(call(sums().SerializeToString() + extra)) == (2 * ROW).tolist()


def test_garbage_is_refused(server, stub):
    with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as e:
        channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")(b"\x0a\xff\xff\xff\xff\x0f")
    assert e.value.code() in (grpc.StatusCode.INTERNAL, grpc.StatusCode.INVALID_ARGUMENT)
    assert values(stub.ModelInfer(sums())) == (2 * ROW).tolist()
