"""Provision a node, in one maintenance: pyinfra INVENTORY deploys/site.py"""

from numaforge.roles.hugepages import hugepages
from numaforge.roles.kubelet import kubelet
from numaforge.roles.maintenance import maintenance
from numaforge.roles.mig import mig
from numaforge.roles.topology import topology
from numaforge.roles.tuning import tuning

topology()
with maintenance():
    tuning()
    hugepages()
    mig()
    kubelet()
