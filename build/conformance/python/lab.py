"""A model that tests triton_python_backend_utils. Input WHAT names a function of this file; OUT is its result as JSON.
If the result is a dictionary, "function:member" selects one of its members.

The model uses the documented API and runs unchanged on Triton's Python backend and on ours.
"""

import asyncio
import json
import os
import threading

import numpy as np
import triton_python_backend_utils as pb


def said(call):
    """The result of a call, or its exception: the text for exceptions of pb, the type for others."""
    try:
        return plain(call())
    except pb.TritonModelException as e:
        return {"TritonModelException": str(e)}
    except Exception as e:
        return {"raises": type(e).__name__}


def plain(v):
    if isinstance(v, np.ndarray):
        return {"array": v.dtype.name if v.dtype != np.object_ else "object", "shape": list(v.shape), "values": [plain(x) for x in v.ravel().tolist()]}
    if isinstance(v, (bytes, bytearray)):
        return {"bytes": bytes(v).decode("latin-1")}
    if isinstance(v, type):
        return np.dtype(v).char  # the same in all versions of numpy
    if isinstance(v, (list, tuple)):
        return [plain(x) for x in v]
    if isinstance(v, dict):
        return {str(k): plain(x) for k, x in v.items()}
    if isinstance(v, (str, int, float, bool)) or v is None:
        return v
    if isinstance(v, pb.Tensor):
        return {"tensor": v.name(), "shape": list(v.shape()), "cpu": v.is_cpu()}
    if isinstance(v, pb.InferenceResponse):
        if v.has_error():
            return {"error": v.error().message(), "code": int(v.error().code())}
        return {"outputs": [[t.name(), plain(t.as_numpy())] for t in v.output_tensors()]}
    return type(v).__name__


def call(model, name="INPUT0", value=np.arange(3, dtype=np.float32), outputs=("OUTPUT0",), **more):
    return pb.InferenceRequest(model_name=model, requested_output_names=list(outputs), inputs=[pb.Tensor(name, value)], **more)


# --- lookups and helpers ---


def config(model, request):
    c = model.config
    return {
        "args": {k: model.args[k] for k in ("model_instance_kind", "model_instance_device_id", "model_version", "model_name")},
        "keys": sorted(model.args),
        "all strings": all(isinstance(v, str) for v in model.args.values()),
        "repository": os.path.basename(model.args["model_repository"]),
        "dir": os.path.basename(pb.get_model_dir()),
        "members": sorted(c),
        "batch": c["max_batch_size"],
        "parameters": c["parameters"],
        "instances": [sorted(g) for g in c["instance_group"]],
        "input": pb.get_input_config_by_name(c, "WHAT"),
        "output": pb.get_output_config_by_name(c, "OUT"),
        "none": [pb.get_input_config_by_name(c, "NOPE"), pb.get_output_config_by_name(c, "NOPE")],
        "decoupled": pb.using_decoupled_model_transaction_policy(c),
    }


