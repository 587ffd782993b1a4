"""The roles that a deploy calls, each in the maintenance that is open."""

from dataclasses import dataclass
from typing import Any

from numaforge.run.maintenance import take_part


@dataclass(frozen=True)
class DeployedRole:
    """All roles that are `called` so, carried out together; pyinfra shows the `title`."""

    called: str
    title: str

    def __call__(self, **arguments: Any) -> None:
        """Carry it out on the host of the deploy; `arguments` are pyinfra's own."""
        take_part(self.called, self.title, **arguments)


amd_partitions = DeployedRole("amd_partitions", "AMD partitions")
host = DeployedRole("host", "Host")
hugepages = DeployedRole("hugepages", "Hugepages")
imex = DeployedRole("imex", "IMEX")
interrupts = DeployedRole("interrupts", "Interrupts")
kubelet = DeployedRole("kubelet", "Kubelet")
mig = DeployedRole("mig", "MIG")
modules = DeployedRole("modules", "Modules")
rdma = DeployedRole("rdma", "RDMA")
system = DeployedRole("system", "System")
tuning = DeployedRole("tuning", "Tuning")
