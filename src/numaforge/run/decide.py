"""Plan the host of a deploy from its answer, and remember what the run needs to know about it."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from pyinfra import host

from numaforge.kubelet_minors.flags import flag_value
from numaforge.lib.errors import NumaforgeError, ProfileError
from numaforge.lib.reasons import Notice
from numaforge.machine.snapshot.capture import parse_output
from numaforge.machine.topology.read import read_topology
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.roles.imex.tray import planned_tray
from numaforge.run.hosts.display import show_notices
from numaforge.run.hosts.errors import fault
from numaforge.run.hosts.host_data import datum
from numaforge.run.hosts.roles import remember

if TYPE_CHECKING:
    from numaforge.lib.framing import Answer
    from numaforge.machine.snapshot.model import Snapshot
    from numaforge.machine.topology.model import NodeTopology
    from numaforge.planning.plan import NodePlan
    from numaforge.planning.profile import NodeProfile

_GPU_MEMORY_CHANGED = "gpu-memory-changed"
"""The notice that GPU memory has become the node's, or no longer is, since the host's earlier plan."""

_load_named_profile = cache(load_profile)  # many hosts name the same one
_NOTHING: dict[str, Any] = {"name": "nothing", "kubelet": {"state": "absent"}}


def remember_plan(snapshot: Snapshot) -> None:
    """Plan a host by the host data `numaforge_profile`."""
    profile = _profile()
    machine = read_topology(snapshot)
    _remember(machine, plan_node(machine, profile))


def remember_removal(snapshot: Snapshot) -> None:
    """Plan a host without numaforge: no file is left, except for a kubelet flag that others need."""
    wish = datum(host, "numaforge_profile")
    allowed = load_profile(wish).maintenance.model_dump(exclude_unset=True) if wish is not None else {}
    machine = read_topology(snapshot)
    plan = plan_node(machine, load_profile({**_NOTHING, "maintenance": allowed}))
    unit = [file for file in plan.files if file.role == "kubelet"]
    notices = (*plan.notices, *left_in_cluster(machine))
    _remember(machine, replace(plan, files=tuple(unit), notices=notices))


def left_in_cluster(machine: NodeTopology) -> tuple[Notice, ...]:
    """Return what a removal leaves in the cluster of a planned node: Leases of its roll-out and budget."""
    if machine.kubelet is None or flag_value(machine.kubelet.flags, "kubeconfig") is None:
        return ()
    if machine.previous_plan is None:
        return ()
    return (
        Notice(
            "left-in-cluster",
            "the result of the roll-out and what nodes share stay in the cluster (docs/uninstall.md). After "
            "the last node: `kubectl delete leases,configmaps,daemonsets --all-namespaces "
            "-l app.kubernetes.io/managed-by=numaforge`",
        ),
    )


def foreseen(answer: Answer) -> dict[str, Any]:
    """Return the `profile` by which a host can be planned, or why it is `refused`; its `tray`, None for none.

    `changed` is the notice that GPU memory has moved since the host's earlier plan.
    """
    try:
        machine = read_topology(parse_output(answer))
        plan = plan_node(machine, _profile())
        tray = planned_tray(machine, plan)
    except NumaforgeError as error:
        return {"refused": str(error)}
    except Exception as error:  # one odd host must not end the run for all
        return {"refused": str(fault(error))}
    changed = [notice.message for notice in plan.notices if notice.id == _GPU_MEMORY_CHANGED]
    return {
        "profile": plan.profile,
        "tray": tray and asdict(tray),
        **({"changed": changed[0]} if changed else {}),
    }


def _profile() -> NodeProfile:
    wish = datum(host, "numaforge_profile")
    if wish is None:
        raise ProfileError(
            "is not set",
            where="host data numaforge_profile",
            remedy="name a ready profile or a YAML file in the inventory's group_data",
        )
    load = _load_named_profile if isinstance(wish, str) else load_profile
    return load(wish, where="host data numaforge_profile")


def _remember(machine: NodeTopology, plan: NodePlan) -> None:
    remember(host, machine, plan)
    show_notices(host, plan.notices)
