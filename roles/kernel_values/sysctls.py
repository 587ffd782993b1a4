"""Sysctls that are limits or reserves: a host that has more than a profile asks for keeps it."""

from collections.abc import Mapping

from numaforge.lib.errors import PlanError
from numaforge.lib.given import digits

_ADMIN = "Documentation/admin-guide/sysctl"
_IP = "Documentation/networking/ip-sysctl.rst"

# What each one bounds, and the document for it. All are whole numbers; a larger one allows more.
RAISED_ONLY: Mapping[str, str] = {
    "fs.aio-max-nr": f"{_ADMIN}/fs.rst: asynchronous requests at once",
    "fs.file-max": f"{_ADMIN}/fs.rst: open files",
    "fs.inotify.max_queued_events": "inotify(7): events that wait to be read",
    "fs.inotify.max_user_instances": "inotify(7): instances of a user",
    "fs.inotify.max_user_watches": "inotify(7): watches of a user",
    "fs.nr_open": f"{_ADMIN}/fs.rst: open files of a process",
    "kernel.pid_max": f"{_ADMIN}/kernel.rst: the largest process id",
    "kernel.shmall": f"{_ADMIN}/kernel.rst: pages of shared memory",
    "kernel.shmmax": f"{_ADMIN}/kernel.rst: the largest segment of shared memory",
    "kernel.shmmni": f"{_ADMIN}/kernel.rst: segments of shared memory",
    "kernel.threads-max": f"{_ADMIN}/kernel.rst: threads",
    "net.core.netdev_max_backlog": f"{_ADMIN}/net.rst: packets that wait for a CPU",
    "net.core.optmem_max": f"{_ADMIN}/net.rst: ancillary buffers of a socket",
    "net.core.rmem_max": f"{_ADMIN}/net.rst: the receive buffer of a socket",
    "net.core.somaxconn": f"{_IP}: connections that wait for accept()",
    "net.core.wmem_max": f"{_ADMIN}/net.rst: the send buffer of a socket",
    "net.ipv4.neigh.default.gc_thresh1": f"{_IP}: neighbours that are kept",
    "net.ipv4.neigh.default.gc_thresh2": f"{_IP}: neighbours that are kept 5 s",
    "net.ipv4.neigh.default.gc_thresh3": f"{_IP}: neighbours",
    "net.ipv4.tcp_max_syn_backlog": f"{_IP}: connections half open",
    "net.netfilter.nf_conntrack_max": "Documentation/networking/nf_conntrack-sysctl.rst: tracked connections",
    "vm.max_map_count": f"{_ADMIN}/vm.rst: memory maps of a process",
    "vm.min_free_kbytes": f"{_ADMIN}/vm.rst: memory kept free for the kernel",
}

# The kernel's counter of what is in use of a limit: restoring a limit never lowers it below that.
IN_USE: Mapping[str, str] = {
    "fs.aio-max-nr": "fs.aio-nr",
    "fs.file-max": "fs.file-nr",  # allocated, free, maximum
    "net.netfilter.nf_conntrack_max": "net.netfilter.nf_conntrack_count",
}


def is_raised_only(name: str, value: str) -> bool:
    """Whether a host that has more than `value` keeps what it has."""
    return name in RAISED_ONLY and digits(value) is not None


def refuse_odd_limits(sysctls: Mapping[str, str]) -> None:
    """Raise PlanError for a limit that is not a whole number: it could be set below what the host has.

    The kernel also reads 0x1 and 010, and some limits take -1.
    """
    for name, value in sysctls.items():
        if name in RAISED_ONLY and digits(value) is None:
            raise PlanError(
                f"{value!r} is not a limit",
                where=f"tuning.sysctls.{name}",
                remedy="write a whole number without a sign; a host that has more keeps what it has",
            )


def has_more(current: str | None, value: str) -> bool:
    """Whether a host's value is known and larger than `value`."""
    number, planned = digits(current), digits(value)
    return number is not None and planned is not None and number > planned
