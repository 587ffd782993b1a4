"""Kernel modules: loaded now, and with options that a module which is loaded already takes at a boot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from numaforge.errors import HostError
from numaforge.node.part import Found, Goal, Look, Part, lines
from numaforge.planning.model import ModulesPlan
from numaforge.shell import line

NAME = "modules"
RECORD = "/etc/numaforge/modules"
_LOAD_SECONDS = 120  # a driver of NICs brings up each port
_WAYS = {"default-route": "the default route", "connection": "our own connection"}


def look(goal: Goal) -> Look:
    """Return which of the modules are loaded, their options, and which of them drive what we come by."""
    if "modules" not in goal.roles:
        return Look()
    plan = goal.plan.modules
    asked = [f"load:{name}" for name in plan.load]
    asked += [f"option:{module}:{name}" for module, name, _ in _options(plan)]
    asked += [f"blocked:{name}" for name in plan.blocked]
    return Look(call=("look_modules", RECORD, *asked))


def need(goal: Goal, found: Found, below: Sequence[Part]) -> Part | None:  # noqa: ARG001 (the contract's)
    """Return what is loaded and unloaded, and what waits for a boot that is allowed.

    Raises HostError for a module that the kernel does not have, and for one that drives the interface of a
    default route or of our own connection and would be kept out or unloaded.
    """
    if "modules" not in goal.roles:
        return None
    plan = goal.plan.modules
    _refuse_missing(found)
    loaded = _names(found, "loaded")
    load = [name for name in plan.load if name not in loaded]
    kept = {*plan.load, *_names(found, "needed")}
    unload = [name for name in _names(found, "recorded") if name not in kept]
    _refuse_vital(found, plan.blocked, [name for name in unload if name in loaded])
    late = _late(plan, found)
    netns = _netns_now(late, found)
    if netns:
        late = [text for text in late if not text.startswith("option ib_core netns_mode ")]
    if goal.plan.kernel.reboot != "allowed":
        late = []
    return part(load, unload, late, netns=netns) if load or unload or late or netns else None


def pending(goal: Goal, found: Found) -> str | None:
    """Say what waits for a reboot that is not allowed; None where nothing does."""
    if "modules" not in goal.roles or goal.plan.kernel.reboot == "allowed":
        return None
    late = _late(goal.plan.modules, found)
    if _netns_now(late, found):
        late = [text for text in late if not text.startswith("option ib_core netns_mode ")]
    if not late:
        return None
    leave = goal.plan.kernel.reboot
    return f"pending: {', '.join(map(_said, late))}; maintenance.reboot is {leave}"


def part(load: Sequence[str], unload: Sequence[str], late: Sequence[str] = (), *, netns: str = "") -> Part:
    """Return the part that loads and unloads modules; `late` are lines of what a boot brings.

    `netns` is the mode to which the RDMA subsystem changes at once, "" where it does not.
    """
    moves = [f"module {name}: loaded" for name in load]
    moves += [f"module {name}: unloaded" for name in unload]
    moves += [f"{_said(text)} after a boot" for text in late]
    moves += [f"RDMA devices: {netns} between network namespaces"] if netns else []
    return Part(
        NAME,
        moves=tuple(moves),
        data={
            "load": lines(*map(line, load)),
            "unload": lines(*map(line, unload)),
            "late": lines(*map(line, late)),
        },
        settings={"MODULES_RECORD": RECORD, "RDMA_NETNS": netns},
        drains=bool(unload or late or netns),
        reboots=bool(late),
        apply_seconds=_LOAD_SECONDS,
        undo_seconds=_LOAD_SECONDS,
        boot_seconds=_LOAD_SECONDS,
    )


def _options(plan: ModulesPlan) -> Iterator[tuple[str, str, str]]:
    for module, options in plan.options.items():
        for option in options:
            name, _, value = option.partition("=")
            yield module, name, value or "1"  # an option without a value is a switch that is on


def _names(found: Found, kind: str) -> list[str]:
    words = [text.split() for text in found.said.get(NAME, ())]
    return list(dict.fromkeys(each[1] for each in words if each[0] == kind and len(each) > 1))


def _refuse_missing(found: Found) -> None:
    absent = _names(found, "absent")
    if absent:
        raise HostError(
            "is planned, and this kernel has no such module",
            where=", ".join(absent),
            remedy="install what brings it (linux-modules-extra, kernel-modules-extra or DOCA-OFED for the "
            "kernel that runs), or leave it out of the profile",
        )


def _refuse_vital(found: Found, blocked: Sequence[str], unload: Sequence[str]) -> None:
    """Refuse to keep out or unload the driver of what the host is reached by."""
    going = [*blocked, *unload]
    if going and "blind" in found.said.get(NAME, ()):
        raise HostError(
            "is to go, and without the program ip nothing tells whether it drives what we come by",
            where=", ".join(going),
            remedy="install iproute2, then run again",
        )
    for text in found.said.get(NAME, ()):
        kind, _, rest = text.partition(" ")
        if kind != "vital":
            continue
        module, interface, way = rest.split()
        if module in going:
            what = "is to be kept out" if module in blocked else "is to be unloaded"
            raise HostError(
                f"{what}, and {interface} needs it, which has {_WAYS.get(way, way)}",
                where=f"module {module}",
                remedy="leave it loaded (modules.load), or take modules.blocked out"
                if module in unload
                else "take it out of modules.blocked",
            )


def _late(plan: ModulesPlan, found: Found) -> list[str]:
    """Return the lines of what only a boot brings; a module that does not tell an option is believed."""
    now: dict[tuple[str, str], str] = {}
    for text in found.said.get(NAME, ()):
        kind, _, rest = text.partition(" ")
        if kind == "parameter":
            module, _, told = rest.partition(" ")
            name, _, value = told.partition(" ")
            now[module, name] = value.strip()
    late = [
        f"option {module} {name} {value}"
        for module, name, value in _options(plan)
        if (module, name) in now and switch(now[module, name]) != switch(value)
    ]
    loaded = _names(found, "loaded")
    return late + [f"blocked {name}" for name in plan.blocked if name in loaded]


def switch(value: str) -> str:
    """Return a value with the kernel's ways to write a boolean made one."""
    return {"Y": "1", "y": "1", "N": "0", "n": "0"}.get(value, value)


def _netns_now(late: Sequence[str], found: Found) -> str:
    """Return the mode that the RDMA subsystem takes at once: only while there is no other namespace."""
    if "netns free" not in found.said.get(NAME, ()):
        return ""
    modes = {"option ib_core netns_mode 1": "shared", "option ib_core netns_mode 0": "exclusive"}
    return next((modes[text] for text in late if text in modes), "")


def _said(text: str) -> str:
    kind, _, rest = text.partition(" ")
    if kind == "blocked":
        return f"module {rest}: kept out"
    module, name, value = rest.split(" ", 2)
    return f"module {module}: {name}={value}"
