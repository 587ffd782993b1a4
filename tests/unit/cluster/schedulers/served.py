"""Nodes as schedulers are told of them, made of the ready machines."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from numaforge.cluster.schedulers.fleet import ServedNode
from numaforge.machine.topology.model import NodeTopology, NvidiaInstall
from numaforge.machine.topology.saved import ready_machine
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile

TRAINING = "training"
HOST_DRIVER = NvidiaInstall(loaded="580.95.05", on_disk="580.95.05", library="580.95.05")
OPERATORS_DRIVER = NvidiaInstall(loaded="580.95.05", daemons=())
HANDED: Mapping[str, Any] = {
    "extends": "training",
    "name": "handed",
    "mig": {"gpus": [{"devices": {"1g.10gb": 7}}], "managed_by": "gpu-operator"},
    "device_plugin": {"config": "handed"},
    "rdma": {"device_plugin": {"per": "rail"}, "host": {"netns": "shared"}},
}
"""GPUs are cut by the GPU operator, RDMA devices served by the Network Operator's plugin."""
CPX: Mapping[str, Any] = {"extends": "mi300x-cpx", "amd_partitions": {"managed_by": "device-config-manager"}}
BY_CLAIMS = {"extends": "training", "kubelet": {"resource_engine": "dra"}, "dra": {"gpus": "claims"}}


@cache
def machine(name: str) -> NodeTopology:
    return ready_machine(name)


KUBELET = "1.36.3"


def served(
    name: str, profile: object = TRAINING, hostname: str = "", kubelet: str = KUBELET, **found: Any
) -> ServedNode:
    """Return a ready machine with its plan; `found` is what the machine has otherwise."""
    changed = replace(machine(name), hostname=hostname or machine(name).hostname, **found)
    plan = plan_node(changed, load_profile(profile), kubelet)  # type: ignore[arg-type]
    return replace(ServedNode.of(changed, plan), plan_id="0123456789abcdef0123")


def with_amdgpu(name: str, profile: object, hostname: str = "") -> ServedNode:
    """Return a ready machine with AMD's GPUs, all of which amdgpu has."""
    gpus = tuple(replace(gpu, driver="amdgpu") for gpu in machine(name).gpus)
    return served(name, profile, hostname, gpus=gpus)


FLEETS: Mapping[str, Iterable[tuple[str, object]]] = {
    "dra": tuple((name, BY_CLAIMS) for name in ("gb200", "epyc-nps4", "dgx-h100")),
    "gpu-operator": (("dgx-h100", HANDED), ("epyc-nps4", TRAINING), ("hgx-b200", TRAINING)),
    "network-operator": (("dgx-h100", HANDED), ("epyc-nps4", TRAINING)),
    "amd-gpu-operator": (("mi300x", CPX), ("epyc-nps4", TRAINING)),
}


def fleet_for(system: str) -> list[ServedNode]:
    """Return nodes of which a system is told something."""
    others = tuple((name, TRAINING) for name in ("gb200", "epyc-nps4", "dgx-h100"))
    return [served(name, profile) for name, profile in FLEETS.get(system, others)]
