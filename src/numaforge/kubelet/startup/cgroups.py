"""The cgroups of the system's daemons, which the kubelet limits where enforceNodeAllocatable says so.

Sources: enforceNodeAllocatableCgroups in pkg/kubelet/cm/node_container_manager_linux.go, and CgroupName,
ToSystemd and Validate in pkg/kubelet/cm/cgroup_manager_linux.go and cgroup_v2_manager_linux.go.
"""

from collections.abc import Iterator
from typing import NamedTuple

from numaforge.findings import Finding
from numaforge.kubelet.config.loading import Configuration, StartError
from numaforge.kubelet_minors.values.gotext import quoted

_CONTROLLERS = "cpu, cpuset, hugetlb, memory and pids"
_SLICE = ".slice"


class _Enforced(NamedTuple):
    """One side of the reservation: its words in the kubelet's messages, the enforcement, and the settings."""

    title: str
    enforcement: str
    cgroup_field: str
    reserved_field: str


_SIDES = (
    _Enforced("System", "system-reserved", "systemReservedCgroup", "systemReserved"),
    _Enforced("Kube", "kube-reserved", "kubeReservedCgroup", "kubeReserved"),
)


def require_enforceable_cgroups(configuration: Configuration) -> None:
    """Raise StartError where the kubelet cannot limit a cgroup, whatever cgroups the host has."""
    settings = configuration.settings
    for side in _enforced(configuration):
        name = settings[side.cgroup_field]
        failed = f"Failed to enforce {side.title} Reserved Cgroup Limits on {quoted(name)}: "
        if not settings.get(side.reserved_field):
            text = f"{failed}{_go_list(_parts(name, configuration))} cgroup is not configured properly"
            raise StartError(
                text,
                configuration.places.finding(
                    "NF112",
                    f"{side.enforcement} is enforced on {name}, and {side.reserved_field} reserves nothing",
                    f"set {side.reserved_field}, or take {side.enforcement} out of enforceNodeAllocatable",
                    "enforceNodeAllocatable",
                    text,
                ),
            )
        if _is_systemd(configuration) and not name.endswith(_SLICE):
            parts, path = _parts(name, configuration), _path(name, configuration)
            text = (
                f"{failed}could not read controllers for cgroup {_go_list(parts)}: open "
                f"/sys/fs/cgroup{path}/cgroup.controllers: no such file or directory"
            )
            raise StartError(
                text,
                configuration.places.finding(
                    "NF112",
                    f"{name} is not a slice: under the systemd driver the kubelet looks for {path}",
                    "name the slice in which the service runs, such as /system.slice",
                    side.cgroup_field,
                    text,
                ),
            )


def needed_cgroups(configuration: Configuration) -> Iterator[Finding]:
    """Yield a note for each cgroup that must be there before the kubelet starts."""
    root = configuration.settings.get("cgroupRoot") or "/"
    fields = [side.cgroup_field for side in _enforced(configuration)]
    for field in [*(["cgroupRoot"] if root != "/" else []), *fields]:
        path = _path(configuration.settings[field], configuration)
        yield configuration.places.finding(
            "NF603",
            f"the kubelet does not create {path}, and starts only where /sys/fs/cgroup{path} is there with "
            f"the controllers {_CONTROLLERS}",
            "create it before the kubelet starts, with these controllers in the cgroup.subtree_control of "
            "its parent: systemd gives a slice cpuset and hugetlb only where a unit below asks for them",
            field,
        )


def _enforced(configuration: Configuration) -> Iterator[_Enforced]:
    """Yield the sides that are enforced; validation has seen to it that each names a cgroup."""
    settings = configuration.settings
    enforced = {name.removesuffix("-compressible") for name in settings.get("enforceNodeAllocatable") or ()}
    yield from (side for side in _SIDES if side.enforcement in enforced and settings.get(side.cgroup_field))


def _is_systemd(configuration: Configuration) -> bool:
    return configuration.settings.get("cgroupDriver") == "systemd"


def _parts(name: str, configuration: Configuration) -> list[str]:
    """Return the name as the kubelet keeps it: under systemd the parts of its last component."""
    if not _is_systemd(configuration):
        return [part for part in name.removeprefix("/").split("/") if part]
    last = name.rstrip("/").rpartition("/")[2].removesuffix(_SLICE)
    return [part.replace("_", "-") for part in last.split("-")]


def _path(name: str, configuration: Configuration) -> str:
    """Return the cgroup's path: under systemd a slice `a-b.slice` lies in `a.slice`."""
    parts = _parts(name, configuration)
    if not _is_systemd(configuration):
        return "/" + "/".join(parts)
    escaped = [part.replace("-", "_") for part in parts]
    return "".join(f"/{'-'.join(escaped[: count + 1])}{_SLICE}" for count in range(len(escaped)))


def _go_list(parts: list[str]) -> str:
    """Return a list of texts as Go's %q prints it."""
    return f"[{' '.join(map(quoted, parts))}]"
