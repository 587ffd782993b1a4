"""The kubelet's configuration only: pyinfra INVENTORY deploys/kubelet.py"""

from roles.kubelet import kubelet
from roles.topology import topology

topology()
kubelet()
