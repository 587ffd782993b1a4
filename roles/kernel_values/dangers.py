"""Sysctls that a profile sets only with their risk acknowledged, and those that it never sets.

A sysctl that is not listed here is accepted. Sources: Documentation/admin-guide/sysctl,
Documentation/networking/ip-sysctl.rst, namespaces(7).
"""

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import NamedTuple

_NEVER_BACK = "it cannot be taken back before the next boot"
_ACTION = "writing it is an action, not a setting"
_COMMAND = "the kernel runs it as root"
_PODS = "the network of pods and services stops"
_WAY_IN = "SSH and the kubelet may lose the network"
_CONTAINERS = "containers may not start any more"
_PANICS = "the node reboots where it now goes on"

Judge = Callable[[list[int]], bool]


class Danger(NamedTuple):
    """What makes a sysctl dangerous: `harms` judges its numbers; None: any value is dangerous.

    `never`: not even with its risk acknowledged. "*" in a name is one part of it, such as an interface.
    """

    name: str
    harms: Judge | None
    why: str
    never: bool = False


def _is(*values: int) -> Judge:
    return lambda numbers: numbers[0] in values


def _other_than(*values: int) -> Judge:
    return lambda numbers: numbers[0] not in values


def _below(least: int, at: int = 0) -> Judge:
    return lambda numbers: len(numbers) <= at or numbers[at] < least


def _few_ports(numbers: list[int]) -> bool:
    return len(numbers) != 2 or numbers[1] - numbers[0] < 4096  # a busy node has more connections


