"""What is wrong with the userland of a host, and who else tunes it."""

from numaforge.findings.userland import claims, containerd, packages, rdma, system

RULES = (*system.RULES, *packages.RULES, *containerd.RULES, *claims.RULES, *rdma.RULES)
