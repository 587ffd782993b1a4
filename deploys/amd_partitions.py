"""The modes of AMD's GPUs, and the kubelet that offers them: pyinfra INVENTORY deploys/amd_partitions.py"""

from numaforge.roles.amd_partitions import amd_partitions
from numaforge.roles.kubelet import kubelet
from numaforge.run.maintenance import maintenance
from numaforge.run.topology import topology

topology()
with maintenance():
    amd_partitions()
    kubelet()
