"""What is replaced in pyinfra stands in one file with its reason; its inspection gives the same answers."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyinfra.api import util

from numaforge.run.hosts import patches
from numaforge.run.hosts.patches import read_frames_once


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the place of pyinfra's functions, until the test ends."""
    monkeypatch.setattr(util, "stack", inspect.stack)
    monkeypatch.setattr(util, "getframeinfo", inspect.getframeinfo)
    read_frames_once()


def order() -> list[int]:
    return util.get_operation_order_from_stack(SimpleNamespace(current_deploy_filename=__file__))


def test_operations_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = []
    for _ in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(util, "stack", inspect.stack)
            patched.setattr(util, "getframeinfo", inspect.getframeinfo)
            if orders:
                read_frames_once()
                assert util.stack is not inspect.stack
            orders.append(order())
    assert orders[0] == orders[1]


def place() -> str:
    return util.get_call_location()


def test_call_location_is_kept(ours: None) -> None:
    assert place().endswith("test_patches.py")


def test_other_pyinfra_version_is_not_patched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(util, "stack", list)
    read_frames_once()
    assert util.stack is list


PRINTS = {
    f"print_{what}" for what in ("fact_info", "noop_info", "input", "fact_input", "output", "fact_output")
}
OF_A_RUN = {"connector_cls", "limit_hosts", "connected", "_sudo", "cwd", "current_op_file_number", *PRINTS}
"""What pyinfra leaves to who runs it."""


def replaced(file: Path) -> Iterator[str]:
    """Return what a file assigns to names of pyinfra, and to what pyinfra hands out."""
    tree = ast.parse(file.read_text())
    names = {"cli", "host", "state", "connector"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in (
            "pyinfra",
            "pyinfra_cli",
        ):
            names |= {alias.asname or alias.name for alias in node.names}
    aliased = (node for node in ast.walk(tree) if isinstance(node, ast.AnnAssign))
    names |= {
        node.target.id
        for node in aliased
        if isinstance(node.target, ast.Name) and isinstance(node.value, ast.Name) and node.value.id in names
    }
    targets = (target for node in ast.walk(tree) if isinstance(node, ast.Assign) for target in node.targets)
    for target in targets:
        if isinstance(target, ast.Attribute) and target.attr not in OF_A_RUN:
            name = ast.unparse(target)
            if name.split(".")[0] in names and ".data." not in name:
                yield f"{file.name}: {name}"


def test_only_patches_module_assigns_to_pyinfra_names() -> None:
    package = Path(patches.__file__).parents[2]
    files = [*package.rglob("*.py"), *(package / "roles").resolve().rglob("*.py")]
    assert [found for file in files if file.name != "patches.py" for found in replaced(file)] == []
    assert len([*replaced(Path(patches.__file__))]) > 3


def test_each_patch_documents_until_when_it_is_needed() -> None:
    functions = [each for each in vars(patches).values() if inspect.isfunction(each)]
    ours = [each for each in functions if each.__module__ == patches.__name__ and each.__name__[0] != "_"]
    assert [each.__name__ for each in ours if "Until " not in (each.__doc__ or "")] == []
