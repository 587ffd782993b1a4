"""NVIDIA's Network Operator: the plugin that serves these nodes' RDMA devices, and its resources.

One NicClusterPolicy is for all nodes. A NicNodePolicy (v26.4 and later) is for the nodes of a label. A plugin
may be configured in either kind of policy, not in both.

Source: Mellanox/network-operator v26.7, api/v1alpha1/nicclusterpolicy_types.go, nicnodepolicy_types.go and
docs/heterogeneous-cluster-support.md; k8snetworkplumbingwg/sriov-network-device-plugin (selectors).
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from numaforge.cluster.schedulers.fleet import ServedFleet, ServedNode, Written, tolerations
from numaforge.lib.kubernetes_objects import manifest
from numaforge.roles.rdma.manifests import POOLS_LABEL, config_text
from numaforge.roles.rdma.planned import RdmaPool

WHY = "NVIDIA's Network Operator: the RDMA resources of these plans, in place of `numaforge rdma manifests`"
_API = "mellanox.com/v1alpha1"
_POLICY = "nic-cluster-policy"  # the one name that the operator takes
_SHARED, _SRIOV = "rdmaSharedDevicePlugin", "sriovDevicePlugin"
_IMAGES = {_SHARED: "k8s-rdma-shared-dev-plugin", _SRIOV: "sriov-network-device-plugin"}
_EXCLUSIVE = "its RDMA devices belong to one network namespace each, where the shared plugin does not start"
_OF_THE_DRIVER = ("mlx5_core", "mlx5_ib", "ib_core", "ib_uverbs", "ib_umad", "rdma_ucm", "rdma_cm")


class _RdmaServing(NamedTuple):
    """What serves the RDMA devices of a kind of node: the policy's field, and the plugin's configuration."""

    field: str
    config: str

    @property
    def section(self) -> dict[str, Any]:
        return {self.field: {"image": _IMAGES[self.field], "config": self.config}}


def documents(fleet: ServedFleet) -> Iterator[Written]:
    """Yield a NicClusterPolicy for nodes of one kind, else a NicNodePolicy per kind."""
    kinds: dict[_RdmaServing, list[ServedNode]] = {}
    has_unplanned = False
    for node in fleet.nodes:
        plugin = _plugin(fleet, node)
        if plugin is not None:
            kinds.setdefault(plugin, []).append(node)
        has_unplanned = has_unplanned or (plugin is None and bool(node.machine.rdma_devices))
    if not kinds:
        if not fleet.left_out:
            fleet.nothing = "no plan has pools of RDMA devices (rdma.device_plugin.per)"
        return
    images = "its images' repository and version are those of your release: spec.global, or beside the image"
    if len(kinds) == 1 and not has_unplanned:
        [(plugin, nodes)] = kinds.items()
        yield _written(
            "nic-cluster-policy.yaml",
            f"one for all nodes; {images}",
            [_policy("NicClusterPolicy", _POLICY, plugin.section, nodes)],
        )
        return
    policies = [policy for plugin, nodes in kinds.items() for policy in _node_policies(fleet, plugin, nodes)]
    if policies:
        why = (
            f"these nodes differ: a policy for each kind (26.4 and later), by the label {POOLS_LABEL} of the "
            f"roll-out; {_POLICY} may not have these plugins as well; {images}"
        )
        yield _written("nic-node-policies.yaml", why, policies)


_Policy = tuple[dict[str, Any], bool]
"""A policy, and whether a driver container would undo settings of its nodes' plans."""


def _written(name: str, why: str, policies: Sequence[_Policy]) -> Written:
    compared = tuple(
        {**policy, "spec": {**policy["spec"], "ofedDriver": None}} if undone else policy
        for policy, undone in policies
    )
    if any(undone for _, undone in policies):
        why = (
            f"{why}. A driver container (ofedDriver) loads the modules again: what these plans set of NICs, "
            "modules and RDMA's network namespaces is lost"
        )
    return Written(name, why, tuple(policy for policy, _ in policies), compared=compared)


def _node_policies(
    fleet: ServedFleet, plugin: _RdmaServing, nodes: Sequence[ServedNode]
) -> Iterator[_Policy]:
    """Yield the policies of a kind of node: one for each label, which also distinguishes kubelet roots."""
    labelled: dict[str, list[ServedNode]] = {}
    for node in nodes:
        if label := node.plan.labels.get(POOLS_LABEL):
            labelled.setdefault(label, []).append(node)
        else:
            fleet.leave_out(
                node,
                "other nodes have other RDMA resources, and no label distinguishes this one: set "
                "rdma.device_plugin.deployed, with which the roll-out labels it",
            )
    for label, chosen in labelled.items():
        section = {**plugin.section, "nodeSelector": {POOLS_LABEL: label}}
        yield _policy("NicNodePolicy", f"numaforge-{label}", section, chosen)


def _policy(kind: str, name: str, section: dict[str, Any], nodes: Sequence[ServedNode]) -> _Policy:
    taints = tolerations(nodes)
    spec = {**section, **({"tolerations": taints} if taints else {})}
    return manifest(_API, kind, name, spec=spec), any(map(_is_set_by_plan, nodes))


def _is_set_by_plan(node: ServedNode) -> bool:
    """Return whether a plan sets something that is lost when the NICs' modules are reloaded."""
    host, modules = node.plan.rdma.host, node.plan.modules
    return bool(host.nics or host.netns or {*modules.options} & {*_OF_THE_DRIVER})


def _plugin(fleet: ServedFleet, node: ServedNode) -> _RdmaServing | None:
    """Return what serves a node's RDMA devices; None where its plan has no pools, or none can be served."""
    pools = node.plan.rdma.pools
    if not pools:
        return None
    if (node.plan.rdma.host.netns or node.machine.rdma_netns) != "exclusive":
        return _RdmaServing(_SHARED, config_text(node.plan))
    if node.plan.rdma.pools_deployed:
        fleet.leave_out(
            node,
            f"{_EXCLUSIVE}, and the roll-out proves what that advertises: set rdma.device_plugin.deployed: "
            "false, or rdma.host.netns: shared",
        )
        return None
    resources = [functions for pool in pools if (functions := _virtual_functions(node, pool))]
    if not resources:
        fleet.leave_out(
            node,
            f"{_EXCLUSIVE}, and its plan knows no virtual functions for the SR-IOV plugin "
            "(rdma.host.wait_for_virtual_functions)",
        )
        return None
    return _RdmaServing(_SRIOV, json.dumps({"resourceList": resources}, indent=2) + "\n")


def _virtual_functions(node: ServedNode, pool: RdmaPool) -> dict[str, Any] | None:
    """Return a pool as a resource of the SR-IOV plugin, each virtual function a device; None without any."""
    virtual = {device.pci_address for device in node.machine.rdma_devices if device.physical_function}
    gate = node.plan.rdma.host.gate
    roots = [address for address in pool.pci_addresses if gate and gate.virtual_functions.get(address)]
    virtual_addresses = [address for address in pool.pci_addresses if address in virtual]
    if not (roots or virtual_addresses):
        return None
    prefix, name = pool.resource.split("/")
    chosen = {"rootDevices": roots} if roots else {"pciAddresses": virtual_addresses}
    return {"resourceName": name, "resourcePrefix": prefix, "selectors": {"isRdma": True, **chosen}}
