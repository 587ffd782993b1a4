"""The example inventory is something that pyinfra and the profiles accept."""

import runpy
from pathlib import Path

import pytest

from numaforge.planning.profiles import load_profile

EXAMPLE = Path(__file__).resolve().parents[3] / "inventories/example"
HOSTS = runpy.run_path(str(EXAMPLE / "inventory.py"))
GROUPS = [name for name, hosts in HOSTS.items() if isinstance(hosts, list)]


@pytest.mark.parametrize("group", GROUPS)
def test_every_group_has_a_valid_profile(group: str) -> None:
    data = runpy.run_path(str(EXAMPLE / f"group_data/{group}.py"))
    assert load_profile(data["numaforge_profile"]).name


def test_host_specific_profile_is_valid() -> None:
    own = [
        host[1]["numaforge_profile"] for group in GROUPS for host in HOSTS[group] if isinstance(host, tuple)
    ]
    assert [load_profile(profile).name for profile in own]


def test_every_group_data_file_belongs_to_a_group() -> None:
    assert {path.stem for path in (EXAMPLE / "group_data").glob("*.py")} == {*GROUPS, "all"}
