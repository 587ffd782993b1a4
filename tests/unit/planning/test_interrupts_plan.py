"""Interrupts and daemons: on reserved CPUs alone, near the device, and refused where that cannot be."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.lib.cpulist import format_cpulist, format_cpumask, parse_cpulist
from numaforge.machine.topology.model import Gpu, Nic, NodeTopology, Nvme
from numaforge.planning.document import dumps, loads
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import load_profile
from numaforge.roles.cpus.plan import CpuPlan
from numaforge.roles.interrupts.expected import affinity_lines
from numaforge.roles.interrupts.plan import InterruptsPlan, plan_interrupts
from tests.fixtures.machines import kubeadm_kubelet, lab_node, with_cpu_states
from tests.fixtures.plans import after, notices, planned, refusal
from tests.unit.planning.strategies import machines

ALL = {
    "irqbalance": "off",
    "devices": "reserved",
    "device_classes": ["nics", "nvmes", "gpus"],
    "default_affinity": "reserved",
    "rps": "reserved",
    "workqueues": "reserved",
}
ON_NODE_0_AND_3 = {"reserved": {"cpulist": "0-1,12-13"}}


def nic(node: int | None, driver: str = "mlx5_core") -> Nic:
    return Nic("0000:17:00.0", "eth0", None, "Ethernet", None, driver, node)


def host(*devices: Nic | Nvme | Gpu) -> NodeTopology:
    kinds = {
        name: tuple(each for each in devices if isinstance(each, kind))
        for name, kind in (("nics", Nic), ("nvmes", Nvme), ("gpus", Gpu))
    }
    return replace(lab_node(), **kinds)


def plan(topology: NodeTopology, cpus: Any = None, **wish: Any) -> NodePlan:
    return planned(topology, cpus=cpus or {}, interrupts=wish)


KEEP = dict.fromkeys(("irqbalance", "devices", "default_affinity", "rps", "workqueues"), "keep")


@pytest.mark.parametrize("wish", [{}, KEEP], ids=["unset", "keep"])
def test_empty_profile_changes_nothing(wish):
    chosen = plan(host(nic(0)), **wish)
    assert chosen.interrupts == InterruptsPlan()
    assert not [file for file in chosen.files if file.role in ("interrupts", "system")]


@pytest.mark.parametrize(
    ("node", "cpus", "notice"),
    [
        pytest.param(0, "0-1", set(), id="its-own-numa-node"),
        pytest.param(3, "12-13", set(), id="its-own-numa-node-the-last"),
        pytest.param(1, "0-1", {"interrupts-on-another-numa-node"}, id="the-nearest-that-has-some"),
        pytest.param(2, "12-13", {"interrupts-on-another-numa-node"}, id="the-nearest-on-the-other-package"),
        pytest.param(None, "0-1,12-13", {"interrupts-of-unplaced-devices"}, id="all-where-it-is-not-said"),
    ],
)
def test_device_interrupts_go_to_the_nearest_reserved_cpus(node, cpus, notice):
    chosen = plan(host(nic(node)), ON_NODE_0_AND_3, devices="reserved", irqbalance="off")
    assert chosen.interrupts.devices == {"0000:17:00.0": parse_cpulist(cpus)}
    known = {"interrupts-on-another-numa-node", "interrupts-of-unplaced-devices"}
    assert known & {*notices(chosen)} == notice


def test_only_named_device_classes_are_moved():
    drive = Nvme("0000:81:00.0", "nvme", 2)
    machine = host(nic(0), drive)
    assert set(plan(machine, **{**ALL, "device_classes": ["nvmes"]}).interrupts.devices) == {"0000:81:00.0"}
    assert set(plan(machine, **ALL).interrupts.devices) == {"0000:17:00.0", "0000:81:00.0"}


def test_device_passed_to_a_vm_is_left_alone():
    chosen = plan(host(nic(0, "vfio-pci")), **ALL)
    assert not chosen.interrupts.devices
    assert "no-such-devices" in notices(chosen)


def test_kernel_managed_interrupts_are_noticed():
    assert "managed-interrupts" in notices(plan(host(Nvme("0000:81:00.0", "nvme", 2)), **ALL))
    assert "managed-interrupts" not in notices(plan(host(nic(0)), **ALL))


def test_irqbalance_is_banned_from_offline_cpus():
    machine = with_cpu_states(host(), offline=frozenset({99}))
    banned = plan(machine, ON_NODE_0_AND_3, irqbalance="reserved").interrupts.banned
    assert format_cpulist(banned) == "2-11,14-15,99"


@pytest.mark.parametrize("off", ["off", False], ids=["off", "as-yaml-reads-it"])
def test_packet_steering_off_clears_the_cpu_mask(off):
    chosen = plan(host(nic(0)), rps=off).interrupts
    assert chosen.rps == {"eth0": frozenset()}
    line = "mask packet_steering:eth0 0 /sys/class/net/eth0/queues/rx-*/rps_cpus"
    assert line in affinity_lines(chosen)


def one_core() -> NodeTopology:
    machine = lab_node()
    core = machine.cores[0]
    return replace(
        machine,
        cpus=replace(machine.cpus, online=core.cpus),
        cores=(core,),
        kubelet=None,
        packages=(replace(machine.packages[0], cpus=core.cpus),),
        numa_nodes=(replace(machine.numa_nodes[0], cpus=core.cpus),),
        l3_caches=(),
    )


def with_cgroup_root(root: str) -> NodeTopology:
    kubelet = kubeadm_kubelet("1.36.1")
    return replace(
        lab_node(), kubelet=replace(kubelet, config_text=f"{kubelet.config_text}\ncgroupRoot: {root}\n")
    )


CONFINED = {"system": {"daemons": "reserved"}}
TO_RESERVED = {"devices": "reserved", "irqbalance": "off"}
BALANCED = {"devices": "reserved", "irqbalance": "keep"}
REFUSED = {
    "no-cpus-for-devices": (one_core(), {"interrupts": TO_RESERVED}, "interrupts.devices: ", "reserves none"),
    "no-cpus-for-irqbalance": (
        one_core(),
        {"interrupts": {"irqbalance": "reserved"}},
        "interrupts.irqbalance: ",
        "reserves none",
    ),
    "no-cpus-for-rps": (one_core(), {"interrupts": {"rps": "reserved"}}, "interrupts.rps: ", "reserves none"),
    "no-cpus-for-daemons": (one_core(), CONFINED, "system.daemons: ", "reserves none"),
    "irqbalance-unset": (
        lab_node(),
        {"interrupts": {"devices": "reserved"}},
        "",
        "leaves irqbalance free to",
    ),
    "irqbalance-kept": (lab_node(), {"interrupts": BALANCED}, "", "leaves irqbalance free to move them"),
    "cgroup-v1": (replace(lab_node(), cgroup_version=1), CONFINED, "", "needs cgroup v2"),
    "pods-in-a-slice": (with_cgroup_root("/system.slice"), CONFINED, "", "would confine pods"),
    "pods-in-a-slice-by-its-short-name": (with_cgroup_root("/system"), CONFINED, "", "would confine pods"),
    "pods-below-a-slice": (with_cgroup_root("/system.slice/pods"), CONFINED, "", "would confine pods"),
    "pods-slice": (lab_node(), {"system": {"slices": ["kubepods.slice"]}}, "", "system.slices"),
    "root-slice": (lab_node(), {"system": {"slices": ["-.slice"]}}, "", "system.slices"),
}


@pytest.mark.parametrize(("topology", "profile", "where", "why"), REFUSED.values(), ids=REFUSED)
def test_impossible_placement_is_refused(topology, profile, where, why):
    message = refusal(topology, **profile)
    assert where in message
    assert why in message


def test_settings_without_reserved_cpus_are_planned_without_them():
    assert plan(one_core(), irqbalance="off").interrupts.irqbalance == "off"


def test_daemons_are_confined_by_slice():
    slices = planned(lab_node(), cpus=ON_NODE_0_AND_3, **CONFINED).system.slices
    names = ("init.scope", "system.slice", "user.slice")
    assert slices == dict.fromkeys(names, parse_cpulist("0-1,12-13"))


def test_second_plan_is_the_same():
    profile = {"interrupts": ALL, **CONFINED}
    first = planned(host(nic(0)), **profile)
    assert planned(after(host(nic(0)), first), **profile) == first
    assert loads(dumps(first)) == first


@given(machines(), st.data())
def test_every_device_interrupts_only_reserved_cpus(machine, data):
    nodes = st.sampled_from([None, 77, *(node.id for node in machine.numa_nodes)])
    nics = tuple(
        Nic(f"0000:{bus:02x}:00.0", f"eth{bus}", None, None, None, None, data.draw(nodes)) for bus in range(4)
    )
    reserved = data.draw(st.sets(st.sampled_from(sorted(machine.online)), min_size=1))
    cpus = CpuPlan(machine.online, frozenset(reserved), machine.online - reserved)
    wish = load_profile({"interrupts": ALL})
    chosen = plan_interrupts(replace(machine, nics=nics), wish, cpus.reserved).value
    assert set(chosen.devices) == {each.pci_address for each in nics}
    answering = [*chosen.devices.values(), *chosen.rps.values(), chosen.default_affinity, chosen.workqueues]
    assert all(each and each <= cpus.reserved for each in answering)


@given(st.sets(st.integers(0, 300)))
def test_cpu_mask_uses_the_kernel_format(cpus):
    groups = format_cpumask(cpus).split(",")
    assert int("".join(groups), 16) == sum(1 << cpu for cpu in cpus)
    assert all(len(group) == 8 for group in groups[1:])
