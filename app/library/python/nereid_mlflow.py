"""Deploys MLflow models to a Nereid server: mlflow deployments create -t nereid --name digits -m MODEL_URI.

MLflow finds this module by the entry point mlflow.deployments of the package nereid. It speaks HTTP only, so it does
not load the server's library. A model's files travel in the load request, as file overrides; nothing is shared between
the two machines but the network. The server must run with --model-control-mode=explicit.
docs/examples/mlflow is the manual.
"""

import base64
import json
import os
import pathlib
import urllib.parse

import numpy as np
import requests
from mlflow.artifacts import download_artifacts
from mlflow.deployments import BaseDeploymentClient, PredictionsResponse
from mlflow.exceptions import MlflowException
from mlflow.models import Model

# A deployment is marked by these parameters of its model configuration.
URI, FLAVOUR = "mlflow.model_uri", "mlflow.flavor"
# Files of an MLflow model that the server does not need. External weights have names of any kind.
OWN_FILES = {"MLmodel", "input_example.json", "serving_input_example.json", "registered_model_meta"}
OWN_ENDINGS = {".yaml", ".yml", ".txt", ".md"}
KINDS = {"BOOL": np.bool_, "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64,
         "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64, "FP32": np.float32,
         "FP64": np.float64, "BYTES": np.object_}
TIMEOUTS = 10, 600  # seconds to connect, and to wait for an answer; a load may take long

HELP = """Targets:
  nereid                     the server of NEREID_URL, or http://localhost:8000
  nereid://HOST:PORT         a server over HTTP
  nereid:https://HOST:PORT   a server over HTTPS
NEREID_TOKEN has the token, if the server needs one.

The server must run with --model-control-mode=explicit. The flavor is onnx. Each -C FIELD=JSON is a field of the model
configuration, such as -C max_batch_size=8 or -C 'instance_group=[{"count": 2}]'. The files travel in the request: a
model of more than 45 MB needs a server with a larger --http-max-input-size. Deployments last until the server stops."""


def target_help():
    return HELP


def run_local(target, name, model_uri, flavor=None, config=None):
    raise MlflowException("run-local is not supported: start nereid serve --model-control-mode=explicit, then create")


def _url(target):
    """Returns the address of a server: nereid://HOST:PORT and nereid:URL name one."""
    rest = target.partition(":")[2]
    if not rest:
        return os.environ.get("NEREID_URL", "http://localhost:8000").rstrip("/")
    return ("http:" + rest if rest.startswith("//") else rest).rstrip("/")


def _configuration(name, uri, flavor, fields):
    """Returns a model configuration as JSON. The server completes it from the model's file."""
    made = {"name": name, "backend": "onnxruntime"}
    for field, value in (fields or {}).items():
        try:
            made[field] = json.loads(value) if isinstance(value, str) else value
        except ValueError:
            made[field] = value
    marks = {URI: {"string_value": str(uri)}, FLAVOUR: {"string_value": flavor}}
    made["parameters"] = {**made.get("parameters", {}), **marks}
    return json.dumps(made)


def _files(uri, flavor):
    """Returns the flavour of an MLflow model and its files as parameters of a load request."""
    folder = pathlib.Path(download_artifacts(artifact_uri=str(uri)))
    flavours = Model.load(str(folder)).flavors
    if flavor not in (None, "onnx") or "onnx" not in flavours:
        raise MlflowException("the flavor %s cannot be deployed: log the model with mlflow.onnx. It has: %s"
                              % (flavor or "of this model", ", ".join(sorted(flavours))))
    main = folder / flavours["onnx"]["data"]
    weights = [p for p in main.parent.iterdir() if p.is_file() and p != main and p.name not in OWN_FILES
               and p.suffix not in OWN_ENDINGS]
    named = {"model.onnx": main, **{p.name: p for p in weights}}
    return "onnx", {"file:1/" + name: base64.b64encode(p.read_bytes()).decode() for name, p in named.items()}


def _tensor(about, value):
    """Returns an input of an inference request. about is its entry in the metadata."""
    if about["datatype"] not in KINDS:
        raise MlflowException("input %s has the type %s, which JSON does not have; use tritonclient"
                              % (about["name"], about["datatype"]))
    try:
        array = np.array(value).astype(KINDS[about["datatype"]])
    except (TypeError, ValueError) as e:
        raise MlflowException("input %s: %s" % (about["name"], e)) from e
    data = array.ravel().tolist()
    if about["datatype"] == "BYTES":
        data = [_text(about, v) for v in data]
    return {"name": about["name"], "datatype": about["datatype"], "shape": array.shape, "data": data}


