"""Apply kernel settings: only what differs, in one command."""

from __future__ import annotations

import shlex

from pyinfra import host

from numaforge import kernel_paths
from numaforge.hosts import FIRST_LINE, Commands, host_operation, script_command, show_lines
from numaforge.planning.files import SYSCTL_PATH, TUNING_TMPFILES_PATH, TUNING_UNIT_PATH
from numaforge.planning.model import TuningPlan
from numaforge.planning.sysctls import reaches

from .facts import UNIT, UNIT_LINK, kernel_state

FILES = (SYSCTL_PATH, TUNING_TMPFILES_PATH, TUNING_UNIT_PATH)

# Every refusal is named, and the others are still tried. What the kernel took is read back: some drivers
# accept a write and keep their value.
_SET = r"""
failed=
set_value() { # PATH VALUE
    if ! printf '%s\n' "$2" > "$1"; then
        echo "$1: the kernel refuses the value $2" >&2
        failed=yes
        return
    fi
    first_line "$1"
    case $line in "$2" | *"[$2]"*) return ;; esac
    if [ "$(echo $line)" != "$(echo $2)" ]; then
        echo "$1: wanted $2, the kernel keeps $line" >&2
        failed=yes
    fi
}
"""


@host_operation
def kernel_settings(plan: TuningPlan, at_boot: bool) -> Commands:
    """Set governors, energy preferences, transparent hugepages and sysctls, turn swap off, enable our unit.

    A limit that is higher already is left alone.

    The unit is for the next boot, at which systemd reads its link. `systemctl enable` would reload all units
    now, on a node with pods, which takes the GPUs of containers away where /dev/char lacks their links
    (github.com/NVIDIA/nvidia-container-toolkit/issues/48).

    + plan: the values, by CPU and by name
    + at_boot: whether our unit repeats them at every boot
    """
    wanted = kernel_paths.kernel_values(plan)
    state = kernel_state(host, list(wanted))
    raised = kernel_paths.raised_values(plan)
    different = {
        path: value
        for path, value in wanted.items()
        if not (reaches if path in raised else _is)(state.values.get(path), value)
    }
    steps = [f"set_value {shlex.join([path, value])}" for path, value in different.items()]
    told = [
        f"{path}: {state.values.get(path, '(not there)')} -> {value}" for path, value in different.items()
    ]
    if plan.swap_off and state.swap_on:
        steps.append("swapoff -a || failed=yes")
        told.append("swap: on -> off")
    if state.unit == "none" and at_boot:
        host.log("no systemd here: the settings do not come back after a reboot")
    elif at_boot and state.unit == "disabled":
        steps.append(f"mkdir -p {UNIT_LINK.parent} && ln -sf {TUNING_UNIT_PATH} {UNIT_LINK} || failed=yes")
        told.append(f"{UNIT}: disabled -> enabled")
    elif not at_boot and state.unit == "enabled":
        steps.append(f"rm -f {UNIT_LINK} || failed=yes")
        told.append(f"{UNIT}: enabled -> disabled")
    if not steps:
        host.noop("the kernel settings are already as planned")
        return
    show_lines(host, told)
    yield script_command("\n".join([FIRST_LINE, _SET, *steps, '[ -z "$failed" ]', ""]))


def _is(now: str | None, wanted: str) -> bool:
    """Say whether a kernel file's line means the value, `[chosen] other` and odd spacing included."""
    if now is None:
        return False
    return f"[{wanted}]" in now.split() or now.split() == wanted.split()
