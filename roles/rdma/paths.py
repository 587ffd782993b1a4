"""Paths of files for RDMA, ours and the kernel's."""

from numaforge.lib.file_content import PROGRAMS

NCCL_CONF_PATH = "/etc/nccl.conf"
RCCL_CONF_PATH = "/etc/rccl.conf"
RAILS_ENV_PATH = "/etc/numaforge/rails.env"
NCCL_TOPOLOGY_PATH = "/etc/numaforge/nccl-topology.xml"
CONF_PATHS = (NCCL_CONF_PATH, RCCL_CONF_PATH)
LIBRARY_PATHS = (NCCL_TOPOLOGY_PATH, *CONF_PATHS, RAILS_ENV_PATH)
RDMA_GATE_SCRIPT_PATH = f"{PROGRAMS}/rdma-gate.sh"
RDMA_GATE_UNIT_PATH = "/etc/systemd/system/numaforge-rdma-gate.service"


def rdma_port_state(device: str, port: str) -> str:
    """Return the path of the file with an RDMA port's state, such as "4: ACTIVE"."""
    return f"/sys/class/infiniband/{device}/ports/{port}/state"
