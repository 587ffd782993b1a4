"""What RDMA needs of the host, and the kubelet that hands it out: pyinfra INVENTORY deploys/rdma.py"""

from numaforge.run.maintenance import maintenance
from numaforge.run.roles import kubelet, modules, rdma
from numaforge.run.topology import topology

topology()
with maintenance():
    modules()
    rdma()
    kubelet()
