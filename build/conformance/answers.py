"""Sends one inference through any interface of the real clients, and returns the answer as plain JSON.

An answer contains no times, no message sizes and nothing that names the backend. So the answers of two servers can be
compared directly. An answer is {"model", "version", "id", "parameters", "outputs": [{"name", "datatype", "shape",
"binary", "values"}]} or {"error", "code"}. A stream returns a list of them.
"""

import asyncio
import hashlib
import json
import queue
import re

import numpy as np
import tritonclient.grpc as tg
import tritonclient.grpc.aio as ga
import tritonclient.http as th
import tritonclient.http.aio as ha
from tritonclient.utils import InferenceServerException, triton_to_np_dtype

LIMIT = 30  # seconds; timeout of one answer


def show(a):
    """The elements as JSON values: floats by repr, bytes as Latin-1. A large array is replaced by its hash."""
    if a is None:
        return None
    if a.size > 64:
        raw = b"".join(x for x in a.ravel()) if a.dtype == np.object_ else np.ascontiguousarray(a).tobytes()
        return {"count": int(a.size), "sha256": hashlib.sha256(raw).hexdigest()}
    if a.dtype == np.object_:
        return [x.decode("latin-1") if isinstance(x, bytes) else str(x) for x in a.ravel()]
    if a.dtype.kind in "biu":
        return a.ravel().tolist()
    return [repr(float(x)) for x in a.ravel()]


def fault(e):
    """The message of a client's exception, without the names of folders and threads."""
    text = re.sub(r"/[^ ';]*/models/", "<repository>/", e.message() or "")
    return {"error": text, "code": e.status()}


def parameters(p):
    """The parameters of a gRPC message or of an HTTP object."""
    return {k: (getattr(v, v.WhichOneof("parameter_choice")) if hasattr(v, "WhichOneof") else v) for k,
            v in sorted(p.items())}


def result(r):
    """The answer in the InferResult of any client."""
    m = r.get_response(as_json=False) if isinstance(r, tg.InferResult) else r.get_response()
    if isinstance(m, dict):
        outputs = [
            {
                "name": o["name"],
                "datatype": o["datatype"],
                "shape": o["shape"],
                "binary": "data" not in o,
                "values": show(r.as_numpy(o["name"])),
            }
            for o in m.get("outputs", [])
        ]
        head = {"model": m["model_name"], "version": m["model_version"], "id": m.get("id", "")}
        return {**head, "parameters": parameters(m.get("parameters", {})), "outputs": outputs}
    outputs = [
        {"name": o.name, "datatype": o.datatype, "shape": list(o.shape), "binary": True,
         "values": show(r.as_numpy(o.name))}
        for o in m.outputs
    ]
    return {"model": m.model_name, "version": m.model_version, "id": m.id, "parameters": parameters(m.parameters),
            "outputs": outputs}


class Call:
    """One inference request, independent of the client that sends it.

    inputs: [(name, datatype, array)]
    binary: whether HTTP sends the inputs as bytes
    outputs: None for all, or a list of (name, {"binary_data": …, "class_count": …})
    more: further arguments of the client's infer
    """

    def __init__(self, model, inputs, outputs=None, binary=True, **more):
        self.model, self.inputs, self.outputs, self.binary, self.more = model, inputs, outputs, binary, more

    def arguments(self, module):
        http = module in (th, ha)
        inputs = []
        for name, datatype, x in self.inputs:
            i = module.InferInput(name, list(x.shape), datatype)
            i.set_data_from_numpy(x, **({"binary_data": self.binary} if http else {}))
            inputs.append(i)
        outputs = None
        if self.outputs is not None:
            keep = ("binary_data", "class_count") if http else ("class_count",)
            outputs = [module.InferRequestedOutput(n, **{k: v for k, v in o.items() if k in keep}) for n,
                       o in self.outputs]
        return {"model_name": self.model, "inputs": inputs, "outputs": outputs, **self.more}


def secure(server, client):
    """The client's TLS arguments for this server. They are empty unless a test configured TLS (tls.py)."""
    return getattr(server, "secure", {}).get(client, {})


def by_http(server, call):
    with th.InferenceServerClient(server.http, **secure(server, "http"), network_timeout=LIMIT,
                                  connection_timeout=LIMIT) as c:
        return c.infer(**call.arguments(th))


def by_http_async(server, call):
    with th.InferenceServerClient(server.http, **secure(server, "http"), network_timeout=LIMIT,
                                  connection_timeout=LIMIT) as c:
        return c.async_infer(**call.arguments(th)).get_result()


