"""Scopes of the rules about the userland, and a snapshot's kubelet and runtime."""

from collections.abc import Mapping
from typing import Any

from numaforge.findings.engine import Applicability, within
from numaforge.findings.scope import own_gpus
from numaforge.kubelet.config.loading import load_installed
from numaforge.kubelet_minors.versions import LATEST_MINOR, KubeletVersion
from numaforge.lib.errors import KubeletConfigError
from numaforge.machine.topology.model import Containerd, NodeTopology, Userland
from numaforge.machine.topology.vendors import NVIDIA


def looked_at(machine: NodeTopology) -> Applicability:
    """Apply where the userland was looked at."""
    if machine.userland:
        return Applicability(True, "every host")
    return Applicability(None, "the snapshot was taken without a look at the userland")


def with_kubelet(machine: NodeTopology) -> Applicability:
    """Apply to hosts with a kubelet."""
    return looked_at(machine) if machine.kubelet else Applicability(False, "no kubelet")


def with_gpu(machine: NodeTopology) -> Applicability:
    """Apply to a host with a GPU of a data centre: a display does not count."""
    if not any(gpu.vendor == NVIDIA for gpu in machine.gpus) and not machine.accelerators:
        return Applicability(False, "no GPU for computing")
    return looked_at(machine)


@within(with_kubelet)
def with_containerd(machine: NodeTopology) -> Applicability:
    """Apply where the kubelet's runtime is containerd, and its configuration was captured."""
    names = {process.name for process in userland(machine).processes or () if not process.in_pod}
    if "containerd" not in names:
        reason = "the runtime is CRI-O" if "crio" in names else "no containerd runs"
        return Applicability(False, reason)
    containerd = runtime(machine)
    if containerd.config_version is None:
        return Applicability(None, "containerd did not report its configuration (`containerd config dump`)")
    return Applicability(True, f"containerd {containerd.version or 'of an unknown version'}")


def with_containerd_and_nvidia(machine: NodeTopology) -> Applicability:
    """Apply where containerd gives NVIDIA's GPUs to containers."""
    if not own_gpus(machine):
        return Applicability(False, "no NVIDIA GPU of this host's own")
    return with_containerd(machine)


def userland(machine: NodeTopology) -> Userland:
    """Return the userland; an empty one where it was not captured."""
    return machine.userland or Userland()


def runtime(machine: NodeTopology) -> Containerd:
    """Return containerd's answer; an empty one where it was not asked."""
    return userland(machine).containerd or Containerd()


def kubelet_settings(machine: NodeTopology) -> Mapping[str, Any] | None:
    """Return the kubelet's effective settings, with defaults; None where they cannot be determined."""
    install = machine.kubelet
    if install is None or install.config_text is None:
        return None
    try:
        return load_installed(install, kubelet_minor(machine) or KubeletVersion(LATEST_MINOR)).settings
    except KubeletConfigError:
        return None  # `numaforge kubelet check` says what is wrong with it


def kubelet_minor(machine: NodeTopology) -> KubeletVersion | None:
    """Return the kubelet's version, None where it is not known."""
    version = machine.kubelet.version if machine.kubelet else None
    return KubeletVersion.parse(version) if version else None
