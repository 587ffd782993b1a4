"""A PC's firmware finds GRUB in the first sector, and GRUB the partition behind itself."""

from __future__ import annotations

import struct

import pytest

from lab import mbr

DISK_BYTES = 8 << 20
BOOT_CODE = bytes(range(256)) * 2
CORE_IMAGE = b"core" * 300


@pytest.fixture
def disk(tmp_path):
    path = tmp_path / "disk"
    path.write_bytes(bytes(DISK_BYTES))
    return path


def test_the_boot_code_ends_where_the_partition_table_begins(disk):
    mbr.write(disk, BOOT_CODE, CORE_IMAGE)
    sector = disk.read_bytes()[:512]
    assert (sector[:440], sector[440:446], sector[510:]) == (BOOT_CODE[:440], bytes(6), b"\x55\xaa")


def test_one_active_linux_partition_takes_the_rest_of_the_disk(disk):
    mbr.write(disk, BOOT_CODE, CORE_IMAGE)
    table = disk.read_bytes()[446:510]
    active, kind, first, sectors = struct.unpack("<B3xB3xII", table[:16])
    assert (active, kind, first * 512) == (0x80, 0x83, mbr.PARTITION_AT_BYTE)
    assert (first + sectors) * 512 == DISK_BYTES
    assert table[16:] == bytes(48)


def test_the_core_image_follows_the_first_sector(disk):
    mbr.write(disk, BOOT_CODE, CORE_IMAGE)
    assert disk.read_bytes()[512:] == CORE_IMAGE.ljust(DISK_BYTES - 512, b"\0")


@pytest.mark.parametrize(
    ("size", "fits"),
    [
        pytest.param((1 << 20) - 512, True, id="a-core-image-up-to-the-partition"),
        pytest.param((1 << 20) - 511, False, id="a-core-image-into-the-partition"),
    ],
)
def test_a_core_image_stays_before_the_partition(disk, size, fits):
    if fits:
        mbr.write(disk, BOOT_CODE, bytes(size))
        return
    with pytest.raises(ValueError, match="does not fit before the partition"):
        mbr.write(disk, BOOT_CODE, bytes(size))
