"""What a role's folder has is found, what it lacks is nothing, and a mistake within is no lack."""

from __future__ import annotations

from pathlib import Path

import pytest

from numaforge.planning.files import WRITERS
from numaforge.roles import ROLES, hugepages, made_for
from numaforge.roles.role import role


def test_a_module_that_a_folder_lacks_is_nothing() -> None:
    assert hugepages.part is not None
    assert made_for.part is None


def test_a_module_that_imports_what_is_not_installed_is_no_module_that_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/part.py").write_text("import not_installed_anywhere\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        _ = role("own", "Own").part


def test_every_files_py_is_listed_in_the_order_of_a_maintenance() -> None:
    assert list(WRITERS) == [role.files for role in ROLES if role.files]
