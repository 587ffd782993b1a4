"""What RDMA needs of the host, and the kubelet that hands it out: pyinfra INVENTORY deploys/rdma.py"""

from numaforge.roles.kubelet import kubelet
from numaforge.roles.modules import modules
from numaforge.roles.rdma import rdma
from numaforge.run.maintenance import maintenance
from numaforge.run.topology import topology

topology()
with maintenance():
    modules()
    rdma()
    kubelet()
