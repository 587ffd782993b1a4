"""The host's settings on the virtual node: what a profile asks for, an admin had set up, the node has."""

from typing import Any

from lab.node import Node
from tests.fixtures.tables import tables
from tests.lab import rollouts, transactions

NIC = "0000:63:00.0"
"""The e1000e on NUMA node 2, under the soft-RoCE device."""
SWAP = "/swapfile"
PROFILE: dict[str, Any] = {**rollouts.PROFILE, **tables(__file__)["profile"]}
ADMINS = f"""
fallocate -l 64M {SWAP} && chmod 0600 {SWAP} && mkswap -q {SWAP}
echo '{SWAP} none swap sw 0 0' >> /etc/fstab
echo 'failSwapOn: false' >> {transactions.CONFIG}
swapon -a && systemctl daemon-reload && systemctl restart kubelet && {rollouts.HEALTHY}
"""
"""What the admin of this node has set up: swap, and a kubelet that starts beside it."""
VALUES = (
    "/proc/sys/vm/* /proc/sys/net/core/* /proc/sys/net/ipv4/tcp_* /proc/sys/fs/inotify/*"
    " /proc/sys/kernel/threads-max /proc/sys/kernel/numa_balancing /sys/kernel/mm/ksm/run"
    " /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
    " /sys/kernel/mm/transparent_hugepage/enabled /sys/kernel/mm/transparent_hugepage/defrag"
    " /sys/kernel/mm/transparent_hugepage/khugepaged/defrag"
    " /sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan"
    " /sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs"
)
OF_THE_BOOT = "netdev_rss_key|tcp_mem:|(available|allowed)_congestion_control"
"""What each boot makes anew, and what says that the module of a congestion control has been asked for."""


def files(node: Node, folders: str = "/etc /usr/local") -> dict[str, str]:
    """Return what stands below folders, by path: mode, owner, and content or target."""
    kinds = node.run(f"find {folders} -printf '%p\\t%M %u %g %l\\n'")
    contents = node.run(f"find {folders} -type f -exec sha256sum -z {{}} +")  # -z: names as they are
    found = dict(line.split("\t") for line in kinds.splitlines())
    for line in contents.rstrip("\0").split("\0"):
        checksum, path = line.split("  ", 1)
        found[path] += f" {checksum}"
    return found


def state(node: Node) -> dict[str, str]:
    """Return what the host's settings are, by what tells them."""
    told = {
        "kernel values": f"grep -s . {VALUES} | grep -Ev '{OF_THE_BOOT}'",
        "masks": "cat /proc/irq/default_smp_affinity /sys/devices/virtual/workqueue/cpumask"
        " /sys/class/net/en*/queues/rx-*/rps_cpus",
        "slices": "systemctl show -p Id -p AllowedCPUs system.slice user.slice init.scope;"
        " cat /sys/fs/cgroup/*/cpuset.cpus.effective; find /run/systemd/system.control -type f 2> /dev/null",
        "irqbalance": "systemctl is-active irqbalance; systemctl is-enabled irqbalance",
        "interrupts moved": "cat /run/numaforge/interrupts/earlier 2> /dev/null",
        "units": "systemctl --root=/ list-unit-files --no-legend --state enabled",
        "holds": "apt-mark showhold",
        "modules": "ls -d /sys/module/brd 2> /dev/null",
        "read request": f"lspci -vvs {NIC} | grep -o 'MaxReadReq [0-9]*'",
        "limits": "systemctl show -p Id -p LimitMEMLOCK -p LimitNOFILE -p LimitCORE containerd kubelet",
        "limits of processes": "for unit in containerd kubelet; do grep -E 'locked|open files|core'"
        " /proc/$(systemctl show -P MainPID $unit)/limits; done",
        "swap": "cut -d ' ' -f 1 /proc/swaps",
        "netns": "cat /sys/module/ib_core/parameters/netns_mode",
    }
    script = "; ".join(f"echo '== {name}'; {command}" for name, command in told.items())
    parts = node.run(f"{script}; true").split("== ")[1:]
    return {name: text for name, _, text in (part.partition("\n") for part in parts)}
