"""Which GPUs, replicas and MIG devices a pod gets where NVIDIA's plugin has a preference."""

from collections.abc import Sequence
from typing import Any

import pytest

from numaforge.kubelet.admission.device_manager import Device
from numaforge.kubelet.admission.inventory import Shared, inventory_of
from numaforge.kubelet.admission.node import Node
from numaforge.kubelet.admission.nvidia_resources import GPU
from numaforge.kubelet.admission.preferred import DISTRIBUTED, PACKED
from numaforge.machine.topology.saved import ready_machine
from tests.fixtures.machines import nvlink_bridges

BRIDGE, PCIE = 250, 50


def pod(name: str, count: int, resource: str = GPU) -> dict[str, Any]:
    limits = {"cpu": "4", "memory": "1Gi", resource: str(count)}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]},
    }


def gpus_of(node: Node, counts: Sequence[int]) -> list[tuple[str, ...]]:
    admitted = [node.admit(pod(f"pod-{number}", count)) for number, count in enumerate(counts)]
    return [answer.devices["main"][GPU] for answer in admitted]


@pytest.mark.parametrize(
    ("machine", "policy", "counts", "gpus"),
    [
        pytest.param("hgx-b200", "none", [3, 4], ["012", "4567"], id="four that are near each other"),
        pytest.param("hgx-b200", "none", [1, 2], ["0", "23"], id="a pair beside one that has gone"),
        pytest.param("hgx-b200", "best-effort", [2, 2], ["01", "23"], id="the hint goes before the plugin"),
        pytest.param("four bridges", "none", [1, 2, 2], ["0", "23", "45"], id="a pair with its bridge"),
        pytest.param("four bridges", "none", [4], ["0123"], id="two pairs with bridges"),
    ],
)
def test_preferred_gpus_follow_their_links(
    machine: str, policy: str, counts: list[int], gpus: list[str]
) -> None:
    topology = nvlink_bridges(4) if machine == "four bridges" else ready_machine(machine)
    node = Node(topology, {"topologyManagerPolicy": policy})
    order = [device.id for device in inventory_of(topology)[GPU]]
    assert gpus_of(node, counts) == [tuple(order[int(number)] for number in each) for each in gpus]


def test_equally_good_device_sets_are_listed() -> None:
    answer = Node(ready_machine("hgx-b200"), {}).admit(pod("one", 7))
    sets = answer.choices["main"][GPU]
    assert sets[0] == answer.devices["main"][GPU] == tuple("0123456")
    assert len(sets) == len({*sets}) == 8


def test_single_possible_set_is_not_a_choice() -> None:
    assert Node(nvlink_bridges(1), {}).admit(pod("one", 2)).choices == {"main": {}}


def bridge_and_three() -> dict[str, tuple[Device, ...]]:
    """Return GPUs of which two have a bridge: three of them may be the division's smaller rest."""

    def links(own: int) -> tuple[tuple[str, int], ...]:
        return tuple((str(at), BRIDGE if {own, at} == {0, 1} else PCIE) for at in range(5) if at != own)

    return {GPU: tuple(Device(str(number), frozenset({0}), links=links(number)) for number in range(5))}


def test_device_plugin_that_may_crash_is_named() -> None:
    node = Node(ready_machine("small-vm"), {}, bridge_and_three())
    answer = node.admit(pod("three", 3))
    assert answer.may_crash == (GPU,)
    assert answer.choices["main"][GPU] == (tuple("012"), tuple("013"), tuple("014"))
    assert node.admit(pod("two", 2)).may_crash == ()


@pytest.mark.parametrize(
    ("policy", "replicas"),
    [
        pytest.param(DISTRIBUTED, ["0::0", "1::0", "2::0", "0::1"], id="distributed"),
        pytest.param(PACKED, ["0::0", "0::1", "1::0", "1::1"], id="packed"),
    ],
)
def test_preferred_replicas_follow_the_policy(policy: str, replicas: list[str]) -> None:
    topology = ready_machine("hgx-b200")
    inventory = inventory_of(topology, shared=Shared({GPU: 2}, policy=policy))
    shared = {GPU: tuple(device for device in inventory[GPU] if device.id[0] in "012")}
    assert gpus_of(Node(topology, {}, shared), [1] * 4) == [(one,) for one in replicas]


def test_mig_devices_are_equally_preferred() -> None:
    topology = ready_machine("dgx-h100-mig")
    resource = next(name for name in inventory_of(topology) if "mig-" in name)
    answer = Node(topology, {}).admit(pod("one", 1, resource))
    assert len(answer.choices["main"][resource]) == len(inventory_of(topology)[resource])
