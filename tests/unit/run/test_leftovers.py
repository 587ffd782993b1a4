"""What a removal leaves in the cluster is named, where a roll-out was there."""

from dataclasses import replace

import pytest

from numaforge.machine.topology.model import KubeletInstall, NodeTopology
from numaforge.planning.document import dumps
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.run.decide import left_in_cluster
from tests.fixtures.machines import dgx_h100

JOINED = ("--kubeconfig=/etc/kubernetes/kubelet.conf",)


def machine(flags: tuple[str, ...] | None, *, planned: bool = True) -> NodeTopology:
    found = dgx_h100()
    install = None if flags is None else KubeletInstall("v1.36.2", "kubelet.service", None, None, flags)
    text = dumps(plan_node(found, load_profile({"name": "a"}), "1.36.2")) if planned else None
    return replace(found, kubelet=install, previous_plan=text)


def test_cluster_leftovers_are_listed_with_the_command_that_deletes_them():
    [notice] = left_in_cluster(machine(JOINED))
    assert "kubectl delete leases,configmaps,daemonsets --all-namespaces -l app.kub" in notice.message


@pytest.mark.parametrize(
    "found",
    [machine(JOINED, planned=False), machine(()), machine(None)],
    ids=["a node that numaforge has never planned", "a kubelet without a cluster", "no kubelet"],
)
def test_host_without_leftovers_gets_no_notice(found):
    assert left_in_cluster(found) == ()
