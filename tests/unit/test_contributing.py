"""CONTRIBUTING names what there is: every package in the tour, and roles keep to their contract."""

from __future__ import annotations

import re

import pytest

from docs.node_types import STUB, stub
from lab.paths import REPOSITORY
from numaforge.roles import ROLES

PAGE = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
TOUR = PAGE.partition("## The five-minute tour")[2].partition("\n## ")[0]
CONTRACT = (
    ("KEY",),
    ("TURN", "NEEDS", "Decided", "decide"),
    ("TEMPLATES", "files", "paths"),
    ("NAME", "look", "need"),
)
PACKAGE = REPOSITORY / "src" / "numaforge"
MODULES = sorted(
    f"{path.name}/" if path.is_dir() else path.name
    for path in PACKAGE.iterdir()
    if path.is_dir() or path.suffix == ".py"
)


def names(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


@pytest.mark.parametrize("name", [name for name in MODULES if name not in ("__init__.py", "__pycache__/")])
def test_the_tour_names_every_module_and_package(name):
    assert f"`{name}`" in TOUR or f"numaforge/{name}`" in TOUR


@pytest.mark.parametrize(
    "path", sorted({name for name in names(PAGE) if re.match(r"[\w./-]+/[\w./-]*$", name)})
)
def test_every_path_on_the_page_exists(path):
    folders = (REPOSITORY, REPOSITORY / "src", PACKAGE / "kubelet", PACKAGE / "node")
    assert any((folder / path).exists() for folder in folders)


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_role_is_a_folder_that_has_what_the_contract_names(role):
    modules = (role.section, role.plan, role.files, role.part)
    assert any(modules)
    assert all(
        hasattr(module, name)
        for module, names in zip(modules, CONTRACT, strict=True)
        if module
        for name in names
    )


def test_every_folder_of_roles_is_a_role_or_what_a_deploy_calls():
    folders = {path.parent.name for path in (REPOSITORY / "roles").glob("*/__init__.py")}
    called = {"forget", "image", "maintenance", "system", "topology", "tuning"}
    assert folders == {role.name for role in ROLES} | called


def test_the_stub_of_the_types_that_roles_make_together_is_current():
    written = STUB.read_text(encoding="utf-8")
    assert "".join(written.split()).replace(",)", ")") == "".join(stub().split()).replace(",)", ")")
