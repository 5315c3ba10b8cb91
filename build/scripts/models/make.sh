#!/bin/sh
# Makes models-sample again from nothing and checks it: make.sh [step...], the steps are make.py's.
# PYTHON: the interpreter to use; without it, one in .cache/venv with the versions of requirements.txt is set up.
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
