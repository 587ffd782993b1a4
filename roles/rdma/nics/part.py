"""NIC settings that are lost at a boot, and the units that run at boot before the kubelet starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from numaforge.lib.errors import HostError
from numaforge.lib.file_content import boot_link
from numaforge.lib.shell import line
from numaforge.node.part import Look, NodeState, Part, lines, switched
from numaforge.roles.rdma.nics.files import NICS_UNIT_PATH
from numaforge.roles.rdma.planned import RDMA_GATE_UNIT_PATH, NicSetting

if TYPE_CHECKING:
    from numaforge.change.goal import Goal

NAME = "nics"
RECORD = "/etc/numaforge/nics-before"
LINKS = {path: boot_link(path) for path in (NICS_UNIT_PATH, RDMA_GATE_UNIT_PATH)}
_UNKNOWN = "-"
_TOOLS = {
    "trust": "mlnx_qos (DOCA-OFED or mlnx-tools)",
    "pfc": "dcb (iproute2) or mlnx_qos",
    "channels": "ethtool, and a driver with combined channels",
}


def look(goal: Goal) -> Look:
    """Return the question for the present settings, those before numaforge, and the enabled units."""
    setting_words = [word for setting in goal.plan.rdma.host.nics for word in (setting.nic, setting.name)]
    return Look(call=("look_nics", RECORD, *LINKS.values(), *setting_words))


def need(goal: Goal, state: NodeState, below: Sequence[Part]) -> Part | None:
    """Return the part that changes settings that differ, and puts back those that are no longer planned."""
    planned = {(setting.nic, setting.name): setting.value for setting in goal.plan.rdma.host.nics}
    current, recorded = _reported(state, "value"), _reported(state, "recorded")
    if missing_nics := sorted({nic for nic, _ in {*planned} - {*current}}):
        raise HostError(
            "is planned, and is not there now",
            where=", ".join(missing_nics),
            remedy="see what has become of the NIC, then run again",
        )
    _refuse_too_many_queues(planned, _reported(state, "most"))
    changed = {key: value for key, value in planned.items() if current[key] not in (value, _UNKNOWN)}
    returned = {key: value for key, value in recorded.items() if key not in planned}
    enabled = state.every(NAME, "enabled")
    files = [file.path for file in goal.plan.files]
    planned_links = {path: path in files for path in LINKS}
    relinked = [path for path in LINKS if (LINKS[path] in enabled) is not planned_links[path]]
    if not (changed or returned or relinked):
        return None
    moves = [f"{nic} {name}: {current[nic, name]} -> {value}" for (nic, name), value in changed.items()]
    moves += [f"{nic} {name}: back to {value}" for (nic, name), value in returned.items()]
    moves += [switched(PurePosixPath(path).name, enabled=planned_links[path]) for path in relinked]
    return part(_settings(changed), _settings(returned), enabled=planned_links, moves=moves)


def _refuse_too_many_queues(
    planned: Mapping[tuple[str, str], str], most: Mapping[tuple[str, str], str]
) -> None:
    for key, value in planned.items():
        if key in most and int(value) > int(most[key]):
            nic, name = key
            raise HostError(
                f"has {most[key]} combined {name} at most, and {value} are planned",
                where=nic,
                remedy=f"set nic_queues.combined: {most[key]}, or name other NICs in nic_queues.nics",
            )


def pending(goal: Goal, state: NodeState) -> str | None:
    """Return, in words, which settings are left alone for lack of a tool on the host; None where none is."""
    current = _reported(state, "value")
    lacking = [
        setting
        for setting in goal.plan.rdma.host.nics
        if current.get((setting.nic, setting.name)) == _UNKNOWN
    ]
    if not lacking:
        return None
    lacking_tools = "; ".join(
        f"{name} of {', '.join(setting.nic for setting in lacking if setting.name == name)}, which "
        + (f"takes {_TOOLS[name]}" if name in _TOOLS else "its PCIe capability does not report it")
        for name in dict.fromkeys(setting.name for setting in lacking)
    )
    return f"left alone: {lacking_tools}"


def part(
    changed: Iterable[NicSetting],
    returned: Iterable[NicSetting] = (),
    *,
    enabled: Mapping[str, bool] | None = None,
    moves: Sequence[str] = (),
) -> Part:
    """Return the part that changes settings and puts others back; `enabled` says which units act at boot.

    Priorities and pauses belong to the port: changing them drops what is in its buffers. Changing the number
    of queues takes the link down briefly.
    """
    changed, returned = [*changed], [*returned]
    targets = {path: path if (enabled or {}).get(path) else "" for path in LINKS}
    return Part(
        NAME,
        moves=tuple(moves),
        data={"planned": _lines(changed), "returned": _lines(returned)},
        settings={
            "NICS_RECORD": RECORD,
            "NICS_LINK": LINKS[NICS_UNIT_PATH],
            "NICS_TARGET": targets[NICS_UNIT_PATH],
            "GATE_LINK": LINKS[RDMA_GATE_UNIT_PATH],
            "GATE_TARGET": targets[RDMA_GATE_UNIT_PATH],
        },
        drains=any(setting.name in _TOOLS for setting in (*changed, *returned)),
        apply_seconds=60,
        undo_seconds=60,
        boot_seconds=60,
        units=tuple(
            PurePosixPath(path).name for path in LINKS
        ),  # queued by systemd when a boot undoes the change
    )


def _reported(state: NodeState, kind: str) -> dict[tuple[str, str], str]:
    words = [text.split() for text in state.said.get(NAME, ())]
    return {
        (nic, name): value
        for key, *rest in words
        if key == kind and len(rest) == 3
        for nic, name, value in (rest,)
    }


def _settings(by_key: Mapping[tuple[str, str], str]) -> list[NicSetting]:
    return [NicSetting(nic, name, value) for (nic, name), value in by_key.items()]


def _lines(settings: Iterable[NicSetting]) -> str:
    return lines(*(line(f"{setting.nic} {setting.name} {setting.value}") for setting in settings))
