"""What a sandbox lacks to boot: kernels, the tools of a boot loader, and a boot.

`update-grub` makes a grub.cfg of the drop-ins, the kernels in /boot and the scripts in /etc/grub.d as
Debian's does: an entry of the newest kernel, and one of each in a submenu. `grubby` changes the options of
the entries below /boot/loader/entries that start one kernel. `grub-editenv` writes grubenv, `grub-probe` says
that GRUB can write there. None knows any other option of theirs. A boot reads all of it as GRUB does, with
next_entry, which it forgets.
"""

import re
from collections.abc import Callable
from pathlib import Path

from numaforge.change.transaction import BOOT_UNIT, CURRENT
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_systemd import BOOT_ID, USERSPACE

KERNEL = "6.1.0-9-amd64"
NEWER = "6.1.0-10-amd64"
"""A kernel that a package has brought while KERNEL runs."""
GRUB_CFG = "/boot/grub/grub.cfg"
MACHINE_ID = "c0ffee00c0ffee00c0ffee00c0ffee00"
ENTRIES = "/boot/loader/entries"
ENTRY = f"{ENTRIES}/{MACHINE_ID}-{KERNEL}.conf"
RESCUE = f"{ENTRIES}/{MACHINE_ID}-0-rescue.conf"
CMDLINE = f"BOOT_IMAGE=/boot/vmlinuz-{KERNEL} root=/dev/sda1 ro quiet"
OSRELEASE = "/proc/sys/kernel/osrelease"
_BOOT_LINK = "/etc/systemd/system/multi-user.target.wants/numaforge-recover.service"
_GRUBENV_BYTES = 1024

_HEADER = """if [ -s $prefix/grubenv ]; then
  set have_grubenv=true
  load_env
fi
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="DEFAULT"
fi
function savedefault {
  if [ -z "${boot_once}" ]; then
    saved_entry="${chosen}"
    save_env saved_entry
  fi
}
"""
UPDATE_GRUB = f"""#!/bin/sh
[ ! -e /run/refuse-update-grub ] || {{ echo "error: cannot find a device for /" >&2; exit 1; }}
GRUB_CMDLINE_LINUX_DEFAULT=quiet GRUB_DEFAULT=0
for file in /etc/default/grub.d/*.cfg; do if [ -e "$file" ]; then . "$file"; fi; done
if [ "$GRUB_DEFAULT" = saved ]; then GRUB_DEFAULT='${{saved_entry}}'; fi
options=$(echo root=$(cat /run/root-device 2> /dev/null || echo /dev/sda1) ro $GRUB_CMDLINE_LINUX_DEFAULT)
entry() {{ # TITLE ID VERSION
    printf "menuentry '%s' --class debian \\$menuentry_id_option '%s' {{\\n" "$1" "$2"
    printf "\\tload_video\\n\\tif [ x\\$grub_platform = xxen ]; then insmod xzio; insmod lzopio; fi\\n"
    printf "\\tlinux\\t/boot/vmlinuz-%s %s\\n\\tinitrd\\t/boot/initrd.img-%s\\n}}\\n" "$3" "$options" "$3"
}}
{{
    sed "s/DEFAULT/$GRUB_DEFAULT/" <<'END'
{_HEADER}END
    first=yes
    for version in $(ls /boot | sed -n 's/^vmlinuz-//p' | sort -rV); do
        if [ -n "$first" ]; then
            entry Debian gnulinux-simple-1 "$version"
            echo "submenu 'Advanced options for Debian' \\$menuentry_id_option 'gnulinux-advanced-1' {{"
            first=
        fi
        entry "Debian, with Linux $version" "gnulinux-$version-advanced-1" "$version" | sed 's/^/\\t/'
    done
    echo "}}"
    for script in /etc/grub.d/*; do if [ -x "$script" ]; then "$script"; fi; done
}} > {GRUB_CFG}.new && mv {GRUB_CFG}.new {GRUB_CFG}
[ ! -e /run/spoil-grub-cfg ] || sh /run/spoil-grub-cfg
"""

