"""How the GPUs are cut with MIG, and the kubelet that offers them: pyinfra INVENTORY deploys/mig.py"""

from numaforge.roles.kubelet import kubelet
from numaforge.roles.mig import mig
from numaforge.run.maintenance import maintenance
from numaforge.run.topology import topology

topology()
with maintenance():
    mig()
    kubelet()
