"""A real kernel booted with `pci=config_acs=` sets the bits of its bridges, and our proof reads them there.

Debian 13's kernel and a busybox, in an emulated machine with two PCIe root ports.
"""

import io
import subprocess
from pathlib import Path

import pytest

from lab.requirements import command
from lab.roots import UnavailableError, build_kernel
from numaforge.lib import shell

PORTS = {"0000:00:04.0": "xx111x1", "0000:00:05.0": "xx010x0"}
IDS = "1b36:000c"  # QEMU's pcie-root-port
ENDED = "the guest has ended"
LIMIT_SECONDS = 170

_INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /part
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
PART=/part
echo # ends the firmware's last line
{library}
if grep -q pci_config_acs /sys/kernel/btf/vmlinux; then echo "the kernel's types name it"; fi
prove() {{ # NAME MASKS
    echo "$2" > /part/masks
    if pcie_acs_prove new; then echo "$1: proved"; else echo "$1: $why"; fi
}}
{proofs}
echo '{ended}'
poweroff -f
"""


def _initial_disk(files: dict[str, bytes]) -> bytes:
    """Return an archive of executables as the kernel unpacks it: cpio's format "newc"."""
    disk = io.BytesIO()
    for number, (path, content) in enumerate([("bin", b""), *files.items(), ("TRAILER!!!", b"")], start=1):
        mode = 0o40755 if path == "bin" else 0o100755
        name = path.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
        disk.write(head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4))
    return disk.getvalue()


def booted(folder: Path, proofs: dict[str, dict[str, str]]) -> list[str]:
    """Boot the kernel with the masks of PORTS, and return what it says of each proof."""
    try:
        root = build_kernel()
    except UnavailableError as error:
        pytest.skip(str(error))
    asked = [
        f"prove '{name}' '{chr(10).join(f'{port} {IDS} {mask}' for port, mask in masks.items())}'"
        for name, masks in proofs.items()
    ]
    library = shell.library("roles/gpudirect/control", "roles/gpudirect/part")
    init = _INIT.format(library=library, proofs="\n".join(asked), ended=ENDED)
    busybox = next(path for path in (root / "usr/bin/busybox", root / "bin/busybox") if path.exists())
    disk = folder / "initial-disk"
    disk.write_bytes(_initial_disk({"bin/busybox": busybox.read_bytes(), "init": init.encode()}))
    masks = ";".join(f"{mask}@{port}" for port, mask in PORTS.items())
    slots = enumerate((port.split(":")[2].partition(".")[0] for port in PORTS), start=1)
    ports = [f"pcie-root-port,bus=pcie.0,addr={slot},chassis={number}" for number, slot in slots]
    done = subprocess.run(
        [
            command("qemu-system-x86_64"),
            *("-machine", "q35,accel=tcg", "-m", "512", "-nographic", "-no-reboot", "-nic", "none"),
            *("-kernel", str(next((root / "boot").glob("vmlinuz-*"))), "-initrd", str(disk)),
            *("-append", f"console=ttyS0 quiet panic=-1 pci=config_acs={masks}"),
            *(word for port in ports for word in ("-device", port)),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_SECONDS,
    )
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert ENDED in lines, (done.stdout, done.stderr)
    return lines


def test_kernel_sets_the_requested_acs_bits_and_the_proof_reads_them(tmp_path: Path) -> None:
    first = next(iter(PORTS))
    said = booted(
        tmp_path,
        {
            "as asked": PORTS,
            "another mask": {**PORTS, first: "xx111x0"},
            "another port": {"0000:00:09.0": "xx111x1"},
        },
    )
    assert "the kernel's types name it" in said
    assert "as asked: proved" in said
    assert any(
        line.startswith(f"another mask: the kernel has not set xx111x0 on the bridge {first}")
        for line in said
    )
    assert any(line.startswith("another port: the bridge 0000:00:09.0 is nothing") for line in said)
