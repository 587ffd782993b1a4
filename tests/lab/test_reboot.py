"""A maintenance with a reboot of a real kernel, boot loader and kubelet: new or old, never between."""

import re
import subprocess
from typing import Any

import pytest

from lab.cluster import Lab
from lab.node import Node
from numaforge.change.transaction import Result, Transaction, settle_script
from numaforge.roles.hugepages import part as hugepages
from numaforge.roles.kernel_cmdline import part as kernel_cmdline
from numaforge.roles.kernel_values import part as kernel_values
from numaforge.roles.reboot import part as reboot
from tests.fixtures.tables import cases
from tests.lab import rollouts, transactions
from tests.lab.reboots import GRUB_CFG, NOTE, POOL, SETS_AT_BOOT, SWAPPINESS, everything
from tests.lab.rollouts import QUICK, applied, free, inventory, policy
from tests.lab.transactions import STATIC, boots, ended, put_back, ready, reset_at, until_through_boots
from tests.ssh.reboots import BACK, FORWARDS

WISH = "transparent_hugepage=never"
PAGES = 32
CHANGED = "changed"
"""The saved state of a node to which the maintenance was applied."""


@pytest.fixture
def fresh(lab: Lab) -> Node:
    return put_back(lab)


def maintenance(node: Node, *, parameter: str = WISH, addition: str = STATIC) -> Transaction:
    """Describe a change of everything: files, command line, kernel value, pool, kubelet."""
    now = {path: node.run(f"cat {path}").strip() for path in (SWAPPINESS, POOL)}
    between = (
        kernel_cmdline.part((parameter,), (parameter,), (), "grub"),
        reboot.part(),
        kernel_values.part({SWAPPINESS: "7"}, now, relinks=True),
        hugepages.part({POOL: PAGES}, {POOL: int(now[POOL])}),
    )
    return transactions.change(node, addition, NOTE, SETS_AT_BOOT, between=between)


def reverted(node: Node) -> Result:
    """Wait until an applied maintenance has been taken back."""
    until_through_boots(node, "[ -e /var/lib/numaforge/txn/T1/applied.json ]")
    return ended(node)


def assert_new(lab: Lab, node: Node, parameter: str = WISH) -> None:
    ready(lab, node)
    assert parameter in node.run("cat /proc/cmdline").split()
    assert node.run(f"cat {SWAPPINESS} {POOL}").split() == ["7", str(PAGES)]
    assert node.run(f"cat {NOTE.path}") == NOTE.text
    assert policy(node) == "static"
    assert node.run("curl -fs http://127.0.0.1:10248/healthz") == "ok"


def assert_old(lab: Lab, node: Node, before: str) -> None:
    ready(lab, node)
    assert everything(node) == before


def test_maintenance_is_applied_by_one_boot(lab, fresh):
    result = transactions.run(fresh, maintenance(fresh))
    assert result.outcome == "applied", result
    assert boots(fresh) == 1
    assert_new(lab, fresh)
    assert "[never]" in fresh.run("cat /sys/kernel/mm/transparent_hugepage/enabled")
    assert not re.search(r"next_entry=\S", fresh.run("grub-editenv /boot/grub/grubenv list"))
    menu = fresh.run(f"cat {GRUB_CFG}; ls /etc/grub.d")
    assert WISH in menu
    assert "numaforge" not in menu


@pytest.mark.long
def test_pending_newer_kernel_is_refused_before_anything_changes(lab, fresh):
    fresh.run(
        "cd /boot; for each in vmlinuz initrd.img; do cp $each-$(uname -r) $each-99.0; done; update-grub",
        timeout_s=600,
    )
    before = everything(fresh)
    result = transactions.run(fresh, maintenance(fresh))
    assert result.outcome == "refused", result
    assert "the boot loader would start /boot/vmlinuz-99.0" in result.reason
    assert_old(lab, fresh, before)


@pytest.mark.long
@cases(
    "spoil, said",
    {
        "settings-that-the-kubelet-refuses": (
            {"addition": "cpuManagerPolicy: no-such-policy\n"},
            "no-such-policy",
        ),
        "control-groups-of-version-1": ({"parameter": "systemd.unified_cgroup_hierarchy=0"}, "cgroup v1"),
    },
)
def test_kubelet_failure_after_the_boot_is_undone_by_a_second_boot(lab, fresh, spoil, said):
    before = everything(fresh)
    result = transactions.run(fresh, maintenance(fresh, **spoil))
    assert result.outcome == "rolled-back", result
    assert "the old configuration is back and the kubelet is healthy with it" in result.reason
    assert any(said in line for line in result.journal), result.journal
    assert boots(fresh) == 2
    assert_old(lab, fresh, before)


@pytest.mark.long
@pytest.mark.parametrize("event", FORWARDS)
def test_reset_at_any_step_of_a_change_leaves_the_old_or_the_new_state(lab, fresh, event):
    before = everything(fresh)
    reset_at(fresh, event)
    transactions.begin(fresh, maintenance(fresh), check=False)  # it may not live to answer
    result = ended(fresh)
    assert_was_reset(fresh)
    if event == "reboot":  # the boot that was asked for has come all the same
        assert (result.outcome, boots(fresh)) == ("applied", 1), result
        assert_new(lab, fresh)
        return
    assert result.outcome == ("refused" if event == "keeping" else "rolled-back"), result
    assert_old(lab, fresh, before)