GRUBBY = f"""#!/usr/bin/env python3
import pathlib, sys
assert not pathlib.Path("/run/refuse-grubby").exists(), "grubby: it refuses"
asked = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:])
kernel = asked.pop("update-kernel")
assert kernel.startswith("/boot/"), kernel
remove, add = asked.pop("remove-args", "").split(), asked.pop("args", "").split()
assert not asked, asked
names = {{word.split("=")[0] for word in add}}
for entry in pathlib.Path({ENTRIES!r}).glob("*.conf"):
    lines = entry.read_text().splitlines()
    if f"linux {{kernel}}" not in lines:
        continue
    options = next(line for line in lines if line.startswith("options ")).split()[1:]
    kept = [word for word in options if word not in remove and word.split("=")[0] not in names]
    entry.write_text("".join(
        f"{{'options ' + ' '.join(kept + add) if line.startswith('options ') else line}}\\n" for line in lines
    ))
"""

EDITENV = f"""#!/usr/bin/env python3
import pathlib, sys
file, verb, word = sys.argv[1:]
path = pathlib.Path(file)
text = path.read_text()
assert len(text) == {_GRUBENV_BYTES} and text.startswith("# GRUB Environment Block\\n"), "invalid block"
name = word.partition("=")[0]
lines = [line for line in text.rstrip("#").splitlines()[1:] if line.partition("=")[0] != name]
if verb == "set":
    lines.append(word)
text = "".join(f"{{line}}\\n" for line in ["# GRUB Environment Block", *lines])
path.write_text(text.ljust({_GRUBENV_BYTES}, "#"))
"""

PROBE = """#!/bin/sh
case " $* " in
*" --target=abstraction "*) cat /run/grub-abstraction 2> /dev/null || : ;;
*" --target=fs "*) cat /run/grub-fs 2> /dev/null || echo ext2 ;;
esac
"""


def debian() -> dict[str, str]:
    """Return the files of a node that boots through GRUB, by path."""
    tools = {"/usr/local/bin/grub-editenv": EDITENV, "/usr/local/bin/grub-probe": PROBE}
    return {"/usr/local/bin/update-grub": UPDATE_GRUB, **tools}


def red_hat() -> dict[str, str]:
    """Return the programs of a node whose boot entries grubby keeps; its entries are for `install`."""
    tools = {"/usr/local/bin/grub2-editenv": EDITENV, "/usr/local/bin/grub2-probe": PROBE}
    return {"/usr/local/bin/grubby": GRUBBY, **tools}


def _folder(node: Sandbox) -> Path:
    name = "grub2" if node.path("/usr/local/bin/grubby").exists() else "grub"
    return node.path(f"/boot/{name}")


def install(node: Sandbox) -> None:
    """Install a kernel, and have the boot loader boot it with CMDLINE."""
    _folder(node).mkdir(parents=True, exist_ok=True)
    (_folder(node) / "grubenv").write_text("# GRUB Environment Block\n".ljust(_GRUBENV_BYTES, "#"))
    node.path(OSRELEASE).parent.mkdir(parents=True, exist_ok=True)
    node.path(OSRELEASE).write_text(f"{KERNEL}\n")
    node.path("/proc/cmdline").write_text(f"{CMDLINE}\n")
    if node.path("/usr/local/bin/grubby").exists():
        node.path(ENTRIES).mkdir(parents=True, exist_ok=True)
        (_folder(node) / "grub.cfg").write_text(_HEADER.replace("DEFAULT", "${saved_entry}") + "blscfg\n")
        node.path(RESCUE).write_text(_entry("0-rescue", "vmlinuz-0-rescue", "initramfs-0-rescue.img"))
        node.run("touch /boot/vmlinuz-0-rescue /boot/initramfs-0-rescue.img")
    install_kernel(node, KERNEL)
    if node.path("/usr/local/bin/grubby").exists():
        set_default(node, f"{MACHINE_ID}-{KERNEL}")