def _text(about, value):
    """Returns an element of a tensor of BYTES as JSON has it. The server refuses what is no text."""
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError as e:
        raise MlflowException("input %s has bytes that are not UTF-8, which JSON does not have; use tritonclient"
                              % about["name"]) from e


def _by_name(inputs, names):
    """Returns arrays by the names of inputs, from a DataFrame, a dictionary, or the value of the only input."""
    if hasattr(inputs, "columns"):
        if set(inputs.columns) == set(names):
            return {name: inputs[name].tolist() for name in names}
        inputs = inputs.to_numpy()  # the columns are the features of the only input
    if isinstance(inputs, dict):
        return inputs
    if len(names) != 1:
        raise MlflowException("the model has the inputs %s; give a column or a key for each" % ", ".join(names))
    return {names[0]: inputs}


class NereidDeploymentClient(BaseDeploymentClient):
    """Manages the models of one server. A deployment is a model that this plugin has loaded."""

    def __init__(self, target_uri):
        super().__init__(target_uri)
        self._url, self._session = _url(target_uri), requests.Session()
        if token := os.environ.get("NEREID_TOKEN"):
            self._session.headers["Authorization"] = "Bearer " + token

    def create_deployment(self, name, model_uri, flavor=None, config=None, endpoint=None):
        """Loads a model. config has fields of the model configuration."""
        if name in self._ready():
            raise MlflowException("a model %s is already served" % name)
        return self._load(name, model_uri, flavor, config)

    def update_deployment(self, name, model_uri=None, flavor=None, config=None, endpoint=None):
        """Replaces a model by another one, or its configuration. No request fails meanwhile."""
        deployed = self.get_deployment(name)
        return self._load(name, model_uri or deployed["model_uri"], flavor, config)

    def delete_deployment(self, name, config=None, endpoint=None):
        """Unloads a model. It is no error if there is none."""
        if name in self._ready():
            self.get_deployment(name)
            self._call("POST", "/v2/repository/models/%s/unload" % _quoted(name))

    def list_deployments(self, endpoint=None):
        found = [self._describe(name) for name in self._ready()]
        return [d for d in found if d]

    def get_deployment(self, name, endpoint=None):
        if name not in self._ready():
            raise MlflowException("there is no deployment %s" % name)
        if not (found := self._describe(name)):
            raise MlflowException("the model %s is of the server's repository: MLflow has not deployed it" % name)
        return found

    def predict(self, deployment_name=None, inputs=None, endpoint=None):
        """Sends a DataFrame with a column for each input, a dictionary of arrays, or the array of the only input."""
        path = "/v2/models/" + _quoted(deployment_name)
        about = {i["name"]: i for i in self._call("GET", path)["inputs"]}
        given = _by_name(inputs, list(about))
        if unknown := set(given) - set(about):
            raise MlflowException("the model has no input %s; it has %s" % (min(unknown), ", ".join(about)))
        tensors = [_tensor(about[name], value) for name, value in given.items()]
        answer = self._call("POST", path + "/infer", {"inputs": tensors})
        return PredictionsResponse(predictions={o["name"]: np.array(o["data"], object).reshape(o["shape"]).tolist()
                                                for o in answer["outputs"]})

    def _load(self, name, uri, flavor, fields):
        flavor, files = _files(uri, flavor)
        parameters = {"config": _configuration(name, uri, flavor, fields), **files}
        self._call("POST", "/v2/repository/models/%s/load" % _quoted(name), {"parameters": parameters})
        return self.get_deployment(name)

    def _ready(self):
        return sorted({m["name"] for m in self._call("POST", "/v2/repository/index", {"ready": True})})

    def _describe(self, name):
        """Returns a description of a model, or None if this plugin has not loaded it."""
        config = self._call("GET", "/v2/models/%s/config" % _quoted(name))
        marks = {k: v["string_value"] for k, v in config["parameters"].items()}
        if URI not in marks:
            return None
        about = self._call("GET", "/v2/models/" + _quoted(name))
        return {"name": name, "flavor": marks[FLAVOUR], "model_uri": marks[URI], "inputs": about["inputs"],
                "outputs": about["outputs"], "url": self._url + "/v2/models/" + _quoted(name)}

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body)
        try:
            answer = self._session.request(method, self._url + path, data=data, timeout=TIMEOUTS)
        except requests.ConnectionError as e:
            hint = ""
            if data and len(data) > 1 << 20:
                hint = "; the request has %d bytes: is --http-max-input-size of the server larger?" % len(data)
            raise MlflowException("%s cannot be reached: %s%s" % (self._url, e, hint)) from e
        if answer.status_code != 200:
            raise MlflowException("%s: %s" % (answer.status_code, answer.text))
        return answer.json() if answer.content else None


def _quoted(name):
    return urllib.parse.quote(name, safe="")
