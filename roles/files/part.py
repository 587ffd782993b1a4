"""Files: the plan itself, and what the roles write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from numaforge.file_content import FileContent
from numaforge.node.bundle import FileChange, changes, checksum, encoded
from numaforge.node.part import Found, Goal, Look, Part, lines
from numaforge.planning.files import (
    CRIO_PATH,
    INTERRUPTS_PATH,
    INTERRUPTS_RULES_PATH,
    INTERRUPTS_SCRIPT_PATH,
    INTERRUPTS_UNIT_PATH,
    IRQBALANCE_OFF_PATH,
    MIG_LIBRARY_PATH,
    MIG_UNIT_PATH,
    MIG_WORKER_PATH,
    MODPROBE_PATH,
    MODULES_LOAD_PATH,
    NCCL_CONF_PATH,
    NICS_PATH,
    NICS_SCRIPT_PATH,
    NICS_UNIT_PATH,
    PAM_LIMITS_PATH,
    RDMA_GATE_SCRIPT_PATH,
    RDMA_GATE_UNIT_PATH,
    SWAP_PATH,
    SYSCTL_PATH,
    TUNING_TMPFILES_PATH,
    TUNING_UNIT_PATH,
    UPGRADES_PATH,
    handed_back_paths,
    limits_path,
    memlock_path,
    memory_state_paths,
    no_swap_path,
    slice_path,
)
from numaforge.planning.runtime import may_be_limited
from numaforge.render import (
    hugepage_files,
    kubelet_files,
    library_files,
    modprobe_text,
    role_files,
)
from numaforge.roles.hugepages.part import change_with_kubelet
from numaforge.roles.modules import part as modules
from numaforge.roles.rdma.nccl_conf import is_admins
from numaforge.roles.slices.part import SLICES
from numaforge.shell import line
from numaforge.topology.userland import SWAP_SERVICES

NAME = "files"
_PATHS = {
    "tuning": (SYSCTL_PATH, TUNING_TMPFILES_PATH, TUNING_UNIT_PATH),
    "interrupts": (
        INTERRUPTS_PATH,
        INTERRUPTS_SCRIPT_PATH,
        INTERRUPTS_UNIT_PATH,
        INTERRUPTS_RULES_PATH,
        IRQBALANCE_OFF_PATH,
    ),
    "system": tuple(slice_path(name) for name in SLICES),
    "modules": (MODULES_LOAD_PATH, MODPROBE_PATH),
    "mig": (MIG_LIBRARY_PATH, MIG_WORKER_PATH, MIG_UNIT_PATH),
    "host": (
        PAM_LIMITS_PATH,
        UPGRADES_PATH,
        CRIO_PATH,
        SWAP_PATH,
        *(no_swap_path(f"{name}.service") for name in SWAP_SERVICES),
    ),
    "rdma": (NICS_PATH, NICS_SCRIPT_PATH, NICS_UNIT_PATH, RDMA_GATE_SCRIPT_PATH, RDMA_GATE_UNIT_PATH),
}
_OF_UNITS = {"host": limits_path, "rdma": memlock_path}
"""The drop-in that a role has for each unit from which pods inherit."""


def look(goal: Goal) -> Look:
    """Return the paths, and the texts that are known already."""
    install = goal.machine.kubelet
    files, absent = _files(goal, install.config_text if install else None)
    paths = [*(file.path for file in files), *absent]
    known = [file.text for file in files]
    if goal.plan.kubelet and "kubelet" in goal.roles:
        paths.append(goal.plan.kubelet.config_file)
        if install:
            known += [*install.drop_ins.values(), install.config_text or ""]
    return Look(files=tuple(paths), known=tuple(known))


def need(goal: Goal, found: Found, below: Sequence[Part]) -> Part | None:  # noqa: ARG001 (the lowest part)
    """Return what has to be written and removed."""
    kubelet = goal.plan.kubelet
    files, absent = _files(goal, found.text(kubelet.config_file) if kubelet else None)
    if is_admins(found.text(NCCL_CONF_PATH)):
        absent = [path for path in absent if path != NCCL_CONF_PATH]
    files, absent = _with_what_waits(goal, found, files, absent)
    changed = changes(files, absent, found.files)
    beside = "kubelet" in goal.roles and "hugepages" not in goal.roles
    if changed and beside and not change_with_kubelet(goal, found):
        apart, gone = hugepage_files(goal.plan)
        paths = {*(file.path for file in apart), *gone}
        changed = tuple(change for change in changed if change.path not in paths)
    return part(changed) if changed else None


def _with_what_waits(
    goal: Goal, found: Found, files: list[FileContent], absent: list[str]
) -> tuple[list[FileContent], list[str]]:
    """Return them with modprobe told no more than may count without the boot that would prove it."""
    if "modules" not in goal.roles or goal.plan.kernel.reboot == "allowed":
        return files, absent
    now = modules.at_once(goal, found)
    if now.options == goal.plan.modules.options and now.blocked == goal.plan.modules.blocked:
        return files, absent
    files = [file for file in files if file.path != MODPROBE_PATH]
    absent = [path for path in absent if path != MODPROBE_PATH]
    told = FileContent(MODPROBE_PATH, modprobe_text(replace(goal.plan, modules=now)))
    if modules.told_by(found.text(MODPROBE_PATH)) == modules.told_by(told.text):
        return files, absent
    if now.options or now.blocked:
        return [*files, told], absent
    return files, [*absent, MODPROBE_PATH]


def part(changed: Sequence[FileChange]) -> Part:
    """Return the part that makes these changes."""
    written = [change.new for change in changed if change.new]
    rows = [
        f"{number} {checksum(file.text)} {file.mode} {file.owner} {file.group} {line(file.path)}"
        for number, file in enumerate(written)
    ]
    absent = [line(change.path) for change in changed if change.new is None]
    return Part(
        NAME,
        changed=tuple(changed),
        data={
            "written": lines(*rows),
            "absent": lines(*absent),
            **{str(number): lines(encoded(file.text)) for number, file in enumerate(written)},
        },
    )


def _files(goal: Goal, config_text: str | None) -> tuple[list[FileContent], list[str]]:
    """Return the files of the roles that were called, and the paths that must not exist."""
    files, absent = role_files(goal.plan, "topology"), list[str]()
    units = may_be_limited(goal.machine.kubelet)
    for role, paths in _PATHS.items():
        if role in goal.roles:
            ours = role_files(goal.plan, role)
            files += ours
            may_be = [*paths, *(map(_OF_UNITS[role], units) if role in _OF_UNITS else ())]
            absent += [path for path in may_be if path not in [file.path for file in ours]]
    if "rdma" in goal.roles:
        told, gone = library_files(goal.plan)
        files += [file for file in told if file.path not in [one.path for one in files]]
        absent += gone
    if {"hugepages", "kubelet"} & goal.roles:
        pools, gone = hugepage_files(goal.plan)
        files += pools
        absent += gone
    if "kubelet" in goal.roles and goal.plan.kubelet:
        ours = kubelet_files(goal.plan, config_text)
        files += ours
        written = [file.path for file in ours]
        may_go = (*memory_state_paths(goal.plan.kubelet), *handed_back_paths(goal.plan.kubelet))
        absent += [path for path in may_go if path not in written]
    return files, absent
