"""How much memory the container runtime and the kubelet may pin, which pods inherit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from numaforge.lib.errors import HostError
from numaforge.machine.topology.runtime import may_be_limited
from numaforge.node.part import Look, NodeState, Part
from numaforge.roles.host.memlock.files import memlock_path

if TYPE_CHECKING:
    from numaforge.change.goal import Goal

NAME = "memlock"
_RESTART_SECONDS = 120  # systemd gives a unit 90 s to stop
_NOT_THERE = "-"


def look(goal: Goal) -> Look:
    """Return the question for the limits of units that are planned or have our drop-in."""
    planned = goal.plan.rdma.host.memlock_units
    units = [
        word
        for unit in dict.fromkeys((*planned, *may_be_limited(goal.machine.kubelet)))
        for word in (unit, memlock_path(unit), "planned" if unit in planned else "not")
    ]
    return Look(call=("look_memlock", *units))


def need(goal: Goal, state: NodeState, below: Sequence[Part]) -> Part | None:
    """Return the restart of units whose limit differs or that lose our drop-in.

    Raises HostError where the kubelet has to restart, runs, and is not among the called roles.
    """
    planned = goal.plan.rdma.host.memlock_units
    restarted = [
        unit
        for unit, (loaded, limit, running) in _limits(state).items()
        if loaded == "loaded"
        and (unit not in planned or limit != "infinity" or running not in (_NOT_THERE, "infinity"))
    ]
    if not restarted:
        return None
    running = [unit for unit in restarted if _limits(state)[unit][2] != _NOT_THERE]
    kubelet = goal.machine.kubelet.unit if goal.machine.kubelet else None
    if kubelet in running and "kubelet" not in goal.roles:
        raise HostError(
            "the limit on the memory that the kubelet may pin changes, and it runs: it has to restart",
            where=str(kubelet),
            remedy="deploys/site.py or deploys/rdma.py changes both together, and drains the node for that",
        )
    return part(
        [unit for unit in restarted if unit != kubelet],
        [unit for unit in restarted if unit in planned],
        runs=bool(running),
        kubelet=kubelet in restarted,
    )


def part(
    runtime: Sequence[str], unlimited: Sequence[str], *, runs: bool = True, kubelet: bool = False
) -> Part:
    """Return the part that restarts the runtime's units and proves the limit of the `unlimited` ones.

    Reloading systemd's units may take the GPUs from running containers (nvidia-container-toolkit issue 48),
    whichever unit it is for. `runs`: one of these units runs. `kubelet`: the kubelet's limit changes too.
    """
    return Part(
        NAME,
        sentences=tuple(f"{unit} restarts: how much memory it may pin changes" for unit in runtime if runs),
        settings={"MEMLOCK_RUNTIME": " ".join(runtime), "MEMLOCK_UNITS": " ".join(unlimited)},
        drains=True,
        restarts_kubelet=kubelet,
        apply_seconds=_RESTART_SECONDS,
        undo_seconds=_RESTART_SECONDS,
        units=tuple(runtime),
    )


def _limits(state: NodeState) -> dict[str, tuple[str, str, str]]:
    """Return the look's answer for each unit: whether it is loaded, its limit, and its process's."""
    words = [text.split() for text in state.said.get(NAME, ())]
    return {unit: (loaded, limit, running) for unit, loaded, limit, running in words}
