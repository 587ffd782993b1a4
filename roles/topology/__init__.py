"""Look at the host and decide; every other role reads the plan."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyinfra import host

from numaforge.errors import HostError, NumaforgeError, ProfileError
from numaforge.hosts import (
    as_root,
    datum,
    detect,
    detect_for_change,
    fail_host,
    fault,
    planned,
    remember,
    right,
    role,
    show_notices,
)
from numaforge.memoize import once_per_value
from numaforge.planning.node import plan_node
from numaforge.preflight import host as preflight
from numaforge.profile import load_profile
from numaforge.roles.document import dumps as plan_document
from numaforge.roles.imex.tray import planned_tray
from numaforge.rollout import events
from numaforge.snapshot import parse_output, script
from numaforge.topology import read_topology

if TYPE_CHECKING:
    from numaforge.framing import Answer
    from numaforge.roles.node import NodeProfile
    from numaforge.snapshot import Snapshot

__all__ = ["capture", "examine", "record", "removal", "topology"]

CAPTURED = "captured"
"""The kind of the event that names the file of a host's snapshot."""

_GPU_MEMORY_CHANGED = "gpu-memory-changed"
"""The notice that GPUs' memory has become the node's, or is no longer, since the plan that a host has."""

PREFLIGHT = "preflight"
"""The kind of the event that says whether a host can be changed."""

RECORDED = "recorded"
"""The kind of the event that names the files of a host's snapshot and plan."""

_load_profile = once_per_value(load_profile)
_NOTHING: dict[str, Any] = {"name": "nothing", "kubelet": {"state": "absent"}}


@role("Topology")
def topology() -> None:
    """Detect the machine and plan it by the host data `numaforge_profile`.

    The plan is saved on the host with what it changes there. A host that lacks what a maintenance needs is
    refused here, before anything is changed.
    """
    _plan(_profile(), detect_for_change(host))


@role("Topology")
def removal() -> None:
    """Detect the machine and plan it without numaforge: what earlier runs have changed is taken back.

    Of the host data `numaforge_profile` only what a maintenance may do counts, its section `maintenance`.
    """
    wish = datum(host, "numaforge_profile")
    allowed = _load_profile(wish).maintenance.model_dump(exclude_unset=True) if wish is not None else {}
    _plan(_load_profile({**_NOTHING, "maintenance": allowed}), detect_for_change(host), saved=False)


@role("Record")
def record() -> None:
    """Detect and plan, change nothing on the host; save OUT/HOST.snapshot.json and OUT/HOST.plan.json here.

    OUT is the host data `out` (`--data out=DIR`), by default `numaforge-out`. The snapshot is saved also
    where there is no plan: where the profile is missing or refused.
    """
    snapshot = detect(host)
    saved = _save("snapshot", snapshot.to_json())
    _plan(_profile(), snapshot)
    plan = _save("plan", plan_document(planned(host)))
    events.record(RECORDED, host.name, file=str(saved), plan=str(plan))


def examine() -> None:
    """Ask the host of this deploy whether it can be changed, and plan it as `topology` does; change nothing.

    What it answers is recorded for the process that started this run.
    """
    if host in host.state.failed_hosts:
        return
    begun = time.time()
    try:
        answer = as_root(host, script() + preflight.script())
    except HostError as error:
        fail_host(host, error)
        return
    answered = time.time()
    events.record(
        PREFLIGHT,
        host.name,
        right=right(answer),
        answer=preflight.told(answer),
        asked_at=begun,
        answered_at=answered,
        **_planned(answer),
    )


def _planned(answer: Answer) -> dict[str, Any]:
    """Return the `profile` by which a host can be planned, or what it is `refused` for.

    `changed` is what the mode of the GPUs' memory has moved since the plan that the host has, `tray` the host
    in its rack as planned, None where it is in none.
    """
    try:
        machine = read_topology(parse_output(answer))
        plan = plan_node(machine, _profile())
        tray = planned_tray(machine, plan)
    except NumaforgeError as error:
        return {"refused": str(error)}
    except Exception as error:  # one odd host must not end the run of all
        return {"refused": str(fault(error))}
    changed = [notice.message for notice in plan.notices if notice.id == _GPU_MEMORY_CHANGED]
    return {
        "profile": plan.profile,
        "tray": tray and asdict(tray),
        **({"changed": changed[0]} if changed else {}),
    }


@role("Capture")
def capture() -> None:
    """Save OUT/HOST.snapshot.json here, as `record` does, and tell the process that started this run."""
    events.record(CAPTURED, host.name, file=str(_save("snapshot", detect(host).to_json())))


def _save(kind: str, text: str) -> Path:
    folder = Path(datum(host, "out"))
    file = folder / f"{host.name.replace('/', '_')}.{kind}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise HostError(
            f"cannot be written: {error.strerror}",
            where=f"out={folder}",
            remedy="name another folder: --data out=DIR",
        ) from error
    host.log(f"saved {file}")
    return file


def _profile() -> NodeProfile:
    wish = datum(host, "numaforge_profile")
    if wish is None:
        raise ProfileError(
            "is not set",
            where="host data numaforge_profile",
            remedy="name a ready profile or a YAML file in the inventory's group_data",
        )
    return _load_profile(wish, where="host data numaforge_profile")


def _plan(profile: NodeProfile, snapshot: Snapshot, *, saved: bool = True) -> None:
    """Find out everything that the run needs to know, and remember it.

    A plan that is not `saved` on the host leaves no file there, not even one that says that nothing is set.
    """
    machine = read_topology(snapshot)
    plan = plan_node(machine, profile)
    if not saved:
        from numaforge.rollout.leftovers import left_in_cluster  # with what reads a cluster

        unit = [file for file in plan.files if file.role == "kubelet"]  # a flag that others need
        plan = replace(plan, files=tuple(unit), notices=(*plan.notices, *left_in_cluster(machine)))
    remember(host, machine, plan)
    show_notices(host, plan.notices)
