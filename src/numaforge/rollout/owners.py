"""Other tools that set a node's devices, where its plan has numaforge set them: one table.

It is asked when a roll-out looks ahead, before a node is taken, and when its change begins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from numaforge.roles.amd_partitions.config_manager import PROFILE_LABEL
from numaforge.roles.device_plugin.labels import OPERATOR_LABEL
from numaforge.rollout.cluster import ENDED_PHASES, ClusterNode, ClusterPod
from numaforge.rollout.labels import Labels

MIG_MANAGER = {"app": "nvidia-mig-manager"}
"""The labels of the GPU operator's MIG manager (gpu-operator, assets/state-mig-manager)."""


@dataclass(frozen=True)
class OwnDevices:
    """The devices that a plan has numaforge set by itself.

    `mig`: the node cuts its GPUs; `fixed_mig`: they have one geometry, also where an operator cuts them;
    `amd_partitions`: the node sets the modes of AMD's GPUs.
    """

    mig: bool = False
    fixed_mig: bool = False
    amd_partitions: bool = False


@dataclass(frozen=True)
class Evidence:
    """What shows who else sets a node's devices: its labels once numaforge's own are set, and on demand more.

    `pods` returns those on the node, `cut_by_driver` the nodes whose GPUs NVIDIA's DRA driver partitions.
    """

    node: str
    labels: Labels
    pods: Callable[[], Sequence[ClusterPod]]
    cut_by_driver: Callable[[], Collection[str]]


@dataclass(frozen=True)
class DeviceOwner:
    """A tool that sets devices: for which plans that matters, its evidence, and the message."""

    matters: Callable[[OwnDevices], bool]
    owns: Callable[[Evidence], bool]
    message: str


def _mig_manager(found: Evidence) -> bool:
    """Whether the label has a value, and the manager that obeys it is on the node."""
    return bool(found.labels.get(OPERATOR_LABEL)) and any(
        MIG_MANAGER.items() <= pod.labels.items() and pod.phase not in ENDED_PHASES for pod in found.pods()
    )


OWNERS = (
    DeviceOwner(
        lambda own: own.mig,
        _mig_manager,
        f"the GPU operator's MIG manager cuts the node's GPUs by its label {OPERATOR_LABEL}: say "
        "mig.managed_by: gpu-operator, or take the manager off the node (nvidia.com/gpu.deploy.mig-manager="
        "false) and the label away",
    ),
    DeviceOwner(
        lambda own: own.amd_partitions,
        lambda found: found.labels.get(PROFILE_LABEL) is not None,
        f"AMD's device config manager partitions the node's GPUs by its label {PROFILE_LABEL}: say "
        "amd_partitions.managed_by: device-config-manager, or take the label away",
    ),
    DeviceOwner(
        lambda own: own.fixed_mig,
        lambda found: found.node in found.cut_by_driver(),
        "NVIDIA's DRA driver cuts the node's GPUs as claims come (DynamicMIG): say mig.managed_by: "
        "dra-driver and no instances, or turn the driver's feature gate DynamicMIG off",
    ),
)


def device_owner(
    node: ClusterNode,
    own: OwnDevices,
    changes: Labels,
    *,
    pods: Callable[[], Sequence[ClusterPod]],
    cut_by_driver: Callable[[], Collection[str]],
) -> str | None:
    """Return which other tool sets devices that the plan sets, in words; None where there is none.

    `changes` are those of the node's labels: one of ours that the change takes away is no other tool's.
    """
    labels = {**node.labels, **changes}
    found = Evidence(node.name, labels, pods, cut_by_driver)
    return next((each.message for each in OWNERS if each.matters(own) and each.owns(found)), None)
