"""CONTRIBUTING names what there is: every package in the tour, every concern from profile to verification."""

from __future__ import annotations

import re

import pytest
from pydantic import BaseModel

from lab.paths import REPOSITORY
from numaforge.node.parts import KINDS
from numaforge.planning import model
from numaforge.roles.node import NodeProfile

PAGE = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
TOUR = PAGE.partition("## The five-minute tour")[2].partition("\n## ")[0]
CONCERNS = PAGE.partition("<!-- begin concerns -->")[2].partition("<!-- end concerns -->")[0]
ROWS = [
    line.strip("| ").split(" | ")
    for line in CONCERNS.splitlines()
    if line.startswith("| ") and not line.startswith("| concern |")
]
PACKAGE = REPOSITORY / "src" / "numaforge"
MODULES = sorted(
    f"{path.name}/" if path.is_dir() else path.name
    for path in PACKAGE.iterdir()
    if path.is_dir() or path.suffix == ".py"
)


def names(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def cells() -> list[tuple[str, str]]:
    """Return what each row names, with the row's folder."""
    return [(names(row[1])[0], name) for row in ROWS for cell in row[2:] for name in names(cell)]


def row(step: str) -> str:
    """Return all that the tables say of a step."""
    return " ".join(" ".join(row) for row in ROWS if row[0].startswith(step))


def sections() -> list[str]:
    """Return the file of each section of a profile."""
    found = set()
    for name, field in NodeProfile.model_fields.items():
        kinds = (field.annotation, *getattr(field.annotation, "__args__", ()))
        if any(isinstance(kind, type) and issubclass(kind, BaseModel) for kind in kinds):
            found.add(name)
    return sorted(found)


@pytest.mark.parametrize("name", [name for name in MODULES if name not in ("__init__.py", "__pycache__/")])
def test_the_tour_names_every_module_and_package(name):
    assert f"`{name}`" in TOUR or f"numaforge/{name}`" in TOUR


@pytest.mark.parametrize(
    "path", sorted({name for name in names(PAGE) if re.match(r"[\w./-]+/[\w./-]*$", name)})
)
def test_every_path_on_the_page_exists(path):
    folders = (
        REPOSITORY,
        PACKAGE / "kubelet",
        PACKAGE / "node",
        PACKAGE / "node" / "parts",
        REPOSITORY / "src",
    )
    roots = [folder / path for folder in (*folders, *(REPOSITORY / folder for folder, _ in cells()))]
    assert any(root.exists() for root in roots)


@pytest.mark.parametrize(("folder", "name"), cells())
def test_every_cell_of_a_concern_exists(folder, name):
    assert (REPOSITORY / folder / name).exists() or hasattr(model, name)


@pytest.mark.parametrize("name", [kind.NAME for kind in KINDS])
def test_every_part_is_named(name):
    assert f"`{name}/`" in PAGE.partition("## What a new concern touches")[2]


@pytest.mark.parametrize("section", sections())
def test_every_section_of_a_profile_is_named(section):
    assert re.search(rf"`{section}(\.py`|/)", row("section of the profile"))


def test_every_plan_of_a_concern_is_named():
    plans = {name for name in vars(model) if name.endswith("Plan")} - {"NodePlan", "CpuPlan", "MemoryPlan"}
    assert {*names(row("field of the plan"))} >= plans
