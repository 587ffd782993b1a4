"""GPUs for a test: their description in a folder, the library that presents them, what was done to them."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fakes.nvml.build import build

MODELS = {  # PCI device and vendor, product, bytes of memory
    "a100-40gb": ("0x20b010de", "NVIDIA A100-SXM4-40GB", 42_505_273_344),
    "a100-80gb": ("0x20b210de", "NVIDIA A100-SXM4-80GB", 85_899_345_920),
    "pg506-96gb": ("0x20b610de", "NVIDIA PG506-232", 102_625_181_696),
    "a30-24gb": ("0x20b710de", "NVIDIA A30", 25_769_803_776),
    "h100-80gb": ("0x233010de", "NVIDIA H100 80GB HBM3", 85_520_809_984),
    "h100-94gb": ("0x232110de", "NVIDIA H100 NVL", 100_485_038_080),
    "h100-96gb": ("0x234210de", "NVIDIA GH200 480GB", 102_625_181_696),
    "h200-141gb": ("0x233510de", "NVIDIA H200", 150_754_820_096),
    "gh200-144gb": ("0x234810de", "NVIDIA GH200 144G HBM3e", 153_800_000_000),
    "b200-180gb": ("0x290110de", "NVIDIA B200", 192_265_846_784),
    "gb200-186gb": ("0x294110de", "NVIDIA GB200", 199_199_031_296),
    "b300-269gb": ("0x318210de", "NVIDIA B300 SXM6 AC", 288_000_000_000),
    "gb300-278gb": ("0x31c210de", "NVIDIA GB300", 298_000_000_000),
    "rtx-pro-6000-96gb": ("0x2bb510de", "NVIDIA RTX PRO 6000 Blackwell Server Edition", 102_641_958_912),
}


def gpu_text(model: str, address: str, *lines: str, number: int = 0, mig: str = "disabled") -> str:
    """Return the description of a GPU of one of MODELS, with lines of its own after it."""
    device, name, memory = MODELS[model]
    facts = [
        f"device {device}",
        f"name {name}",
        f"uuid GPU-{number:08d}-0000-4000-8000-000000000000",
        f"memory_bytes {memory}",
        f"mig {mig}",
    ]
    return "\n  ".join([f"gpu {address}", *facts, *lines]) + "\n"


@dataclass(frozen=True)
class Instance:
    """A GPU instance as the state has it; `computes` are the profiles of its compute instances."""

    profile: int
    start: int
    computes: tuple[int, ...] = ()


class FakeGpus:
    """GPUs whose description and state lie in a folder.

    `environment` is for any process that shall see them: it loads the library, and finds nvidia-smi first.
    """

    def __init__(self, folder: Path, description: str, *flags: str) -> None:
        self.description = folder / "gpus.txt"
        self.state = folder / "gpus.state"
        self.programs = build(*flags)
        self._boots = 0
        self.describe("driver 580.95.05\nboot 0\n" + description)

    @property
    def environment(self) -> dict[str, str]:
        """Return what a process needs to see these GPUs."""
        return {
            "LD_LIBRARY_PATH": str(self.programs),
            "FAKE_NVML_MACHINE": str(self.description),
            "FAKE_NVML_STATE": str(self.state),
            "PATH": f"{self.programs}:{os.environ['PATH']}",
        }

    def describe(self, text: str) -> None:
        """Replace the description, at once for every process; what was done to the GPUs stays."""
        unfinished = self.description.with_suffix(".new")
        unfinished.write_text(text)
        unfinished.rename(self.description)

    def add(self, address: str, line: str) -> None:
        """Give a GPU one more line of description: `process 4711 compute 1024`, `lost yes`."""
        lines = self.description.read_text().splitlines()
        lines.insert(lines.index(f"gpu {address}") + 1, f"  {line}")
        self.describe("\n".join(lines) + "\n")

    def reboot(self) -> None:
        """Boot the machine: what does not outlive a boot is gone."""
        boot = f"boot {self._boots}\n"
        self._boots += 1
        self.describe(self.description.read_text().replace(boot, f"boot {self._boots}\n", 1))

    def mode(self, address: str) -> str:
        """Return the MIG mode as the state has it: disabled, enabled, enabling, disabling."""
        return self._lines(address, "mig")[0]

    def instances(self, address: str) -> list[Instance]:
        """Return the GPU instances of a GPU by where they lie, without the library."""
        found: list[Instance] = []
        for line in self._section(address):
            key, *values = line.split()
            if key == "instance":
                found.append(Instance(int(values[0]), int(values[1])))
            elif key == "compute":
                last = found[-1]
                found[-1] = Instance(last.profile, last.start, (*last.computes, int(values[1])))
        return sorted(found, key=lambda instance: instance.start)

    def ask(self, code: str, environment: Mapping[str, str] | None = None) -> Any:
        """Run code on the real pynvml in a process of its own, and return what it gives to `answer(...)`."""
        finished = self.start(code, environment)
        output, errors = finished.communicate()
        assert finished.returncode == 0, errors
        return json.loads(output)

    def start(self, code: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start code on the real pynvml, initialised, in a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-c", PREAMBLE + code],
            env=self.environment | dict(environment or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def smi(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run nvidia-smi."""
        command = [str(self.programs / "nvidia-smi"), *arguments]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)

    def _section(self, address: str) -> list[str]:
        lines = self.state.read_text().splitlines()
        section = []
        for line in lines[lines.index(f"gpu {address}") + 1 :]:
            if not line.startswith(" "):
                break
            section.append(line.strip())
        return section

    def _lines(self, address: str, key: str) -> list[str]:
        return [line.removeprefix(f"{key} ") for line in self._section(address) if line.startswith(f"{key} ")]


PREAMBLE = """
import json
from ctypes import byref
from pynvml import *

def answer(value):
    print(json.dumps(value))

def error_of(call, *arguments):
    try:
        call(*arguments)
    except NVMLError as error:
        return type(error).__name__.removeprefix("NVMLError_")
    return None

def instances(gpu, profile):
    found = (c_nvmlGpuInstance_t * 8)()
    count = c_uint()
    nvmlDeviceGetGpuInstances(gpu, profile, found, byref(count))
    return [found[index] for index in range(count.value)]

def placement(start, size):
    return byref(c_nvmlGpuInstancePlacement_t(start, size))

nvmlInit()
gpu = nvmlDeviceGetHandleByIndex(0) if nvmlDeviceGetCount() else None
"""
