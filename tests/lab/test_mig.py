"""GPUs that are cut anew on a virtual node that is reset at every step: NVML is a fake, all else is real."""

from collections.abc import Mapping

import pytest

from lab.cluster import Lab
from lab.node import Node
from numaforge.change.transaction import Transaction
from numaforge.roles.mig import part as mig
from numaforge.roles.mig.instance import MigGpu, MigInstance
from tests.lab import gpus, rollouts, transactions
from tests.lab.transactions import ended, put_back, ready, reset_at

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
    assert gpus.cut(gpus.seen(node)) == EARLIER
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
                for profile, start in gpus.CUT[index]
                for name, size, slices in (names[profile],)
            ),
        )
        for index, gpu in enumerate(now)
    ]
    return transactions.change(node, transactions.STATIC, between=[mig.part(wanted, now)])


def assert_earlier(lab: Lab, node: Node, cut_as: Mapping[int, object] = EARLIER) -> None:
    ready(lab, node)
    assert (rollouts.policy(node), gpus.cut(gpus.seen(node))) == ("none", cut_as)


@pytest.mark.long
@pytest.mark.parametrize("event", EVENTS)
def test_reset_during_repartitioning_restores_earlier_mig_layout(lab: Lab, earlier: Node, event: str) -> None:
    reset_at(earlier, event)
    transactions.begin(earlier, recut(earlier), check=False)  # it may not live to answer
    result = ended(earlier)
    assert result.outcome == ("refused" if event == "keeping" else "rolled-back"), result
    assert_earlier(lab, earlier, {} if event in UNTOUCHED else EARLIER)


@pytest.mark.long
@pytest.mark.parametrize("event", BACK)
def test_reset_during_an_undo_still_restores_the_previous_instances(
    lab: Lab, earlier: Node, event: str
) -> None:
    assert transactions.run(earlier, recut(earlier)).outcome == "applied"
    reset_at(earlier, event)
    transactions.revert(earlier, "the node is not Ready", check=False)
    transactions.until_through_boots(earlier, "[ -e /var/lib/numaforge/txn/T1/applied.json ]")
    assert ended(earlier).outcome == "rolled-back"
    assert_earlier(lab, earlier)
