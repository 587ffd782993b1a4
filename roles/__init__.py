"""Everything that numaforge can do to a node, a folder each."""

from numaforge.roles.amd_partitions import amd_partitions
from numaforge.roles.cpus import cpus
from numaforge.roles.cpus.slices import slices
from numaforge.roles.crio import crio
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
    cpus,
    files,
    host,
    kernel_cmdline,
    modules,
    mig_mode,
    reboot,
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
    rdma,
    kubelet,
    dra,
    watch,
)
"""Every role, in the order of a maintenance: undone backwards, started and proved forwards."""
