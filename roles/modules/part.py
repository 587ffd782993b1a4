"""Kernel modules: loaded now, and modprobe's configuration, which takes effect at a boot.

modprobe's configuration may break a boot, so it is written only in a transaction that boots the node and
proves it. A setting that is already in effect, or becomes so when a module is loaded now, needs no boot
(`at_once`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from numaforge.lib.errors import HostError
from numaforge.lib.file_content import FileContent
from numaforge.lib.shell import line
from numaforge.machine.topology.memory_mode import (
    DRIVER,
    FIRST_DRIVER_BY_DEFAULT,
    NUMA,
    driver_branch,
    gpu_memory_mode,
)
from numaforge.machine.topology.memory_mode import OPTION as MEMORY_MODE
from numaforge.machine.topology.model import NodeTopology
from numaforge.node.part import Look, NodeState, Part, lines
from numaforge.roles.modules.files import MODPROBE_FILE, MODPROBE_PATH

if TYPE_CHECKING:
    from numaforge.change.goal import Goal
    from numaforge.roles.modules.plan import ModulesPlan

NAME = "modules"
RECORD = "/etc/numaforge/modules"
_LOAD_SECONDS = 120  # a driver of NICs brings up each port
_KERNELS_OWN = {("ib_core", "netns_mode"): "1"}  # drivers/infiniband/core/device.c
"""Options with a known default: setting one to its default changes nothing at a boot."""
_NOT_SET = '""'  # how NVIDIA's driver shows a string option that is not set
_WHY_VITAL = {
    "default-route": "{what} needs it, which has the default route",
    "connection": "{what} needs it, which has our own connection",
    "file-system": "the file system at {what} needs it",
    "block-device": "what {what} is on needs it",
    "storage-network": "{what} is reached over it",
    "containers": "container runtimes need it",
}


class _Entry(NamedTuple):
    """One setting of modprobe: an option of a module, or, without `name`, that the module is blocked."""

    module: str
    name: str = ""
    value: str = ""

    @property
    def late(self) -> str:
        """The line for a setting that a boot must bring."""
        return f"option {self.module} {self.name} {self.value}" if self.name else f"blocked {self.module}"

    @property
    def taken_back(self) -> str:
        """The line for a setting that a boot must remove."""
        return f"unset {self.module} {self.name}" if self.name else f"freed {self.module}"


def look(goal: Goal) -> Look:
    """Return the question which modules are loaded, with which options, and which of them are vital."""
    plan = goal.plan.modules
    questions = [f"load:{name}" for name in plan.load]
    questions += [f"option:{entry.module}:{entry.name}" for entry in _entries(plan) if entry.name]
    questions += [f"blocked:{name}" for name in plan.blocked]
    return Look(call=("look_modules", RECORD, MODPROBE_PATH, *questions))


def need(goal: Goal, state: NodeState, below: Sequence[Part]) -> Part | None:
    """Return the part that loads and unloads modules, with the settings that need a boot, if one is allowed.

    Raises HostError for a module that the kernel does not have, and where a module that the node depends on
    would be kept out or unloaded.
    """
    plan = goal.plan.modules
    _refuse_missing_modules(state)
    loaded = _names(state, "loaded")
    load = [name for name in plan.load if name not in loaded]
    unload = _unload(plan, state)
    _refuse_vital(state, plan.blocked, [name for name in unload if name in loaded])
    late, netns = _late(goal, state)
    if goal.plan.kernel.reboot != "allowed":
        late = []
    if not (load or unload or late or netns):
        return None
    shown_options = [
        entry.late
        for entry in _entries(plan)
        if entry.name and entry.module in load and entry.late not in late
    ]
    vital, ssh_port = state.every(NAME, "vital"), "".join(_names(state, "sshd")[:1])
    return part(load, unload, late, netns=netns, taken=shown_options, vital=vital, ssh_port=ssh_port)


def pending(goal: Goal, state: NodeState) -> str | None:
    """Return, in words, what waits for a reboot that is not allowed; None where nothing does."""
    if goal.plan.kernel.reboot == "allowed":
        return None
    late, _ = _late(goal, state)
    if not late:
        return None
    leave = goal.plan.kernel.reboot
    return f"pending: {', '.join(map(_sentence, late))}; maintenance.reboot is {leave}"


def at_once(goal: Goal, state: NodeState) -> ModulesPlan:
    """Return what modprobe may get of the plan now: all, or only what needs no boot where none is allowed."""
    plan = goal.plan.modules
    if goal.plan.kernel.reboot == "allowed":
        return plan
    late, _ = _late(goal, state)
    held_entries = {(entry.module, entry.name): entry for entry in entries_in(state.text(MODPROBE_PATH))}
    planned = {(entry.module, entry.name): entry for entry in _entries(plan)}
    every = [held_entries.get(key) if entry.late in late else entry for key, entry in planned.items()]
    every += [entry for key, entry in held_entries.items() if key not in planned and entry.taken_back in late]
    settled = [entry for entry in every if entry is not None]
    options: dict[str, tuple[str, ...]] = {}
    for entry in settled:
        if entry.name:
            options[entry.module] = (*options.get(entry.module, ()), f"{entry.name}={entry.value}")
    blocked = tuple(entry.module for entry in settled if not entry.name)
    return replace(plan, options=dict(sorted(options.items())), blocked=blocked)


def entries_in(text: str | None) -> tuple[_Entry, ...]:
    """Parse modprobe's file of an earlier plan."""
    entries: list[_Entry] = []
    for words in map(str.split, (text or "").splitlines()):
        if words[:1] == ["options"]:
            entries += [_option(words[1], option) for option in words[2:]]
        elif words[:1] == ["blacklist"]:
            entries.append(_Entry(words[1]))
    return tuple(entries)


