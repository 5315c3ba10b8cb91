#!/bin/bash
# Serves two models of the backend scale, and calls both. PORT is the server's port.
set -euo pipefail
. "$(dirname "$0")/../serve.sh"
: "${PORT:=8000}"
model() { # NAME FACTOR
  mkdir -p "$work/models/$1/1"
  echo 'backend: "scale"' >"$work/models/$1/config.pbtxt"
  echo "$2" >"$work/models/$1/1/factor.txt"
}
model triple 3
model half 0.5
mkdir -p "$work/backends/scale"
cp "$here/model.py" "$work/backends/scale"
serve server "$PORT" --model-repository="$work/models" --backend-directory="$work/backends"
for name in triple half; do
  echo "$name: $(curl -sf "localhost:$PORT/v2/models/$name/infer" -d '{"inputs":[
    {"name":"INPUT","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}]}' | grep -o '"data":[^}]*')"
done