def types(model, request):
    names = ["BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "STRING", "BF16", "BYTES"]
    numpy = [np.bool_, np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64, np.object_, np.bytes_, bool, complex]
    return {
        "strings": {n: said(lambda: pb.triton_string_to_numpy("TYPE_" + n)) for n in names},
        "numbers": [said(lambda: pb.triton_to_numpy_type(n)) for n in range(1, 15)],
        "back": {plain(t): said(lambda: pb.numpy_to_triton_type(t)) for t in numpy},
        "constants": [pb.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START, pb.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END, pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL],
        "codes": [int(getattr(pb.TritonError, n)) for n in "UNKNOWN INTERNAL NOT_FOUND INVALID_ARG UNAVAILABLE UNSUPPORTED ALREADY_EXISTS CANCELLED".split()],
    }


def strings(model, request):
    def there(values):
        a = np.array(values, dtype=np.object_)
        b = pb.serialize_byte_tensor(a)
        return plain(b if isinstance(b, tuple) else bytes(b.item() if isinstance(b, np.ndarray) else b))

    return {
        "bytes": lambda: there([b"a", b"", b"\x00\xff"]),
        "texts": lambda: there(["a", "\u65e5"]),
        "matrix": lambda: there([[b"a", b"b"], [b"c", b"d"]]),
        "numbers": lambda: there([1, 2.5]),
        "empty": lambda: there([]),
        "back": lambda: pb.deserialize_bytes_tensor(b"\x01\x00\x00\x00a\x00\x00\x00\x00\x02\x00\x00\x00\x00\xff"),
        "back empty": lambda: pb.deserialize_bytes_tensor(b""),
    }


def tensors(model, request):
    t = pb.get_input_tensor_by_name(request, "WHAT")
    strided = np.arange(12, dtype=np.int64).reshape(3, 4).T
    return {
        "input": plain(t),
        "elements": [type(x).__name__ for x in t.as_numpy().ravel()],
        "none": pb.get_input_tensor_by_name(request, "NOPE"),
        "all": lambda: [said(lambda: pb.Tensor("T", np.zeros([2, 0, 1], d))) for d in ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "object")],
        "strided": lambda: pb.Tensor("T", strided).as_numpy(),
        "scalar": lambda: pb.Tensor("T", np.array(5, np.int32)),
        "bytes": lambda: pb.Tensor("T", np.array([b"ab", "c"], np.object_)).as_numpy(),
        "complex": lambda: pb.Tensor("T", np.zeros(2, complex)),
        "no name": lambda: pb.Tensor("", np.zeros(2)),
        "a list": lambda: pb.Tensor("T", [1, 2]),
    }


