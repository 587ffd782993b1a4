"""Queues of NICs: as many as reserved CPUs, never on the default route's NIC unless it is named."""

from dataclasses import replace

import pytest

from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import Network, NodeTopology
from numaforge.planning.node import plan_node
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import load_profile
from numaforge.roles.rdma.planned import NicSetting
from tests.fixtures.machines import dgx_h100, two_cpu_vm

DEFAULT = "0.0.0.0/0"


def fabric(*routes: Network) -> NodeTopology:
    """Return a machine of whose NICs the first two are Ethernet."""
    machine = dgx_h100()
    nics = [
        replace(nic, interface=f"eth{number}", link_layer="Ethernet") if number < 2 else nic
        for number, nic in enumerate(machine.nics)
    ]
    return replace(machine, nics=tuple(nics), networks=routes or (Network("eth0", DEFAULT),))


def plan(topology: NodeTopology, **wish: object) -> NodePlan:
    return plan_node(
        topology, load_profile({"cpus": {"reserved": {"cores_per_numa_node": 2}}, "nic_queues": wish})
    )


def queues(chosen: NodePlan) -> dict[str, str]:
    return {each.nic: each.value for each in chosen.rdma.host.nics if each.name == "channels"}


def notices(chosen: NodePlan) -> dict[str, str]:
    return {notice.id: notice.message for notice in chosen.notices}


def test_each_reserved_cpu_serves_one_queue():
    assert queues(plan(fabric(), combined="reserved")) == {"eth1": "8"}


def test_given_queue_count_is_used_unchanged():
    assert queues(plan(fabric(), combined=16)) == {"eth1": "16"}


def test_named_nic_of_the_default_route_is_changed():
    assert queues(plan(fabric(), combined="reserved", nics=["eth0"])) == {"eth0": "8"}


@pytest.mark.parametrize("name", ["mlx5_1", "eth1", "0000:40:00.0"])
def test_nic_is_recognised_by_any_of_its_names(name):
    assert queues(plan(fabric(), combined=4, nics=[name])) == {"eth1": "4"}


@pytest.mark.parametrize(
    ("routes", "said"),
    [
        pytest.param([Network("bond0", DEFAULT)], "is over bond0", id="over-a-bond"),
        pytest.param([Network("eth1", "10.0.0.0/8")], "is not known", id="no-route"),
    ],
)
def test_no_nic_is_changed_when_the_default_routes_nic_is_unknown(routes, said):
    chosen = plan(fabric(*routes), combined="reserved")
    assert queues(chosen) == {}
    assert said in notices(chosen)["nic-queues-default-route"]


def test_virtual_functions_are_left_unchanged():
    machine = fabric()
    devices = [
        replace(device, physical_function="0000:18:00.0") if device.name == "mlx5_1" else device
        for device in machine.rdma_devices
    ]
    chosen = plan(replace(machine, rdma_devices=tuple(devices)), combined="reserved")
    assert queues(chosen) == {}
    assert "no-nic-for-queues" in notices(chosen)


def test_unknown_nic_is_refused_with_the_known_nics():
    with pytest.raises(PlanError, match="no NIC eth9") as refused:
        plan(fabric(), combined="reserved", nics=["eth9"])
    assert "mlx5_0 = eth0 = 0000:18:00.0" in (refused.value.remedy or "")


def test_reserved_queue_count_without_reserved_cpus_is_refused():
    with pytest.raises(PlanError, match="reserves none"):
        plan_node(two_cpu_vm(), load_profile({"nic_queues": {"combined": "reserved"}}))


def test_nic_queues_are_restored_at_boot():
    chosen = plan(fabric(), combined="reserved")
    assert NicSetting("eth1", "channels", "8") in chosen.rdma.host.nics
    assert "/etc/systemd/system/numaforge-nics.service" in [file.path for file in chosen.files]


def test_unset_queues_change_nothing():
    assert queues(plan(fabric())) == {}
