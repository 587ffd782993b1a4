"""What a sandbox without GPUs lacks: the fake libnvidia-ml, `nvidia-smi`, and processes that hold a GPU.

The GPUs are in /run/gpus, what has been done to them in /run/gpus.state. A process holds the GPU of minor
0 while it has /run/nvidia/dev/nvidia0 open. `nvidia-smi` is the fake one; it resets no GPU while a process
holds one, while there is /run/refuse-reset, and fewer together than /run/reset-together says.
"""

import shutil

from tests.fakes.nvml.build import LIBRARY, SMI, build
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_systemd import notifying

STATE = "/run/gpus.state"
PYTHON = "/usr/local/bin/python3"
DEVICES = "/run/nvidia/dev"
PERSISTENCED = "nvidia-persistenced.service"

_PYTHON = """#!/bin/sh
FAKE_NVML_MACHINE=/run/gpus exec /usr/bin/python3 "$@"
"""

_NVIDIA_SMI = """#!/bin/sh
echo "$*" >> /run/nvidia-smi.log
case $1 in
-r)
    gpus=$(echo "$3" | tr , ' ' | wc -w)
    if [ -e /run/refuse-reset ]; then
        echo "Resetting GPU $3 is not supported."
        exit 1
    elif [ -e /run/reset-together ] && [ "$gpus" -lt "$(cat /run/reset-together)" ]; then
        echo "GPU $3 cannot be reset alone: it is connected by NVLink."
        exit 1
    fi
    for link in /proc/[0-9]*/fd/*; do
        case $(readlink "$link") in
        */nvidia/dev/*)
            echo "GPU $3 is currently being used by one or more other processes"
            exit 1
            ;;
        esac
    done
    ;;
esac
FAKE_NVML_MACHINE=/run/gpus exec /usr/local/lib/fake-nvidia-smi "$@"
"""


def standin_gpus() -> dict[str, str]:
    """Return the programs, by path."""
    return {PYTHON: _PYTHON, "/usr/local/bin/nvidia-smi": _NVIDIA_SMI}


def install(node: Sandbox, description: str) -> None:
    """Give the node GPUs with driver and library, and nvidia-persistenced, which holds all of them."""
    node.run("mount -t tmpfs tmpfs /proc/driver; cd /proc/driver; mkdir nvidia; echo NVRM > nvidia/version")
    shutil.copy(build() / LIBRARY, node.path(f"/usr/lib/x86_64-linux-gnu/{LIBRARY}"))
    shutil.copy(build() / SMI, node.path("/usr/local/lib/fake-nvidia-smi"))
    for folder in ("services", "active", "broken", "cgroups", "bound", "nvidia/dev"):
        node.path(f"/run/{folder}").mkdir(parents=True, exist_ok=True)
    node.run(f'until [ "$(command -v python3)" = {PYTHON} ]; do rm "$(command -v python3)"; done')
    describe(node, description)
    for minor in range(description.count("gpu ")):
        node.path(f"{DEVICES}/nvidia{minor}").touch()
    opened = " ".join(f"{3 + m}< {DEVICES}/nvidia{m}" for m in range(description.count("gpu ")))
    node.path(f"/run/services/{PERSISTENCED}").write_text(notifying(f"exec {opened}"))
    node.run(
        f"systemctl start {PERSISTENCED}; nvidia-smi -L; rm /run/nvidia-smi.log"
    )  # they see boots from now on


def describe(node: Sandbox, description: str) -> None:
    """Change what the GPUs are, but not what has been done to them."""
    node.path("/run/gpus").write_text(f"driver 580.95.05\nstate {STATE}\n{description}")


def hold(node: Sandbox, minor: int, group: str, traps: str = "") -> int:
    """Start a process that holds a GPU, in a control group; return its pid."""
    opened = f"exec 3< {DEVICES}/nvidia{minor}; exec sleep 1000"
    script = f"""
setsid sh -c '{traps} {opened}' > /dev/null 2>&1 < /dev/null &
echo '0::{group}' > /run/cgroups/$!
mount --bind /run/cgroups/$! /proc/$!/cgroup
echo $!
"""
    return int(node.run(script).stdout)
