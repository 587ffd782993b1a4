"""Measure the planning of MIG geometries: milliseconds for the eight GPUs of one machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.draw import best_ms
from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import Gpu, NodeTopology
from numaforge.planning.profile import NodeProfile
from numaforge.planning.profiles import load_profile
from numaforge.roles.mig.geometry import forget
from numaforge.roles.mig.plan import as_cut, plan_mig
from tests.fixtures.machines import dgx_h100

LIMIT_MS = 50

H100 = ("10de", "2330", 85520809984)
RTX_PRO_6000 = ("10de", "2bb5", 96 * 2**30)
EMPTY: dict[str, int | str] = {}

# What is there, and what is wanted.
CASES = {
    "3g, 2g, 1g, 1g": (H100, EMPTY, {"3g": 1, "2g": 1, "1g": 2}),
    "7 x 1g": (H100, EMPTY, {"1g": "all"}),
    "7 x 1g there, 3g, 2g, 1g, 1g wanted": (H100, {"1g": 7}, {"3g": 1, "2g": 1, "1g": 2}),
    "3g, 2g, 1g, 1g there, 4g, 1g+me, 1g wanted": (
        H100,
        {"3g": 1, "2g": 1, "1g": 2},
        {"4g": 1, "1g+me": 1, "1g": 1},
    ),
    "3g, 3g, 1g: do not fit": (H100, EMPTY, {"3g": 2, "1g": 1}),
    "H100, every profile to its limit: do not fit": (
        H100,
        EMPTY,
        {"1g.10gb": 7, "1g.10gb+me": 1, "1g.20gb": 4, "2g": 3, "3g": 2, "4g": 1, "7g": 1},
    ),
    "RTX PRO 6000, every profile to its limit: do not fit": (
        RTX_PRO_6000,
        EMPTY,
        {"1g": 4, "1g+me": 1, "1g+gfx": 4, "1g+me.all": 1, "1g-me": 4, "2g": 2, "2g+gfx": 2, "2g+me.all": 1,
         "2g-me": 2, "4g": 1, "4g+gfx": 1},
    ),
}  # fmt: skip


def machine(kind: tuple[str, str, int]) -> NodeTopology:
    """Return a machine with eight such GPUs, on which no GPU instance exists."""

    def alike(gpu: Gpu) -> Gpu:
        vendor, device, memory_bytes = kind
        return replace(gpu, vendor=vendor, device=device, memory_bytes=memory_bytes, gpu_instances=())

    topology = dgx_h100()
    return replace(topology, gpus=tuple(alike(gpu) for gpu in topology.gpus))


def wish(devices: dict[str, int | str]) -> NodeProfile:
    return load_profile({"mig": {"gpus": [{"devices": devices} if devices else {"mode": "enabled"}]}})


def planning(topology: NodeTopology, profile: NodeProfile) -> Callable[[], None]:
    """Return the work: planning from nothing, with no answer remembered from the round before."""

    def work() -> None:
        forget()
        with suppress(PlanError):
            plan_mig(topology, profile)

    return work


def main() -> str | int:
    over = []
    for name, (kind, there, wanted) in CASES.items():
        topology = machine(kind)
        topology = as_cut(topology, plan_mig(topology, wish(there)).value)
        spent = best_ms(planning(topology, wish(wanted)))
        print(f"8 GPUs, {name}: {spent:.1f} ms of {LIMIT_MS} ms")
        over += [name] if spent > LIMIT_MS else []
    return f"over the limit: {', '.join(over)}" if over else 0


if __name__ == "__main__":
    sys.exit(main())
