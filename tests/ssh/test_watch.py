"""A node that watches itself, over a real sshd: drift appears in its metrics, and clears."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import governor, machine, pool
from tests.ssh.sandbox import Sandbox, free_port, pyinfra, succeed
from tests.ssh.site_runs import PROFILE, data, plain
from tests.ssh.standin_systemd import standin_systemd

pytestmark = pytest.mark.core(
    "test_hand_edit_is_drift_until_reverted",
    "test_each_kind_of_edit_has_its_own_drift_name",
    "test_nothing_is_compared_while_a_change_is_in_progress",
)
FOLDER = "/var/lib/prometheus/node-exporter"
METRICS = f"{FOLDER}/numaforge.prom"
CONF = "/etc/numaforge/watch.conf"
SCRIPT = "/var/lib/numaforge/lib/watch.sh"
LINK = "/etc/systemd/system/timers.target.wants/numaforge-watch.timer"
TIMER = "/run/active/numaforge-watch.timer"
KEPT = "/run/numaforge/watch"
POOL = pool(0, 2048)
WATCHED: dict[str, Any] = {**PROFILE, "watch": {"enabled": True, "directory": FOLDER}}


@pytest.fixture
def node(start_sandbox: StartSandbox) -> Sandbox:
    sandbox = start_sandbox({**machine(), **standin_systemd(free_port())})
    sandbox.run("rm /usr/local/bin/kubelet; mkdir -p /run/services /run/systemd/system")
    return sandbox


def apply(node: Sandbox, folder: Path, profile: dict[str, Any], *arguments: str) -> str:
    done = succeed(folder, {"node": data(node, profile)}, "-y", *arguments, "deploys/tune.py")
    return plain(done.stdout)


def run_once(node: Sandbox) -> str:
    """Do what the timer does, and return what goes to the journal."""
    return node.run(f"sh {SCRIPT} watch {CONF} 2>&1").stdout


def drift(node: Sandbox) -> dict[str, str]:
    """Return the value of each drift by what it is of."""
    pattern = r'^numaforge_plan_drift\{node="sandbox",what="(.*)"\} (\S+)$'
    return dict(re.findall(pattern, node.path(METRICS).read_text(), re.MULTILINE))


def left(node: Sandbox) -> str:
    return node.run(
        f"ls -d {METRICS} {FOLDER}/.n* {CONF} {SCRIPT} {LINK} {TIMER} {KEPT} 2>/dev/null; true"
    ).stdout


def test_hand_edit_is_drift_until_reverted(node: Sandbox, tmp_path: Path) -> None:
    apply(node, tmp_path, WATCHED)
    found = drift(node)
    assert set(found.values()) == {"0"}, found
    assert {
        "hugepages:2Mi on NUMA node 0",
        "governor",
        "sysctl:vm.swappiness",
        f"file:{CONF.replace('watch.conf', 'plan.json')}",
    } <= {*found}
    assert node.path(TIMER).exists()
    assert str(node.path(LINK).readlink()) == "/etc/systemd/system/numaforge-watch.timer"

    node.path(POOL).write_text("15\n")
    said = run_once(node)
    assert f"{POOL}: 15, planned 16" in said
    assert {what for what, value in drift(node).items() if value != "0"} == {"hugepages:2Mi on NUMA node 0"}
    assert (
        'numaforge_hugepages_actual{node="sandbox",numa="0",size="2Mi"} 15\n'
        in node.path(METRICS).read_text()
    )
    assert run_once(node) == "", "what has not changed is not told again"

    node.path(POOL).write_text("16\n")
    run_once(node)
    assert set(drift(node).values()) == {"0"}


EDITS = [
    pytest.param(governor(5), "schedutil", "governor", id="one CPU's governor"),
    pytest.param("/proc/sys/vm/swappiness", "60", "sysctl:vm.swappiness", id="a sysctl"),
    pytest.param(
        "/etc/sysctl.d/90-numaforge.conf",
        "edited",
        "file:/etc/sysctl.d/90-numaforge.conf",
        id="a file of ours",
    ),
]


def test_each_kind_of_edit_has_its_own_drift_name(node: Sandbox, tmp_path: Path) -> None:
    apply(node, tmp_path, WATCHED)
    for edit in EDITS:
        path, text, what = edit.values
        before = node.path(path).read_text()
        node.path(path).write_text(f"{text}\n")
        run_once(node)
        assert {name for name, value in drift(node).items() if value != "0"} == {what}
        node.path(path).write_text(before)
    node.run("rm /etc/systemd/system/multi-user.target.wants/numaforge-tuning.service")
    node.path(governor(3)).unlink()
    run_once(node)
    assert {name: value for name, value in drift(node).items() if value != "0"} == {
        "unit:numaforge-tuning.service": "1",
        "governor": "NaN",
    }
    assert 'numaforge_watch_unreadable{node="sandbox",what="governor"} 1\n' in node.path(METRICS).read_text()


def test_nothing_is_compared_while_a_change_is_in_progress(node: Sandbox, tmp_path: Path) -> None:
    apply(node, tmp_path, WATCHED)
    before = node.path(METRICS).read_text()
    node.path(POOL).write_text("15\n")
    node.run("ln -s some /var/lib/numaforge/txn/current")
    assert run_once(node) == ""
    assert node.path(METRICS).read_text() == before


def test_plan_without_a_watch_leaves_no_stale_metrics(node: Sandbox, tmp_path: Path) -> None:
    apply(node, tmp_path, WATCHED)
    assert "the node is already as planned" in apply(node, tmp_path, WATCHED, "-v")
    assert METRICS in left(node)
    apply(node, tmp_path, PROFILE)
    assert left(node) == ""


def test_metrics_move_with_their_folder(node: Sandbox, tmp_path: Path) -> None:
    apply(node, tmp_path, {**PROFILE, "watch": {"enabled": True}})
    usual = "/var/lib/node_exporter/textfile_collector/numaforge.prom"
    assert node.path(usual).exists()
    apply(node, tmp_path, WATCHED)
    assert not node.path(usual).exists()
    assert set(drift(node).values()) == {"0"}


def test_undone_change_removes_its_watch(node: Sandbox, tmp_path: Path) -> None:
    profile = {**WATCHED, "tuning": {"sysctls": {"vm.swappiness": "1"}}}
    node.run(
        "mount -t tmpfs -o ro tmpfs /etc/systemd/system/timers.target.wants 2>/dev/null || mkdir -p "
        "/etc/systemd/system/timers.target.wants && mount -t tmpfs -o ro tmpfs "
        "/etc/systemd/system/timers.target.wants"
    )
    done = pyinfra(tmp_path, {"node": data(node, profile)}, "-y", "deploys/tune.py")
    assert done.returncode != 0
    assert "timers.target.wants/numaforge-watch.timer could not be written" in plain(done.stdout)
    assert node.path("/proc/sys/vm/swappiness").read_text() == "60\n"
    assert left(node) == ""
