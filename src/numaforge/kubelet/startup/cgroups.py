"""The cgroups of the system's daemons, which the kubelet limits where enforceNodeAllocatable says so.

Sources: enforceNodeAllocatableCgroups in pkg/kubelet/cm/node_container_manager_linux.go, and CgroupName,
ToSystemd and Validate in pkg/kubelet/cm/cgroup_manager_linux.go and cgroup_v2_manager_linux.go.
"""

from collections.abc import Iterator
from typing import NamedTuple

from numaforge.kubelet.config.loading import Configuration, StartError
from numaforge.kubelet.findings import Fault, fault
from numaforge.kubelet_minors.values.gotext import quoted

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
        path, parts = _path(name, configuration), _go_list(_parts(name, configuration))
        if not settings.get(side.reserved_field):
            text = f"{parts} cgroup is not configured properly"
            values = {"enforcement": side.enforcement, "name": name, "field": side.reserved_field}
            refused = fault("NF112", "nothing reserved", **values)
        elif _is_systemd(configuration) and not name.endswith(_SLICE):
            text = (
                f"could not read controllers for cgroup {parts}: open "
                f"/sys/fs/cgroup{path}/cgroup.controllers: no such file or directory"
            )
            refused = fault("NF112", "no slice", field=side.cgroup_field, name=name, path=path)
        else:
            continue
        text = f"Failed to enforce {side.title} Reserved Cgroup Limits on {quoted(name)}: {text}"
        raise StartError(text, configuration.places.finding(refused, text))


def needed_cgroups(configuration: Configuration) -> Iterator[Fault]:
    """Yield a note for each cgroup that must be there before the kubelet starts."""
    root = configuration.settings.get("cgroupRoot") or "/"
    fields = [side.cgroup_field for side in _enforced(configuration)]
    for field in [*(["cgroupRoot"] if root != "/" else []), *fields]:
        path = _path(configuration.settings[field], configuration)
        yield fault("NF603", field=field, path=path)


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
