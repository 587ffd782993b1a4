"""Kernel settings and hugepages only, the kubelet untouched: pyinfra INVENTORY deploys/tune.py"""

from roles.hugepages import hugepages
from roles.topology import topology
from roles.tuning import tuning

topology()
tuning()
hugepages()
