"""IMEX on a tray: masked or running with its nodes, proved, put back, whole at every boundary.

nvidia-imex and nvidia-imex-ctl are stand-ins (tests/ssh/standin_imex.py): the real ones were not run.
"""

import re

import pytest

from numaforge.change.transaction import Transaction, settle_script, start_script
from numaforge.lib import shell
from numaforge.roles.imex import part as imex
from numaforge.roles.imex.part import RECORD
from numaforge.roles.imex.plan import ImexPlan
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_imex import CONFIG, NODES, PACKAGES_CONFIG, UNIT, install_imex, standin_imex
from tests.ssh.standin_systemd import BOOT_ID, DROP_IN, standin_systemd
from tests.ssh.transactions import (
    CUT_POWER,
    ended,
    killed,
    leftovers,
    reverted,
    run,
    run_by,
    status,
    until,
    when,
)

SOCKET = "/var/run/nvidia-imex-ctrl.sock"
MASK = f"/etc/systemd/system/{UNIT}"
WANT = f"/etc/systemd/system/multi-user.target.wants/{UNIT}"
TRAYS = ("10.0.0.11", "10.0.0.12")
DRIVER = ImexPlan("driver-managed")
HOST = ImexPlan("host-managed", TRAYS, SOCKET)
BARE = ImexPlan("bare", TRAYS)


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    """A tray whose image has nvidia-imex, enabled and running for a list of one node, and a kubelet."""
    sandbox = start_sandbox({**machine(), **standin_systemd(port), **standin_imex(), DROP_IN: "old\n"})
    install_imex(sandbox)
    sandbox.path(NODES).write_text("# by the image\n10.0.0.1\n")
    sandbox.run(
        f"mkdir -p /run/when /run/systemd/system {WANT.rpartition('/')[0]}; "
        f"ln -s /usr/lib/systemd/system/{UNIT} {WANT}; "
        f"systemctl start kubelet.service; systemctl start {UNIT}; : > /run/systemctl.log"
    )
    until(sandbox, "[ -e /run/imex.log ]")
    return sandbox


def to(plan: ImexPlan, name: str = "T1") -> Transaction:
    return Transaction(name, (imex.part(plan, {"unit": "enabled", "active": "yes"}),))


def state(node: Sandbox) -> tuple[str, bool]:
    """Return how the unit starts, and whether it runs."""
    masked = node.path(MASK).is_symlink()
    unit = "masked" if masked else "enabled" if node.path(WANT).is_symlink() else "disabled"
    return unit, node.path(f"/run/active/{UNIT}").exists()


def assert_old(node: Sandbox) -> None:
    assert (state(node), node.path(CONFIG).read_text()) == (("enabled", True), PACKAGES_CONFIG)
    assert node.path(NODES).read_text() == "# by the image\n10.0.0.1\n"
    assert not node.path(RECORD).exists()
    assert leftovers(node) == []


def keys(node: Sandbox) -> dict[str, str]:
    return dict(re.findall(r"^([A-Z_]+)=(.*)$", node.path(CONFIG).read_text(), re.MULTILINE))


def test_driver_managed_masks_the_unit_and_ends_its_daemon(node: Sandbox) -> None:
    assert run(node, to(DRIVER)).outcome == "applied"
    assert state(node) == ("masked", False)
    assert node.path(CONFIG).read_text() == PACKAGES_CONFIG


def test_host_managed_takes_commands_and_has_the_nodes_of_its_clique(node: Sandbox) -> None:
    assert run(node, to(HOST)).outcome == "applied"
    assert state(node) == ("enabled", True)
    assert keys(node) == {
        "LOG_LEVEL": "4",
        "SERVER_PORT": "50000",
        "IMEX_CMD_ENABLED": "1",
        "IMEX_CMD_UNIX_DOMAIN_PATH": SOCKET,
        "IMEX_NODE_CONFIG_FILE": NODES,
        "LOG_FILE_NAME": "/var/log/nvidia-imex.log",
    }
    assert node.path(CONFIG).read_text().startswith("# the package's own\n")
    assert node.path("/run/imex.log").read_text().splitlines() == ["10.0.0.1", ",".join(TRAYS)]


def test_bare_runs_the_daemon_without_a_socket(node: Sandbox) -> None:
    assert run(node, to(BARE)).outcome == "applied"
    assert (state(node), keys(node)["IMEX_CMD_ENABLED"]) == (("enabled", True), "0")


def test_from_driver_managed_to_host_managed_and_back_to_what_was_there(node: Sandbox) -> None:
    assert run(node, to(DRIVER)).outcome == "applied"
    assert run(node, to(HOST, "T2")).outcome == "applied"
    assert state(node) == ("enabled", True)
    assert run(node, to(ImexPlan(), "T3")).outcome == "applied"
    assert (state(node), keys(node)["IMEX_CMD_ENABLED"]) == (("enabled", True), "0")
    assert node.path(NODES).read_text() == "10.0.0.1\n"
    assert not node.path(RECORD).exists()


