"""What a sandbox lacks of devices that interrupt: PCI functions, receive queues, slices, irqbalance.

Files stand for the kernel's. What `keeps` names cannot be written, with the error that the kernel would give.
"""

from tests.ssh.sandbox import Sandbox

NIC, NVME = "0000:17:00.0", "0000:81:00.0"
INTERRUPTS = {NIC: (30, 31), NVME: (40, 41)}
EVERYWHERE = "0-7"
DEFAULT = "/proc/irq/default_smp_affinity"
WORKQUEUES = "/sys/devices/virtual/workqueue/cpumask"
RPS = "/sys/class/net/eth7/queues/rx-0/rps_cpus"
SLICES = ("init.scope", "system.slice", "user.slice")
IRQBALANCE_FILE = "/etc/default/irqbalance"


def affinity(number: int) -> str:
    """Return the path of an interrupt's affinity."""
    return f"/proc/irq/{number}/smp_affinity_list"


def effective(name: str) -> str:
    """Return the path of what a slice may use."""
    return f"/sys/fs/cgroup/{name}/cpuset.cpus.effective"


def devices() -> dict[str, str]:
    """Return a NIC on NUMA node 0 and an NVMe drive on node 1, and systemd's slices."""
    files = {DEFAULT: "ff", WORKQUEUES: "ff", RPS: "00", "/sys/class/net/eth7/type": "1"}
    for address, pci_class, node in ((NIC, "0x020000", "0"), (NVME, "0x010802", "1")):
        folder = f"/sys/bus/pci/devices/{address}"
        files |= {f"{folder}/class": pci_class, f"{folder}/vendor": "0x15b3", f"{folder}/numa_node": node}
        for number in INTERRUPTS[address]:
            files |= {f"{folder}/msi_irqs/{number}": "msix", affinity(number): EVERYWHERE}
    files |= {effective(name): EVERYWHERE for name in SLICES}
    return {path: f"{text}\n" for path, text in files.items()} | {
        IRQBALANCE_FILE: "# the admin's\nIRQBALANCE_ARGS=--hintpolicy=subset\n"
    }


_TEE = """#!/bin/sh
if [ -e "/run/answers$1" ]; then echo "tee: $1: $(cat "/run/answers$1")" >&2; exit 1; fi
exec /usr/bin/tee "$@"
"""


def install(node: Sandbox) -> None:
    """Make the interface the NIC's, and let systemd run irqbalance."""
    node.run(
        f"ln -s ../../../bus/pci/devices/{NIC} /sys/class/net/eth7/device; mkdir -p /run/services; "
        "echo 'exec sleep 1000' > /run/services/irqbalance.service; systemctl start irqbalance.service; "
        ": > /run/systemctl.log"
    )
    tee = node.path("/usr/local/bin/tee")
    tee.write_text(_TEE)
    tee.chmod(0o755)


def keeps(node: Sandbox, number: int, error: str) -> None:
    """Let the kernel refuse another affinity for an interrupt, with an error."""
    path = affinity(number)
    answer = node.path(f"/run/answers{path}")
    answer.parent.mkdir(parents=True, exist_ok=True)
    answer.write_text(error)
    node.run(f"mount --bind {path} {path} && mount -o remount,ro,bind {path}")