def part(
    load: Sequence[str],
    unload: Sequence[str],
    late: Sequence[str] = (),
    *,
    netns: str = "",
    taken: Sequence[str] = (),
    vital: Sequence[str] = (),
    ssh_port: str = "",
) -> Part:
    """Return the part that loads and unloads modules; `late` are lines of settings that need a boot.

    `netns` is the mode to which the RDMA subsystem changes at once, "" where it does not. `taken` are lines
    of the options with which modules are loaded now. `vital` are the modules that the node stood on at the
    look, as lines "MODULE WHAT WHY", and `ssh_port` is sshd's port in the look's connection.
    """
    moves = [f"module {name}: loaded" for name in load]
    moves += [f"module {name}: unloaded" for name in unload]
    moves += [f"{_sentence(text)} after a boot" for text in late]
    moves += [f"RDMA devices: {netns} between network namespaces"] if netns else []
    return Part(
        NAME,
        moves=tuple(moves),
        data={
            "load": lines(*map(line, load)),
            "unload": lines(*map(line, unload)),
            "late": lines(*map(line, late)),
            "taken": lines(*map(line, taken)),
            "vital": lines(*map(line, vital)),
        },
        settings={"MODULES_RECORD": RECORD, "RDMA_NETNS": netns, "SSH_PORT": ssh_port},
        drains=bool(unload or late or netns),
        reboots=bool(late),
        apply_seconds=_LOAD_SECONDS,
        undo_seconds=_LOAD_SECONDS,
        boot_seconds=_LOAD_SECONDS,
    )


def _entries(plan: ModulesPlan) -> Iterator[_Entry]:
    for module, options in plan.options.items():
        for option in options:
            yield _option(module, option)
    for module in plan.blocked:
        yield _Entry(module)


def _option(module: str, option: str) -> _Entry:
    name, _, value = option.partition("=")
    return _Entry(module, name, value or "1")  # an option without a value is an enabled switch


def _unload(plan: ModulesPlan, state: NodeState) -> list[str]:
    in_use = {*plan.load, *_names(state, "needed")}
    return [name for name in _names(state, "recorded") if name not in in_use]


def _names(state: NodeState, kind: str) -> list[str]:
    words = [text.split() for text in state.said.get(NAME, ())]
    return list(
        dict.fromkeys(line_words[1] for line_words in words if line_words[0] == kind and len(line_words) > 1)
    )


def _refuse_missing_modules(state: NodeState) -> None:
    absent = _names(state, "absent")
    if absent:
        raise HostError(
            "is planned, and this kernel has no such module",
            where=", ".join(absent),
            remedy="install what brings it (linux-modules-extra, kernel-modules-extra or DOCA-OFED for the "
            "kernel that runs), or leave it out of the profile",
        )


def _refuse_vital(state: NodeState, blocked: Sequence[str], unload: Sequence[str]) -> None:
    """Refuse to keep out or unload modules that a boot or our connection needs."""
    going = [*blocked, *unload]
    if going and "blind" in state.said.get(NAME, ()):
        raise HostError(
            "cannot be unloaded safely: without the program ip it is unknown whether it drives the "
            "interface that carries our connection",
            where=", ".join(going),
            remedy="install iproute2, then run again",
        )
    for rest in state.every(NAME, "vital"):
        module, user, why = rest.split()
        if module in going:
            goes = "must not be loaded" if module in blocked else "must be unloaded"
            raise HostError(
                f"{goes}, and {_WHY_VITAL[why].format(what=user)}",
                where=f"module {module}",
                remedy="leave it loaded (modules.load), or take modules.blocked out"
                if module in unload
                else "take it out of modules.blocked",
            )


