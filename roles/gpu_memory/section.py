"""Key `gpu_memory`: who manages the memory of GPUs beside Grace and Vera."""

from __future__ import annotations

from typing import Literal

from numaforge.sections.section import ProfileKey

KEY = ProfileKey(
    "gpu_memory",
    Literal["numa", "driver"] | None,
    None,
    "What manages the memory of GPUs beside Grace and Vera CPUs, in effect after a reboot. `numa`: the "
    "kernel, as NUMA nodes; `driver`: NVIDIA's driver alone (CDMM). Unset: the default of the driver's "
    "branch.",
)
