"""The installed kubelet: its version and existing settings."""

from typing import NamedTuple

from numaforge.kubelet_minors.versions import LATEST_MINOR, KubeletVersion
from numaforge.lib.reasons import Reasoned
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.plan import NodePlan
from numaforge.planning.profile import NodeProfile
from numaforge.roles.kubelet.existing import ExistingSettings, read_existing
from numaforge.roles.kubelet.plan import kubelet_version


class InstalledKubelet(NamedTuple):
    """The installed kubelet: its version and existing settings."""

    version: KubeletVersion | None
    existing: ExistingSettings


def read_installed(
    machine: NodeTopology, profile: NodeProfile, version_wish: str | None, earlier: NodePlan | None
) -> Reasoned[InstalledKubelet]:
    """Return the kubelet of this host with its admin's settings."""
    version = kubelet_version(machine, profile, version_wish, earlier)
    existing = read_existing(
        machine.kubelet, earlier.kubelet if earlier else None, version.value or KubeletVersion(LATEST_MINOR)
    )
    return Reasoned(InstalledKubelet(version.value, existing), version.decisions, version.notices)
