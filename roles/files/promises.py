"""The files and units that numaforge wrote: mode, owner, content and state as planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from numaforge import shell
from numaforge.file_content import FileContent, PlannedFile, boot_units
from numaforge.maintenance.bundle import FileChange, diff
from numaforge.render import render_file
from numaforge.verification.promise import Promise, Table, unit_starts_at_boot, unit_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numaforge.roles.node import NodePlan
    from numaforge.verification.live import VerifiedNode


def files(plan: NodePlan) -> Table:
    """Each file that numaforge wrote."""
    return {file.path: file for file in plan.files if not file.waits}


def units(plan: NodePlan) -> Table:
    """The states allowed for each of our units: a service that runs at boot has not failed."""
    states = {".service": ("active", "inactive"), ".timer": ("active",)}
    return {unit.name: states[unit.suffix] for unit in boot_units(plan.files)}


def starting_units(plan: NodePlan) -> Table:
    """The units that must start at boot."""
    return dict.fromkeys(units(plan), "enabled")


def _asks(plan: NodePlan) -> Iterator[str]:
    """Yield the shell call that prints the ages of files."""
    yield shell.call("tell_ages", [file.path for file in plan.files])


def _file_mode_and_owner(node: VerifiedNode, name: str, expected: PlannedFile) -> None:
    state = node.live.files.get(name)
    assert state is not None, f"{name} does not exist"
    assert (state.mode, state.owner, state.group) == (expected.mode, expected.owner, expected.group), name


def _file_content(node: VerifiedNode, name: str, expected: PlannedFile) -> None:
    state = node.live.files.get(name)
    assert state is not None, f"{name} does not exist"
    planned = render_file(node.plan, expected, config_text=state.text)
    if state.text != planned:
        wanted = FileContent(name, planned, state.mode, state.owner, state.group)
        pytest.fail("\n".join(diff(FileChange(name, state, wanted))), pytrace=False)


PROMISES = (
    Promise("file_mode_and_owner", files, _file_mode_and_owner, asks=_asks),
    Promise("file_content", files, _file_content),
    Promise("unit_state", units, unit_state, units=units),
    Promise("unit_starts_at_boot", starting_units, unit_starts_at_boot),
)
