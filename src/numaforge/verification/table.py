"""What a plan promises about its live node: the promises of every role, in the order of a maintenance."""

from collections.abc import Sequence
from dataclasses import replace

from numaforge.planning.files import WRITERS
from numaforge.planning.plan import NodePlan
from numaforge.roles import role
from numaforge.roles.amd_partitions import promises as amd_partitions
from numaforge.roles.cpus.slices import promises as slices
from numaforge.roles.crio import promises as crio
from numaforge.roles.dra import promises as dra
from numaforge.roles.expected import EXPECTED
from numaforge.roles.files import promises as files
from numaforge.roles.gpudirect import promises as gpudirect
from numaforge.roles.host import promises as host
from numaforge.roles.host.memlock import promises as memlock
from numaforge.roles.imex import promises as imex
from numaforge.roles.interrupts import promises as interrupts
from numaforge.roles.kubelet import promises as kubelet
from numaforge.roles.machine import promises as machine
from numaforge.roles.mig import promises as mig
from numaforge.roles.modules import promises as modules
from numaforge.roles.promise import Promise, Table, kernel_value
from numaforge.roles.rdma import promises as rdma
from numaforge.roles.rdma.nics import promises as nics
from numaforge.roles.role import ALWAYS, Role
from numaforge.roles.watch import promises as watch

PROMISES: tuple[tuple[Role, tuple[Promise, ...]], ...] = (
    (role.machine, machine.PROMISES),
    (role.files, files.PROMISES),
    (role.host, host.PROMISES),
    (role.modules, modules.PROMISES),
    (role.gpudirect, gpudirect.PROMISES),
    (role.nics, nics.PROMISES),
    (role.interrupts, interrupts.PROMISES),
    (role.slices, slices.PROMISES),
    (role.mig, mig.PROMISES),
    (role.amd_partitions, amd_partitions.PROMISES),
    (role.imex, imex.PROMISES),
    (role.crio, crio.PROMISES),
    (role.memlock, memlock.PROMISES),
    (role.rdma, rdma.PROMISES),
    (role.kubelet, kubelet.PROMISES),
    (role.dra, dra.PROMISES),
    (role.watch, watch.PROMISES),
)


def all_promises() -> tuple[tuple[Role, Promise], ...]:
    """Return the promises of all roles, those of the kernel's values first."""
    values = ((role, kernel_value(expected)) for role, expected in EXPECTED)
    return (*values, *((role, promise) for role, promises in PROMISES for promise in promises))


def choices() -> tuple[str, ...]:
    """Return the names that select promises: the roles that deploys call, and those that always apply."""
    return tuple(dict.fromkeys([*ALWAYS, *(role.called for role, _ in all_promises())]))


def entries(plan: NodePlan, name: str, roles: Sequence[str] | None = None) -> Table:
    """Return a plan's promises under a test's name; `roles` are the roles that were called, None for all."""
    part = of_roles(plan, roles)
    return {
        entry: expected
        for role, promise in all_promises()
        if promise.name == name and (roles is None or role.among([*roles, *ALWAYS]))
        for entry, expected in promise.table(part).items()
    }


def of_roles(plan: NodePlan, roles: Sequence[str] | None) -> NodePlan:
    """Return a plan with only the files that these roles have written; None keeps all files."""
    if roles is None:
        return plan
    owners = {file.path: writer.role for writer in WRITERS for file in writer.files(plan)}
    called = [*roles, *ALWAYS]
    return replace(
        plan,
        files=tuple(
            file
            for file in plan.files
            if (owners[file.path].among(called) if file.path in owners else file.role in called)
        ),
    )


def count(plan: NodePlan) -> int:
    """Return the number of promises in a plan."""
    tables = dict.fromkeys(promise.table for _, promise in all_promises())
    return sum(len(table(plan)) for table in tables)


def at_least(plan: NodePlan) -> int:
    """Return the least number in a plan: hostname, CPUs, its own file, NUMA nodes, kubelet settings."""
    return 3 + len(plan.memory.numa_nodes) + (len(plan.kubelet.settings) if plan.kubelet else 0)
