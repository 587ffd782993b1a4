"""The kubelet's configuration, and the hugepages it offers: pyinfra INVENTORY deploys/kubelet.py"""

from numaforge.roles.kubelet import kubelet
from numaforge.run.topology import topology

topology()
kubelet()
