"""The snapshot of a machine is read as that machine."""

from dataclasses import replace

import pytest

from numaforge.lib.errors import TopologyError
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.read import read_topology
from tests.fixtures.machines import MACHINES
from tests.fixtures.tables import cases
from tests.fixtures.trees import snapshot_of

# What only NVML tells.
_NVML = dict.fromkeys(
    ("uuid", "name", "memory_bytes", "mig_capable", "mig_mode", "nvlinks", "fabric", "index")
) | {"nvlink_peers": {}}
STORED = {
    "dgx-h100": "nvidia-dgx-h100",
    "epyc-nps4": "epyc-9654-nps4",
    "grace-memory-only": "nvidia-gh200",
    "grace-blackwell-tray": "nvidia-gb200-tray",
    "epyc-gpu": "epyc-9654-8-h100-nps4",
}
"""Under which name the snapshot of a machine is stored, where that is another one."""


@pytest.mark.parametrize("name", MACHINES)
def test_stored_snapshot_is_read_as_its_machine(name):
    """As far as files can tell of it: no program ran where it was captured."""
    built = MACHINES[name]()
    gpus = tuple(replace(gpu, **_NVML) if gpu.vendor == "10de" else gpu for gpu in built.gpus)
    machine = replace(
        built,
        gpus=gpus,
        pci_paths=built.pci_paths
        or {gpu.pci_address: (f"pci{gpu.pci_address[:7]}", gpu.pci_address) for gpu in gpus},
        kubelet=built.kubelet and replace(built.kubelet, version=None),
        sysctls={**built.sysctls, "kernel.hostname": built.hostname, "kernel.osrelease": built.kernel},
    )
    read = read_topology(snapshot_of(STORED.get(name, name)))
    assert replace(read, userland=None, core_caches=()) == machine  # which has those below the L3 alone


def test_snapshot_without_cpus_is_refused():
    with pytest.raises(TopologyError, match="names no online CPU"):
        read_topology(Snapshot(files={"/proc/meminfo": "MemTotal: 1 kB"}))


@cases(
    "mounts, version",
    {
        "unified": ("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", 2),
        "hybrid-counts-as-1": (
            (
                "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
                "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n"
            ),
            1,
        ),
        "not-mounted-is-unknown": ("/dev/sda / ext4 rw 0 0\n", None),
    },
)
def test_cgroup_version_is_read(mounts, version):
    files = {"/sys/devices/system/cpu/online": "0", "/proc/mounts": mounts}
    assert read_topology(Snapshot(files=files)).cgroup_version == version
