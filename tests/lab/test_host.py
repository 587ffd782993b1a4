"""The host's settings on the virtual node: applied, verified, kept by a reboot, removed without residue.

Kernel, systemd, udev, irqbalance, dpkg and PCI's config space are real; so is the pod beside which is
measured who comes to its CPUs.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.cluster import Lab
from lab.node import Node
from lab.paths import LAB
from numaforge.change.transaction import Transaction
from numaforge.lib.cpulist import format_cpulist, parse_cpulist
from numaforge.lib.file_content import PLAN_PATH
from numaforge.machine.topology.model import CpuSet
from numaforge.planning.document import loads
from numaforge.roles.rdma.nics import part as nics
from numaforge.roles.rdma.planned import NicSetting
from tests.lab import rollouts, transactions
from tests.lab.host_settings import ADMINS, NIC, PROFILE, files, state
from tests.lab.rollouts import QUICK, applied, inventory
from tests.lab.transactions import ready
from tests.lab.visitors import Visitors, read_visitors, visitors_script

WAY_IN, DISK = "0000:00:04.0", "virtio0-"
OTHER_NIC, OTHER_DRIVER = "0000:23:00.0", "/sys/bus/pci/drivers/virtio-pci"
"""The one on NUMA node 0, whose driver asks for its interrupts before there is an interface."""
BOOT_ID = "/proc/sys/kernel/random/boot_id"
BALANCED = {**PROFILE, "interrupts": {**PROFILE["interrupts"], "irqbalance": "reserved"}}
NOTHING = {"name": "nothing"}
PLACED_ALONE: dict[str, Any] = {
    "name": "placed",
    "cpus": {"reserved": {"cores_per_numa_node": 1}},
    "interrupts": {"irqbalance": "off", "devices": "reserved"},
}
PLACED = f"""
for irq in $(ls /sys/bus/pci/devices/{WAY_IN}/msi_irqs); do echo 2-3 > /proc/irq/$irq/smp_affinity_list; done
"""
"""The NIC by which the node is reached interrupts the CPUs that the first pod gets."""
ACTIVITY = """
for cpu in $(seq 0 15); do
    taskset -c "$cpu" dd if=/dev/vda of=/dev/null bs=64k count=64 iflag=direct 2> /dev/null ||
        dd if=/dev/vda of=/dev/null bs=64k count=64 iflag=direct 2> /dev/null
    curl -sk -o /dev/null https://10.0.2.2/ || :
done
"""
"""Reads from the disk on each CPU on which one may, and packets over the network."""
KUBELETS = (transactions.UNIT_DROP_IN, "/etc/kubernetes/kubelet.conf.d/90-numaforge.conf")
LEFT = (PLAN_PATH, *KUBELETS, *(str(Path(path).parent) for path in (PLAN_PATH, *KUBELETS)))
"""The plan, and what it says of the kubelet, whose reservations a profile that names nothing has too."""
PROVED = {
    "test_kernel_value",
    "test_irqbalance",
    "test_daemons",
    "test_module",
    "test_memlock",
    "test_package_is_held",
    "test_limit",
    "test_control_groups",
}
LACKING = {"no-cpu-idle", "no-turbo", "no-rdma-nic"}


def without_plan(node: Node) -> dict[str, str]:
    """Return the files but for the plan, and for what it says of the kubelet."""
    return {path: text for path, text in files(node).items() if path not in LEFT}


def provision(lab: Lab, folder: Path, profile: dict[str, Any]) -> rollouts.Rollout:
    """Roll a profile out, and return what it said."""
    file = inventory(lab, folder, profile=profile, **QUICK)
    run = rollouts.begin("run", file, state=folder, deploy="deploys/site.py")
    assert run.end() == 0, (run.events, run.errors())
    return run


def assert_verified(lab: Lab, node: Node) -> None:
    """Have the verification suite hold the node to its plan, the host's settings above all."""
    options = [f"--hosts=ssh://{node.name}", f"--ssh-config={lab.state / 'ssh_config'}"]
    suite = ["-p", "numaforge.verification.plugin", "--pyargs", "numaforge.verification"]
    said = rollouts.in_repository("pytest", "-v", "--tb=short", "-p", "no:cacheprovider", *suite, *options)
    passed = {line.split("::")[1].split("[")[0] for line in said.splitlines() if " PASSED " in line}
    assert passed >= PROVED


def measured(node: Node) -> str:
    """Return what comes to each CPU while the disk and the network are busy."""
    return node.run("sh -s", input_text=f"({ACTIVITY}) > /dev/null 2>&1 & {visitors_script(20)}\nwait\n")


def nics_of(visitors: Visitors) -> dict[str, int]:
    """Return the interrupts of NICs: those of devices without the disk's queues, one for each CPU.

    The kernel places these itself, and its own threads (jbd2 among them), which are in no slice, use them.
    """
    return {name: count for name, count in devices(visitors).items() if not name.startswith(DISK)}


def devices(visitors: Visitors) -> dict[str, int]:
    """Return the interrupts of devices; the kernel's own have three capital letters."""
    return {
        name: count for name, count in visitors.interrupts.items() if not (len(name) == 3 and name.isupper())
    }


@dataclass(frozen=True)
class Confined:
    """A node that was provisioned, and what was found there before."""

    node: Node
    files: dict[str, str]
    state: dict[str, str]
    measured: str
    """What came to its CPUs."""


