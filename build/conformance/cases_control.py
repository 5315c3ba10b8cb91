"""Cases of loading and unloading by the real clients. Each case uses its own model and returns a list of answers."""

import base64
import json
import queue
import time

import numpy as np
import tritonclient.grpc as tg
import tritonclient.http as th
from tritonclient.utils import InferenceServerException

from answers import fault, raw
from cases import add, error, neutral, repeat, status, sums
from harness import REFERENCE


def config(name, datatype="FP32", batch=4):
    """The configuration of an identity model of this type, as JSON."""
    io = [{"name": n, "data_type": "TYPE_" + datatype, "dims": [-1 if not batch else 16]}
          for n in ("INPUT0", "OUTPUT0")]
    return json.dumps({"name": name, "backend": "python" if REFERENCE else "identity", "max_batch_size": batch,
                       "input": io[:1], "output": io[1:]})


def model_file():
    import models

    return (models.PYTHON_HEAD + models.identity_python(("INPUT0", "OUTPUT0"))).encode()


NO_CONFIG = "a load request with files must have the parameter 'config' too"


class Steps:
    """Runs one step after the other and keeps each answer."""

    def __init__(self, client, name):
        self.client, self.name, self.answers = client, name, []

    def do(self, method, *args, **kwargs):
        try:
            value = getattr(self.client, method)(*args, **kwargs)
        except InferenceServerException as e:
            value = fault(e)
        self.answers.append([method, value])
        return self

    def index(self):
        rows = self.client.get_model_repository_index()
        rows = rows if isinstance(rows, list) else [{"name": m.name, "version": m.version, "state": m.state,
                                                     "reason": m.reason} for m in rows.models]
        mine = [{"version": r.get("version", ""), "state": r.get("state", ""), "reason": r.get("reason", "")}
                for r in rows if r["name"] == self.name]
        self.answers.append(["index", mine])
        return self

    def settle(self):
        """Waits until an unload is complete. It continues after its answer."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            rows = self.client.get_model_repository_index()
            rows = rows if isinstance(rows, list) else [{"name": m.name, "state": m.state} for m in rows.models]
            if all(r.get("state") != "UNLOADING" for r in rows if r["name"] == self.name):
                return self
            time.sleep(0.02)
        raise AssertionError(f"{self.name} is still UNLOADING after 30 s")

    def route(self, *wanted):
        """Sends an inference to each version ("": the latest). Keeps the version that answered, or the error."""
        module = th if isinstance(self.client, th.InferenceServerClient) else tg
        for version in wanted:
            i = module.InferInput("INPUT0", [1, 16], "FP32")
            i.set_data_from_numpy(np.zeros((1, 16), np.float32))
            try:
                r = self.client.infer(self.name, [i], model_version=version).get_response()
                value = r["model_version"] if isinstance(r, dict) else r.model_version
            except InferenceServerException as e:
                value = fault(e)
            try:
                m = self.client.get_model_metadata(self.name, version)
                value = [value, m["versions"] if isinstance(m, dict) else list(m.versions)]
            except InferenceServerException as e:
                value = [value, fault(e)]
            self.answers.append([f"version {version or 'latest'}", value])
        return self

    def batch_size(self):
        c = self.client.get_model_config(self.name)
        self.answers.append(["max_batch_size", c["max_batch_size"] if isinstance(c, dict) else c.config.max_batch_size])
        return self


def steps(group, what, name, run, deviation="", ours=None):
    """Adds one case for each protocol. If the case creates its model, the model's name ends with the protocol."""
    for protocol, module in (("http", th), ("grpc", tg)):

        def one(server, module=module, protocol=protocol):
            with module.InferenceServerClient(getattr(server, protocol)) as c:
                s = Steps(c, name[protocol] if isinstance(name, dict) else name.format(protocol=protocol))
                run(s)
                return s.answers

        add(group, f"{protocol}/{what}", one, deviation, ours)


def because(reason):
    """Triton only says that polling failed. This server appends the cause."""
    text = "failed to poll from model repository"
    return lambda triton: json.loads(json.dumps(triton).replace(text + '"', f"{text}: " + json.dumps(reason)[1:]))


def listed(triton):
    """The index also lists the model that came with the request."""
    return [[m, [{"version": "1", "state": "READY", "reason": ""}]] if m == "index" else [m, v] for m, v in triton]


def load_and_unload(s):
    s.do("is_model_ready", s.name).index().do("load_model", s.name).do("is_model_ready", s.name).index()
    s.do("load_model", s.name).do("unload_model", s.name).settle().do("is_model_ready", s.name).index()
    s.do("unload_model", s.name).do("load_model", s.name).do("is_model_ready", s.name).index()


def versions(s):
    s.do("load_model", s.name).index().do("is_model_ready", s.name, "5").do("is_model_ready", s.name, "1")
    s.do("unload_model", s.name, unload_dependents=True).settle().index()


def routing(s):
    """Asks for a missing version, an excluded version, an unloaded version, and a model without versions."""
    s.do("load_model", s.name).do("unload_model", s.name).settle().route("", "2", "9")
    s.do("load_model", s.name).route("", "5", "2", "1", "9")
    c = json.loads(config(s.name, batch=8))
    s.do("load_model", s.name,
         config=json.dumps({**c, "version_policy": {"specific": {"versions": [2]}}})).settle().route("", "5", "2", "9")
    s.do("unload_model", s.name).settle().route("", "2", "5", "9")


