#!/bin/sh
# Install numaforge with the oldest, or with the newest, dependencies that pyproject.toml allows, into a virtual
# environment of its own ($1), and run tests that lean on them: sh tests/dependencies.sh oldest|newest TEST...
set -eu
which=$1
shift
venv=.venv-$which
python3 -m venv "$venv"
: > "$venv/constraints.txt"
if [ "$which" = oldest ]; then
    python3 - > "$venv/constraints.txt" << 'END'
import re
import tomllib

with open("pyproject.toml", "rb") as file:
    bounds = tomllib.load(file)["project"]["dependencies"]
print(*(re.sub(r">=([^,]+).*", r"==\1", bound) for bound in bounds), sep="\n")
END
fi
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager \
    --constraint "$venv/constraints.txt" --editable ".[pictures]" hypothesis jsonschema pytest-timeout pytest-xdist
echo "== the $which dependencies"
"$venv/bin/python" -m pip list --disable-pip-version-check --format freeze
"$venv/bin/python" -m pytest -q -n 2 -p no:cacheprovider "$@"
