"""Values of the running kernel and swap: set where they differ, restored where the plan drops them.

CPUs come online before everything else and go offline after it: an offline CPU has no values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import HostError
from numaforge.lib.file_content import boot_link
from numaforge.lib.shell import line
from numaforge.machine.snapshot import catalogue
from numaforge.node.part import Look, NodeState, Part, lines, switched
from numaforge.roles.expectation import Expected, is_value
from numaforge.roles.kernel_values.expected import SWAPS, expected
from numaforge.roles.kernel_values.files import TUNING_UNIT_PATH
from numaforge.roles.kernel_values.paths import online, switched_cpu, sysctl
from numaforge.roles.kernel_values.sysctls import IN_USE

if TYPE_CHECKING:
    from numaforge.change.goal import Goal
    from numaforge.planning.plan import NodePlan


RECORD = catalogue.KERNEL_VALUES
_SWAP = "swap "


class Recorded(NamedTuple):
    """A changed value: a line PATH<tab>EARLIER<tab>OURS of the record on the host.

    `earlier` is the value before the first change, and stays the same however often a profile changes. `ours`
    was set last: a value that now differs was changed by someone else or by a boot, and is not ours to
    restore. A swap device that was turned off is `swap DEVICE`, `earlier` its priority.
    """

    earlier: str
    ours: str


def read_record(text: str | None) -> dict[str, Recorded]:
    """Return a record's values, by path; lines of another form are skipped."""
    rows = (line.split("\t") for line in (text or "").splitlines() if not line.startswith("#"))
    return {row[0]: Recorded(row[1], row[2]) for row in rows if len(row) == 3}


def paths_of(record: Iterable[str]) -> tuple[str, ...]:
    """Return the recorded kernel paths, without swap devices."""
    return tuple(path for path in record if path.startswith(("/sys/", "/proc/sys/")))


NAME = "kernel_values"
UNIT = PurePosixPath(TUNING_UNIT_PATH).name
BOOT_LINK = boot_link(TUNING_UNIT_PATH)
_SWITCH_SECONDS = 1  # for each CPU: tens of milliseconds, more where much has to move off it


@dataclass(frozen=True)
class _Return:
    """The values that an earlier plan set and this one does not name, by path.

    `back` are restored, `others` were changed by something else or are gone: both leave the record. `in_use`
    are limits that stay, because more is in use than the earlier value allows.
    """

    back: Mapping[str, str] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    in_use: Mapping[str, str] = field(default_factory=dict)


def look(goal: Goal) -> Look:
    """Return what to read: the kernel's files, the record, swap, and whether our unit is enabled."""
    record = goal.machine.kernel_values_record
    paths = [*_rows(goal.plan), *paths_of(read_record(record))]
    counters = [counter for path, counter in _COUNTERS.items() if path in paths]
    return Look(
        values=tuple(dict.fromkeys([*paths, *counters])),
        files=(RECORD,),
        known=(record,) if record is not None else (),
        call=("look_kernel_values", BOOT_LINK),
    )


def need(goal: Goal, state: NodeState, below: Sequence[Part]) -> Part | None:
    """Return the part for the values that differ; None without any. A limit already higher is left alone.

    Recorded values that the plan does not name are restored. Raises HostError for a value that the kernel
    does not have, and for CPUs that are switched without the kubelet's role.
    """
    tuning, planned = goal.plan.tuning, _rows(goal.plan)
    differing = {path: row for path, row in planned.items() if not row.holds(state.values.get(path))}
    swaps_off = differing.pop(SWAPS, None) is not None and SWAPS in state.values
    different = {path: row.value for path, row in differing.items()}
    at_boot = TUNING_UNIT_PATH in [file.path for file in goal.plan.files]
    relinks = (state.answers(NAME).get("unit") == "enabled") is not at_boot
    record = read_record(state.text(RECORD))
    swaps = {path.removeprefix(_SWAP): entry for path, entry in record.items() if path.startswith(_SWAP)}
    swaps_on = {} if tuning.swap_off else swaps
    returning = _returning(record, planned, state)
    if not (different or swaps_off or relinks or swaps_on or returning.back or returning.others):
        return None
    _refuse_beside_kubelet(goal, {*different, *returning.back})
    finished = {*returning.back, *returning.others, *(f"swap {device}" for device in swaps_on)}
    return part(
        different,
        state.values,
        swap_off=swaps_off,
        enabled=at_boot,
        relinks=relinks,
        record={path: entry for path, entry in record.items() if path not in finished},
        back=returning.back,
        dropped=returning.others,
        swaps_on=swaps_on,
    )


def pending(goal: Goal, state: NodeState) -> str | None:
    """Return the limits that cannot be restored yet because more is in use; None where there are none."""
    record = read_record(state.text(RECORD))
    in_use = _returning(record, _rows(goal.plan), state).in_use
    stays = ", ".join(
        f"{path} ({used} in use, {record[path].earlier} before)" for path, used in in_use.items()
    )
    return f"pending: limits that fall back once less is in use, or at a boot: {stays}" if stays else None


