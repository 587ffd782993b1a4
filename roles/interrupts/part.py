"""Interrupts, packet steering and workqueues on the reserved CPUs; irqbalance may not move them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from numaforge.lib.cpulist import format_cpulist, format_cpumask
from numaforge.lib.errors import HostError
from numaforge.lib.file_content import boot_link
from numaforge.node.part import Look, NodeState, Part, lines, switched
from numaforge.roles.interrupts.expected import affinity_lines
from numaforge.roles.interrupts.files import INTERRUPTS_UNIT, INTERRUPTS_UNIT_PATH, IRQBALANCE_OFF_PATH

if TYPE_CHECKING:
    from numaforge.change.goal import Goal
    from numaforge.roles.interrupts.plan import InterruptsPlan

NAME = "interrupts"
BOOT_LINK = boot_link(INTERRUPTS_UNIT_PATH)
IRQBALANCE = "irqbalance.service"
BLOCK_BEGIN, BLOCK_END = "# numaforge begin", "# numaforge end"


def look(goal: Goal) -> Look:
    """Return what to read: what is on other CPUs, what an earlier plan left, and irqbalance."""
    affinities = affinity_lines(goal.plan.interrupts)
    return Look(
        files=(IRQBALANCE_OFF_PATH,),
        units=(IRQBALANCE,),
        properties=("LoadState", "ActiveState", "UnitFileState", "EnvironmentFiles"),
        call=("look_interrupts", BOOT_LINK, BLOCK_BEGIN, BLOCK_END, *affinities),
    )


def need(goal: Goal, state: NodeState, below: Sequence[Part]) -> Part | None:
    """Return the part that moves interrupts; None where nothing has to move.

    Raises HostError for an irqbalance whose CPUs cannot be restricted.
    """
    plan, answers = goal.plan.interrupts, state.answers(NAME)
    moves = _moved(state)
    if leftovers := state.every(NAME, "left"):
        moves.append(f"interrupts, queues and masks not planned any more: {len(leftovers)} -> as they were")
    at_boot = INTERRUPTS_UNIT_PATH in [file.path for file in goal.plan.files]
    if (answers.get("unit") == "enabled") is not at_boot:
        moves.append(switched(INTERRUPTS_UNIT, enabled=at_boot))
    block, file, verb, irqbalance = _irqbalance_change(plan, state, answers)
    moves += irqbalance
    return part(plan, moves, block=block, file=file, verb=verb, enabled=at_boot) if moves else None


def pending(goal: Goal, state: NodeState) -> str | None:
    """Return the queues and masks that this kernel lacks, as a message; None where it has all."""
    names = [_named(what) for what in state.every(NAME, "lacks")]
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


def _named(what: str) -> str:
    """Return a device, a mask or `rps of eth0`, by the label of its row."""
    kind, _, name = what.partition(":")
    return f"rps of {name}" if kind == "packet_steering" else name


def _moved(state: NodeState) -> list[str]:
    """Return a line for each device and interface with something on other CPUs, with the count."""
    said = (text.split("\t") for text in state.every(NAME, "differs"))
    groups = Counter((_named(what), now, wanted) for _, now, wanted, what in said)
    return [
        f"{name}: {current} -> {planned or 'none'} ({count} of them)"
        if count > 1
        else f"{name}: {current} -> {planned}"
        for (name, current, planned), count in groups.items()
    ]


def _irqbalance_change(
    plan: InterruptsPlan, state: NodeState, answers: Mapping[str, str]
) -> tuple[tuple[str, ...], str, str, list[str]]:
    """Return the new end of its environment file, the file if it changes, systemctl's verb, and the moves."""
    if answers.get("LoadState") != "loaded":  # not installed, or masked by the admin
        return (), "", "", []
    file, active = answers.get("EnvironmentFile", ""), answers.get("ActiveState") == "active"
    current_block = tuple(state.every(NAME, "block"))
    planned_block = _block(plan) if plan.irqbalance == "reserved" else ()
    if planned_block and not file:
        raise HostError(
            "the unit reads no environment file, so its CPUs cannot be restricted",
            where=IRQBALANCE,
            remedy="set interrupts.irqbalance: off",
        )
    if plan.irqbalance == "off":
        verb = "stop" if active else ""
    elif active:
        verb = "restart" if current_block != planned_block else ""
    else:  # an earlier plan may have turned it off
        was_off = state.text(IRQBALANCE_OFF_PATH) is not None
        verb = "start" if was_off and answers.get("UnitFileState") == "enabled" else ""
    ban = f"not on CPUs {format_cpulist(plan.banned)}" if planned_block else "on all CPUs"
    moves = [f"{file}: irqbalance {ban}"] if current_block != planned_block else []
    if verb:
        moves.append(f"irqbalance.service: {verb}")
    return planned_block, file if current_block != planned_block else "", verb, moves


def _block(plan: InterruptsPlan) -> tuple[str, ...]:
    """Return the lines for its environment file; versions before 1.8.0 know only the mask."""
    return (
        BLOCK_BEGIN,
        f"IRQBALANCE_BANNED_CPUS={format_cpumask(plan.banned)}",
        f"IRQBALANCE_BANNED_CPULIST={format_cpulist(plan.banned)}",
        BLOCK_END,
    )
