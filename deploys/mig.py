"""How the GPUs are cut with MIG, and the kubelet that offers them: pyinfra INVENTORY deploys/mig.py"""

from numaforge.run.maintenance import maintenance
from numaforge.run.roles import kubelet, mig
from numaforge.run.topology import topology

topology()
with maintenance():
    mig()
    kubelet()
