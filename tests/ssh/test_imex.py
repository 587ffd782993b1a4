"""IMEX on a tray: masked or running with its nodes, proved, put back, whole at every boundary.

nvidia-imex and nvidia-imex-ctl are stand-ins (tests/ssh/standin_imex.py): the real ones were not run.
"""

import re

import pytest

from numaforge.change.transaction import Transaction
from numaforge.lib import shell
from numaforge.roles.imex import part as imex
from numaforge.roles.imex.part import RECORD
from numaforge.roles.imex.plan import ImexPlan
from tests.fixtures.tables import cases
from tests.ssh.conftest import StartSandbox
from tests.ssh.parts.imex import BARE, DRIVER, HOST, assert_old, change, keys, start_node, state
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_imex import CONFIG, NODES, UNIT
from tests.ssh.transactions import run, until, when

pytestmark = pytest.mark.core(
    "test_driver_and_host_management_are_applied_then_original_restored",
    "test_channels_in_use_count_as_live_compute_domain",
    "test_look_reports_the_imex_state",
)


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    return start_node(start_sandbox, port)


def test_bare_mode_runs_the_daemon_without_a_socket(node: Sandbox) -> None:
    assert run(node, change(BARE)).outcome == "applied"
    assert (state(node), keys(node)["IMEX_CMD_ENABLED"]) == (("enabled", True), "0")


def test_driver_and_host_management_are_applied_then_original_restored(node: Sandbox) -> None:
    assert run(node, change(DRIVER)).outcome == "applied"
    assert run(node, change(HOST, "T2")).outcome == "applied"
    assert state(node) == ("enabled", True)
    assert run(node, change(ImexPlan(), "T3")).outcome == "applied"
    assert (state(node), keys(node)["IMEX_CMD_ENABLED"]) == (("enabled", True), "0")
    assert node.path(NODES).read_text() == "10.0.0.1\n"
    assert not node.path(RECORD).exists()


@cases(
    "spoil, reason",
    {
        "it does not start": ("touch /run/imex-broken", "says nothing on"),
        "never ready": ("touch /run/imex-degraded", "says DEGRADED on .*, not READY"),
    },
)
def test_daemon_that_is_not_ready_restores_the_old_daemon(node: Sandbox, spoil: str, reason: str) -> None:
    node.run(spoil)
    when(node, "undo imex", "rm -f /run/imex-broken /run/imex-degraded")
    part = imex.part(HOST, {"unit": "enabled", "active": "yes"})
    part.settings["IMEX_SECONDS"] = "2"  # type: ignore[index]
    result = run(node, Transaction("T1", (part,)))
    assert result.outcome == "rolled-back", result
    assert re.search(reason, result.reason)
    assert_old(node)


def test_imex_daemon_in_a_pod_counts_as_live_compute_domain(node: Sandbox) -> None:
    node.run(
        "setsid nvidia-imex > /dev/null 2>&1 < /dev/null & mkdir -p /run/cgroups; "
        "echo 0::/kubepods.slice/pod1 > /run/cgroups/$!; mount --bind /run/cgroups/$! /proc/$!/cgroup"
    )
    until(node, "[ $(wc -l < /run/imex.log) = 2 ]")
    result = run(node, change(DRIVER))
    assert (result.outcome, "a ComputeDomain is alive here" in result.reason) == ("refused", True), result
    assert "pod-daemon yes" in look(node)
    assert state(node) == ("enabled", True)


def test_channels_in_use_count_as_live_compute_domain(node: Sandbox) -> None:
    folder = "/dev/nvidia-caps-imex-channels"
    made = node.run(f"mkdir -p {folder} && : > {folder}/channel0")
    if made.returncode:
        pytest.skip("this sandbox has no /dev of its own")
    node.run(f"setsid sleep 1000 < {folder}/channel0 > /dev/null 2>&1 & :")
    result = run(node, change(DRIVER))
    assert (result.outcome, "IMEX channels are in use" in result.reason) == ("refused", True), result
    assert state(node) == ("enabled", True)


def look(node: Sandbox, planned: str = "planned") -> list[str]:
    library = shell.library(
        "lib/kernel_files", "lib/units", "node/look", "roles/imex/state", "roles/imex/look"
    )
    asked = shell.call("ask_units", ["ActiveState,SubState", UNIT])
    asked += shell.call("look_imex", [planned, CONFIG, NODES, RECORD, "IMEX_CMD_ENABLED"])
    return node.run(f"{library}\n{asked}").stdout.splitlines()


def test_look_reports_the_imex_state(node: Sandbox) -> None:
    said = [line for line in look(node) if not line.startswith("address ")]
    assert said == [
        "program yes",
        "unit enabled",
        "active yes",
        "host-daemon yes",
        "node 10.0.0.1",
        "key IMEX_CMD_ENABLED=0",
    ]


def test_user_process_named_like_imex_does_not_count_as_daemon(node: Sandbox) -> None:
    node.run(f"systemctl stop {UNIT}; rm /usr/bin/nvidia-imex; cp /bin/sleep /usr/bin/nvidia-imex")
    node.run("setsid setpriv --reuid=4001 --clear-groups nvidia-imex 1000 > /dev/null 2>&1 < /dev/null &")
    until(node, "pgrep -u 4001 -x nvidia-imex")
    assert "host-daemon yes" not in look(node)
    node.run("setsid nvidia-imex 1000 > /dev/null 2>&1 < /dev/null &")
    until(node, "pgrep -u 0 -x nvidia-imex")
    assert "host-daemon yes" in look(node)


def test_look_at_unmanaged_host_reports_nothing(node: Sandbox) -> None:
    assert look(node, planned="") == []
    node.run(f"mkdir -p /etc/numaforge && echo enabled > {RECORD}")
    assert "recorded enabled" in look(node, planned="")
