"""Governors, energy preferences, sysctls, transparent hugepages and swap: only what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from numaforge import kernel_paths
from numaforge.errors import HostError
from numaforge.node.part import Found, Goal, Look, Part, lines
from numaforge.planning.files import TUNING_UNIT_PATH
from numaforge.planning.sysctls import reaches
from numaforge.shell import line

NAME = "kernel_values"
UNIT = PurePosixPath(TUNING_UNIT_PATH).name
BOOT_LINK = f"/etc/systemd/system/multi-user.target.wants/{UNIT}"


def look(goal: Goal) -> Look:
    """Return the kernel's files, and whether swap is on and our unit enabled."""
    if "tuning" not in goal.roles:
        return Look()
    return Look(
        values=tuple(kernel_paths.kernel_values(goal.plan.tuning)), call=("look_kernel_values", BOOT_LINK)
    )


def need(goal: Goal, found: Found, below: Sequence[Part]) -> Part | None:  # noqa: ARG001 (the contract's)
    """Return the values that differ; a limit that is higher already is left alone.

    Raises HostError for a value that the kernel does not have.
    """
    if "tuning" not in goal.roles:
        return None
    tuning, said = goal.plan.tuning, found.answers(NAME)
    raised = kernel_paths.raised_values(tuning)
    different = {
        path: value
        for path, value in kernel_paths.kernel_values(tuning).items()
        if not (reaches if path in raised else _is)(found.values.get(path), value)
    }
    at_boot = TUNING_UNIT_PATH in [file.path for file in goal.plan.files]
    swaps_off = tuning.swap_off and said.get("swap") == "on"
    relinks = (said.get("unit") == "enabled") is not at_boot
    if not (different or swaps_off or relinks):
        return None
    return part(different, found.values, swap_off=swaps_off, enabled=at_boot, relinks=relinks)


def part(
    different: Mapping[str, str],
    now: Mapping[str, str],
    *,
    swap_off: bool = False,
    enabled: bool = True,
    relinks: bool = False,
) -> Part:
    """Return the part that sets values by path; `enabled` says whether our unit repeats that at every boot.

    Raises HostError for a value that the kernel does not have.
    """
    if missing := sorted({*different} - {*now}):
        raise HostError(
            "is planned, and this kernel does not have it or does not let it be read",
            where=", ".join(missing),
            remedy="leave it out of the profile, or run again if the machine has just changed",
        )
    moves = [f"{path}: {now[path]} -> {value}" for path, value in different.items()]
    if swap_off:
        moves.append("swap: on -> off")
    if relinks:
        states = ("disabled", "enabled")
        moves.append(f"{UNIT}: {states[not enabled]} -> {states[enabled]}")
    return Part(
        NAME,
        moves=tuple(moves),
        data={"planned": lines(*(f"{line(path)}\t{line(value)}" for path, value in different.items()))},
        settings={
            "SWAP_OFF": "yes" if swap_off else "",
            "BOOT_LINK": BOOT_LINK,
            "BOOT_LINK_TARGET": TUNING_UNIT_PATH if enabled else "",
        },
        apply_seconds=300 if swap_off else 60,  # what is swapped out is read back first
        undo_seconds=60,
        boot_seconds=60,
        units=(UNIT,),  # systemd has it in its queue when a boot takes the change back
    )


def _is(now: str | None, wanted: str) -> bool:
    """Say whether a kernel file's line means the value, `[chosen] other` and odd spacing included."""
    if now is None:
        return False
    return f"[{wanted}]" in now.split() or now.split() == wanted.split()