def install_kernel(node: Sandbox, version: str) -> None:
    """Do what a kernel's package does."""
    if node.path("/usr/local/bin/grubby").exists():
        node.run(f"touch /boot/vmlinuz-{version} /boot/initramfs-{version}.img")
        entry = _entry(version, f"vmlinuz-{version}", f"initramfs-{version}.img")
        node.path(f"{ENTRIES}/{MACHINE_ID}-{version}.conf").write_text(entry)
        set_default(node, f"{MACHINE_ID}-{version}")  # UPDATEDEFAULT=yes
    else:
        node.run(f"touch /boot/vmlinuz-{version} /boot/initrd.img-{version}; update-grub")


def set_default(node: Sandbox, entry: str) -> None:
    """Have the boot loader boot an entry by default, where its default is a saved one."""
    node.run(f"{_folder(node).name}-editenv {_grubenv(node)} set 'saved_entry={entry}'")


def _grubenv(node: Sandbox) -> str:
    return f"/boot/{_folder(node).name}/grubenv"


def _entry(version: str, kernel: str, initrd: str) -> str:
    return (
        f"title Linux ({version})\nversion {version}\nlinux /boot/{kernel}\ninitrd /boot/{initrd}\n"
        f"options {CMDLINE.partition(' ')[2]}\ngrub_users $grub_users\n"
    )


def options(node: Sandbox) -> str:
    """Return the command line with which the node boots next."""
    kernel, line = _entries(node)[_chosen(node)]
    return as_grub_reads(f"BOOT_IMAGE={kernel} {line}")


def variables(node: Sandbox) -> dict[str, str]:
    """Return what grubenv holds."""
    text = node.path(_grubenv(node)).read_text()
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def _chosen(node: Sandbox) -> str:
    """Return the key of the entry that GRUB would boot: its id, or its number."""
    known, entries = variables(node), _entries(node)
    header = (_folder(node) / "grub.cfg").read_text()
    default = re.findall(r'set default="(.*)"', header)[-1].replace(
        "${saved_entry}", known.get("saved_entry", "0")
    )
    wanted = known.get("next_entry") or default
    if wanted in entries:
        return wanted
    return f"{wanted}>0" if f"{wanted}>0" in entries else "0"


def _entries(node: Sandbox) -> dict[str, tuple[str, str]]:
    """Return kernel and options of each entry, by its id and by its number."""
    found: dict[str, tuple[str, str]] = {}
    if node.path(ENTRIES).exists():
        for file in node.path(ENTRIES).glob("*.conf"):
            lines = dict(line.split(" ", 1) for line in file.read_text().splitlines())
            found[file.stem] = lines["linux"], lines["options"]
        return found
    above, count, inner, key = "", 0, 0, ("", "")
    for line in node.path(GRUB_CFG).read_text().splitlines():
        words = line.strip()
        head = re.match(r"(menuentry|submenu) .*\$menuentry_id_option '([^']*)' \{", words)
        if head and head[1] == "submenu":
            above, inner = f"{head[2]}>", 0
        elif head:
            number = f"{count}>{inner}" if above else str(count)
            key = f"{above}{head[2]}", number
            count, inner = (count, inner + 1) if above else (count + 1, inner)
        elif words.startswith("linux"):
            _, kernel, line_options = words.split(None, 2)
            found |= dict.fromkeys(key, (kernel, line_options))
        elif line == "}" and above and "\t" not in line and key[0].startswith(above):
            above, count = "", count + 1
    return found


def as_grub_reads(line: str) -> str:
    """Return a command line as GRUB's shell hands it to the kernel: up to a bare ";", without quotes."""
    bare = re.match(r'(?:[^";]|"[^"]*")*', line)
    assert bare is not None
    return bare[0].replace('"', "")