@pytest.fixture(scope="module")
def before_it_was_changed(lab: Lab) -> str:
    """Save a node to which the maintenance was applied, and return what it was like before."""
    node = put_back(lab)
    before = everything(node)
    result = transactions.run(node, maintenance(node))
    assert result.outcome == "applied", result
    ready(lab, node)
    node.pause()
    node.save(CHANGED)
    return before


@pytest.fixture
def changed(lab: Lab, before_it_was_changed: str) -> Node:
    """The node with the maintenance applied."""
    node = lab.nodes[0]
    node.power_off()
    node.wake(CHANGED)
    assert_new(lab, node)
    return node


@pytest.mark.long
@pytest.mark.parametrize("event", BACK)
def test_reset_at_any_step_of_an_undo_leaves_the_old_state(lab, changed, before_it_was_changed, event):
    reset_at(changed, event)
    transactions.revert(changed, "the node is not Ready", check=False)
    result = reverted(changed)
    assert_was_reset(changed)
    assert (result.outcome, result.reason.split(";")[0]) == ("rolled-back", "the node is not Ready"), result
    assert_old(lab, changed, before_it_was_changed)


LATE = """[Service]
Type=oneshot
TimeoutStartSec=600
ExecStart=/bin/sh -c 'until [ -e /run/go ]; do sleep 1; done'
"""


@pytest.mark.long
def test_run_before_the_boot_unit_waits_for_the_unit(lab, fresh):
    before = everything(fresh)
    fresh.run(  # a login succeeds before that unit has run
        "mkdir /etc/systemd/system/numaforge-recover.service.d;"
        " cat > /etc/systemd/system/numaforge-recover.service.d/late.conf",
        input_text="[Unit]\nAfter=late.service\nWants=late.service\n",
    )
    fresh.run("cat > /etc/systemd/system/late.service", input_text=LATE)
    reset_at(fresh, "apply files")
    transactions.begin(fresh, maintenance(fresh), check=False)
    until_through_boots(
        fresh, "! [ -e /usr/local/bin/mv ] && systemctl list-jobs | grep -q numaforge-recover"
    )
    login = fresh.ssh_arguments(*transactions.MORTAL)
    second = subprocess.Popen([*login, "sh -s"], stdin=subprocess.PIPE, text=True)
    assert second.stdin
    second.stdin.write(settle_script())
    second.stdin.close()
    transactions.until(fresh, "pgrep -f '[r]un.sh recover'")
    assert fresh.run("cat /var/lib/numaforge/txn/T1/state").strip() == "apply files"
    assert not fresh.run("pgrep -x kubelet || true")
    fresh.run(": > /run/go")
    assert second.wait() == 0
    result = ended(fresh)
    assert result.outcome == "rolled-back", result
    fresh.run("rm -r /etc/systemd/system/numaforge-recover.service.d /etc/systemd/system/late.service")
    assert_old(lab, fresh, before)


def assert_was_reset(node: Node) -> None:
    assert node.run("ls /usr/local/bin/mv 2>&1 || true").endswith("No such file or directory\n")


PROFILE: dict[str, Any] = {
    **rollouts.PROFILE,
    "kernel": {"cmdline": [WISH]},
    "maintenance": {"reboot": "allowed"},
    "hugepages": [{"size": "2Mi", "count_per_numa_node": PAGES}],
}


@pytest.mark.long
def test_rollout_drains_reboots_proves_and_uncordons(lab, joined, tmp_path):
    rollouts.kubectl(lab, "create", "-f", "-", manifest=rollouts.deployment("web", 1))
    rollouts.await_deployment(lab, "web")
    pods = {pod["metadata"]["uid"] for pod in lab.get("pods")["items"]}
    file = inventory(lab, tmp_path, profile=PROFILE, **QUICK)
    run = rollouts.begin("run", file, state=tmp_path, deploy="deploys/site.py")
    assert run.end() == 0, (run.events, run.errors())
    assert boots(joined) == 1
    assert rollouts.phases(tmp_path, joined).count("drained") == 1
    rollouts.await_deployment(lab, "web")
    assert not pods & {pod["metadata"]["uid"] for pod in lab.get("pods")["items"]}
    assert WISH in joined.run("cat /proc/cmdline").split()
    assert joined.run(f"cat {POOL}").strip() == str(PAGES)
    assert (policy(joined), applied(joined), free(lab, joined)) == ("static", 1, True)
    running = joined.run("systemctl show -p MainPID --value kubelet")
    again = rollouts.begin("run", file, state=tmp_path, deploy="deploys/site.py")
    assert again.end() == 0, (again.events, again.errors())
    # Where the memory of this boot is not that of the plan on the node, that file is written anew.
    assert (boots(joined), joined.run("systemctl show -p MainPID --value kubelet")) == (1, running)


@pytest.mark.long
def test_failed_proof_after_the_boot_is_undone_by_a_second_boot(lab, joined, tmp_path):
    before = joined.run("cat /proc/cmdline")
    plugin = joined.run("systemctl list-units --plain --no-legend '*plugin*' | cut -d' ' -f1").strip()
    file = inventory(lab, tmp_path, profile=PROFILE, **{**QUICK, "ready_timeout": 60})
    run = rollouts.begin("run", file, state=tmp_path, deploy="deploys/site.py")
    run.await_phase("applying")
    joined.run(f"systemctl disable {plugin}")  # it runs on, and is not there after the boot: no GPUs
    run.await_phase("undoing")
    joined.run(f"systemctl enable --now {plugin}")
    assert run.end() == 4, (run.events, run.errors())
    assert boots(joined) == 2
    assert joined.run("cat /proc/cmdline") == before
    assert (policy(joined), applied(joined), free(lab, joined)) == ("none", 0, True)
