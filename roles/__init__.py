"""Everything that numaforge can do to a node, a folder each."""

from numaforge.roles.allocatable import allocatable
from numaforge.roles.capacity import capacity
from numaforge.roles.devices import devices
from numaforge.roles.gpu_memory import gpu_memory
from numaforge.roles.installed import installed
from numaforge.roles.labels import labels
from numaforge.roles.largest_pods import largest_pods
from numaforge.roles.made_for import made_for
from numaforge.roles.measure import measure
from numaforge.roles.offline import offline
from numaforge.roles.rdma_pools import rdma_pools

from numaforge.roles.amd_partitions import amd_partitions
from numaforge.roles.cpus import cpus
from numaforge.roles.cpus.slices import slices
from numaforge.roles.crio import crio
from numaforge.roles.device_plugin import device_plugin
from numaforge.roles.dra import dra
from numaforge.roles.files import files
from numaforge.roles.gpudirect import gpudirect
from numaforge.roles.host import host
from numaforge.roles.host.memlock import memlock
from numaforge.roles.hugepages import hugepages
from numaforge.roles.imex import imex
from numaforge.roles.interrupts import interrupts
from numaforge.roles.kernel_cmdline import kernel_cmdline
from numaforge.roles.kernel_values import kernel_values
from numaforge.roles.kubelet import kubelet
from numaforge.roles.machine import machine
from numaforge.roles.memory import memory
from numaforge.roles.mig import mig
from numaforge.roles.mig.mode import mig_mode
from numaforge.roles.modules import modules
from numaforge.roles.rdma import rdma
from numaforge.roles.rdma.nics import nics
from numaforge.roles.reboot import reboot
from numaforge.roles.watch import watch

__all__ = ["ROLES"]

ROLES = (
    machine,
    made_for,
    installed,
    offline,
    gpu_memory,
    cpus,
    memory,
    devices,
    files,
    host,
    kernel_cmdline,
    modules,
    mig_mode,
    reboot,
    measure,
    gpudirect,
    kernel_values,
    nics,
    interrupts,
    slices,
    hugepages,
    mig,
    amd_partitions,
    imex,
    crio,
    memlock,
    device_plugin,
    rdma_pools,
    rdma,
    kubelet,
    dra,
    largest_pods,
    capacity,
    allocatable,
    labels,
    watch,
)
"""Every role, in the order of a maintenance: undone backwards, started and proved forwards."""
