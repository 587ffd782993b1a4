"""MIG on the virtual node, from the profile to a pod: NVML is a fake, all else is real."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Lab
from lab.node import Node
from numaforge.node.parts import mig
from numaforge.node.transaction import Transaction
from numaforge.planning.model import MigGpu, MigInstance
from numaforge.topology.model import Gpu
from tests.lab import gpus, rollouts, transactions
from tests.lab.rollouts import QUICK, applied, free, inventory, policy
from tests.lab.transactions import boots, ended, put_back, ready, reset_at

CUT: Mapping[int, tuple[tuple[int, int], ...]] = {
    0: ((9, 0), (19, 4), (19, 5), (19, 6)),
    1: tuple((19, start) for start in range(7)),
}
"""Profile and start of each GPU instance, by the index of its GPU."""
PROFILE: dict[str, Any] = {
    **rollouts.PROFILE,
    "mig": {
        "gpus": [
            {"indices": [0], "devices": {"3g.40gb": 1, "1g.10gb": 3}},
            {"indices": [1], "devices": {"1g": "all"}},
        ]
    },
}
OFFERED = {"nvidia.com/gpu": "6", "nvidia.com/mig-1g.10gb": "10", "nvidia.com/mig-3g.40gb": "1"}
OFFERED_WITHIN_S = 120


def cut(found: tuple[Gpu, ...]) -> dict[int, tuple[tuple[int, int], ...]]:
    """Return where the GPU instances of the GPUs in MIG mode lie, by the index of the GPU."""
    return {
        index: tuple(
            (each.profile_id, each.start)
            for each in sorted(gpu.gpu_instances or (), key=lambda each: each.start)
        )
        for index, gpu in enumerate(found)
        if gpu.mig_mode == "enabled"
    }


def await_offer(lab: Lab, node: Node, wanted: Mapping[str, str]) -> None:
    """Return when the node's Allocatable has these resources of NVIDIA, and no others that are not 0."""
    deadline = time.monotonic() + OFFERED_WITHIN_S
    while True:
        allocatable = lab.get("node", node.name)["status"]["allocatable"]
        offered = {n: c for n, c in allocatable.items() if n.startswith("nvidia.com/") and c != "0"}
        if offered == wanted:
            return
        assert time.monotonic() < deadline, offered
        time.sleep(0.5)


@pytest.fixture(scope="module")
def with_gpus(lab: Lab) -> Node:
    """The node as it was when it was first Ready, with a driver."""
    lab.reset()
    node = lab.nodes[0]
    node.run(rollouts.HEALTHY)
    gpus.install(node)
    await_offer(lab, node, {"nvidia.com/gpu": str(node.machine.gpus)})
    return node


