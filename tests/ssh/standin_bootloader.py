"""What a sandbox lacks to boot: the tools of a boot loader, and a boot.

`update-grub` makes a grub.cfg of the drop-ins as Debian's does, with a shell that expands them. `grubby`
changes the options of the entry below /boot/loader/entries. Neither knows any other option of theirs.
"""

from __future__ import annotations

import re

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
        return as_grub_reads(f"BOOT_IMAGE=/boot/vmlinuz {line.removeprefix('options ')}")
    lines = (each.strip() for each in node.path(GRUB_CFG).read_text().splitlines())
    line = next(each for each in lines if re.match(r"linux\s", each))
    return as_grub_reads(f"BOOT_IMAGE={line.removeprefix('linux').strip()}")


def as_grub_reads(line: str) -> str:
    """Return a command line as GRUB's shell hands it to the kernel: up to a bare ";", without quotes."""
    bare = re.match(r'(?:[^";]|"[^"]*")*', line)
    assert bare is not None
    return bare[0].replace('"', "")


def boot(node: Sandbox, *, deaf: bool = False, config_acs: bool = True, mode: str = "") -> None:
    """Do what the firmware, the kernel and systemd do, up to the kubelet; `deaf` for a kernel with old ears.

    `mode` is the target in which systemd ends instead ("emergency.target"): with what that wants alone, and a
    root that cannot be written.

    `config_acs` is whether the kernel knows that option of `pci=`; one that does not passes it over.

    Values of the kernel are what it starts with. First comes what stands before the kubelet; where that ends
    in a reboot, nothing follows it.
    """
    number = int(node.path("/run/boots").read_text()) if node.path("/run/boots").exists() else 1
    node.path("/run/boots").write_text(f"{number + 1}\n")
    node.path(BOOT_ID).write_text(f"boot {number + 1}\n")
    node.path("/proc/cmdline").write_text(f"{CMDLINE if deaf else options(node)}\n")
    node.path("/proc/sys/vm/swappiness").write_text("60\n")
    for bridge in node.path("/sys/bus/pci/devices").glob("*"):
        config = bridge / "config"
        asked = re.search(rf"([01x]{{7}})@{bridge.name}\b", node.path("/proc/cmdline").read_text())
        config.write_bytes(with_control(asked[1] if asked and config_acs else ISOLATED))
    node.run("kill -KILL $(cat /run/kubelet.pid); rm -f /run/stopping /run/off /run/kubelet.pid")
    if mode:
        _end_in(node, mode)
        return
    if node.path(_BOOT_LINK).is_symlink() and node.path(CURRENT).is_symlink():
        unit = node.path(BOOT_UNIT).read_text().splitlines()
        assert any(line.startswith("Before=") and "kubelet.service" in line for line in unit)
        node.run(next(line for line in unit if line.startswith("ExecStart=")).split("=", 1)[1])
    if not node.path("/run/stopping").exists() and not node.path("/run/off").exists():
        node.run("systemctl start kubelet.service")


def _end_in(node: Sandbox, mode: str) -> None:
    """Start what a mode of little wants; a condition of it has to hold."""
    read_only = node.run("mount -o remount,ro /")
    assert read_only.returncode == 0, read_only.stderr
    for link in node.path(f"/etc/systemd/system/{mode}.wants").glob("*"):
        assert link.readlink().is_absolute()
        lines = node.path(str(link.readlink())).read_text().splitlines()
        condition = next(line for line in lines if line.startswith("ConditionPathIsSymbolicLink="))
        if node.path(condition.partition("=")[2]).is_symlink():
            said = node.run(next(line for line in lines if line.startswith("ExecStart=")).partition("=")[2])
            node.path("/run/console").write_text(said.stdout + said.stderr)


ISOLATED = "xx111x1"  # what the kernel sets by itself


def with_control(mask: str) -> bytes:
    """Return a configuration space whose access control, second in the chain, is as the mask says."""
    control = int(mask.replace("x", "0"), 2)
    space = bytearray(4096)
    space[0x100:0x104] = (0x0001 | 1 << 16 | 0x148 << 20).to_bytes(4, "little")
    space[0x148:0x14C] = (0x000D | 1 << 16).to_bytes(4, "little")
    space[0x14C:0x150] = (0x5F | control << 16).to_bytes(4, "little")
    return bytes(space)


def boots(node: Sandbox) -> int:
    """Return how often the node has booted since it was made."""
    return int(node.path("/run/boots").read_text()) - 1 if node.path("/run/boots").exists() else 0
