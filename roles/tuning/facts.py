"""What the kernel runs with now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from pyinfra.api import Host

from numaforge.errors import HostError
from numaforge.hosts import parse_values, script_output, values_script
from numaforge.planning.files import TUNING_UNIT_PATH

UNIT = PurePosixPath(TUNING_UNIT_PATH).name
UNIT_LINK = PurePosixPath(f"/etc/systemd/system/multi-user.target.wants/{UNIT}")

_SCRIPT = f"""
swaps=0
while read -r _; do swaps=$((swaps + 1)); done < /proc/swaps
if [ "$swaps" -gt 1 ]; then echo on; else echo off; fi
if ! command -v systemctl >/dev/null 2>&1; then echo none
elif [ -L {UNIT_LINK} ]; then echo enabled
else echo disabled; fi
"""


@dataclass(frozen=True)
class KernelState:
    """Values by path, absent where the host has no such file; `unit`, ours, is enabled, disabled or none."""

    values: dict[str, str]
    swap_on: bool
    unit: str


def kernel_state_script(paths: Sequence[str]) -> str:
    """Return the script whose output `kernel_state` reads."""
    return f"{_SCRIPT}{values_script(paths)}"


def kernel_state(host: Host, paths: Sequence[str]) -> KernelState:
    """Read what the tuning is about, in one round trip."""
    output = script_output(host, kernel_state_script(paths))
    if len(output) < 2:
        raise HostError("the answer about kernel settings is cut off", remedy="run again")
    swap, unit, *lines = output
    return KernelState(parse_values(paths, lines), swap == "on", unit)
