"""What an admin should know about the machine itself."""

from pathlib import PurePosixPath

from numaforge.findings.scope import lost
from numaforge.lib.reasons import Notice
from numaforge.machine.topology.model import NodeTopology
from numaforge.roles.memory.numa_notices import numa_notices


def _unread(topology: NodeTopology) -> tuple[Notice, ...]:
    install = topology.kubelet
    if install is None:
        return ()
    files = {
        install.config_file,
        *(file for file in topology.unreadable if _is_below(file, install.config_dir)),
    }
    unread = sorted(file for file in files if file in topology.unreadable and file is not None)
    if not unread:
        return ()
    return (
        Notice(
            "kubelet-config-unread",
            f"{', '.join(unread)} was not read: only root may, or another user could redirect its path. The "
            "kubelet's settings there are not in this plan; take the snapshot as root, and give each folder "
            "of the path to root (chown root, chmod go-w)",
        ),
    )


def _is_below(file: str, folder: str | None) -> bool:
    return folder is not None and PurePosixPath(file).is_relative_to(folder)


def _lost_gpus(topology: NodeTopology) -> tuple[Notice, ...]:
    gpus = ", ".join(f"{gpu.pci_address} ({gpu.unanswered})" for gpu in lost(topology))
    if not gpus:
        return ()
    return (
        Notice(
            "gpu-unanswered",
            f"{gpus}: no answer. The plan leaves CPUs for it as for the others, and no pod gets it: "
            "`numaforge audit --only gpus` shows the remedy",
        ),
    )


def machine_notices(machine: NodeTopology) -> tuple[Notice, ...]:
    """Return notices about this kind of machine, without decisions."""
    return (*numa_notices(machine), *_unread(machine), *_lost_gpus(machine))
