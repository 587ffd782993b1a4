"""Other tools that set a node's devices, where its plan has numaforge set them: one table.

A roll-out asks it when it looks ahead, before it takes a node, and when the change begins
(numaforge.rollout.owners); a node that watches itself asks it as far as its own Node shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from numaforge.roles.amd_partitions.config_manager import PROFILE_LABEL
from numaforge.roles.device_plugin.labels import OPERATOR_LABEL

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


@dataclass(frozen=True)
class DeviceOwner:
    """A tool that sets devices of a kind.

    `role` is the one that sets them in numaforge's place, and `sets` whether a plan has it do so. The tool
    owns them where the Node's `label` has a value and, with `pod` (its labels), where that pod is on the
    node, of which `process` is a process; or where its driver partitions them by itself (`by_driver`).
    """

    devices: str
    role: str
    sets: Callable[[NodePlan], bool]
    message: str
    label: str = ""
    pod: Mapping[str, str] = field(default_factory=dict)
    process: str = ""
    by_driver: bool = False


MIG_MANAGER = DeviceOwner(
    "mig",
    "mig",
    lambda plan: plan.mig.managed_by == "numaforge" and bool(plan.mig.gpus),
    f"the GPU operator's MIG manager cuts the node's GPUs by its label {OPERATOR_LABEL}: set "
    "mig.managed_by: gpu-operator, or take the manager off the node (the label "
    "nvidia.com/gpu.deploy.mig-manager=false) and the label away",
    label=OPERATOR_LABEL,
    pod={"app": "nvidia-mig-manager"},  # gpu-operator, assets/state-mig-manager
    process="nvidia-mig-mana",  # its name, as far as the kernel keeps it
)
CONFIG_MANAGER = DeviceOwner(
    "amd_partitions",
    "amd_partitions",
    lambda plan: plan.amd_partitions.managed_by == "numaforge" and bool(plan.amd_partitions.gpus),
    f"AMD's device config manager partitions the node's GPUs by its label {PROFILE_LABEL}: set "
    "amd_partitions.managed_by: device-config-manager, or take the label away",
    label=PROFILE_LABEL,
)
DRA_DRIVER = DeviceOwner(
    "one_mig_geometry",
    "mig",
    lambda plan: plan.mig.managed_by != "dra-driver" and bool(plan.mig.gpus),
    "NVIDIA's DRA driver cuts the node's GPUs as claims come (DynamicMIG): set mig.managed_by: "
    "dra-driver and no instances, or turn the driver's feature gate DynamicMIG off",
    by_driver=True,
)
OWNERS = (MIG_MANAGER, CONFIG_MANAGER, DRA_DRIVER)


def own_devices(plan: NodePlan, roles: Collection[str]) -> frozenset[str]:
    """Return the devices that numaforge sets by this plan with these roles."""
    return frozenset(owner.devices for owner in OWNERS if owner.role in roles and owner.sets(plan))
