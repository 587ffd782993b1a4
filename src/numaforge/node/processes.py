"""Processes that have a file open, and what each belongs to: a pod, or a unit of systemd's system manager.

Nodes run this: at the look, and before a role's worker.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from numaforge.lib.system_units import is_user_manager, named_units, pod_path, read_groups, unit_of

if TYPE_CHECKING:
    from collections.abc import Iterable

ASK_SECONDS = 20


@dataclass(frozen=True)
class ProcessOwner:
    """What a process belongs to: the control group of a pod of this host, or a unit; "" for none."""

    pod: str
    unit: str

    @property
    def service(self) -> str:
        """The service to stop so that the process ends; "" in a session, a container, or a user's manager."""
        is_service = self.unit.endswith(".service") and not (self.pod or is_user_manager(self.unit))
        return self.unit if is_service else ""


def opened(pattern: str) -> set[int]:
    """Return the processes that have a file open whose path ends as the pattern says."""
    path_end = re.compile(rf"(?:{pattern})(?: \(deleted\))?$")
    pids = set()
    for folder in Path("/proc").glob("[0-9]*/fd"):
        try:
            links = [str(link.readlink()) for link in folder.iterdir()] if folder.exists() else []
        except OSError:
            continue  # the process, or its file, is gone
        if any(path_end.search(link) for link in links):
            pids.add(int(folder.parent.name))
    return pids - {os.getpid()}


def owners(pids: Iterable[int]) -> dict[int, ProcessOwner]:
    """Return what each process belongs to, asking systemd once; processes that have ended are left out."""
    cgroups = {pid: cgroup for pid in sorted(pids) if (cgroup := _cgroup(pid)) is not None}
    groups = _groups(named_units(cgroups.values()))
    return {
        pid: ProcessOwner(pod_path(cgroup, groups), unit_of(cgroup, groups))
        for pid, cgroup in cgroups.items()
    }


def tell_holders(pattern: str) -> None:
    """Print the services that have such a file open, in the form of a part's look."""
    services = {owner.service for owner in owners(opened(pattern)).values()}
    for service in sorted(services - {""}):
        print(f"holds {service}")


def _groups(units: list[str]) -> dict[str, str]:
    if not units:
        return {}
    command = ["systemctl", "show", "-p", "Id,ControlGroup", *units]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ASK_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return read_groups(answer.stdout)


def _cgroup(pid: int) -> str | None:
    try:
        ended = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
        return None if ended else Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")
    except OSError:
        return None
