"""A plan on trial: what keeps it on a node of an image, and how the node goes back otherwise."""

import json
from collections.abc import Callable
from subprocess import CompletedProcess
from typing import Any

import pytest

from numaforge.change.transaction import TRANSACTIONS
from numaforge.image.first_boot.stamp import FAILED, ISSUE, STATE, TRIAL, boot_script
from tests.ssh.conftest import StartSandbox
from tests.ssh.images import GPU, NUMAFORGE, OWN, PROFILE, SETTINGS, image_files, prepare, write
from tests.ssh.machine import governor
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_bootloader import boot, boots, debian, install
from tests.ssh.standin_systemd import DROP_IN
from tests.ssh.transactions import until

pytestmark = pytest.mark.core(
    "test_plan_of_a_joined_node_is_on_trial_until_an_admin_confirms",
    "test_plan_that_reaches_no_cluster_is_undone_by_one_boot_and_not_retried",
)
JOINED = "/etc/kubernetes/kubelet.conf"
OTHER = PROFILE.replace("1Gi", "2Gi")
SHORT = "profile: own\nconfirm_seconds: 5\n"
COMMAND_LINE = f"{PROFILE}kernel: {{skew_tick: true}}\nmaintenance: {{reboot: allowed}}\n"
EARLIER = "numaforge: the kubelet runs with the earlier plan: the plan of profile own was undone, "


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    """A node of an image that has never joined a cluster."""
    node = start_sandbox({**image_files(port), **debian()})
    prepare(node)
    install(node)
    node.run("mkdir -p /run/when /etc/kubernetes")
    return node


def before_kubelet(node: Sandbox) -> CompletedProcess[str]:
    """Do what stands before the kubelet, until it has ended or the node has gone down."""
    write(node, "/run/before-kubelet", boot_script())
    return node.run(
        'idle() { set -- /run/units/*; ! [ -e "$1" ]; }; is_down() { [ -e /run/stopping ] && idle; }\n'
        "setsid sh /run/before-kubelet & while kill -0 $! 2> /dev/null && ! is_down; do sleep 0.1; done\n"
        "if is_down; then kill -KILL -- -$!; fi; wait $!",
        "bash -s",
    )


def planned(node: Sandbox) -> CompletedProcess[str]:
    """Do what stands before the kubelet, which may start then."""
    done = before_kubelet(node)
    assert done.returncode == 0, done.stderr
    return done


def held(node: Sandbox) -> str:
    """Return why the kubelet must not start."""
    assert before_kubelet(node).returncode != 0
    said = node.path(str(ISSUE)).read_text()
    assert said.startswith("numaforge: the kubelet is not started: ")
    return said


def record(node: Sandbox, folder: object = STATE) -> dict[str, Any]:
    return dict(json.loads(node.path(f"{folder}/record.json").read_text()))


def transactions(node: Sandbox) -> int:
    """Return how many changes the node has begun."""
    return len([*node.path(TRANSACTIONS).glob("2*")])


def reboot(node: Sandbox) -> None:
    """Let the node go down, or switch it off, and boot it up to what stands before the kubelet."""
    until(node, "[ ! -e /run/stopping ] || idle")
    boot(node)
    node.run("systemctl stop kubelet.service")


def through_boots(node: Sandbox) -> CompletedProcess[str]:
    """Do what stands before the kubelet, at this boot and at each one that the node asks for."""
    done = before_kubelet(node)
    while node.path("/run/stopping").exists():
        reboot(node)
        done = before_kubelet(node)
    return done


def joined_with_an_earlier_plan(node: Sandbox) -> None:
    planned(node)
    write(node, JOINED, "")
    write(node, SETTINGS, SHORT)
    planned(node)  # the settings are inputs


