"""The modes as a profile of AMD's device config manager, where that manages the node's GPUs.

ROCm/device-config-manager, docs/configuration/configmap.md: a profile has numbers of GPUs for modes, not
which ones; NPS4 goes with CPX alone, NPS2 with DPX alone; the numbers and the skipped GPUs are all GPUs of
a node.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from numaforge.lib.errors import PlanError
from numaforge.roles.mig.operator import operator_name

if TYPE_CHECKING:
    from numaforge.roles.amd_partitions.instance import AmdPartitionsPlan

PROFILE_LABEL = "dcm.amd.com/gpu-config-profile"
STATE_LABEL = "dcm.amd.com/gpu-config-profile-state"
CONFIG_KEY = "config.json"
SYSTEMD_CLIENTS = ("amd-metrics-exporter", "gpuagent")
_ALONE = {"NPS4": "CPX", "NPS2": "DPX"}


def refuse_for_manager(plan: AmdPartitionsPlan, gpus: int) -> None:
    """Raise PlanError for modes that the manager's profiles cannot express on a node with `gpus` GPUs."""
    modes = {(gpu.compute, gpu.memory) for gpu in plan.gpus}
    if len(modes) > 1:
        raise _beyond("its profiles have numbers of GPUs for each mode, and not which ones")
    for compute, memory in modes:
        if not (compute and memory):
            raise _beyond("its profiles have both modes; set compute and memory")
        if compute != _ALONE.get(memory, compute):
            raise _beyond(f"it takes {memory} with {_ALONE[memory]} alone, and not with {compute}")
    if plan.gpus and len(plan.gpus) != gpus:
        raise _beyond(
            f"{gpus - len(plan.gpus)} of {gpus} GPUs are left out, which a change of the memory mode "
            "skips not (ROCm/gpu-operator#316)"
        )


def manager_profile(plan: AmdPartitionsPlan) -> dict[str, Any] | None:
    """Return the plan's profile for the manager; None where it has no GPUs."""
    if not plan.gpus:
        return None
    first = plan.gpus[0]
    rows = [
        {
            "computePartition": first.compute,
            "memoryPartition": first.memory,
            "numGPUsAssigned": len(plan.gpus),
        }
    ]
    return {"skippedGPUs": {"ids": []}, "profiles": rows}


def manager_profile_name(profile: str, plan: AmdPartitionsPlan) -> str | None:
    """Return the label value that names the plan's profile: the profile's name and a digest of the modes."""
    config = manager_profile(plan)
    return None if config is None else operator_name(profile, config)


def manager_config(profiles: dict[str, Any]) -> str:
    """Return the text for the manager's ConfigMap, from profiles by name."""
    document = {
        "gpu-config-profiles": dict(sorted(profiles.items())),
        "gpuClientSystemdServices": {"names": [*SYSTEMD_CLIENTS]},
    }
    return json.dumps(document, indent=2) + "\n"


def _beyond(why: str) -> PlanError:
    return PlanError(
        f"AMD's device config manager cannot express this: {why}",
        where="amd_partitions.managed_by",
        remedy="leave managed_by out: then numaforge sets the modes",
    )
