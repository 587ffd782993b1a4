"""What an admin should know about the machine itself."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from numaforge.findings.scope import lost
from numaforge.lib.reasons import Notice
from numaforge.machine.topology.model import NodeTopology
from numaforge.roles.memory.numa_notices import numa_notices


def machine_notices(machine: NodeTopology) -> Iterator[Notice]:
    """Yield notices about this kind of machine, without decisions."""
    yield from numa_notices(machine)
    if unread := _unread_files(machine):
        yield Notice(
            "kubelet-config-unread",
            f"{', '.join(unread)} was not read: only root may, or another user could redirect its path. The "
            "kubelet's settings there are not in this plan; take the snapshot as root, and give each folder "
            "of the path to root (chown root, chmod go-w)",
        )
    if gpus := ", ".join(f"{gpu.pci_address} ({gpu.unanswered})" for gpu in lost(machine)):
        yield Notice(
            "gpu-unanswered",
            f"{gpus}: no answer. The plan leaves CPUs for it as for the others, and no pod gets it: "
            "`numaforge audit` shows the remedy",
        )


def _unread_files(machine: NodeTopology) -> list[str]:
    install = machine.kubelet
    if install is None:
        return []
    folder = install.config_dir
    return sorted(
        file
        for file in {*machine.unreadable}
        if file == install.config_file or (folder and PurePosixPath(file).is_relative_to(folder))
    )
