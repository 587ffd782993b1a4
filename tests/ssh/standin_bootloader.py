"""What a sandbox lacks to boot: the tools of a boot loader, and a boot.

`update-grub` makes a grub.cfg of the drop-ins as Debian's does, with a shell that expands them. `grubby`
changes the options of the entry below /boot/loader/entries. Neither knows any other option of theirs.
"""

from __future__ import annotations

from numaforge.node.transaction import BOOT_UNIT, CURRENT
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_systemd import BOOT_ID

GRUB_CFG = "/boot/grub/grub.cfg"
ENTRY = "/boot/loader/entries/linux.conf"
CMDLINE = "BOOT_IMAGE=/boot/vmlinuz root=/dev/sda1 ro quiet"
_BOOT_LINK = "/etc/systemd/system/multi-user.target.wants/numaforge-recover.service"

UPDATE_GRUB = f"""#!/bin/sh
[ ! -e /run/refuse-update-grub ] || {{ echo "error: cannot find a device for /" >&2; exit 1; }}
GRUB_CMDLINE_LINUX_DEFAULT=quiet
for file in /etc/default/grub.d/*.cfg; do if [ -e "$file" ]; then . "$file"; fi; done
mkdir -p /boot/grub
options=$(echo root=/dev/sda1 ro $GRUB_CMDLINE_LINUX_DEFAULT)
printf 'menuentry Linux {{\\n  linux /boot/vmlinuz %s\\n}}\\n' "$options" > {GRUB_CFG}
"""

GRUBBY = f"""#!/usr/bin/env python3
import pathlib, sys
entry = pathlib.Path({ENTRY!r})
asked = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:])
assert asked.pop("update-kernel") == "ALL"
lines = entry.read_text().splitlines()
options = next(line for line in lines if line.startswith("options ")).split()[1:]
remove, add = asked.pop("remove-args", "").split(), asked.pop("args", "").split()
assert not asked, asked
names = {{word.split("=")[0] for word in add}}
kept = [word for word in options if word not in remove and word.split("=")[0] not in names]
entry.write_text("".join(
    f"{{'options ' + ' '.join(kept + add) if line.startswith('options ') else line}}\\n" for line in lines
))
"""


def debian() -> dict[str, str]:
    """Return the files of a node that boots through GRUB, by path."""
    return {"/usr/local/bin/update-grub": UPDATE_GRUB}


def red_hat() -> dict[str, str]:
    """Return the programs of a node whose boot entries grubby keeps; its entry is for `install`."""
    return {"/usr/local/bin/grubby": GRUBBY}


def install(node: Sandbox) -> None:
    """Have the boot loader boot with CMDLINE."""
    if node.path("/usr/local/bin/grubby").exists():
        node.path(ENTRY).parent.mkdir(parents=True, exist_ok=True)
        options = CMDLINE.partition(" ")[2]
        node.path(ENTRY).write_text(f"title Linux\nlinux /boot/vmlinuz\noptions {options}\n")
    else:
        node.run("update-grub")


def options(node: Sandbox) -> str:
    """Return the command line with which the node boots next."""
    if node.path("/usr/local/bin/grubby").exists():
        line = next(x for x in node.path(ENTRY).read_text().splitlines() if x.startswith("options "))
        return f"BOOT_IMAGE=/boot/vmlinuz {line.removeprefix('options ')}"
    line = next(x for x in node.path(GRUB_CFG).read_text().splitlines() if x.startswith("  linux "))
    return "BOOT_IMAGE=" + line.removeprefix("  linux ")


def boot(node: Sandbox, *, deaf: bool = False) -> None:
    """Do what the firmware, the kernel and systemd do, up to the kubelet; `deaf` for a kernel with old ears.

    Values of the kernel are what it starts with. First comes what stands before the kubelet; where that ends
    in a reboot, nothing follows it.
    """
    number = int(node.path("/run/boots").read_text()) if node.path("/run/boots").exists() else 1
    node.path("/run/boots").write_text(f"{number + 1}\n")
    node.path(BOOT_ID).write_text(f"boot {number + 1}\n")
    node.path("/proc/cmdline").write_text(f"{CMDLINE if deaf else options(node)}\n")
    node.path("/proc/sys/vm/swappiness").write_text("60\n")
    node.run("kill -KILL $(cat /run/kubelet.pid); rm -f /run/stopping /run/off /run/kubelet.pid")
    if node.path(_BOOT_LINK).is_symlink() and node.path(CURRENT).is_symlink():
        unit = node.path(BOOT_UNIT).read_text().splitlines()
        assert any(line.startswith("Before=") and "kubelet.service" in line for line in unit)
        node.run(next(line for line in unit if line.startswith("ExecStart=")).split("=", 1)[1])
    if not node.path("/run/stopping").exists() and not node.path("/run/off").exists():
        node.run("systemctl start kubelet.service")


def boots(node: Sandbox) -> int:
    """Return how often the node has booted since it was made."""
    return int(node.path("/run/boots").read_text()) - 1 if node.path("/run/boots").exists() else 0
