"""A maintenance of everything that a reboot has part in, on the virtual node."""

from lab.node import Node
from numaforge.lib.file_content import FileContent
from numaforge.roles.kernel_cmdline.part import DROP_IN, RECORD
from numaforge.roles.kernel_values.files import TUNING_UNIT_PATH
from numaforge.roles.kernel_values.part import BOOT_LINK
from tests.lab.transactions import seen

SWAPPINESS = "/proc/sys/vm/swappiness"
POOL = "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages"
GRUB_CFG = "/boot/grub/grub.cfg"
NOTE = FileContent("/etc/numaforge-test.conf", "a file of the plan\n")
"""A file that is placed before the kubelet's."""
SETS_AT_BOOT = FileContent(
    TUNING_UNIT_PATH,
    "[Unit]\nBefore=kubelet.service\n[Service]\nType=oneshot\n"
    f"ExecStart=/bin/sh -c 'sleep 10; echo 7 > {SWAPPINESS}'\n",
)
"""systemd has it in its queue before a boot takes it back."""


def everything(node: Node) -> str:
    """Return what an undone maintenance must leave as it was; the kernel's words about itself included."""
    return seen(node) + node.run(
        f"cat /proc/cmdline {SWAPPINESS} {POOL} {GRUB_CFG};"
        f" ls {NOTE.path} {SETS_AT_BOOT.path} {BOOT_LINK} {DROP_IN} {RECORD} 2>&1; true"
    )
