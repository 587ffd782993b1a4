"""The kubelet's configuration, and the hugepages it offers: pyinfra INVENTORY deploys/kubelet.py"""

from roles.kubelet import kubelet
from roles.topology import topology

topology()
kubelet()