def override(s):
    s.do("load_model", s.name).batch_size().do("load_model", s.name, config=config(s.name, batch=4)).batch_size()
    s.do("load_model", s.name).batch_size().do("load_model", s.name, config="{bad").batch_size()
    s.do("unload_model", s.name).settle()


def files(s):
    """A model whose files are only in the request."""
    s.do("load_model", s.name, config=config(s.name), files={"file:1/model.py": model_file()}).index().batch_size()
    s.do("unload_model", s.name).settle().do("is_model_ready", s.name)


def files_without_config(s):
    s.do("load_model", s.name, files={"file:1/model.py": model_file()}).index()


def unknown(s):
    s.do("load_model", s.name).do("unload_model", s.name).do("is_model_ready", s.name)


def infer_after_unload(s):
    module = th if isinstance(s.client, th.InferenceServerClient) else tg
    x = np.arange(3, dtype=np.int8)
    i = module.InferInput("INPUT0", [3], "INT8")
    i.set_data_from_numpy(x)
    s.do("load_model", s.name)
    assert s.client.infer(s.name, [i]).as_numpy("OUTPUT0").tolist() == x.tolist()
    s.do("unload_model", s.name).settle().do("infer", s.name, [i])
    s.do("get_model_metadata", s.name).do("get_model_config", s.name)


steps("control", "load-and-unload", "identity_FP32", load_and_unload)
steps("control", "versions", "versions", versions)
steps("control", "version-routing", "versions", routing)
steps("control", "override-config", "plain", override, "DV28",
      because("config:1:2: the configuration is not the JSON of a model configuration: syntax error invalid value bad"))
steps("control", "override-files", "made_{protocol}", files, "DV29", listed)
steps("control", "override-files-without-config", "unmade_{protocol}", files_without_config, "DV28", because(NO_CONFIG))
steps("control", "load-unknown-model", "nope", unknown, "DV28",
      because("model 'nope' is in none of the model repositories"))
steps("control", "infer-after-unload", "identity_INT8", infer_after_unload)


def no_folder(name):
    return error(400, f"model name '{name}' is not the name of a folder: it must be UTF-8 without slashes and control "
                      "characters")


def statistics(s):
    """The counts of a model that no other case uses, without times."""
    s.do("load_model", s.name)
    s.answers.append(["before", neutral(counts(s))])
    for rows in (1, 2, 2):
        inputs, _ = sums(s.name.removeprefix("add_sub_"), rows)
        ask_by(s, inputs)
    s.answers.append(["after", neutral(counts(s))])


def counts(s):
    more = {} if isinstance(s.client, th.InferenceServerClient) else {"as_json": True}
    return s.client.get_inference_statistics(s.name, **more)


def ask_by(s, arrays):
    module = th if isinstance(s.client, th.InferenceServerClient) else tg
    inputs = []
    for name, datatype, x in arrays:
        inputs.append(module.InferInput(name, list(x.shape), datatype))
        inputs[-1].set_data_from_numpy(x)
    s.client.infer(s.name, inputs)


def decoupled_statistics(s):
    """Decoupled models count each response by its position."""
    if s.client.is_model_ready(s.name):
        raise AssertionError(f"{s.name} is used by another case")
    s.do("load_model", s.name)
    for n in (3, 1, 0):
        got = queue.Queue()
        inputs = []
        for name, datatype, x in repeat(n):
            inputs.append(tg.InferInput(name, list(x.shape), datatype))
            inputs[-1].set_data_from_numpy(x)
        s.client.start_stream(callback=lambda result, error, got=got: got.put(error or result))
        s.client.async_stream_infer(s.name, inputs)
        s.client.stop_stream()
        s.answers.append(["responses", got.qsize()])
    after = counts(s)
    for m in after["model_stats"]:
        m.pop("response_stats", None)  # this server reports them; the reference's Python backend does not
    s.answers.append(["after", neutral(after)])


def only_grpc(server):
    with tg.InferenceServerClient(server.grpc) as c:
        s = Steps(c, "repeat")
        decoupled_statistics(s)
        return s.answers


add("control", "grpc/statistics-decoupled", only_grpc)
steps("control", "statistics", {"http": "add_sub_INT8", "grpc": "add_sub_UINT8"}, statistics)


def post(group, id, path, body, deviation="", ours=None):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    add(group, f"http-raw/{id}", lambda s: raw(s, "POST", "/v2/repository/models/" + path, data), deviation, ours)


post("control", "load/empty-object", "identity_FP64/load", {})
post("control", "load/config-a-number", "identity_FP64/load", {"parameters": {"config": 5}}, "DV03", status(400))
post("control", "load/unknown-parameter", "identity_FP64/load", {"parameters": {"nosuch": "x"}}, "DV04", status(400))
post("control", "load/no-json", "identity_FP64/load", b"{bad", "DV01", status(400))
post("control", "unload/dependents", "identity_FP64/unload", {"parameters": {"unload_dependents": True}})
post("control", "load/file-without-config", "identity_FP64/load",
     {"parameters": {"file:1/model.py": base64.b64encode(b"x").decode()}}, "DV28", because(NO_CONFIG))
post("control", "load/dots", "../load", {}, "DV17", no_folder(".."))
post("control", "load/escaped-slash", "a%2Fb/load", {}, "DV17", no_folder("a/b"))
