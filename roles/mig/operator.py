"""A node's geometry as a mig-parted config, for nodes whose GPUs the GPU operator cuts."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import Gpu, NodeTopology
from numaforge.machine.topology.vendors import NVIDIA
from numaforge.roles.mig.devices import mig_device_names, nvidia_gpus, nvml_gpus
from numaforge.roles.mig.instance import MigPlan
from numaforge.roles.mig.models import known_model
from numaforge.roles.mig.plan import as_cut

Entry = dict[str, Any]


def operator_config_name(profile: str, mig: MigPlan, topology: NodeTopology) -> str:
    """Return the name of the config that cuts a node's GPUs as planned; raises as `operator_entries` does."""
    return operator_name(profile, operator_entries(mig, topology))


def operator_name(profile: str, entries: object) -> str:
    """Return a config's name, a label value: the profile's name and a digest of the entries."""
    digest = blake2b(json.dumps(entries, sort_keys=True).encode(), digest_size=4).hexdigest()
    readable = re.sub(r"[^A-Za-z0-9.-]+", "-", profile)[:48].strip("-.") or "numaforge"
    return f"{readable}-{digest}"


def operator_entries(plan: MigPlan, topology: NodeTopology) -> list[Entry]:
    """Return the config entries for a machine, one per PCI id and geometry; each GPU is in exactly one.

    GPUs that the plan does not name are listed as they are, because mig-parted asserts a config only where it
    names every GPU. Raises PlanError for such a GPU of unknown geometry, and for GPUs of another driver.
    """
    gpus = nvidia_gpus(topology)
    gpus_afterwards = nvml_gpus(as_cut(topology, plan))
    if len(gpus_afterwards) != len(gpus):
        raise PlanError(
            "another driver has some of the GPUs: mig-parted counts them, and cannot configure them",
            remedy="give all GPUs to the driver nvidia",
        )
    planned = {gpu.pci_address for gpu in plan.gpus}
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, gpu in gpus.items():
        if gpu.pci_address not in planned:
            _require_known(index, gpus_afterwards[index])
        names = (
            mig_device_names(gpus_afterwards[index]) if gpus_afterwards[index].mig_mode == "enabled" else None
        )
        counts = None if names is None else dict(sorted(Counter(names).items()))
        groups[gpu.device.lower(), json.dumps(counts)].append(index)
    return [_entry(device, json.loads(counts), indices, gpus) for (device, counts), indices in groups.items()]


def _require_known(index: int, gpu: Gpu) -> None:
    if gpu.mig_mode == "disabled" or (gpu.mig_mode is None and known_model(gpu) is None):
        return
    is_known = gpu.mig_mode == "enabled" and mig_device_names(gpu) is not None
    if not is_known or not all(one.compute_instances for one in gpu.gpu_instances or ()):
        raise PlanError(
            "is in no plan, and how it is cut now is not known, or nothing that mig-parted can say",
            where=f"GPU {index}",
            remedy="name it in the profile; mig-parted asserts a config only where it names every GPU",
        )


def _entry(
    device: str, counts: Mapping[str, int] | None, indices: Sequence[int], gpus: Mapping[int, Gpu]
) -> Entry:
    of_model = [index for index, gpu in gpus.items() if gpu.device.lower() == device]
    entry: Entry = {
        "device-filter": [f"0x{device.upper()}{NVIDIA.upper()}"],
        "devices": "all" if of_model == [*indices] else [*indices],
        "mig-enabled": counts is not None,
    }
    return entry if counts is None else {**entry, "mig-devices": dict(counts)}