def part(
    different: Mapping[str, str],
    current: Mapping[str, str],
    *,
    swap_off: bool = False,
    enabled: bool = True,
    relinks: bool = False,
    record: Mapping[str, Recorded] | None = None,
    back: Mapping[str, str] | None = None,
    dropped: Sequence[str] = (),
    swaps_on: Mapping[str, Recorded] | None = None,
) -> Part:
    """Return the part that sets values by path; `enabled`: our unit sets them at every boot.

    `record` is what stays in the node's record; `back` leaves it and gets the earlier value, `dropped` leave
    it and stay as they are. Raises HostError for a value that the kernel does not have.
    """
    record, back, swaps_on = record or {}, back or {}, swaps_on or {}
    coming, going = _switched(back), _switched(different)
    folders = tuple(online(cpu).removesuffix("online") for cpu in coming)
    late = {path for path in different if path.startswith(folders)}
    if missing := sorted({*different} - {*current} - late):
        raise HostError(
            "is planned, and this kernel does not have it or does not let it be read",
            where=", ".join(missing),
            remedy="leave it out of the profile, or run again if the machine has just changed",
        )
    kept_record = {
        path: entry._replace(ours=different[path]) if path in different else entry
        for path, entry in record.items()
    }
    switches = {*map(online, (*coming, *going))}
    moves = [f"CPUs {format_cpulist(coming)}: offline -> online, as before numaforge"] if coming else []
    moves += [f"CPUs {format_cpulist(going)}: online -> offline"] if going else []
    moves += [
        f"{path}: {current.get(path, 'offline')} -> {value}"
        for path, value in different.items()
        if path not in switches
    ]
    moves += [
        f"{path}: {current[path]} -> {value}, as before numaforge"
        for path, value in back.items()
        if path not in switches
    ]
    moves += [f"{path}: not as numaforge has set it, left as it is" for path in dropped]
    if swap_off:
        moves.append("swap: on -> off")
    moves += [f"swap {device}: off -> on, as before numaforge" for device in swaps_on]
    if relinks:
        moves.append(switched(UNIT, enabled=enabled))
    rows = {path: f"back\t{line(path)}\t{line(value)}" for path, value in back.items()}
    rows |= {
        path: f"{'recorded' if path in kept_record else 'new'}\t{line(path)}\t{line(value)}"
        for path, value in different.items()
    }
    return Part(
        NAME,
        moves=tuple(moves),
        data={
            "online": lines(*(rows[path] for path in map(online, coming))),
            "planned": lines(*(row for path, row in rows.items() if path not in switches | late)),
            "late": lines(*(rows[path] for path in different if path in late)),
            "offline": lines(*(rows[path] for path in map(online, going))),
            "kept": lines(*(f"{path}\t{entry.earlier}\t{entry.ours}" for path, entry in kept_record.items())),
            "swaps-on": lines(*(f"{line(device)} {entry.earlier}" for device, entry in swaps_on.items())),
        },
        settings={
            "SWAP_OFF": "yes" if swap_off else "",
            "VALUES_RECORD": RECORD,
            "BOOT_LINK": BOOT_LINK,
            "BOOT_LINK_TARGET": TUNING_UNIT_PATH if enabled else "",
        },
        drains=bool(switches),
        restarts_kubelet=bool(switches),
        # Swapped-out memory is read back first.
        apply_seconds=(300 if swap_off else 60) + len(switches) * _SWITCH_SECONDS,
        undo_seconds=(300 if swaps_on else 60) + len(switches) * _SWITCH_SECONDS,
        boot_seconds=60 + len(switches) * _SWITCH_SECONDS,
        units=(UNIT,),  # it is in systemd's queue when a boot rolls the change back
    )


def _switched(values: Iterable[str]) -> tuple[int, ...]:
    """Return the CPUs that these paths switch."""
    return tuple(sorted(cpu for path in values if (cpu := switched_cpu(path)) is not None))


def _refuse_beside_kubelet(goal: Goal, values: Iterable[str]) -> None:
    cpus = _switched(values)
    if cpus and goal.plan.kubelet and "kubelet" not in goal.roles:
        raise HostError(
            "CPUs come and go only while the kubelet is stopped: its state file names them",
            where=f"CPUs {format_cpulist(cpus)}",
            remedy="run deploys/site.py, which has the kubelet's role as well",
        )


_COUNTERS = {sysctl(name): sysctl(counter) for name, counter in IN_USE.items()}


def _rows(plan: NodePlan) -> dict[str, Expected]:
    """Return the row of each file, by path."""
    return {path: row for row in expected(plan) for path in row.paths()}


def _returning(record: Mapping[str, Recorded], planned: Collection[str], state: NodeState) -> _Return:
    unnamed = {path: record[path] for path in paths_of(record) if path not in planned}
    unchanged = {
        path: entry for path, entry in unnamed.items() if is_value(state.values.get(path), entry.ours)
    }
    in_use = {
        path: used
        for path, entry in unchanged.items()
        if (used := _used(path, state)) and entry.earlier.isdecimal() and int(used) > int(entry.earlier)
    }
    return _Return(
        back={path: entry.earlier for path, entry in unchanged.items() if path not in in_use},
        others=tuple(path for path in unnamed if path not in unchanged),
        in_use=in_use,
    )


def _used(path: str, state: NodeState) -> str | None:
    """Return how much of a limit is in use, None where the kernel does not count it."""
    words = state.values.get(_COUNTERS.get(path, ""), "").split()
    return words[0] if words and words[0].isdecimal() else None
