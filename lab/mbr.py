"""The first sectors of a disk from which a PC's firmware starts GRUB.

Layout: https://www.gnu.org/software/grub/manual/grub/html_node/BIOS-installation.html
"""

from __future__ import annotations

import struct
from pathlib import Path

SECTOR_BYTES = 512
PARTITION_AT_BYTE = 1 << 20
"""Where the only partition begins; GRUB's core image lies before it."""

_CODE_BYTES = 440
_PARTITION_TABLE_AT = 446
_SIGNATURE = b"\x55\xaa"
_LINUX = 0x83
_ACTIVE = 0x80
_BEYOND_CYLINDERS = b"\xfe\xff\xff"
"""The address in cylinders, heads and sectors of what only sector numbers reach."""


def write(disk: Path, boot_code: bytes, core_image: bytes) -> None:
    """Write GRUB and a partition table with one Linux partition, which takes the rest of the disk.

    `boot_code` is GRUB's boot.img, which loads the core image from the second sector.
    """
    first = PARTITION_AT_BYTE // SECTOR_BYTES
    if SECTOR_BYTES + len(core_image) > PARTITION_AT_BYTE:
        raise ValueError(f"a core image of {len(core_image)} bytes does not fit before the partition")
    sectors = disk.stat().st_size // SECTOR_BYTES - first
    partition = struct.pack(
        "<B3sB3sII", _ACTIVE, _BEYOND_CYLINDERS, _LINUX, _BEYOND_CYLINDERS, first, sectors
    )
    table = partition.ljust(SECTOR_BYTES - _PARTITION_TABLE_AT - len(_SIGNATURE), b"\0") + _SIGNATURE
    with disk.open("r+b") as handle:
        handle.write(boot_code[:_CODE_BYTES].ljust(_PARTITION_TABLE_AT, b"\0") + table + core_image)
