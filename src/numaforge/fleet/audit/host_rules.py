"""Every rule about the userland of a host, by subject."""

from numaforge.findings.userland import claims, containerd, packages, rdma, system

RULES = (*system.RULES, *packages.RULES, *containerd.RULES, *claims.RULES, *rdma.RULES)
