"""Provision a node: pyinfra INVENTORY deploys/site.py"""

from roles.hugepages import hugepages
from roles.kubelet import kubelet
from roles.topology import topology
from roles.tuning import tuning

topology()
tuning()
kubelet()
hugepages()