@pytest.fixture(scope="module")
def file(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return inventory(lab, tmp_path_factory.mktemp("mig"), profile=PROFILE, **QUICK)


@pytest.fixture(scope="module")
def provisioned(lab: Lab, with_gpus: Node, file: Path) -> Node:
    """The node after a roll-out, from which a pod had to go."""
    rollouts.kubectl(lab, "create", "-f", "-", manifest=rollouts.deployment("web", 1))
    rollouts.await_deployment(lab, "web")
    run = rollouts.begin("run", file, state=file.parent, deploy="deploys/site.py")
    assert run.end() == 0, (run.events, run.errors())
    assert [event.get("phase") for event in run.events].count("drained") == 1
    return with_gpus


def pod(name: str, resource: str) -> dict[str, Any]:
    """Return a pod that holds a device of a resource."""
    manifest = rollouts.deployment(name, 1)["spec"]["template"]["spec"]
    manifest["containers"][0]["resources"] = {"limits": {"cpu": "2", "memory": "64Mi", resource: "1"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": manifest}


def test_a_roll_out_cuts_the_gpus_and_the_scheduler_places_a_pod_on_a_slice(
    lab: Lab, provisioned: Node
) -> None:
    assert cut(gpus.seen(provisioned)) == CUT
    await_offer(lab, provisioned, OFFERED)
    assert (policy(provisioned), applied(provisioned), free(lab, provisioned)) == ("static", 1, True)
    rollouts.kubectl(lab, "create", "-f", "-", manifest=pod("slice", "nvidia.com/mig-3g.40gb"))
    rollouts.kubectl(lab, "wait", "--for=condition=Ready", "pod/slice", "--timeout=240s")
    rollouts.kubectl(lab, "delete", "pod", "slice", "--wait=true")


@pytest.mark.long
def test_a_second_roll_out_changes_nothing(provisioned: Node, file: Path) -> None:
    again = rollouts.begin("run", file, state=file.parent, deploy="deploys/site.py")
    assert again.end() == 0, (again.events, again.errors())
    assert applied(provisioned) == 1


@pytest.mark.long
def test_a_boot_that_loses_every_instance_brings_them_back_before_the_kubelet(
    lab: Lab, provisioned: Node
) -> None:
    before = boots(provisioned)
    provisioned.try_run("sync; systemctl reboot")
    transactions.until_through_boots(provisioned, "systemctl is-active kubelet.service")
    assert boots(provisioned) == before + 1
    assert cut(gpus.seen(provisioned)) == CUT
    ready(lab, provisioned)
    await_offer(lab, provisioned, OFFERED)


EARLIER = {0: ((14, 0), (9, 4))}
"""How the GPUs are cut before they are cut otherwise."""
EVENTS = (
    "keeping",
    "stop kubelet",
    "apply mig",
    "apply kubelet",
    "start kubelet",
    "prove mig",
    "prove kubelet",
)
UNTOUCHED = ("keeping", "stop kubelet")
"""Until here no GPU was touched, and nothing of ours brings back what was cut by hand and a boot destroys."""
BACK = ("stop kubelet", "undo mig", "start kubelet", "prove mig", "prove kubelet")


@pytest.fixture
def earlier(lab: Lab) -> Node:
    """The node with its first GPU cut by hand."""
    node = put_back(lab)
    gpus.install(node)
    node.run("nvidia-smi -i 0 -mig 1 && nvidia-smi mig -i 0 -cgi 14:0,9:4 -C && sync")
    assert cut(gpus.seen(node)) == EARLIER
    return node


def recut(node: Node) -> Transaction:
    """Describe a change of the kubelet's settings and of two GPUs."""
    now = gpus.seen(node)[:2]
    names = {19: ("1g.10gb", 1, 1), 9: ("3g.40gb", 4, 3)}
    wanted = [
        MigGpu(
            gpu.pci_address,
            gpu.uuid,
            "enabled",
            tuple(
                MigInstance(name, profile, start, size, (slices,))
                for profile, start in CUT[index]
                for name, size, slices in (names[profile],)
            ),
        )
        for index, gpu in enumerate(now)
    ]
    return transactions.change(node, transactions.STATIC, between=[mig.part(wanted, now)])


def assert_earlier(lab: Lab, node: Node, cut_as: Mapping[int, object] = EARLIER) -> None:
    ready(lab, node)
    assert (rollouts.policy(node), cut(gpus.seen(node))) == ("none", cut_as)


@pytest.mark.long
@pytest.mark.parametrize("event", EVENTS)
def test_a_reset_while_gpus_are_cut_brings_the_earlier_ones_back(lab: Lab, earlier: Node, event: str) -> None:
    reset_at(earlier, event)
    transactions.begin(earlier, recut(earlier), check=False)  # it may not live to answer
    result = ended(earlier)
    assert result.outcome == ("refused" if event == "keeping" else "rolled-back"), result
    assert_earlier(lab, earlier, {} if event in UNTOUCHED else EARLIER)


@pytest.mark.long
@pytest.mark.parametrize("event", BACK)
def test_a_reset_while_the_earlier_gpus_are_brought_back_brings_them_back(
    lab: Lab, earlier: Node, event: str
) -> None:
    assert transactions.run(earlier, recut(earlier)).outcome == "applied"
    reset_at(earlier, event)
    transactions.revert(earlier, "the node is not Ready", check=False)
    transactions.until_through_boots(earlier, "[ -e /var/lib/numaforge/txn/T1/applied.json ]")
    assert ended(earlier).outcome == "rolled-back"
    assert_earlier(lab, earlier)
