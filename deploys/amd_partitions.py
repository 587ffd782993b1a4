"""The modes of AMD's GPUs, and the kubelet that offers them: pyinfra INVENTORY deploys/amd_partitions.py"""

from numaforge.run.maintenance import maintenance
from numaforge.run.roles import amd_partitions, kubelet
from numaforge.run.topology import topology

topology()
with maintenance():
    amd_partitions()
    kubelet()
