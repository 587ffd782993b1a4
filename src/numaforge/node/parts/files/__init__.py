"""Files: the plan itself, and what the roles write."""

from __future__ import annotations

from collections.abc import Sequence

from numaforge.node.bundle import FileChange, FileContent, changes, checksum, encoded
from numaforge.node.part import Found, Goal, Look, Part, lines
from numaforge.node.parts.hugepages import change_with_kubelet
from numaforge.planning.files import (
    MIG_LIBRARY_PATH,
    MIG_UNIT_PATH,
    MIG_WORKER_PATH,
    SYSCTL_PATH,
    TUNING_TMPFILES_PATH,
    TUNING_UNIT_PATH,
    memory_state_paths,
)
from numaforge.render import hugepage_files, kubelet_files, role_files
from numaforge.shell import line

NAME = "files"
_PATHS = {
    "tuning": (SYSCTL_PATH, TUNING_TMPFILES_PATH, TUNING_UNIT_PATH),
    "mig": (MIG_LIBRARY_PATH, MIG_WORKER_PATH, MIG_UNIT_PATH),
}


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
    changed = changes(files, absent, found.files)
    beside = "kubelet" in goal.roles and "hugepages" not in goal.roles
    if changed and beside and not change_with_kubelet(goal, found):
        apart, gone = hugepage_files(goal.plan)
        paths = {*(file.path for file in apart), *gone}
        changed = tuple(change for change in changed if change.path not in paths)
    return part(changed) if changed else None


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
    for role, paths in _PATHS.items():
        if role in goal.roles:
            ours = role_files(goal.plan, role)
            files += ours
            absent += [path for path in paths if path not in [file.path for file in ours]]
    if {"hugepages", "kubelet"} & goal.roles:
        pools, gone = hugepage_files(goal.plan)
        files += pools
        absent += gone
    if "kubelet" in goal.roles and goal.plan.kubelet:
        ours = kubelet_files(goal.plan, config_text)
        files += ours
        written = [file.path for file in ours]
        absent += [path for path in memory_state_paths(goal.plan.kubelet) if path not in written]
    return files, absent
