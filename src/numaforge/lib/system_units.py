"""The unit of a process, as systemd's system manager reports it; nodes run this, too.

The path of a control group proves nothing: in a container it ends like the host's own
(`/lxc.payload.a/system.slice/sshd.service`), and a user's manager has units of any name. So systemd is asked
for the units in a path, and a process belongs to the unit whose control group, as systemd reports it, is the
process' own or above it. units.sh asks the same for the shell.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MOST_NAMES = 500
_NAME = re.compile(r"(?!\.)[A-Za-z0-9_.:\\][A-Za-z0-9_.:@\\-]*(?<!@)\.(?:service|scope)")
_USER_MANAGER = re.compile(r"user@[^/]*\.service")
_RUNS_PODS = re.compile(r"(kubelet|k3s(-\w+)?|rke2-(server|agent)|snap\.microk8s\.daemon-\w+)\.service")
"""Units whose control group may contain a kubelet's pods."""


def named_units(cgroups: Iterable[str]) -> list[str]:
    """Return the units to ask systemd for, by /proc/PID/cgroup; those below a user's manager are its own."""
    names: dict[str, None] = {}
    for cgroup in cgroups:
        for part in control_group(cgroup).split("/"):
            if _NAME.fullmatch(part):
                names[part] = None
            if _USER_MANAGER.fullmatch(part):
                break
    return list(names)[:_MOST_NAMES]


def read_groups(answer: str) -> dict[str, str]:
    """Return the control groups of units by their names, from `systemctl show -p Id,ControlGroup`."""
    blocks = (dict(line.partition("=")[::2] for line in block.splitlines()) for block in answer.split("\n\n"))
    return {
        block["Id"]: block["ControlGroup"]
        for block in blocks
        if block.get("Id") and block.get("ControlGroup")
    }


def unit_of(cgroup: str, groups: Mapping[str, str]) -> str:
    """Return the unit of a process by its /proc/PID/cgroup and the units' control groups; "" without one."""
    path = f"{control_group(cgroup)}/"
    owners = [(len(group), unit) for unit, group in groups.items() if path.startswith(f"{group}/")]
    return max(owners, default=(0, ""))[1]


def is_user_manager(unit: str) -> bool:
    """Whether a unit is a user's own manager, below which the user starts anything."""
    return _USER_MANAGER.fullmatch(unit) is not None


def pod_path(cgroup: str, groups: Mapping[str, str]) -> str:
    """Return the control group of a process in a pod of this kubelet, not another's (kind, LXD); else ""."""
    for line in cgroup.splitlines():
        path = line.split(":", 2)[-1]
        above, pods, _ = path.partition("kubepods")
        folder = above.rpartition("/")[0]
        if pods and all(_is_hosts(folder, part, groups) for part in folder.split("/") if part):
            return path
    return ""


def _is_hosts(folder: str, part: str, groups: Mapping[str, str]) -> bool:
    if _RUNS_PODS.fullmatch(part):
        group = groups.get(part, "")
        return bool(group) and f"{folder}/".startswith(f"{group}/")
    return part.endswith(".slice")


def control_group(cgroup: str) -> str:
    """Return the control group that systemd keeps: in its own hierarchy of version 1, else in version 2."""
    paths: dict[str, str] = dict(re.findall(r"^\d+:([^:\n]*):(.*)$", cgroup, re.MULTILINE))
    return paths.get("name=systemd", paths.get("", ""))
