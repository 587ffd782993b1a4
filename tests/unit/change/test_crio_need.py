"""When CRI-O restarts, and when pods have to be gone for it."""

import pytest

from numaforge.change.goal import Goal
from numaforge.lib.file_content import FileContent
from numaforge.node.bundle import FileChange, FileState
from numaforge.node.part import NodeState
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.roles.crio import part as crio
from numaforge.roles.crio.files import CRIO_PATH
from numaforge.roles.files import part as files
from numaforge.roles.kernel_values.files import SYSCTL_PATH
from tests.fixtures.machines import lab_node

HANDLER = "# from a\n[crio.runtime.runtimes.high-performance]\nallowed_annotations = []\n"


def there(text: str) -> FileState:
    return FileState(text, "0644", "root", "root")


@pytest.mark.parametrize(
    ("old", "new", "drains"),
    [
        pytest.param(None, HANDLER, False, id="a-new-handler-has-no-pods-yet"),
        pytest.param(HANDLER, None, True, id="pods-may-use-one-that-goes"),
        pytest.param(HANDLER, HANDLER.replace("[]", '["a"]'), True, id="or-one-that-allows-something-else"),
        pytest.param(HANDLER, HANDLER.replace("from a", "from b"), False, id="another-profile-says-the-same"),
    ],
)
def test_changed_handler_requires_a_drain(old, new, drains):
    change = FileChange(CRIO_PATH, old and there(old), new and FileContent(CRIO_PATH, new))
    machine = lab_node()
    goal = Goal(plan_node(machine, load_profile({})), machine, frozenset({"host"}))
    part = crio.need(goal, NodeState({}, ()), (files.part([change]),))
    assert part.drains is drains
    assert part.settings["CRIO_HANDLER"] == ("high-performance" if new else "")


def test_other_files_restart_no_runtime():
    machine = lab_node()
    goal = Goal(plan_node(machine, load_profile({})), machine, frozenset({"host"}))
    other = FileChange(SYSCTL_PATH, None, FileContent(SYSCTL_PATH, "vm.swappiness = 1\n"))
    assert crio.need(goal, NodeState({}, ()), (files.part([other]),)) is None