@pytest.mark.parametrize("plan", [DRIVER, HOST], ids=["driver-managed", "host-managed"])
def test_what_was_applied_is_taken_back(node: Sandbox, plan: ImexPlan) -> None:
    assert run(node, to(plan)).outcome == "applied"
    assert reverted(node, "the node is not Ready").outcome == "rolled-back"
    assert_old(node)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        pytest.param("touch /run/imex-broken", "says nothing on", id="it does not start"),
        pytest.param("touch /run/imex-degraded", "says DEGRADED on .*, not READY", id="never ready"),
    ],
)
def test_a_daemon_that_is_not_ready_brings_the_old_one_back(node: Sandbox, spoil: str, reason: str) -> None:
    node.run(spoil)
    when(node, "undo imex", "rm -f /run/imex-broken /run/imex-degraded")
    part = imex.part(HOST, {"unit": "enabled", "active": "yes"})
    part.settings["IMEX_SECONDS"] = "2"  # type: ignore[index]
    result = run(node, Transaction("T1", (part,)))
    assert result.outcome == "rolled-back", result
    assert re.search(reason, result.reason)
    assert_old(node)


def test_a_daemon_in_a_pod_is_a_live_domain(node: Sandbox) -> None:
    node.run(
        "setsid nvidia-imex > /dev/null 2>&1 < /dev/null & mkdir -p /run/cgroups; "
        "echo 0::/kubepods.slice/pod1 > /run/cgroups/$!; mount --bind /run/cgroups/$! /proc/$!/cgroup"
    )
    until(node, "[ $(wc -l < /run/imex.log) = 2 ]")
    result = run(node, to(DRIVER))
    assert (result.outcome, "a ComputeDomain is alive here" in result.reason) == ("refused", True), result
    assert "pod-daemon yes" in look(node)
    assert state(node) == ("enabled", True)


def test_channels_in_use_are_a_live_domain(node: Sandbox) -> None:
    folder = "/dev/nvidia-caps-imex-channels"
    made = node.run(f"mkdir -p {folder} && : > {folder}/channel0")
    if made.returncode:
        pytest.skip("this sandbox has no /dev of its own")
    node.run(f"setsid sleep 1000 < {folder}/channel0 > /dev/null 2>&1 & :")
    result = run(node, to(DRIVER))
    assert (result.outcome, "IMEX channels are in use" in result.reason) == ("refused", True), result
    assert state(node) == ("enabled", True)


def look(node: Sandbox, planned: str = "planned") -> list[str]:
    library = shell.library(
        "lib/kernel_files", "lib/units", "node/look", "roles/imex/state", "roles/imex/look"
    )
    asked = shell.call("ask_units", ["ActiveState,SubState", UNIT])
    asked += shell.call("look_imex", [planned, CONFIG, NODES, RECORD, "IMEX_CMD_ENABLED"])
    return node.run(f"{library}\n{asked}").stdout.splitlines()


def test_what_a_look_tells(node: Sandbox) -> None:
    said = [line for line in look(node) if not line.startswith("address ")]
    assert said == [
        "program yes",
        "unit enabled",
        "active yes",
        "host-daemon yes",
        "node 10.0.0.1",
        "key IMEX_CMD_ENABLED=0",
    ]


def test_a_users_process_of_its_name_is_no_daemon_of_the_host(node: Sandbox) -> None:
    node.run(f"systemctl stop {UNIT}; rm /usr/bin/nvidia-imex; cp /bin/sleep /usr/bin/nvidia-imex")
    node.run("setsid setpriv --reuid=4001 --clear-groups nvidia-imex 1000 > /dev/null 2>&1 < /dev/null &")
    until(node, "pgrep -u 4001 -x nvidia-imex")
    assert "host-daemon yes" not in look(node)
    node.run("setsid nvidia-imex 1000 > /dev/null 2>&1 < /dev/null &")
    until(node, "pgrep -u 0 -x nvidia-imex")
    assert "host-daemon yes" in look(node)


def test_of_a_host_that_numaforge_leaves_alone_a_look_tells_nothing(node: Sandbox) -> None:
    assert look(node, planned="") == []
    node.run(f"mkdir -p /etc/numaforge && echo enabled > {RECORD}")
    assert "recorded enabled" in look(node, planned="")


STEPS = ("stop imex", "apply imex", "start imex", "prove imex")


@pytest.mark.parametrize("event", STEPS)
def test_one_that_is_killed_at_any_step_is_undone(node: Sandbox, event: str) -> None:
    killed(node, event, to(HOST))
    assert_old(node)


@pytest.mark.parametrize("event", STEPS)
def test_after_a_power_cut_the_old_state_is_back(node: Sandbox, event: str) -> None:
    cut = f"kill -KILL $(cat /run/active/{UNIT}); rm -f /run/active/{UNIT}\n{CUT_POWER}"
    when(node, event, cut)
    node.run(start_script(to(DRIVER)))
    until(node, f"grep -q second {BOOT_ID}")
    assert status(node).broken_off
    node.run(settle_script())
    assert ended(node).outcome == "rolled-back"
    assert_old(node)


@pytest.mark.parametrize("interpreter", ["busybox sh", "dash", "bash --posix"])
def test_it_runs_under_every_posix_shell(node: Sandbox, interpreter: str) -> None:
    result = run_by(node, interpreter, to(HOST))
    assert result.outcome == "applied", result
    assert keys(node)["IMEX_CMD_ENABLED"] == "1"
