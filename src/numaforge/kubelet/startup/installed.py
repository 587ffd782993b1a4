"""Whether the kubelet installed on a machine starts with its configuration."""

from numaforge.kubelet.config.loading import below
from numaforge.kubelet.findings import Report
from numaforge.kubelet.startup.check import check
from numaforge.lib.errors import KubeletConfigError
from numaforge.lib.kubelet_paths import CONFIG_PATH, DROP_IN_DIR
from numaforge.machine.topology.model import NodeTopology


def kubelet_report(machine: NodeTopology) -> Report | None:
    """Return the report on a machine's kubelet; None where its version or configuration is unknown."""
    installed = machine.kubelet
    if installed is None or installed.version is None or installed.config_text is None:
        return None
    folder = installed.config_dir or DROP_IN_DIR
    try:
        return check(
            installed.config_text,
            topology=machine,
            version=installed.version,
            drop_ins=below(folder, installed.drop_ins),
            flags=installed.flags,
            state_files=installed.state_files,
            config_path=installed.config_file or CONFIG_PATH,
            drop_in_dir=folder,
            root_dir=installed.root_dir,
        )
    except KubeletConfigError:  # a version older than the oldest known
        return None
