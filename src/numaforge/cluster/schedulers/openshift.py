"""OpenShift: KubeletConfig, MachineConfig and MachineConfigPool for each kind of node."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from numaforge.cluster.schedulers.fleet import ServedFleet, ServedNode, Written

NAME = "openshift"
WHY = "the kubelet's settings as its Machine Config Operator takes them; its nodes reboot for a change"
_POOL_LABEL = "pools.operator.machineconfiguration.openshift.io"
_ROLE = "machineconfiguration.openshift.io/role"
ELSEWHERE = {"featureGates": "the cluster's FeatureGate object", "registerWithTaints": "its MachineSet"}
"""Settings that a KubeletConfig may not have, and where they belong."""


def documents(fleet: ServedFleet) -> Iterator[Written]:
    """Yield a pool for each group of nodes with equal settings and kernel arguments."""
    kinds: dict[str, list[ServedNode]] = {}
    for node in fleet.nodes:
        if node.settings:
            kinds.setdefault(
                json.dumps([node.settings, node.plan.kernel.cmdline], sort_keys=True), []
            ).append(node)
        else:
            fleet.left_out[node.name] = "nothing of its kubelet is planned"
    for number, nodes in enumerate(kinds.values(), 1):
        pool = "numaforge" if len(kinds) == 1 else f"numaforge-{number}"
        names = ", ".join(node.name for node in nodes)
        label = f"node-role.kubernetes.io/{pool}"
        yield Written(f"{pool}.yaml", f"for {names}: label each {label}=", _pool(pool, nodes[0]))
        for name in ELSEWHERE.keys() & nodes[0].settings.keys():
            fleet.left_out.update({node.name: f"{name} is set by {ELSEWHERE[name]}" for node in nodes})


def _pool(pool: str, node: ServedNode) -> tuple[Mapping[str, Any], ...]:
    settings = {name: value for name, value in node.settings.items() if name not in ELSEWHERE}
    documents: list[Mapping[str, Any]] = [
        {
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfigPool",
            "metadata": {"name": pool, "labels": {f"{_POOL_LABEL}/{pool}": ""}},
            "spec": {
                "machineConfigSelector": {
                    "matchExpressions": [{"key": _ROLE, "operator": "In", "values": ["worker", pool]}]
                },
                "nodeSelector": {"matchLabels": {f"node-role.kubernetes.io/{pool}": ""}},
            },
        },
        {
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "KubeletConfig",
            "metadata": {"name": pool},
            "spec": {
                "machineConfigPoolSelector": {"matchLabels": {f"{_POOL_LABEL}/{pool}": ""}},
                "kubeletConfig": settings,
            },
        },
    ]
    if node.plan.kernel.cmdline:
        documents.append(
            {
                "apiVersion": "machineconfiguration.openshift.io/v1",
                "kind": "MachineConfig",
                "metadata": {"name": f"50-{pool}", "labels": {_ROLE: pool}},
                "spec": {
                    "config": {"ignition": {"version": "3.2.0"}},
                    "kernelArguments": [str(argument) for argument in node.plan.kernel.cmdline],
                },
            }
        )
    return tuple(documents)
