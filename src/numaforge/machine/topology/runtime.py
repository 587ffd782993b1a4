"""A host's container runtime, and the units whose limits pods inherit."""

import re

from numaforge.kubelet_minors.flags import flag_value
from numaforge.machine.topology.model import KubeletInstall, NodeTopology

CRIO = "crio.service"
CONTAINERD = "containerd.service"
MICROK8S_CONTAINERD = "snap.microk8s.daemon-containerd.service"
RUNTIMES = {"containerd": CONTAINERD, "crio": CRIO}
"""The unit of each runtime, by the name of its process."""

_ENDPOINT = re.compile(r"^containerRuntimeEndpoint:\s*(\S+)", re.MULTILINE)
_VERSION = re.compile(r"(?:[0-9]{1,9}:)?1\.([0-9]{1,9})\b")


def runtime_unit(topology: NodeTopology) -> str | None:
    """Return the unit of the kubelet's runtime, or of the running one; None where it is the kubelet's own."""
    if topology.kubelet:
        return _asked_by(topology.kubelet)
    processes = (topology.userland and topology.userland.processes) or ()
    running = {process.name for process in processes if not process.in_pod}
    return next(
        (unit for name, unit in RUNTIMES.items() if name in running), CONTAINERD
    )  # an image runs none


def pod_units(topology: NodeTopology) -> tuple[str, ...]:
    """Return the runtime's unit and the kubelet's, where they exist; k3s and the like have one unit."""
    kubelet = topology.kubelet.unit if topology.kubelet else None
    return tuple(unit for unit in (runtime_unit(topology), kubelet) if unit)


def may_be_limited(install: KubeletInstall | None) -> tuple[str, ...]:
    """Return every unit that any plan for this host may name: a unit outside the plan has no drop-in."""
    units = (*RUNTIMES.values(), "kubelet.service", install.unit if install else None)
    return tuple(dict.fromkeys(unit for unit in units if unit))


def crio_minor(topology: NodeTopology) -> int | None:
    """Return the minor version of the installed package of CRI-O, None where it is not known."""
    packages = (topology.userland.packages if topology.userland else None) or ()
    versions = [_VERSION.match(package.version) for package in packages if package.name == "cri-o"]
    return next((int(match[1]) for match in versions if match), None)


def _asked_by(install: KubeletInstall) -> str | None:
    """Return the unit of the runtime at the kubelet's endpoint: by default containerd, at any socket."""
    endpoint = flag_value(install.flags, "container-runtime-endpoint") or ""
    if not endpoint:
        texts = (install.config_text or "", *(text for _, text in sorted(install.drop_ins.items())))
        endpoint = ([""] + [match[1] for text in texts if (match := _ENDPOINT.search(text))])[-1]
    if "crio" in endpoint:
        return CRIO
    if "microk8s" in endpoint:
        return MICROK8S_CONTAINERD
    return None if "k3s" in endpoint else CONTAINERD
