"""Each list of what roles have holds every such module, in the order of a maintenance."""

from pathlib import Path

import pytest

from numaforge.change.parts import PARTS
from numaforge.fleet.audit.drift import DRIFT
from numaforge.planning.files import WRITERS
from numaforge.roles.expected import EXPECTED
from numaforge.roles.role import ROLES
from numaforge.verification.table import PROMISES

FOLDER = Path(__file__).parents[3] / "roles"


def roles_with(module: str) -> list[str]:
    """Return the roles that have a module, in the order of a maintenance."""
    return [role.folder for role in ROLES if (FOLDER / role.folder / module).is_file()]


def folder_of(module: str) -> str:
    """Return the folder of a role's module, from its dotted name."""
    return "/".join(module.split(".")[2:-1])


@pytest.mark.parametrize(
    ("listed", "module"),
    [
        pytest.param([writer.role for writer in WRITERS], "files.py", id="planning/files.py"),
        pytest.param([part.role for part in PARTS], "part.py", id="change/parts.py"),
        pytest.param([role for role, _ in PROMISES], "promises.py", id="verification/table.py"),
    ],
)
def test_list_contains_every_role_with_the_module(listed, module):
    assert [role.folder for role in listed] == roles_with(module)


def test_each_list_entry_uses_its_own_role_folder():
    rows = [(writer.role, writer.files) for writer in WRITERS] + [(part.role, part.need) for part in PARTS]
    assert [folder_of(function.__module__) for _, function in rows] == [role.folder for role, _ in rows]


@pytest.mark.parametrize(
    ("functions", "module"),
    [
        pytest.param([expected for _, expected in EXPECTED], "expected.py", id="roles/expected.py"),
    ],
)
def test_list_contains_function_of_every_role_module(functions, module):
    assert [folder_of(function.__module__) for function in functions] == roles_with(module)


def test_every_drift_rule_is_listed_by_id():
    listed = {folder_of(rule.look.__module__) for rule in DRIFT if ".roles." in rule.look.__module__}
    assert listed == {*roles_with("drift.py")}
    assert [rule.id for rule in DRIFT] == sorted(rule.id for rule in DRIFT)
