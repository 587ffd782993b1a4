"""Interrupts and daemons: on reserved CPUs alone, near the device, and refused where that cannot be."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.lib.cpulist import format_cpulist, format_cpumask
from numaforge.lib.errors import NumaforgeError, PlanError
from numaforge.machine.topology.model import Gpu, Nic, NodeTopology, Nvme
from numaforge.planning.document import dumps, loads
from numaforge.planning.node import plan_node
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import load_profile
from numaforge.roles.cpus.plan import CpuPlan
from numaforge.roles.interrupts.expected import affinity_lines
from numaforge.roles.interrupts.plan import InterruptsPlan, plan_interrupts
from tests.fixtures.machines import kubeadm_kubelet, lab_node
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
    return plan_node(topology, load_profile({"cpus": cpus or {}, "interrupts": wish}))


def notices(chosen: NodePlan) -> set[str]:
    return {notice.id for notice in chosen.notices}


def roles(chosen: NodePlan) -> list[str]:
    return [file.path for file in chosen.files if file.role in ("interrupts", "system")]


def test_empty_profile_changes_nothing():
    chosen = plan(host(nic(0)))
    assert chosen.interrupts == InterruptsPlan()
    assert roles(chosen) == []


def test_keep_equals_unset():
    kept = dict.fromkeys(("irqbalance", "devices", "default_affinity", "rps", "workqueues"), "keep")
    assert plan(host(nic(0)), **kept).interrupts == InterruptsPlan()


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
    assert {address: format_cpulist(each) for address, each in chosen.interrupts.devices.items()} == {
        "0000:17:00.0": cpus
    }
    assert notices(chosen) & {"interrupts-on-another-numa-node", "interrupts-of-unplaced-devices"} == notice


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
    machine = replace(host(), offline=frozenset({99}))
    banned = plan(machine, ON_NODE_0_AND_3, irqbalance="reserved").interrupts.banned
    assert format_cpulist(banned) == "2-11,14-15,99"


def test_packet_steering_off_clears_the_cpu_mask():
    assert plan(host(nic(0)), rps="off").interrupts.rps == {"eth0": frozenset()}
    assert "mask packet_steering:eth0 0 /sys/class/net/eth0/queues/rx-*/rps_cpus" in affinity_lines(
        plan(host(nic(0)), rps="off").interrupts
    )


@pytest.mark.parametrize(
    "wish", [{"devices": "reserved"}, {"devices": "reserved", "irqbalance": "keep"}], ids=["unset", "keep"]
)
def test_device_affinity_beside_a_running_irqbalance_is_refused(wish):
    with pytest.raises(NumaforgeError, match="leaves irqbalance free to move them"):
        load_profile({"interrupts": wish})


def test_unquoted_off_means_off():
    assert load_profile({"interrupts": {"irqbalance": False, "rps": False}}).interrupts.rps == "off"


def one_core() -> NodeTopology:
    machine = lab_node()
    core = machine.cores[0]
    return replace(
        machine,
        online=core.cpus,
        cores=(core,),
        kubelet=None,
        packages=(replace(machine.packages[0], cpus=core.cpus),),
        numa_nodes=(replace(machine.numa_nodes[0], cpus=core.cpus),),
        l3_caches=(),
    )


@pytest.mark.parametrize(
    ("profile", "where"),
    [
        ({"interrupts": {"devices": "reserved", "irqbalance": "off"}}, "interrupts.devices"),
        ({"interrupts": {"irqbalance": "reserved"}}, "interrupts.irqbalance"),
        ({"interrupts": {"rps": "reserved"}}, "interrupts.rps"),
        ({"system": {"daemons": "reserved"}}, "system.daemons"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_reserved_placement_without_reserved_cpus_is_refused(profile, where):
    with pytest.raises(PlanError, match="reserves none") as refused:
        plan_node(one_core(), load_profile(profile))
    assert where in str(refused.value)


def test_settings_without_reserved_cpus_are_planned_without_them():
    assert (
        plan_node(one_core(), load_profile({"interrupts": {"irqbalance": "off"}})).interrupts.irqbalance
        == "off"
    )


def test_daemons_are_confined_by_slice():
    chosen = plan_node(lab_node(), load_profile({"cpus": ON_NODE_0_AND_3, "system": {"daemons": "reserved"}}))
    assert {name: format_cpulist(cpus) for name, cpus in chosen.system.slices.items()} == dict.fromkeys(
        ("init.scope", "system.slice", "user.slice"), "0-1,12-13"
    )


def test_confining_daemons_on_cgroup_v1_is_refused():
    with pytest.raises(PlanError, match="needs cgroup v2"):
        plan_node(replace(lab_node(), cgroup_version=1), load_profile({"system": {"daemons": "reserved"}}))


@pytest.mark.parametrize("root", ["/system.slice", "/system", "/system.slice/pods"])
def test_slice_that_contains_pods_is_refused(root):
    kubelet = kubeadm_kubelet("1.36.1")
    config = f"{kubelet.config_text}\ncgroupRoot: {root}\n"
    machine = replace(lab_node(), kubelet=replace(kubelet, config_text=config))
    with pytest.raises(PlanError, match="would confine pods"):
        plan_node(machine, load_profile({"system": {"daemons": "reserved"}}))


@pytest.mark.parametrize("name", ["kubepods.slice", "-.slice"])
def test_pod_slice_is_refused(name):
    with pytest.raises(NumaforgeError, match=r"system\.slices"):
        load_profile({"system": {"slices": [name]}})


def test_second_plan_is_the_same():
    machine, profile = host(nic(0)), load_profile({"interrupts": ALL, "system": {"daemons": "reserved"}})
    first = plan_node(machine, profile)
    assert plan_node(replace(machine, previous_plan=dumps(first)), profile) == first
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
