#!/bin/bash
# Serves the models of this folder, and reads a page in three ways. PORT is the server's port.
set -euo pipefail
. "$(dirname "$0")/../serve.sh"
: "${PORT:=8000}"
serve server "$PORT" --model-repository="$here/models"
read_page() { python "$here/client.py" --url "localhost:$PORT" "$@" "$here/pages/02.jpg"; }
echo "two calls:  $(read_page)"
echo "ensemble:   $(read_page --model ocr)"
echo "one Python model that calls the others: $(read_page --model ocr_bls)"
