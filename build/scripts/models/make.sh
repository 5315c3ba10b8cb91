#!/bin/sh
# Regenerates models-sample and checks it: make.sh [step...]. The steps are those of make.py.
# PYTHON: the interpreter. By default, the script sets up one in .cache/venv with the packages of requirements.txt.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
if [ -z "${PYTHON:-}" ]; then
	PYTHON=$root/.cache/venv/bin/python
	[ -x "$PYTHON" ] || python3 -m venv "$root/.cache/venv"
	"$PYTHON" -m pip install -q --disable-pip-version-check -r "$here/requirements.txt"
fi
export PYTHONDONTWRITEBYTECODE=1
[ "${1:-}" = simple ] || "$here/fonts.sh"
"$PYTHON" "$here/make.py" "$@"
"$PYTHON" "$here/check.py" --require-fonts
