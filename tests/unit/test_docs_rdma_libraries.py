"""The table of docs/rdma-libraries.md is what libraries are given."""

import re

from lab.paths import REPOSITORY
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.roles.rdma.environment import environment
from tests.fixtures.rdma_machines import dgx

PAGE = (REPOSITORY / "docs" / "rdma-libraries.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([A-Z]+_\w+)` \| (?:`([^`]+)`|not set) \|", PAGE, re.MULTILINE)


def test_table_matches_the_environment_of_a_dgx_h100() -> None:
    told: dict[str, str] = {}
    for libraries in ({"ucx": True, "nvshmem": True}, {"vllm": True}):
        told |= environment(plan_node(dgx(), load_profile({"rdma": {"libraries": libraries}})).rdma.libraries)
    for name, shown in ROWS:
        start, _, end = shown.partition("...")
        value = told.pop(name, "")
        assert value.startswith(start), name
        assert value.endswith(end), name
        assert bool(value) == bool(shown), name
    assert told == {}
