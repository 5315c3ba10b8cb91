#!/bin/bash
# Starts the program as runtime.yaml does, on free ports and with models-sample, and calls it with KServe's clients.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
mkdir "$work/models" && cp -r "$here/../../../models-sample/digits" "$work/models"
python - "$here/runtime.yaml" "$work/models" "${HTTP_PORT:=8080}" "${GRPC_PORT:=9000}" >"$work/args" <<'PY'
import sys, yaml
path, models, http, grpc = sys.argv[1:]
args = yaml.safe_load(open(path))["spec"]["containers"][0]["args"]
assert args[0] == "tritonserver"
for old, new in (("/mnt/models", models), ("--http-port=8080", "--http-port=" + http),
                 ("--grpc-port=9000", "--grpc-port=" + grpc), ("--metrics-port=8002", "--metrics-port=0")):
    args = [a.replace(old, new) for a in args]
print("\n".join(args[1:]))
PY
mapfile -t args <"$work/args"
ln -s "$(command -v nereid)" "$work/tritonserver" # the name decides the defaults, as in the image
"$work/tritonserver" "${args[@]}" --data-dir="$work/data" >"$work/log" 2>&1 &
server=$!
trap 'kill $server; wait $server || true; rm -rf "$work"' EXIT
curl -sf --retry 60 --retry-delay 1 --retry-all-errors "http://localhost:$HTTP_PORT/v2/health/ready" 2>/dev/null
python "$here/infer.py" "http://localhost:$HTTP_PORT" "localhost:$GRPC_PORT" digits-predictor.default.example.com
