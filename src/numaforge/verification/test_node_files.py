"""The files and units that numaforge wrote: there, with their rights, and saying what the plan says."""

from __future__ import annotations

import pytest

from numaforge.file_content import FileContent, PlannedFile
from numaforge.node.bundle import FileChange, diff
from numaforge.render import render_file
from numaforge.verification import expectations
from numaforge.verification.live import VerifiedNode


@pytest.mark.expects(table=expectations.files)
def test_file_mode_and_owner(node: VerifiedNode, name: str, expected: PlannedFile) -> None:
    state = node.live.files.get(name)
    assert state is not None, f"{name} does not exist"
    assert (state.mode, state.owner, state.group) == (expected.mode, expected.owner, expected.group), name


@pytest.mark.expects(table=expectations.files)
def test_file_content(node: VerifiedNode, name: str, expected: PlannedFile) -> None:
    state = node.live.files.get(name)
    assert state is not None, f"{name} does not exist"
    planned = render_file(node.plan, expected, config_text=state.text)
    if state.text != planned:
        wanted = FileContent(name, planned, state.mode, state.owner, state.group)
        pytest.fail("\n".join(diff(FileChange(name, state, wanted))), pytrace=False)


@pytest.mark.expects(table=expectations.units)
def test_unit_state(node: VerifiedNode, name: str, expected: tuple[str, ...]) -> None:
    state = node.live.active.get(name)
    assert state in expected, name


@pytest.mark.expects(table=expectations.boot_units)
def test_unit_starts_at_boot(node: VerifiedNode, name: str, expected: str) -> None:
    state = node.live.enabled.get(name)
    assert state == expected, name
