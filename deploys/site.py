"""Provision a node: pyinfra INVENTORY deploys/site.py"""

from numaforge.roles.hugepages import hugepages
from numaforge.roles.kubelet import kubelet
from numaforge.roles.topology import topology
from numaforge.roles.tuning import tuning

topology()
tuning()
kubelet()
hugepages()
