"""What a sandbox without GPUs lacks: the fake libnvidia-ml, `nvidia-smi`, and processes that hold a GPU.

The GPUs are in /run/gpus, what has been done to them in /run/gpus.state. A process holds the GPU of minor
0 while it has /run/nvidia/dev/nvidia0 open. `nvidia-smi` resets GPUs, as long as no process holds them and
there is no /run/refuse-reset, and knows of `mig` what a person needs to put a geometry back.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

from tests.fakes.nvml.build import LIBRARY, build
from tests.ssh.sandbox import Sandbox

STATE = "/run/gpus.state"
PYTHON = "/usr/local/bin/python3"
DEVICES = "/run/nvidia/dev"
PERSISTENCED = "nvidia-persistenced.service"

_PYTHON = """#!/bin/sh
FAKE_NVML_MACHINE=/run/gpus exec /usr/bin/python3 "$@"
"""

_NVIDIA_SMI = """#!/usr/bin/env python3
import pathlib, re, sys
sys.path.append("/usr/local/share/nvidia-smi")
import pynvml as nvml
words = sys.argv[1:]
with open("/run/nvidia-smi.log", "a") as log:
    print(*words, file=log)
options = {word: "" if index + 1 == len(words) else words[index + 1] for index, word in enumerate(words)}
asked = options["-i"].split(",")

def reset():
    if pathlib.Path("/run/refuse-reset").exists():
        sys.exit("Resetting GPU %s is not supported." % asked[0])
    refused = pathlib.Path("/run/reset-together")
    if refused.exists() and len(asked) < int(refused.read_text()):
        sys.exit("GPU %s cannot be reset alone: it is connected by NVLink." % asked[0])
    held = [link for link in pathlib.Path("/proc").glob("[0-9]*/fd/*") if "nvidia/dev" in target(link)]
    if held:
        sys.exit("GPU %s is currently being used by one or more other processes" % asked[0])
    state = pathlib.Path("/run/gpus.state")
    blocks = re.split("^(?=gpu )", state.read_text(), flags=re.MULTILINE)
    for number, block in enumerate(blocks):
        if block.split()[1] in asked:
            blocks[number] = block.replace("enabling", "enabled").replace("disabling", "disabled")
    state.write_text("".join(blocks))

def target(link):
    try:
        return str(link.readlink())
    except OSError:
        return ""

def members(ask, handle, profiles, kind):
    for profile in profiles:
        array, count = (kind * 16)(), nvml.c_uint(16)
        try:
            ask(handle, profile, array, nvml.byref(count))
        except nvml.NVMLError:
            continue
        yield from (array[number] for number in range(count.value))

def compute(instance):
    return members(nvml.nvmlGpuInstanceGetComputeInstances, instance, range(8), nvml.c_nvmlComputeInstance_t)

def change(device):
    instances = list(members(nvml.nvmlDeviceGetGpuInstances, device, range(70), nvml.c_nvmlGpuInstance_t))
    for instance in instances:
        if "-dci" in options:
            for each in list(compute(instance)):
                nvml.nvmlComputeInstanceDestroy(each)
        if "-dgi" in options:
            nvml.nvmlGpuInstanceDestroy(instance)
    if "-mig" in options:
        nvml.nvmlDeviceSetMigMode(device, int(options["-mig"]))
    for place in filter(None, options.get("-cgi", "").split(",")):
        profile, start = map(int, place.split(":"))
        size = {9: 4, 14: 2, 19: 1}[profile]
        where = nvml.c_nvmlGpuInstancePlacement_t(start, size)
        made = nvml.nvmlDeviceCreateGpuInstanceWithPlacement(device, profile, nvml.byref(where))
        if "-C" in options:
            nvml.nvmlGpuInstanceCreateComputeInstance(made, {9: 2, 14: 1, 19: 0}[profile])

if "-r" in options:
    reset()
else:
    nvml.nvmlInit()
    for index in range(nvml.nvmlDeviceGetCount()):
        device = nvml.nvmlDeviceGetHandleByIndex(index)
        if nvml.nvmlDeviceGetPciInfo(device).busId[-12:].lower() in asked:
            change(device)
"""


def standin_gpus() -> dict[str, str]:
    """Return the programs and pynvml for `nvidia-smi`, by path."""
    found = importlib.util.find_spec("pynvml")
    assert found is not None
    assert found.origin is not None
    return {
        PYTHON: _PYTHON,
        "/usr/local/bin/nvidia-smi": _NVIDIA_SMI,
        "/usr/local/share/nvidia-smi/pynvml.py": Path(found.origin).read_text(encoding="utf-8"),
    }


def install(node: Sandbox, description: str) -> None:
    """Give the node GPUs, their library, and nvidia-persistenced, which holds all of them."""
    shutil.copy(build() / LIBRARY, node.path(f"/usr/lib/x86_64-linux-gnu/{LIBRARY}"))
    for folder in ("services", "active", "broken", "cgroups", "bound", "nvidia/dev"):
        node.path(f"/run/{folder}").mkdir(parents=True, exist_ok=True)
    node.run(f'until [ "$(command -v python3)" = {PYTHON} ]; do rm "$(command -v python3)"; done')
    describe(node, description)
    for minor in range(description.count("gpu ")):
        node.path(f"{DEVICES}/nvidia{minor}").touch()
    opened = " ".join(f"{3 + m}< {DEVICES}/nvidia{m}" for m in range(description.count("gpu ")))
    node.path(f"/run/services/{PERSISTENCED}").write_text(f"exec {opened}; exec sleep 1000\n")
    node.run(f"systemctl start {PERSISTENCED}; nvidia-smi -i none")  # from here on, a boot is one for them


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
