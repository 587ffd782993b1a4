"""The roles that a deploy calls, each in the maintenance that is open."""

from functools import partial

from numaforge.run.maintenance import take_part

amd_partitions = partial(take_part, "amd_partitions", "AMD partitions")
host = partial(take_part, "host", "Host")
hugepages = partial(take_part, "hugepages", "Hugepages")
imex = partial(take_part, "imex", "IMEX")
interrupts = partial(take_part, "interrupts", "Interrupts")
kubelet = partial(take_part, "kubelet", "Kubelet")
mig = partial(take_part, "mig", "MIG")
modules = partial(take_part, "modules", "Modules")
rdma = partial(take_part, "rdma", "RDMA")
system = partial(take_part, "system", "System")
tuning = partial(take_part, "tuning", "Tuning")
