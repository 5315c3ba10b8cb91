#!/bin/bash
# Deploys a model from MLflow to a server that this script starts, uses it, and removes it. PORT is the server's port.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
mkdir "$work/models" # stays empty: the models come with the requests
nereid serve --model-repository="$work/models" --data-dir="$work/data" --model-control-mode=explicit \
  --http-port="${PORT:=8000}" --grpc-port=0 --metrics-port=0 --ui-port=0 >"$work/log" 2>&1 &
server=$!
trap 'kill $server; wait $server || true; rm -rf "$work"' EXIT
export NEREID_URL=http://localhost:$PORT MLFLOW_DISABLE_TELEMETRY=true
curl -sf --retry 60 --retry-delay 1 --retry-connrefused "$NEREID_URL/v2/health/live"

python "$here/save.py" "$here/../../../models-sample/digits/1/model.onnx" "$work/digits"
mlflow deployments create -t nereid --name digits -m "$work/digits" -C max_batch_size=8
mlflow deployments get -t nereid --name digits | grep -E '^(name|flavor|inputs):'
python -c 'import json; print(json.dumps({"image": [[[[0.0] * 28] * 28]] * 2}))' >"$work/input.json"
mlflow deployments predict -t nereid --name digits -I "$work/input.json" -O "$work/output.json"
python -c 'import json, sys
for row in json.load(sys.stdin)["predictions"]["scores"]:
    print(len(row), round(sum(row), 3))' <"$work/output.json"
mlflow deployments update -t nereid --name digits -C max_batch_size=16
curl -s "$NEREID_URL/v2/models/digits/config" | grep -o '"max_batch_size":[0-9]*'
mlflow deployments delete -t nereid --name digits
mlflow deployments list -t nereid
