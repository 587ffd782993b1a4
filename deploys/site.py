"""Provision a node, in one maintenance: pyinfra INVENTORY deploys/site.py"""

from numaforge.roles.system import system
from numaforge.roles.tuning import tuning

from numaforge.roles.amd_partitions import amd_partitions
from numaforge.roles.host import host
from numaforge.roles.hugepages import hugepages
from numaforge.roles.imex import imex
from numaforge.roles.interrupts import interrupts
from numaforge.roles.kubelet import kubelet
from numaforge.roles.mig import mig
from numaforge.roles.modules import modules
from numaforge.roles.rdma import rdma
from numaforge.run.maintenance import maintenance
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