def boot(
    node: Sandbox,
    *,
    deaf: bool = False,
    config_acs: bool = True,
    mode: str = "",
    before_kubelet: Callable[[Sandbox], object] = lambda _: None,
) -> None:
    """Do what the firmware, the kernel and systemd do, up to the kubelet; `deaf` for a kernel with old ears.

    `mode` is the target in which systemd ends instead ("emergency.target"): with what that wants alone, and a
    root that cannot be written.

    `config_acs` is whether the kernel knows that option of `pci=`; one that does not passes it over.

    Values of the kernel are what it starts with; one that was rebooted softly runs on. What sets values at a
    boot comes first, then what stands before the kubelet; where that ends in a reboot, nothing follows it. A
    unit of ours that is not ordered before the kubelet comes after it.
    """
    number = int(node.path("/run/boots").read_text()) if node.path("/run/boots").exists() else 1
    node.path("/run/boots").write_text(f"{number + 1}\n")
    if node.path("/run/soft").exists():
        node.path(USERSPACE).write_text(f"{number + 1}\n")
    else:
        node.path(BOOT_ID).write_text(f"boot {number + 1}\n")
        _start_kernel(node, deaf=deaf)
        node.path("/proc/sys/vm/swappiness").write_text("60\n")
        for config in node.path("/sys/bus/pci/devices").glob("*/config"):
            if config.stat().st_size < EXTENDED_BYTES:
                continue  # without the space that has access control
            asked = re.search(rf"([01x]{{7}})@{config.parent.name}\b", node.path("/proc/cmdline").read_text())
            config.write_bytes(with_control(asked[1] if asked and config_acs else ISOLATED))
    node.run("kill -KILL $(cat /run/kubelet.pid); rm -f /run/stopping /run/off /run/soft /run/kubelet.pid")
    if mode:
        _end_in(node, mode)
        return
    _set_values(node)
    recovers = node.path(_BOOT_LINK).is_symlink() and node.path(CURRENT).is_symlink()
    unit = node.path(BOOT_UNIT).read_text().splitlines() if recovers else []
    first = any(line.startswith("Before=") and "kubelet.service" in line for line in unit)
    if first:
        _start(node, unit)
    if not node.path("/run/stopping").exists() and not node.path("/run/off").exists():
        before_kubelet(node)
        node.run("systemctl start kubelet.service")
    if unit and not first:
        _start(node, unit)


def _start(node: Sandbox, unit: list[str]) -> None:
    node.run(next(line for line in unit if line.startswith("ExecStart=")).partition("=")[2])


def _set_values(node: Sandbox) -> None:
    """Do what systemd-sysctl and systemd-tmpfiles do with the lines of ours."""
    for file in node.path("/etc/sysctl.d").glob("*.conf"):
        for name, value in re.findall(r"^([\w.]+) = (.*)$", file.read_text(), re.MULTILINE):
            node.path(f"/proc/sys/{name.replace('.', '/')}").write_text(f"{value}\n")
    for file in node.path("/etc/tmpfiles.d").glob("*.conf"):
        for path, value in re.findall(r"^w (\S+) - - - - (.*)$", file.read_text(), re.MULTILINE):
            node.path(path).write_text(f"{value}\n")


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


def _start_kernel(node: Sandbox, *, deaf: bool) -> None:
    if not node.path(_grubenv(node)).exists():
        return  # no boot loader was installed here: the kernel is the same
    kernel, _ = _entries(node)[_chosen(node)]
    node.path("/proc/cmdline").write_text(f"{CMDLINE if deaf else options(node)}\n")
    node.path(OSRELEASE).write_text(f"{kernel.partition('-')[2]}\n")
    if "next_entry" in variables(node):
        node.run(f"{_folder(node).name}-editenv {_grubenv(node)} unset next_entry")


EXTENDED_BYTES = 4096
ISOLATED = "xx111x1"  # what the kernel sets by itself


def with_control(mask: str) -> bytes:
    """Return a configuration space whose access control, second in the chain, is as the mask says."""
    control = int(mask.replace("x", "0"), 2)
    space = bytearray(EXTENDED_BYTES)
    space[0x100:0x104] = (0x0001 | 1 << 16 | 0x148 << 20).to_bytes(4, "little")
    space[0x148:0x14C] = (0x000D | 1 << 16).to_bytes(4, "little")
    space[0x14C:0x150] = (0x5F | control << 16).to_bytes(4, "little")
    return bytes(space)


def boots(node: Sandbox) -> int:
    """Return how often the node has booted since it was made."""
    return int(node.path("/run/boots").read_text()) - 1 if node.path("/run/boots").exists() else 0
