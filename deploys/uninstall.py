"""Leave a node as it was before numaforge: pyinfra INVENTORY deploys/uninstall.py

In one maintenance, as deploys/site.py, so a node of a cluster is drained where its kubelet has to restart.
"""

from numaforge.run.forget import forget
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