@pytest.fixture(scope="module")
def confined(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Confined:
    node = transactions.put_back(lab)
    node.run(ADMINS)
    node.run(PLACED)
    before = Confined(node, without_plan(node), state(node), measured(node))
    provision(lab, tmp_path_factory.mktemp("host"), PROFILE)
    return before


@pytest.fixture
def pinned(lab: Lab, confined: Confined) -> Iterator[CpuSet]:
    """The CPUs of a Guaranteed pod."""
    manifest = yaml.safe_load((LAB / "pinned-pod.yaml").read_text())
    rollouts.kubectl(lab, "create", "-f", "-", manifest=manifest)
    rollouts.kubectl(lab, "wait", "--for=condition=Ready", "pod/pinned", "--timeout=240s")
    uid = lab.get("pod", "pinned")["metadata"]["uid"]
    entries = json.loads(confined.node.run(f"cat {rollouts.CPU_STATE}"))["entries"]
    yield parse_cpulist(entries[uid]["work"])
    rollouts.kubectl(lab, "delete", "pod", "pinned", "--wait=true")


def reboot(lab: Lab, node: Node) -> None:
    boot = node.run(f"cat {BOOT_ID}").strip()
    node.try_run("sync; systemctl reboot")
    transactions.until_through_boots(node, f'[ "$(cat {BOOT_ID})" != {boot} ] && {rollouts.HEALTHY}')
    ready(lab, node)


def assert_alone(confined: Confined, cpus: CpuSet) -> None:
    visitors, before = (read_visitors(told, cpus) for told in (measured(confined.node), confined.measured))
    assert nics_of(visitors) == {}, format_cpulist(cpus)
    assert visitors.processes == (), format_cpulist(cpus)
    assert sum(devices(visitors).values()) * 4 < sum(devices(before).values())


@pytest.mark.long
def test_missing_hardware_is_skipped_with_a_notice(confined: Confined) -> None:
    plan = loads(confined.node.run(f"cat {PLAN_PATH}"))
    assert {notice.id for notice in plan.notices} >= LACKING


@pytest.mark.long
def test_every_setting_is_verified(lab: Lab, confined: Confined) -> None:
    assert_verified(lab, confined.node)


@pytest.mark.long
def test_second_run_changes_nothing(lab: Lab, confined: Confined, tmp_path: Path) -> None:
    done = applied(confined.node)
    provision(lab, tmp_path, PROFILE)
    assert applied(confined.node) == done


@pytest.mark.long
def test_interrupts_and_daemons_avoid_pod_cpus(confined: Confined, pinned: CpuSet) -> None:
    without = read_visitors(confined.measured, pinned)
    assert nics_of(without)
    assert {"systemd", "sshd", "kubelet", "containerd"} <= {each.name for each in without.processes}
    assert_alone(confined, pinned)


@pytest.mark.long
def test_all_settings_survive_a_boot(lab: Lab, confined: Confined, pinned: CpuSet) -> None:
    node = confined.node
    reboot(lab, node)
    assert_verified(lab, node)
    assert node.run("cat /sys/module/brd/parameters/rd_nr").strip() == "2"
    assert_alone(confined, pinned)


@pytest.mark.long
def test_irqbalance_runs_and_avoids_pod_cpus(lab: Lab, confined: Confined, tmp_path: Path) -> None:
    """It takes interrupts off such CPUs, too, when it starts."""
    provision(lab, tmp_path, BALANCED)
    node = confined.node
    node.run(f"{PLACED}systemctl restart irqbalance")
    numbers = f"$(ls /sys/bus/pci/devices/{WAY_IN}/msi_irqs)"
    each = f"for irq in {numbers}; do cat /proc/irq/$irq/smp_affinity_list; done"
    transactions.until(node, f"! ({each}) | grep -q 2-3", patience_s=120)
    assert node.run("systemctl is-active irqbalance").strip() == "active"
    assert_verified(lab, node)


@pytest.mark.long
def test_settings_dropped_from_profile_are_restored(lab: Lab, confined: Confined, tmp_path: Path) -> None:
    provision(lab, tmp_path, NOTHING)
    assert without_plan(confined.node) == confined.files
    assert state(confined.node) == confined.state


@pytest.mark.long
def test_nic_that_rejects_a_read_request_size_rolls_the_change_back(lab: Lab) -> None:
    node = transactions.put_back(lab)
    before = node.run(f"lspci -xxxs {NIC}")
    result = transactions.run(
        node, Transaction("T1", (nics.part([NicSetting(NIC, "max_read_request", "4096")]),))
    )
    assert result.outcome == "rolled-back"
    assert f"{NIC}: max_read_request is 128, and 4096 is not accepted" in result.reason
    assert node.run(f"lspci -xxxs {NIC}") == before
    assert node.run(f"ls {nics.RECORD} 2>&1; true").count("No such file") == 1


@pytest.mark.long
def test_reloaded_driver_gets_its_interrupts_on_the_reserved_cpus(lab: Lab, tmp_path: Path) -> None:
    """The kernel's own event starts the unit, through udev; nothing else here would."""
    node = transactions.put_back(lab)
    file = inventory(lab, tmp_path, profile=PLACED_ALONE, only={node.name})
    rollouts.in_repository("pyinfra", "-y", str(file), "deploys/tune.py")
    planned = loads(node.run(f"cat {PLAN_PATH}")).interrupts.devices[OTHER_NIC]
    numbers = f"$(ls /sys/bus/pci/devices/{OTHER_NIC}/msi_irqs)"
    each = f"for irq in {numbers}; do cat /proc/irq/$irq/smp_affinity_list; done"
    assert all(parse_cpulist(cpus) <= planned for cpus in node.run(each).split())
    node.run(f"echo {OTHER_NIC} > {OTHER_DRIVER}/unbind; echo {OTHER_NIC} > {OTHER_DRIVER}/bind")
    transactions.until(node, f'[ "$({each} | sort -u)" = {format_cpulist(planned)} ]', patience_s=120)