def _late(goal: Goal, state: NodeState) -> tuple[list[str], str]:
    """Return the lines of what only a boot brings or takes away, and the mode that RDMA takes at once.

    An option that its module does not expose counts as set where an earlier plan wrote it, because a boot has
    proved it. Pinning the GPU memory mode that the driver took by default changes nothing, and needs no boot.
    """
    plan, defaults = goal.plan.modules, {**_KERNELS_OWN, **_drivers_own(goal.machine)}
    current: dict[tuple[str, str], str] = {}
    for rest in state.every(NAME, "parameter"):
        module, _, setting = rest.partition(" ")
        name, _, value = setting.partition(" ")
        current[module, name] = value.strip()
    for option, value in _drivers_own(goal.machine).items():
        if current.get(option) == _NOT_SET:
            current[option] = value
    loaded, unload, vital = _names(state, "loaded"), _unload(plan, state), _names(state, "vital")
    held_entries = entries_in(state.text(MODPROBE_PATH))

    def is_so(setting: _Entry) -> bool:
        if not setting.name:
            return setting in held_entries and setting.module not in loaded
        if (setting.module, setting.name) in current:
            return switch(current[setting.module, setting.name]) == switch(setting.value)
        loads = setting.module in plan.load and setting.module not in {*loaded, *vital}
        return setting in held_entries or loads

    def is_harmless(setting: _Entry) -> bool:  # removing it needs no boot
        if setting.name:
            default = defaults.get((setting.module, setting.name)) == switch(setting.value)
            return default or setting.module not in loaded or setting.module in unload
        return setting.module in plan.load

    planned = list(_entries(plan))
    names = {(setting.module, setting.name) for setting in planned}
    removed_entries = [setting for setting in held_entries if (setting.module, setting.name) not in names]
    late_lines = [setting.late for setting in planned if not is_so(setting)]
    late_lines += [setting.taken_back for setting in removed_entries if not is_harmless(setting)]
    netns = _netns_now(late_lines, state)
    return [
        text for text in late_lines if not (netns and text.startswith("option ib_core netns_mode "))
    ], netns


def _drivers_own(machine: NodeTopology) -> dict[tuple[str, str], str]:
    """Return the driver's default mode of the GPUs' memory, by option; empty where it is unknown."""
    branch = driver_branch(machine)
    if branch is None or gpu_memory_mode(machine) is None:
        return {}
    return {("nvidia", MEMORY_MODE): DRIVER if branch >= FIRST_DRIVER_BY_DEFAULT else NUMA}


def switch(value: str) -> str:
    """Return a value with the kernel's spellings of a boolean unified."""
    return {"Y": "1", "y": "1", "N": "0", "n": "0"}.get(value, value)


def _netns_now(late: Sequence[str], state: NodeState) -> str:
    """Return the mode that the RDMA subsystem takes at once: "" while other network namespaces exist."""
    if "netns free" not in state.said.get(NAME, ()):
        return ""
    modes = {"option ib_core netns_mode 1": "shared", "option ib_core netns_mode 0": "exclusive"}
    return next((modes[text] for text in late if text in modes), "")


def _sentence(text: str) -> str:
    kind, _, rest = text.partition(" ")
    if kind == "blocked":
        return f"module {rest}: kept out"
    if kind == "freed":
        return f"module {rest}: no longer kept out"
    if kind == "unset":
        module, name = rest.split(" ")
        return f"module {module}: without {name}"
    module, name, value = rest.split(" ", 2)
    return f"module {module}: {name}={value}"


def files_on_node(
    goal: Goal, state: NodeState, files: list[FileContent], absent: list[str]
) -> tuple[list[FileContent], list[str]]:
    """Return both lists, with modprobe's file reduced to what needs no boot where reboots are not allowed."""
    if goal.plan.kernel.reboot == "allowed":
        return files, absent
    immediate = at_once(goal, state)
    if immediate.options == goal.plan.modules.options and immediate.blocked == goal.plan.modules.blocked:
        return files, absent
    files = [file for file in files if file.path != MODPROBE_PATH]
    absent = [path for path in absent if path != MODPROBE_PATH]
    modprobe_file = FileContent(
        MODPROBE_PATH, goal.text_of(MODPROBE_FILE, replace(goal.plan, modules=immediate))
    )
    if entries_in(state.text(MODPROBE_PATH)) == entries_in(modprobe_file.text):
        return files, absent
    if immediate.options or immediate.blocked:
        return [*files, modprobe_file], absent
    return files, [*absent, MODPROBE_PATH]