DANGERS: tuple[Danger, ...] = (
    Danger("kernel.modules_disabled", _other_than(0), _NEVER_BACK, never=True),
    Danger("kernel.kexec_load_disabled", _other_than(0), _NEVER_BACK, never=True),
    Danger("kernel.unprivileged_bpf_disabled", _is(1), f"{_NEVER_BACK}; 2 can", never=True),
    Danger("kernel.yama.ptrace_scope", _is(3), _NEVER_BACK, never=True),
    Danger("kernel.tainted", None, _ACTION, never=True),
    Danger("vm.drop_caches", None, _ACTION, never=True),
    Danger("vm.compact_memory", None, _ACTION, never=True),
    Danger("vm.nr_hugepages*", None, "the section hugepages sets it for each NUMA node", never=True),
    Danger("vm.nr_overcommit_hugepages", None, "the section hugepages counts what pods get", never=True),
    Danger("net.ipv4.route.flush", None, _ACTION, never=True),
    Danger("net.ipv6.route.flush", None, _ACTION, never=True),
    Danger("fs.binfmt_misc.*", None, _ACTION, never=True),
    Danger("kernel.core_pattern", None, f"with a | {_COMMAND}"),
    Danger("kernel.modprobe", None, _COMMAND),
    Danger("kernel.hotplug", None, _COMMAND),
    Danger("kernel.poweroff_cmd", None, _COMMAND),
    Danger("kernel.hostname", None, "the node's name in its cluster follows it"),
    Danger("kernel.domainname", None, "the node's name in its cluster follows it"),
    Danger("kernel.panic_on_warn", _other_than(0), _PANICS),
    Danger("kernel.panic_on_unrecovered_nmi", _other_than(0), _PANICS),
    Danger("kernel.panic_on_io_nmi", _other_than(0), _PANICS),
    Danger("vm.panic_on_oom", _other_than(0), "a pod without memory reboots the node"),
    Danger("vm.memory_failure_recovery", _is(0), _PANICS),
    Danger("vm.overcommit_memory", _is(2), "programs get no memory beyond a fixed share"),
    Danger("vm.min_free_kbytes", lambda numbers: numbers[0] > 16 << 20, "more than 16 GiB stay unused"),
    Danger("kernel.sched_rt_runtime_us", _is(0), "no thread with a real-time priority runs"),
    Danger("kernel.pty.max", _below(64), "no terminal is left for a login"),
    Danger("kernel.keys.maxkeys", _below(200), _CONTAINERS),
    Danger("kernel.keys.maxbytes", _below(20000), _CONTAINERS),
    Danger("fs.mount_max", _below(10000), _CONTAINERS),
    Danger("fs.epoll.max_user_watches", _below(65536), "servers fail that wait for connections"),
    *(
        Danger(f"user.max_{kind}_namespaces", _below(1024), _CONTAINERS)
        for kind in ("cgroup", "ipc", "mnt", "net", "pid", "uts")
    ),
    Danger("net.ipv4.ip_forward", _is(0), _PODS),
    Danger("net.ipv4.conf.*.forwarding", _is(0), _PODS),
    Danger("net.ipv6.conf.*.forwarding", _is(0), _PODS),
    Danger("net.bridge.bridge_nf_call_*", _is(0), _PODS),
    Danger("net.ipv4.conf.*.rp_filter", _is(1), "packets that come another way than answers go are dropped"),
    Danger("net.ipv4.conf.*.arp_ignore", _other_than(0, 1, 2), _WAY_IN),
    Danger("net.ipv4.conf.*.arp_filter", _other_than(0), _WAY_IN),
    Danger("net.ipv6.conf.*.disable_ipv6", _other_than(0), _WAY_IN),
    Danger("net.ipv6.conf.*.accept_ra", _is(0), _WAY_IN),
    Danger("net.ipv6.conf.*.autoconf", _is(0), _WAY_IN),
    *(
        Danger(f"net.ipv{ip}.neigh.*.{kind}_solicit", _is(0), _WAY_IN)
        for ip in (4, 6)
        for kind in ("ucast", "mcast")
    ),
    Danger("net.ipv6.route.max_size", _below(4096), _WAY_IN),
    Danger("net.ipv4.ip_default_ttl", _below(32), _WAY_IN),
    Danger("net.ipv4.ip_local_port_range", _few_ports, "connections find no port"),
    Danger("net.ipv4.tcp_mem", _below(65536, at=2), _WAY_IN),
    Danger("net.ipv4.udp_mem", _below(65536, at=2), _WAY_IN),
    *(
        Danger(
            f"net.ipv4.tcp_{way}mem",
            lambda numbers: _below(4096, 1)(numbers) or _below(65536, 2)(numbers),
            _WAY_IN,
        )
        for way in "rw"
    ),
    Danger("net.ipv4.tcp_max_orphans", _below(1024), _WAY_IN),
    Danger("net.ipv4.tcp_retries2", _below(5), _WAY_IN),
    Danger("net.ipv4.tcp_syn_retries", _below(1), _WAY_IN),
    Danger("net.ipv4.tcp_synack_retries", _below(1), _WAY_IN),
    Danger("net.ipv4.ipfrag_high_thresh", _below(262144), _WAY_IN),
    Danger("net.core.rmem_default", _below(4096), _WAY_IN),
    Danger("net.core.wmem_default", _below(4096), _WAY_IN),
    Danger("net.core.netdev_budget", _below(64), _WAY_IN),
    Danger("net.core.netdev_budget_usecs", _below(500), _WAY_IN),
    Danger("net.core.dev_weight", _below(8), _WAY_IN),
    Danger("net.core.bpf_jit_limit", _below(32 << 20), "network plugins that load programs fail"),
    Danger("net.netfilter.nf_conntrack_tcp_timeout_established", _below(300), _WAY_IN),
    Danger("net.unix.max_dgram_qlen", _below(10), "systemd and the journal wait for each other"),
)


def danger(name: str, value: str) -> Danger | None:
    """Return the danger of a sysctl's value, None where none is known.

    Where `harms` judges numbers, a non-decimal value is dangerous: the kernel may read it as any number.
    """
    numbers = [int(word) for word in value.split() if re.fullmatch(r"-?(0|[1-9][0-9]{0,18})", word)]
    all_numeric = bool(numbers) and len(numbers) == len(value.split())
    for known_danger in DANGERS:
        if _names(known_danger.name, name) and (
            known_danger.harms is None or not all_numeric or known_danger.harms(numbers)
        ):
            return known_danger
    return None


def _names(pattern: str, name: str) -> bool:
    """Whether a pattern covers a name, "-" equal to "_"; a name with "*" stands for all that it matches."""
    patterns, parts = pattern.split("."), name.replace("-", "_").split(".")
    return len(patterns) == len(parts) and all(
        fnmatchcase(part, named_part) or ("*" in part and fnmatchcase(named_part, part))
        for named_part, part in zip(patterns, parts, strict=True)
    )
