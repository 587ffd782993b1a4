"""Measure the planning of MIG geometries: milliseconds for the eight GPUs of one machine."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.draw import best_ms
from numaforge.planning.mig.config import parse_config
from numaforge.planning.mig.machine import plan_machine
from tests.fixtures.machines import dgx_h100

LIMIT_MS = 50

GEOMETRIES = {
    "3g, 2g, 1g, 1g": "{3g.40gb: 1, 2g.20gb: 1, 1g.10gb: 2}",
    "7 x 1g": "{1g.10gb: 7}",
    "3g, 3g, 1g: does not fit": "{3g.40gb: 2, 1g.10gb: 1}",
    "7 of 7 profiles: do not fit": "{1g.10gb: 7, 1g.10gb+me: 1, 1g.20gb: 4, 2g.20gb: 3, 3g.40gb: 2, "
    "4g.40gb: 1, 7g.80gb: 1}",
}


def main() -> str | int:
    topology = dgx_h100()
    over = []
    for name, devices in GEOMETRIES.items():
        text = (
            f"version: v1\nmig-configs: {{a: [{{devices: all, mig-enabled: true, mig-devices: {devices}}}]}}"
        )
        entries = parse_config(text, "config.yaml")["a"]
        spent = best_ms(lambda entries=entries: plan_machine(topology, "a", entries))
        print(f"8 GPUs, {name}: {spent:.1f} ms of {LIMIT_MS} ms")
        over += [name] if spent > LIMIT_MS else []
    return f"over the limit: {', '.join(over)}" if over else 0


if __name__ == "__main__":
    sys.exit(main())
