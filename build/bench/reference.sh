#!/usr/bin/env bash
# reference.sh DIR [MLP_ONNX]: installs a real Triton 2.51.0 (CPU, Python backend) from PyPI into DIR and writes its
# repository. The models are identity_py and identity_cached (FP32 [16]). identity_cached answers repeated requests from
# the response cache, so it measures only the front end. If MLP_ONNX is a file, there are also mlp_py (onnxruntime, dynamic
# batching) and mlp_py_plain (without batching). The script prints the server's program and its environment, one per line.
# It is idempotent. It needs Python 3.11 or another version for which the wheel has a stub.
set -euo pipefail
dir=${1:?usage: reference.sh DIR [MLP_ONNX]}
mlp=${2:-}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
venv=$dir/venv
packages="nvidia-pytriton==0.7.0 onnxruntime==1.31.1 numpy==1.26.4 pillow==13.0.0"
if [ "$(cat "$venv/done" 2>/dev/null)" != "$packages" ]; then
  echo "setting up the reference in $dir ..." >&2
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check $packages >&2
  printf '%s\n' "$packages" > "$venv/done"
fi
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
python=$("$venv/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
# The stub must find the library of this Python: that of another patch version does not fit its standard library.
libraries=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_config_var("LIBDIR"))')
server=$site/pytriton/tritonserver
stub=$server/python_backend_stubs/$python/triton_python_backend_stub
[ -e "$stub" ] || { echo "the wheel has no Python backend stub for Python $python" >&2; exit 1; }
if [ ! -d "$dir/backends/python" ]; then
  mkdir -p "$dir/backends"
  cp -r "$server/backends/python" "$dir/backends/python"
fi
cp -f "$stub" "$dir/backends/python/"

# model NAME CONFIG-TEXT MODEL-PY-TEXT
model() {
  mkdir -p "$dir/repo/$1/1"
  printf '%s\n' "$2" > "$dir/repo/$1/config.pbtxt"
  printf '%s\n' "$3" > "$dir/repo/$1/1/model.py"
}

identity_config='backend: "python"
max_batch_size: 64
input { name: "INPUT0" data_type: TYPE_FP32 dims: 16 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: 16 }'
identity_code='import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        out = []
        for request in requests:
            x = pb.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            out.append(pb.InferenceResponse([pb.Tensor("OUTPUT0", x)]))
        return out'
model identity_py "$identity_config" "$identity_code"
model identity_cached "$identity_config
response_cache { enable: true }" "$identity_code"

if [ -f "$mlp" ]; then
  mlp_config='backend: "python"
max_batch_size: 64
input { name: "input" data_type: TYPE_FP32 dims: 784 }
output { name: "output" data_type: TYPE_FP32 dims: 10 }'
  # The requests of a batch run as one execution, as in a well-written Python model.
  mlp_code='import pathlib

import numpy as np
import onnxruntime as ort
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        here = pathlib.Path(args["model_repository"]) / args["model_version"]
        self.session = ort.InferenceSession(str(here / "mlp.onnx"), options, providers=["CPUExecutionProvider"])
        self.feed = self.session.get_inputs()[0].name

    def execute(self, requests):
        rows = [pb.get_input_tensor_by_name(r, "input").as_numpy() for r in requests]
        result = self.session.run(None, {self.feed: np.concatenate(rows)})[0]
        out, at = [], 0
        for r in rows:
            out.append(pb.InferenceResponse([pb.Tensor("output", np.ascontiguousarray(result[at : at + len(r)]))]))
            at += len(r)
        return out'
  for name in mlp_py mlp_py_plain; do
    config=$mlp_config
    [ $name = mlp_py_plain ] || config="$config
dynamic_batching { }"
    model $name "$config" "$mlp_code"
    cp -f "$mlp" "$dir/repo/$name/1/mlp.onnx"
  done
fi
mkdir -p "$dir/empty"
echo "$server/bin/tritonserver"
echo "LD_LIBRARY_PATH=$site/nvidia_pytriton.libs:$libraries"
echo "PYTHONPATH=$site"
echo "PATH=$venv/bin:$PATH"
echo "BACKENDS=$dir/backends"
echo "CACHES=$server/caches"
