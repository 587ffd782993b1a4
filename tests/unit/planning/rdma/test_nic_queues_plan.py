"""Queues of NICs: as many as reserved CPUs, never on the default route's NIC unless it is named."""

from dataclasses import replace

import pytest

from numaforge.machine.topology.model import Network, NodeTopology
from numaforge.planning.plan import NodePlan
from numaforge.roles.rdma.planned import NicSetting
from tests.fixtures.machines import dgx_h100, two_cpu_vm
from tests.fixtures.plans import notices, planned, refusal

DEFAULT = "0.0.0.0/0"


def fabric(*routes: Network) -> NodeTopology:
    """Return a machine of whose NICs the first two are Ethernet."""
    machine = dgx_h100()
    nics = [
        replace(nic, interface=f"eth{number}", link_layer="Ethernet") if number < 2 else nic
        for number, nic in enumerate(machine.nics)
    ]
    return replace(machine, nics=tuple(nics), networks=routes or (Network("eth0", DEFAULT),))


RESERVED = {"cpus": {"reserved": {"cores_per_numa_node": 2}}}


def plan(topology: NodeTopology, **wish: object) -> NodePlan:
    return planned(topology, **RESERVED, nic_queues=wish)


def queues(chosen: NodePlan) -> dict[str, str]:
    return {each.nic: each.value for each in chosen.rdma.host.nics if each.name == "channels"}


QUEUES = {
    "one for each reserved CPU": ({"combined": "reserved"}, {"eth1": "8"}),
    "a number": ({"combined": 16}, {"eth1": "16"}),
    "the default route's NIC by its name": ({"combined": "reserved", "nics": ["eth0"]}, {"eth0": "8"}),
    "by device": ({"combined": 4, "nics": ["mlx5_1"]}, {"eth1": "4"}),
    "by interface": ({"combined": 4, "nics": ["eth1"]}, {"eth1": "4"}),
    "by address": ({"combined": 4, "nics": ["0000:40:00.0"]}, {"eth1": "4"}),
    "unset": ({}, {}),
}


@pytest.mark.parametrize(("wish", "expected"), QUEUES.values(), ids=QUEUES)
def test_queues_are_set_on_named_nics_or_all_but_the_default_routes(wish, expected):
    assert queues(plan(fabric(), **wish)) == expected


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
    message = refusal(fabric(), nic_queues={"combined": 4, "nics": ["eth9"]})
    assert "no NIC eth9" in message
    assert "mlx5_0 = eth0 = 0000:18:00.0" in message


def test_reserved_queue_count_without_reserved_cpus_is_refused():
    assert "reserves none" in refusal(two_cpu_vm(), nic_queues={"combined": "reserved"})


def test_nic_queues_are_restored_at_boot():
    chosen = plan(fabric(), combined="reserved")
    assert NicSetting("eth1", "channels", "8") in chosen.rdma.host.nics
    assert "/etc/systemd/system/numaforge-nics.service" in [file.path for file in chosen.files]
