"""Interrupts, packet steering and workqueues on the reserved CPUs; irqbalance may not move them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from numaforge.cpulist import format_cpulist, format_cpumask
from numaforge.errors import HostError
from numaforge.file_content import boot_link
from numaforge.maintenance.part import Found, Goal, Look, Part, lines, switched
from numaforge.roles.interrupts.files import INTERRUPTS_UNIT, INTERRUPTS_UNIT_PATH, IRQBALANCE_OFF_PATH
from numaforge.roles.interrupts.paths import DEFAULT_AFFINITY, IRQBALANCE, WORKQUEUES, affinity_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numaforge.roles.interrupts.plan import InterruptsPlan

NAME = "interrupts"
BOOT_LINK = boot_link(INTERRUPTS_UNIT_PATH)
_MASKS = {DEFAULT_AFFINITY: "default_affinity", WORKQUEUES: "workqueues"}
BLOCK_BEGIN, BLOCK_END = "# numaforge begin", "# numaforge end"


def look(goal: Goal) -> Look:
    """Return what to read: what is on other CPUs, what an earlier plan left, and irqbalance."""
    asked = affinity_lines(goal.plan.interrupts)
    return Look(
        files=(IRQBALANCE_OFF_PATH,),
        units=(IRQBALANCE,),
        properties=("LoadState", "ActiveState", "UnitFileState", "EnvironmentFiles"),
        call=("look_interrupts", BOOT_LINK, BLOCK_BEGIN, BLOCK_END, *asked),
    )


def need(goal: Goal, found: Found, below: Sequence[Part]) -> Part | None:
    """Return the part that moves interrupts; None where nothing has to move.

    Raises HostError for an irqbalance whose CPUs cannot be restricted.
    """
    plan, said = goal.plan.interrupts, found.answers(NAME)
    moves = [*_moved(found), *_left(found)]
    at_boot = INTERRUPTS_UNIT_PATH in [file.path for file in goal.plan.files]
    if (said.get("unit") == "enabled") is not at_boot:
        moves.append(switched(INTERRUPTS_UNIT, enabled=at_boot))
    block, file, verb, irqbalance = _irqbalance_change(plan, found, said)
    moves += irqbalance
    return part(plan, moves, block=block, file=file, verb=verb, enabled=at_boot) if moves else None


def pending(goal: Goal, found: Found) -> str | None:
    """Return the queues and masks that this kernel lacks, as a message; None where it has all."""
    words = (text.split() for text in found.every(NAME, "lacks"))
    names = [_MASKS.get(name, f"rps of {name}") for _, name, *_ in words]
    return f"left alone: {', '.join(names)}, which this kernel does not offer" if names else None


def part(
    plan: InterruptsPlan,
    moves: Sequence[str],
    *,
    block: Sequence[str] = (),
    file: str = "",
    verb: str = "",
    enabled: bool = True,
) -> Part:
    """Return the part that carries out the plan.

    `file` is irqbalance's environment file, "" where it stays, `block` its new end, `verb` the systemctl verb
    for irqbalance; `enabled`: our unit repeats the settings at every boot.
    """
    return Part(
        NAME,
        moves=tuple(moves),
        data={"planned": lines(*affinity_lines(plan)), "banned": lines(*block)},
        settings={
            "IRQBALANCE_FILE": file,
            "IRQBALANCE_VERB": verb,
            "BLOCK_BEGIN": BLOCK_BEGIN,
            "BLOCK_END": BLOCK_END,
            "INTERRUPTS_LINK": BOOT_LINK,
            "INTERRUPTS_LINK_TARGET": INTERRUPTS_UNIT_PATH if enabled else "",
        },
        apply_seconds=60,
        undo_seconds=60,
        boot_seconds=60,
        units=(INTERRUPTS_UNIT,),
    )


def _moved(found: Found) -> list[str]:
    """Return a line for each device and interface with something on other CPUs, with the count."""
    said = (text.split("\t") for text in found.every(NAME, "differs"))
    groups = Counter((name, now, wanted) for _, now, wanted, name in said)
    return [
        f"{name}: {now} -> {wanted or 'none'} ({count} of them)"
        if count > 1
        else f"{name}: {now} -> {wanted}"
        for (name, now, wanted), count in groups.items()
    ]


def _left(found: Found) -> list[str]:
    left = found.every(NAME, "left")
    return [f"interrupts, queues and masks not planned any more: {len(left)} -> as they were"] if left else []


def _irqbalance_change(
    plan: InterruptsPlan, found: Found, said: Mapping[str, str]
) -> tuple[tuple[str, ...], str, str, list[str]]:
    """Return the new end of its environment file, the file if it changes, systemctl's verb, and the moves."""
    if said.get("LoadState") != "loaded":  # not installed, or masked by the admin
        return (), "", "", []
    file, active = said.get("EnvironmentFile", ""), said.get("ActiveState") == "active"
    now = tuple(found.every(NAME, "block"))
    wanted = _block(plan) if plan.irqbalance == "reserved" else ()
    if wanted and not file:
        raise HostError(
            "the unit reads no environment file, so its CPUs cannot be restricted",
            where=IRQBALANCE,
            remedy="say interrupts.irqbalance: off",
        )
    if plan.irqbalance == "off":
        verb = "stop" if active else ""
    elif (
        found.text(IRQBALANCE_OFF_PATH) is not None and not active and said.get("UnitFileState") == "enabled"
    ):
        verb = "start"  # an earlier plan turned it off
    else:
        verb = "restart" if active and now != wanted else ""
    moves = (
        [f"{file}: irqbalance {'not on CPUs ' + format_cpulist(plan.banned) if wanted else 'on all CPUs'}"]
        if now != wanted
        else []
    )
    if verb:
        moves.append(f"irqbalance.service: {verb}")
    return wanted, file if now != wanted else "", verb, moves


def _block(plan: InterruptsPlan) -> tuple[str, ...]:
    """Return the lines for its environment file; versions before 1.8.0 know only the mask."""
    return (
        BLOCK_BEGIN,
        f"IRQBALANCE_BANNED_CPUS={format_cpumask(plan.banned)}",
        f"IRQBALANCE_BANNED_CPULIST={format_cpulist(plan.banned)}",
        BLOCK_END,
    )
