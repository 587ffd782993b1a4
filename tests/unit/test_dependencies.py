"""The package imports what it declares, and the lock has it."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from lab.paths import REPOSITORY
from tests.fixtures.sources import parsed

PACKAGE = REPOSITORY / "src" / "numaforge"
SOURCES = sorted(
    path for folder in (PACKAGE, PACKAGE / "roles", PACKAGE / "deploys") for path in folder.rglob("*.py")
)


def imported(source: Path) -> set[str]:
    """Return the top-level packages that a file imports or looks for, our own left out."""
    names = set()
    for node in ast.walk(parsed(source.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "find_spec":
            names |= {argument.value for argument in node.args if isinstance(argument, ast.Constant)}
    tops = {name.partition(".")[0] for name in names}
    return tops - sys.stdlib_module_names - {"numaforge"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> set[str]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    requirements = [*project["dependencies"], *extras["images"], *extras["pictures"]]
    return {normal(re.split(r"[^\w.-]", requirement)[0]) for requirement in requirements}


def test_imports_and_declared_dependencies_match() -> None:
    providers = packages_distributions()
    used = {normal(providers[name][0]) for source in SOURCES for name in imported(source)}
    assert used == declared()


def test_every_dependency_is_locked_and_the_lock_names_no_index() -> None:
    lock = (REPOSITORY / "requirements.lock").read_text()
    locked = {normal(name) for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)}
    assert declared() <= locked
    assert "://" not in lock


def hashes(lock: str) -> dict[str, set[str]]:
    """Return the checksums in a lock by NAME==VERSION."""
    blocks = re.split(r"^(?=[\w.-]+==)", (REPOSITORY / lock).read_text(), flags=re.MULTILINE)[1:]
    return {block.split()[0]: set(re.findall(r"--hash=(\S+)", block)) for block in blocks}


def test_release_pins_the_tested_dependencies_by_checksum() -> None:
    released, tested = hashes("src/numaforge/requirements.lock"), hashes("requirements.lock")
    assert all(released.values())
    assert released.items() <= tested.items()
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    needed = {normal(re.split(r"[^\w.-]", requirement)[0]) for requirement in project["dependencies"]}
    assert needed <= {normal(package.partition("==")[0]) for package in released}


@pytest.mark.parametrize(
    "place",
    [
        "packaging/bundle.py",
        "src/numaforge/image/bake/program.py",
        "docs/Containerfile",
        "lab/setup-python.sh",
    ],
)
def test_package_installers_verify_checksums(place: str) -> None:
    text = (REPOSITORY / place).read_text()
    assert "--require-hashes" in text
    assert "--constraint" not in text
