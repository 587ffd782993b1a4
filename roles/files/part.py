"""Files: the plan itself, and the files of the roles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.maintenance.bundle import FileChange, changes, checksum, encoded
from numaforge.maintenance.part import Found, Goal, Look, Part, lines
from numaforge.planning.files import WRITERS
from numaforge.planning.render import files_of, role_files
from numaforge.shell import line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numaforge.file_content import FileContent

NAME = "files"


def look(goal: Goal) -> Look:
    """Return the paths to look at, and the texts already known."""
    install = goal.machine.kubelet
    files, absent = _files(goal, goal.machine.kubelet_config)
    paths = [*(file.path for file in files), *absent]
    known = [file.text for file in files]
    if goal.plan.kubelet and "kubelet" in goal.roles:
        paths.append(goal.plan.kubelet.config_file)
        if install:
            known += [*install.drop_ins.values(), install.config_text or ""]
    return Look(files=tuple(paths), known=tuple(known))


def need(goal: Goal, found: Found, below: Sequence[Part]) -> Part | None:
    """Return the part that writes and removes files; None where nothing changes."""
    kubelet = goal.plan.kubelet
    files, absent = _files(goal, found.text(kubelet.config_file) if kubelet else None, found)
    changed = changes(files, absent, found.files)
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


def _files(
    goal: Goal, config_text: str | None, found: Found | None = None
) -> tuple[list[FileContent], list[str]]:
    """Return the files of the goal's roles, and the paths that must not exist.

    With `found`, reduced to what applies to that node.
    """
    files, absent = role_files(goal.plan, "topology"), list[str]()
    for writer in WRITERS:
        if not writer.role.among(goal.roles):
            continue
        ours = files_of(writer.role, goal.plan, config_text)
        written = [file.path for file in ours]
        gone = [path for path in writer.paths(goal.plan, goal.machine) if path not in written]
        if found and writer.on_node:
            ours, gone = writer.on_node(goal, found, ours, gone)
        files += ours
        absent += gone
    return files, absent
