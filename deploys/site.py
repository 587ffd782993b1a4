"""Provision a node, in one maintenance: pyinfra INVENTORY deploys/site.py"""

from numaforge.run.maintenance import maintenance
from numaforge.run.roles import (
    amd_partitions,
    host,
    hugepages,
    imex,
    interrupts,
    kubelet,
    mig,
    modules,
    rdma,
    system,
    tuning,
)
from numaforge.run.topology import topology

topology()
with maintenance():
    tuning()
    host()
    interrupts()
    system()
    modules()
    hugepages()
    mig()
    amd_partitions()
    imex()
    rdma()
    kubelet()
