"""Files: the plan itself, and the files of the roles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from numaforge.lib.shell import line
from numaforge.node.bundle import FileChange, changes, checksum, encoded
from numaforge.node.part import Look, NodeState, Part, lines

if TYPE_CHECKING:
    from numaforge.change.goal import Goal

NAME = "files"


def look(goal: Goal) -> Look:
    """Return the paths to look at, and the texts already known."""
    install = goal.machine.kubelet
    files, absent = goal.files(goal.machine.edited_kubelet_text)
    paths = [*(file.path for file in files), *absent]
    texts = [file.text for file in files]
    if goal.plan.kubelet and "kubelet" in goal.roles:
        paths += [goal.plan.kubelet.config_file, goal.plan.kubelet.edited_file]
        if install:
            texts += [*install.drop_ins.values(), install.config_text or "", install.arguments_text or ""]
    return Look(files=tuple(paths), known=tuple(texts))


def need(goal: Goal, state: NodeState, below: Sequence[Part]) -> Part | None:
    """Return the part that writes and removes files; None where nothing changes."""
    kubelet = goal.plan.kubelet
    files, absent = goal.files(state.text(kubelet.edited_file) if kubelet else None, state)
    changed = changes(files, absent, state.files)
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
