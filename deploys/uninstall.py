"""Leave a node as it was before numaforge: pyinfra INVENTORY deploys/uninstall.py

In one maintenance, as deploys/site.py, so a node of a cluster is drained where its kubelet has to restart.
"""

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
from numaforge.run.forget import forget
from numaforge.run.maintenance import maintenance
from numaforge.run.topology import removal

removal()
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
forget()