def dlpack(model, request):
    """DLPack with tensors of this module. Arrays of numpy crash the reference."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    t = pb.Tensor("T", x)

    return {
        "device": lambda: [int(n) for n in t.__dlpack_device__()],
        "capsule": lambda: type(t.to_dlpack()).__name__,
        "to numpy": lambda: np.from_dlpack(t),
        "made": lambda: pb.Tensor.from_dlpack("D", t),
        "values": lambda: pb.Tensor.from_dlpack("D", t).as_numpy(),
        "round": lambda: pb.Tensor.from_dlpack("R", t.to_dlpack()).as_numpy(),
        "types": lambda: [said(lambda: pb.Tensor.from_dlpack("T", pb.Tensor("S", np.zeros(1, d)))) for d in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "bool")],
        "not one": lambda: pb.Tensor.from_dlpack("T", 5),
        "no name": lambda: pb.Tensor.from_dlpack("", t),
        "bytes": lambda: pb.Tensor("T", np.array([b"a"], np.object_)).to_dlpack(),
    }


def wrong(model, request):
    t = pb.Tensor("T", np.zeros(1))
    return {
        "correlation": lambda: call("m", correlation_id=1.5),
        "name": lambda: call("m", outputs=[""]),
        "input": lambda: pb.InferenceRequest(model_name="m", requested_output_names=["O"], inputs=[None]),
        "output": lambda: pb.InferenceResponse([None]),
        "error": lambda: pb.InferenceResponse(error="text"),
        "both": lambda: pb.InferenceResponse([t], pb.TritonError("x")),
        "message": lambda: pb.TritonError(5),
        "parameters": lambda: call("m", parameters={"a": [1]}),
        "parameter names": lambda: call("m", parameters={1: "a"}),
        "family": lambda: pb.MetricFamily(name="f", description="d", kind=17),
        "memory": lambda: type(pb.PreferredMemory(pb.TRITONSERVER_MEMORY_CPU, 0)).__name__,
        "json": lambda: pb.ModelConfig("no json"),
    }


def errors(model, request):
    e = pb.TritonError("text", pb.TritonError.NOT_FOUND)
    r = pb.InferenceResponse(error=e)
    return {
        "message": e.message(),
        "code": int(e.code()),
        "default": int(pb.TritonError("x").code()),
        "has": [r.has_error(), pb.InferenceResponse([]).has_error()],
        "none": pb.InferenceResponse([]).error(),
        "outputs": [plain(t) for t in pb.InferenceResponse([pb.Tensor("A", np.zeros(2))]).output_tensors()],
        "by name": plain(pb.get_output_tensor_by_name(pb.InferenceResponse([pb.Tensor("A", np.zeros(2))]), "A")),
        "by no name": pb.get_output_tensor_by_name(pb.InferenceResponse([]), "A"),
    }


def told(model, request):
    """The properties of a request."""
    return {
        "id": request.request_id(),
        "correlation": request.correlation_id(),
        "flags": request.flags(),
        "timeout": request.timeout(),
        "parameters": json.loads(request.parameters()),
        "outputs": sorted(request.requested_output_names()),
        "type of outputs": type(request.requested_output_names()).__name__,
        "inputs": [plain(t) for t in request.inputs()],
        "cancelled": request.is_cancelled(),
    }


def made(model, request):
    r = call("m", request_id="i", correlation_id="text", flags=1, timeout=9, parameters={"a": 1, "b": True, "c": "x"})
    r.set_flags(2)
    return {"id": r.request_id(), "correlation": r.correlation_id(), "flags": r.flags(), "timeout": r.timeout(), "parameters": json.loads(r.parameters()),
            "outputs": sorted(r.requested_output_names()), "inputs": [plain(t) for t in r.inputs()]}


# --- other models ---


def bls(model, request):
    return {
        "answer": lambda: call("py_identity").exec(),
        "version": lambda: call("py_identity", model_version=1).exec(),
        "unknown version": lambda: call("py_identity", model_version=7).exec(),
        "unknown model": lambda: call("nope").exec(),
        "unknown input": lambda: call("py_identity", name="NOPE").exec(),
        "unknown output": lambda: call("py_identity", outputs=["NOPE"]).exec(),
        "type": lambda: call("py_identity", value=np.zeros(3)).exec(),
        "shape": lambda: call("py_identity", value=np.zeros([3, 3], np.float32)).exec(),
        "its error": lambda: call("py_moody", value=np.array([3], np.float32)).exec(),
        "its exception": lambda: without_path(plain(call("py_moody", value=np.array([-1], np.float32)).exec())),
        "decoupled, not asked for": lambda: call("py_stream", value=np.array([2], np.int32), name="IN", outputs=["OUT"]).exec(),
    }


def without_path(answer):
    if isinstance(answer, dict) and "error" in answer:
        answer["error"] = answer["error"].split("\n")[0]
    return answer


def stream(model, request):
    r = call("py_stream", value=np.array([3], np.int32), name="IN", outputs=["OUT"])
    it = r.exec(decoupled=True)
    first = [plain(x) for x in it]
    return {"iterator": type(it).__name__, "first": [x for x in first if x != {"outputs": []}], "plain": [plain(x) for x in call("py_identity").exec(decoupled=True)][:1]}


def spawned(model, request):
    """BLS from a thread that the model started."""
    got = []
    threads = [threading.Thread(target=lambda i=i: got.append((i, plain(call("py_identity", value=np.array([i], np.float32)).exec())))) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return [a for _, a in sorted(got)]


def sequence(model, request):
    out = []
    for value, flags in ((5, pb.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START), (6, 0), (7, pb.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END)):
        out.append(plain(call("py_sequence", value=np.array([[value]], np.float32), correlation_id=99, flags=flags).exec()))
    return out


def ready(model, request):
    return {
        "yes": lambda: pb.is_model_ready("py_identity"),
        "version": lambda: pb.is_model_ready("py_identity", "1"),
        "other": lambda: pb.is_model_ready("py_identity", "3"),
        "no": lambda: pb.is_model_ready("nope"),
        "text": lambda: pb.is_model_ready("py_identity", "a"),
    }


def loading(model, request):
    c = json.dumps({"name": "py_late", "backend": "python", "max_batch_size": 0, "parameters": {"mark": {"string_value": "overridden"}},
                    "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}], "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}]})
    got = {"before": lambda: pb.is_model_ready("py_late")}
    got["load"] = lambda: pb.load_model("py_late")
    got["ready"] = lambda: pb.is_model_ready("py_late")
    got["use"] = lambda: call("py_late").exec()
    got["with config"] = lambda: pb.load_model("py_late", config=c)
    got["unload"] = lambda: pb.unload_model("py_late")
    got["unknown"] = lambda: pb.load_model("nope")
    got["unload unknown"] = lambda: pb.unload_model("nope")
    got["bad files"] = lambda: pb.load_model("py_late", files=5)
    return got


# --- metrics and logs ---


def metrics(model, request):
    f = pb.MetricFamily(name="lab_counter", description="a counter", kind=pb.MetricFamily.COUNTER)
    c = f.Metric(labels={"b": "2", "a": "1"})
    c.increment(2)
    c.increment(0.5)
    g_family = pb.MetricFamily(name="lab_gauge", description="a gauge", kind=pb.MetricFamily.GAUGE)
    g = g_family.Metric(labels={"x": "y"})
    g.set(7)
    g.increment(-3)
    h_family = pb.MetricFamily(name="lab_histogram", description="a histogram", kind=pb.MetricFamily.HISTOGRAM)
    h = h_family.Metric(labels={"x": "y"}, buckets=[1.0, 10.0])
    h.observe(0.5)
    h.observe(5)
    model.kept = (f, c, g_family, g, h_family, h)
    return {
        "counter": c.value(),
        "gauge": g.value(),
        "negative": lambda: c.increment(-1),
        "set a counter": lambda: c.set(1),
        "observe a gauge": lambda: g.observe(1),
        "increment a histogram": lambda: h.increment(1),
        "value of a histogram": h.value,
        "same again": lambda: f.Metric(labels={"b": "2", "a": "1"}).value(),
        "no buckets": lambda: h_family.Metric(labels={"z": "z"}),
        "buckets": lambda: f.Metric(labels={"z": "z"}, buckets=[1.0]),
        "other kind": lambda: pb.MetricFamily(name="lab_counter", description="a counter", kind=pb.MetricFamily.GAUGE),
    }


def logs(model, request):
    log = pb.Logger
    return [log.log_info("i"), log.log_warn("w"), log.log_error("e"), log.log_verbose("v"),
            log.log("plain"), log.log("with level", log.WARNING)]


# --- invalid answers ---


def no_reply(model, request):
    return pb.InferenceResponse([])


def other_output(model, request):
    return pb.InferenceResponse([pb.Tensor("NOPE", np.zeros(1, np.float32))])


def other_type(model, request):
    return pb.InferenceResponse([pb.Tensor("OUT", np.zeros(1, np.float32))])


def both_outputs(model, request):
    return pb.InferenceResponse([pb.Tensor("OUT", np.array([b"x"], np.object_)), pb.Tensor("NOPE", np.zeros(1, np.float32))])


def raises(model, request):
    raise ValueError("as told")


def raises_own(model, request):
    raise pb.TritonModelException("as told")


def leaves(model, request):
    raise SystemExit("gone")


def no_text(model, request):
    raise KeyError()


class TritonPythonModel:
    def initialize(self, args):
        self.args, self.config = args, json.loads(args["model_config"])

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        what = pb.get_input_tensor_by_name(request, "WHAT").as_numpy().ravel()[0].decode()
        if what == "coroutines":
            got = asyncio.run(self.coroutines())
        elif what in CODES:
            return pb.InferenceResponse(error=pb.TritonError("code " + what, getattr(pb.TritonError, what)))
        else:
            name, _, member = what.partition(":")
            got = globals()[name](self, request)
            if isinstance(got, dict):
                got = said(got[member]) if member else {k: said(v) if callable(v) else v for k, v in got.items()}
        if isinstance(got, pb.InferenceResponse):
            return got
        return pb.InferenceResponse([pb.Tensor("OUT", np.array([json.dumps(got).encode()], np.object_))])

    async def coroutines(self):
        calls = [call("py_identity", value=np.array([i], np.float32)).async_exec() for i in range(5)]
        got = [plain(r) for r in await asyncio.gather(*calls)]
        failed = plain(await call("py_identity", name="NOPE").async_exec())
        return [got, failed]


CODES = "UNKNOWN INTERNAL NOT_FOUND INVALID_ARG UNAVAILABLE UNSUPPORTED ALREADY_EXISTS CANCELLED".split()
