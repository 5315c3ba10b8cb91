#!/bin/sh
# Trains the models of docs/examples/ocr: make.sh [recognition] [detection]. Without arguments it trains both.
# PYTHON: the interpreter. By default, the script sets up one in .cache/ocr-venv with the packages of requirements.txt.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
if [ -z "${PYTHON:-}" ]; then
	PYTHON=$root/.cache/ocr-venv/bin/python
	[ -x "$PYTHON" ] || python3 -m venv "$root/.cache/ocr-venv"
	"$PYTHON" -m pip install -q --disable-pip-version-check -r "$here/requirements.txt"
fi
export PYTHONDONTWRITEBYTECODE=1
"$here/../models/fonts.sh"
[ $# -gt 0 ] || set -- recognition detection
for what in "$@"; do
	"$PYTHON" "$here/$what.py" "$root/docs/examples/ocr/models/text_$what"
done
