"""What machines with real GPUs answered; `record_real_gpu.py` writes the files.

Each is a virtual machine that a GPU was passed through to: without NVLink, without a NUMA node of its GPU,
with the open kernel module of driver 580. Their hypervisor adds memory while they run: the NUMA node has less
than /proc/meminfo says.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.read import read_topology

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class RealGpu:
    """A machine's files; `record` has what NVML ("nvml") and NVIDIA's programs ("answers") said."""

    record: Mapping[str, Any]
    snapshot: Snapshot
    smi: str

    @property
    def topology(self) -> NodeTopology:
        return read_topology(self.snapshot)


@cache
def real_gpus() -> dict[str, RealGpu]:
    """Return the machines by name."""
    return {name: _read(name) for name in ("h100-vm", "h200-vm")}


def _read(name: str) -> RealGpu:
    def text(ending: str) -> str:
        return (FOLDER / f"{name}.{ending}").read_text(encoding="utf-8")

    return RealGpu(json.loads(text("json")), Snapshot.from_json(text("snapshot.json")), text("xml"))
