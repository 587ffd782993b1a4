"""Look at the host and decide; every other role reads the plan."""

from __future__ import annotations

from pathlib import Path

from pyinfra import host

from numaforge.errors import HostError, ProfileError
from numaforge.hosts import detect, planned, remember, role
from numaforge.kinds import once_per_kind
from numaforge.planning.document import dumps as plan_document
from numaforge.planning.node import plan_node
from numaforge.profile import load_profile
from numaforge.snapshot import Snapshot
from numaforge.topology import read_topology

__all__ = ["record", "topology"]

_load_profile = once_per_kind(load_profile)


@role("Topology")
def topology() -> None:
    """Detect the machine and plan it by the host data `numaforge_profile`.

    The plan is saved on the host with what it changes there.
    """
    _plan()


@role("Record")
def record() -> None:
    """Detect and plan, change nothing on the host; save OUT/HOST.snapshot.json and OUT/HOST.plan.json here.

    OUT is the host data `out` (`--data out=DIR`), by default `numaforge-out`.
    """
    snapshot = _plan()
    folder = Path(str(host.data.get("out", "numaforge-out")))
    name = host.name.replace("/", "_")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.snapshot.json").write_text(snapshot.to_json(), encoding="utf-8")
        (folder / f"{name}.plan.json").write_text(plan_document(planned(host)), encoding="utf-8")
    except OSError as error:
        raise HostError(
            f"cannot be written: {error.strerror}",
            where=f"out={folder}",
            remedy="name another folder: --data out=DIR",
        ) from error
    host.log(f"saved {folder / name}.snapshot.json and {folder / name}.plan.json")


def _plan() -> Snapshot:
    """Find out everything that the run needs to know, and remember it."""
    wish = host.data.get("numaforge_profile")
    if wish is None:
        raise ProfileError(
            "is not set",
            where="host data numaforge_profile",
            remedy="name a ready profile or a YAML file in the inventory's group_data",
        )
    profile = _load_profile(wish)
    snapshot = detect(host)
    machine = read_topology(snapshot)
    plan = plan_node(machine, profile)
    remember(host, machine, plan)
    for notice in plan.notices:
        host.log(f"{notice.id}: {notice.message}")
    return snapshot