def by_http_body(server, call):
    """Builds and parses the body with the client's static methods, and sends it with a plain HTTP library."""
    a = call.arguments(th)
    body, length = th.InferenceServerClient.generate_request_body(**{k: v for k, v in a.items() if k != "model_name"})
    headers = {} if length is None else {"Inference-Header-Content-Length": str(length)}
    r = server.request("POST", f"/v2/models/{call.model}/infer", body, headers)
    if r.status != 200:
        raise InferenceServerException(r.error, str(r.status))
    n = r.headers.get("inference-header-content-length")
    return th.InferenceServerClient.parse_response_body(r.body, header_length=None if n is None else int(n))


def by_http_aio(server, call):
    async def run():
        async with ha.InferenceServerClient(server.http, **secure(server, "http_aio")) as c:
            return await asyncio.wait_for(c.infer(**call.arguments(ha)), LIMIT)

    return asyncio.run(run())


def by_grpc(server, call):
    with tg.InferenceServerClient(server.grpc, **secure(server, "grpc")) as c:
        return c.infer(client_timeout=LIMIT, **call.arguments(tg))


def by_grpc_async(server, call):
    done = queue.Queue()
    with tg.InferenceServerClient(server.grpc, **secure(server, "grpc")) as c:
        c.async_infer(callback=lambda result, error: done.put(error or result), client_timeout=LIMIT,
                      **call.arguments(tg))
        return raised(done.get(timeout=LIMIT))


def by_grpc_aio(server, call):
    async def run():
        async with ga.InferenceServerClient(server.grpc, **secure(server, "grpc")) as c:
            return await c.infer(client_timeout=LIMIT, **call.arguments(ga))

    return asyncio.run(run())


def by_grpc_stream(server, call):
    """All responses of the stream to one request, until the stream ends."""
    got = queue.Queue()
    with tg.InferenceServerClient(server.grpc, **secure(server, "grpc")) as c:
        c.start_stream(callback=lambda result, error: got.put(error or result))
        c.async_stream_infer(**call.arguments(tg))
        c.stop_stream()  # returns when all answers have arrived
    return [got.get_nowait() for _ in range(got.qsize())]


def by_grpc_aio_stream(server, call):
    async def run():
        async def requests():
            yield call.arguments(ga)

        async with ga.InferenceServerClient(server.grpc, **secure(server, "grpc")) as c:
            return [e or r async for r, e in c.stream_infer(requests(), stream_timeout=LIMIT)]

    return asyncio.run(run())


def raised(r):
    if isinstance(r, Exception):
        raise r
    return r


WAYS = {
    "http": by_http,
    "http-async": by_http_async,
    "http-body": by_http_body,
    "http-aio": by_http_aio,
    "grpc": by_grpc,
    "grpc-async": by_grpc_async,
    "grpc-aio": by_grpc_aio,
    "grpc-stream": by_grpc_stream,
    "grpc-aio-stream": by_grpc_aio_stream,
}


def ask(server, way, call, expect=None):
    """The answer to a call. expect ({output: array}) has the values that every server must return, bit for bit."""
    try:
        r = WAYS[way](server, call)
    except InferenceServerException as e:
        return fault(e)
    results = r if isinstance(r, list) else [r]
    answers = [fault(x) if isinstance(x, InferenceServerException) else result(x) for x in results]
    for name, want in (expect or {}).items():
        assert len(results) == 1 and not isinstance(results[0], InferenceServerException), answers
        same(results[0].as_numpy(name), want)
    return answers if isinstance(r, list) else answers[0]


def same(got, want):
    """Fails unless shape, type and every bit are as expected."""
    assert got.shape == want.shape, (got.shape, want.shape)
    if want.dtype == np.object_:
        assert [bytes_of(x) for x in got.ravel()] == [bytes_of(x) for x in want.ravel()]
    else:
        assert got.dtype == want.dtype and got.tobytes() == want.tobytes(), (got, want)


def bytes_of(x):
    return x.encode() if isinstance(x, str) else x


def raw(server, method, path, body=None, headers=None):
    """The answer to a raw HTTP request: status, content type, and the body, parsed if it is JSON."""
    a = server.request(method, path, body, headers)
    value = {"status": a.status, "type": a.headers.get("content-type", "")}
    n = a.headers.get("inference-header-content-length")
    if n is not None:
        value["json"], value["tail"] = json.loads(a.body[: int(n)]), a.body[int(n) :].hex()
        return value
    try:
        value["json"] = json.loads(a.body, parse_constant=str) if a.body else None
    except ValueError:
        value["text"] = a.body.decode("latin-1")
    if isinstance(value.get("json"), dict) and isinstance(value["json"].get("error"), str):
        value["json"]["error"] = re.sub(r"/[^ ';]*/models/", "<repository>/", value["json"]["error"])
    return value


def numpy_type(datatype):
    if datatype == "BF16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(triton_to_np_dtype(datatype))
