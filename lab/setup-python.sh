#!/bin/sh
# Make the virtual environment $1 and install the locked dependencies and numaforge itself into it.
set -eu
venv=$1

if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "numaforge needs Python 3.11 or later; python3 is $(python3 --version 2>&1)" >&2
    exit 2
fi
if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "python3 lacks venv: install the package python3-venv, then run this again" >&2
        exit 2
    fi
    echo "installing python3-venv"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive \
        apt-get -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends python3-venv >/dev/null
fi
echo "installing Python packages into $venv"
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
pip() { "$venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"; }
# uv takes 10 s where pip takes 70; pip does it where only pip's own settings name the index.
awk '/^[^ ]/ { ours = /^uv==/ } ours' requirements.lock > "$venv/uv.lock"
pip install --require-hashes -r "$venv/uv.lock"
VIRTUAL_ENV=$venv "$venv/bin/uv" pip install --quiet --require-hashes --compile-bytecode -r requirements.lock ||
    pip install --require-hashes -r requirements.lock
pip install --no-deps --no-build-isolation -e .
# pyinfra runs with sys.dont_write_bytecode: without this, every run would compile our modules again.
"$venv/bin/python" -m compileall -q -x rootfs src roles lab
