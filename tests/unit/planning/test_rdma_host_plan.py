"""What is decided about the host's side of RDMA."""

from dataclasses import replace
from typing import Any

import pytest

from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.document import dumps, loads
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.planning.render import render_plan
from numaforge.roles.rdma.plan import plan_rdma_host
from numaforge.roles.rdma.planned import RdmaGate, RdmaHostPlan
from tests.fixtures.machines import dgx_h100, hgx_a100, kubeadm_kubelet, lab_node

PFC = {"trust": "dscp", "pfc": [3]}


def profile(**host: Any) -> Any:
    return load_profile({"memory": {"system_reserved": "8Gi"}, "rdma": {"host": host}})


def ethernet(machine: NodeTopology) -> NodeTopology:
    devices = []
    for number, device in enumerate(machine.rdma_devices):
        ports = tuple(replace(port, link_layer="Ethernet") for port in device.ports)
        devices.append(replace(device, interface=f"eth{number}", ports=ports))
    return replace(machine, rdma_devices=tuple(devices))


def with_virtual_functions(machine: NodeTopology) -> NodeTopology:
    """Return the machine with a virtual function of its first NIC."""
    first = machine.rdma_devices[0]
    function = replace(first, name="mlx5_20", pci_address="0000:18:00.1", physical_function=first.pci_address)
    return replace(machine, rdma_devices=(*machine.rdma_devices, function))


def decided(machine: NodeTopology, **host: Any) -> RdmaHostPlan:
    return plan_rdma_host(machine, profile(**host)).value


def test_settings_apply_to_nics_beside_gpus() -> None:
    plan = decided(hgx_a100(), max_read_request=4096)
    without = decided(replace(hgx_a100(), gpus=()), max_read_request=4096)
    assert (len(plan.nics), len(without.nics)) == (8, 10)
    assert {each.value for each in plan.nics} == {"4096"}
    assert decided(hgx_a100()) == RdmaHostPlan()


def test_nics_are_accepted_by_any_name() -> None:
    machine = ethernet(dgx_h100())
    first, second, third, *_ = machine.rdma_devices
    plan = decided(machine, nics=[first.name, second.interface, third.pci_address], max_read_request=1024)
    assert {each.nic for each in plan.nics} == {first.pci_address, second.pci_address, third.pci_address}


def test_unknown_nic_is_refused_with_the_known_nics() -> None:
    with pytest.raises(PlanError, match="no NIC mlx5_99 with RDMA") as refused:
        decided(dgx_h100(), nics=["mlx5_99"], pfc=[3])
    assert "mlx5_0 = ibp24s0 = 0000:18:00.0" in (refused.value.remedy or "")


@pytest.mark.parametrize(
    ("machine", "settings", "notices"),
    [
        pytest.param(dgx_h100(), 0, ["no-ethernet"], id="infiniband-has-no-pfc"),
        pytest.param(ethernet(dgx_h100()), 16, [], id="ethernet"),
        pytest.param(lab_node(), 0, ["no-rdma-nic"], id="no-nic"),
    ],
)
def test_flow_control_priorities_apply_to_ethernet_only(machine, settings, notices) -> None:
    planned = plan_rdma_host(machine, profile(**PFC))
    assert len(planned.value.nics) == settings
    assert [notice.id for notice in planned.notices] == notices
    assert {each.value for each in decided(machine, pfc=[]).nics} == ({"none"} if settings else set())


def test_virtual_functions_get_no_settings() -> None:
    addresses = {each.nic for each in decided(with_virtual_functions(dgx_h100()), max_read_request=512).nics}
    assert "0000:18:00.1" not in addresses


def test_gate_waits_for_existing_devices() -> None:
    gate = decided(with_virtual_functions(dgx_h100()), wait_for_virtual_functions={}).gate
    assert {"mlx5_0", "mlx5_7", "mlx5_20"} <= {*gate.devices}
    assert gate.virtual_functions == {}


def test_gate_is_the_same_before_and_after_virtual_functions_appear() -> None:
    wish = {"wait_for_virtual_functions": {"count": 1, "timeout_seconds": 30}, "nics": ["mlx5_0"]}
    for machine in (dgx_h100(), with_virtual_functions(dgx_h100())):
        assert str(decided(machine, **wish).gate) == str(RdmaGate(("mlx5_0",), {"0000:18:00.0": 1}, 30))


@pytest.mark.parametrize(
    ("modules", "kinds"),
    [
        pytest.param("mlx5", ("uverbs", "umad"), id="verbs-and-datagrams"),
        pytest.param(["ib_uverbs"], ("uverbs",), id="verbs-alone"),
        pytest.param((), None, id="nothing-asked"),
    ],
)
def test_issm_is_never_required(modules: Any, kinds: tuple[str, ...] | None) -> None:
    machine = dgx_h100()
    driven = tuple(replace(device, driver="mlx5_core") for device in machine.rdma_devices)
    plan = decided(replace(machine, rdma_devices=driven), modules=modules)
    assert plan.character_devices.get("mlx5_0") == kinds


def test_relaxed_ordering_is_reported_but_not_planned() -> None:
    planned = plan_rdma_host(dgx_h100(), profile(relaxed_ordering=True, nics=["mlx5_0"]))
    assert planned.value.nics == ()
    (notice,) = planned.notices
    assert 'for nic in 0000:18:00.0; do mlxconfig -y -d "$nic" set PCI_WR_ORDERING=1' in notice.message


def test_rdma_files_match_the_plan_and_survive_a_round_trip() -> None:
    settings = {"netns": "shared", "memlock": "unlimited", "max_read_request": 4096}
    wish = profile(modules="mlx5", wait_for_virtual_functions={"count": 4}, **settings, **PFC)
    plan = plan_node(replace(ethernet(dgx_h100()), kubelet=kubeadm_kubelet()), wish)
    texts = render_plan(plan)
    assert [file.role for file in plan.files].count("rdma") == 7
    assert "eth0 pfc 3\n" in texts["/etc/numaforge/nics"]
    assert "Before=kubelet.service" in texts["/etc/systemd/system/numaforge-rdma-gate.service"]
    assert loads(dumps(plan)) == plan
