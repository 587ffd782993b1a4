"""The kubelet's configuration, and the hugepages it offers: pyinfra INVENTORY deploys/kubelet.py"""

from numaforge.run.roles import kubelet
from numaforge.run.topology import topology

topology()
kubelet()
