#!/bin/bash
# Serves the model of this folder, and redraws its picture to OUTPUT. PORT is the server's port.
set -euo pipefail
. "$(dirname "$0")/../serve.sh"
: "${PORT:=8000}" "${OUTPUT:=redrawn.png}"
serve server "$PORT" --model-repository="$here/models"
python "$here/infer.py" --url "localhost:$PORT" --image "$here/picture.png" --output "$OUTPUT"