NOTHING_TO_GO_BACK_TO: dict[str, Callable[[Sandbox], object]] = {
    "it has never joined": lambda node: (planned(node), write(node, OWN, OTHER)),
    "it is its first plan": lambda node: write(node, JOINED, ""),
    "its disk is in another machine": lambda node: (
        joined_with_an_earlier_plan(node),
        write(node, "/etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
        write(node, OWN, OTHER),
    ),
}


@pytest.mark.variants(1)
@pytest.mark.parametrize("case", NOTHING_TO_GO_BACK_TO)
def test_plan_without_a_fallback_is_confirmed_by_the_node_itself(case, node):
    NOTHING_TO_GO_BACK_TO[case](node)
    planned(node)
    assert record(node)["confirmed"] == "the node itself: it had no earlier plan, or no login to a cluster"
    assert not node.path(str(TRIAL)).exists()


def test_plan_of_a_joined_node_is_on_trial_until_an_admin_confirms(node):
    planned(node)
    write(node, JOINED, "")
    write(node, OWN, OTHER)
    done = planned(node)
    assert "on trial: it is undone unless the kubelet reaches the API server within 600 s" in done.stderr
    assert "restart numaforge-report.service" in node.path("/run/systemctl.log").read_text()
    assert "confirmed" not in record(node, TRIAL) or not record(node, TRIAL)["confirmed"]
    starts = len(node.path("/run/planned").read_text())
    planned(node)  # each start of the kubelet meanwhile
    assert len(node.path("/run/planned").read_text()) == starts, "numaforge was started"
    assert "on trial since" in node.run(f"{NUMAFORGE} boot --dry").stdout
    assert node.run(f"{NUMAFORGE} boot --confirm").returncode == 0
    assert record(node)["confirmed"] == "a person: `numaforge boot --confirm`"
    assert not node.path(str(TRIAL)).exists()
    planned(node)
    assert len(node.path("/run/planned").read_text()) == starts
    refused = node.run(f"{NUMAFORGE} boot --confirm")
    assert refused.returncode != 0
    assert "no plan is on trial" in refused.stderr


def unconfirmed(node: Sandbox) -> None:
    """Have the node try another profile in vain, and boot."""
    joined_with_an_earlier_plan(node)
    write(node, OWN, OTHER)
    planned(node)
    assert "systemReserved" in node.path(DROP_IN).read_text()
    until(node, "[ -e /run/stopping ]")
    reboot(node)


def test_plan_that_reaches_no_cluster_is_undone_by_one_boot_and_not_retried(node):
    planned(node)
    before = node.path(DROP_IN).read_text()
    unconfirmed(node)
    for _ in range(2):
        done = planned(node)
        assert EARLIER in done.stderr
        assert "was not confirmed over a new connection within 5 s" in node.path(str(ISSUE)).read_text()
        assert node.path(DROP_IN).read_text() == before
        counted = transactions(node)
        reboot(node)
    assert transactions(node) == counted
    assert boots(node) == 3, "one for the undo, two of ours"
    assert record(node, FAILED)["profile"] == "own"


TRIES_AGAIN: dict[str, Callable[[Sandbox], object]] = {
    "one of its inputs has changed": lambda node: write(node, SETTINGS, "profile: own\n"),
    "a person says so": lambda node: node.run(f"{NUMAFORGE} boot --replan"),
}


@pytest.mark.long
@pytest.mark.parametrize("cause", TRIES_AGAIN)
def test_failed_plan_is_retried_after_an_input_change_or_on_request(cause, node):
    unconfirmed(node)
    planned(node)
    before = transactions(node)
    TRIES_AGAIN[cause](node)
    before_kubelet(node)
    assert transactions(node) == before + 1


@pytest.mark.long
def test_reverted_profile_clears_the_failed_plan_notice(node):
    unconfirmed(node)
    planned(node)
    write(node, OWN, PROFILE)
    planned(node)
    assert not node.path(str(ISSUE)).exists()


@pytest.mark.long
def test_failed_plan_of_changed_machine_holds_kubelet(node):
    joined_with_an_earlier_plan(node)
    node.run(f"rm -r {GPU}")
    write(node, OWN, OTHER)
    planned(node)
    until(node, "[ -e /run/stopping ]")
    reboot(node)
    for _ in range(2):
        assert "the plan of profile own was undone, and is not tried again before one of its" in held(node)


def test_ineffective_kernel_parameter_costs_one_boot_each_way(node):
    write(node, OWN, COMMAND_LINE)
    before_kubelet(node)
    boot(node, deaf=True)
    node.run("systemctl stop kubelet.service")
    done = through_boots(node)
    assert done.returncode != 0
    assert "the plan of profile own was undone" in held(node)
    assert boots(node) == 1, "the boot loader's entry of the trial starts once"
    counted = transactions(node)
    reboot(node)
    assert "the plan of profile own was undone" in held(node)
    assert (boots(node), transactions(node)) == (2, counted)


@pytest.mark.long
def test_kernel_parameter_costs_one_boot_and_lasts_on_an_unjoined_node(node):
    write(node, OWN, COMMAND_LINE)
    assert through_boots(node).returncode == 0
    assert boots(node) == 1
    reboot(node)
    planned(node)
    assert boots(node) == 2
    assert "skew_tick=1" in node.path("/proc/cmdline").read_text()


@pytest.mark.long
def test_kernel_parameter_on_trial_is_removed_by_the_undo_boot(node):
    joined_with_an_earlier_plan(node)
    write(node, OWN, COMMAND_LINE.replace("1Gi", "2Gi"))
    assert through_boots(node).returncode == 0
    assert "skew_tick=1" in node.path("/proc/cmdline").read_text()
    until(node, "[ -e /run/stopping ]")
    done = through_boots(node)
    assert EARLIER in done.stderr
    assert "skew_tick=1" not in node.path("/proc/cmdline").read_text()
    assert boots(node) == 2


def test_repeatedly_interrupted_change_is_tried_three_times(node):
    moment = "'/run/when/apply kernel_values'"
    write(node, "/run/broken-off", f"cp /run/broken-off {moment}; kill -9 $PPID\n")
    node.run(f"cp /run/broken-off {moment}")
    said = held(node)
    assert "broken off 3 times, the last time: " in said
    counted = transactions(node)
    node.run("rm -f /run/when/*")
    assert held(node).endswith(said[said.index("the plan of profile own was undone") :])
    assert transactions(node) == counted
    assert node.path(governor(0)).read_text() != "performance\n"
