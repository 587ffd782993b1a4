"""Key `gpu_memory`: who manages the memory of GPUs beside Grace and Vera."""

from __future__ import annotations

from typing import Literal

from numaforge.sections.section import ProfileKey

KEY = ProfileKey(
    "gpu_memory",
    Literal["numa", "driver"] | None,
    None,
    "Who manages the memory of GPUs beside Grace and Vera CPUs, from a boot on: `numa`, the kernel as NUMA "
    "nodes; `driver`, NVIDIA's driver alone (CDMM). Unset: whatever the driver's branch takes.",
)
