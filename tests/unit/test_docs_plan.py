"""docs/read-a-plan.md names every field of a plan and every notice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from numaforge.planning.plan import NodePlan
from numaforge.roles.kernel_values.knobs import KNOBS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "read-a-plan.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "src" / "numaforge"
NOTICES = sorted(
    {
        name
        for tree in (PACKAGE, ROOT / "roles")
        for file in tree.rglob("*.py")
        for name in re.findall(r"Notice\(\s*\"([^\"]+)\"", file.read_text())
    }
    | {knob.feature.id for knob in KNOBS if knob.feature}
)


def parts_of(kind: type, found: dict[str, type]) -> dict[str, type]:
    """Return the dataclasses that a plan is made of, by name."""
    found.setdefault(kind.__name__, kind)
    for hint in get_type_hints(kind).values():
        for inner in held_by(hint):
            if is_dataclass(inner) and inner.__name__ not in found and "topology" not in inner.__module__:
                parts_of(inner, found)
    return found


def held_by(hint: object) -> Iterator[type]:
    if isinstance(hint, type) and not get_args(hint):
        yield hint
    for inner in get_args(hint):
        yield from held_by(inner)


PARTS = tuple(parts_of(NodePlan, {}).values())


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_every_field_is_explained(part):
    assert [field.name for field in fields(part) if f"`{field.name}`" not in PAGE] == []


@pytest.mark.parametrize("name", NOTICES)
def test_every_notice_is_explained(name):
    assert f"`{name}`" in PAGE


def test_no_notice_is_explained_that_does_not_exist():
    table = PAGE.partition("## Notices")[2].partition("## ")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`([^`]+)`", row)} == set(NOTICES)
