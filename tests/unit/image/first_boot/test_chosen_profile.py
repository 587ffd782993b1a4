"""Which profile a node plans itself with: who wins of those that name one, and what is no profile."""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from numaforge.image.first_boot.chosen import (
    ON_DRIVE,
    WRITTEN,
    chosen_profile,
    mounting,
    profile_on_drive,
    serial_of,
)
from numaforge.image.first_boot.settings import BootSettings, Source
from numaforge.lib.errors import ProfileError
from numaforge.lib.strict_yaml import MOST_MIB

KERNEL = "proc/cmdline"
OWN = "etc/numaforge/profiles/own.yaml"
FIRMWARE = "sys/firmware/dmi/entries/11-0/raw"
LABELLED = ("dev/disk/by-label/NUMAFORGE", "dev/disk/by-label/config-2", "dev/disk/by-label/cidata")
DEVICE = "/dev/disk/by-path/pci-0000:00:05.0"
BY_DRIVE = f"numaforge.yaml on the drive {DEVICE}"
BY_KERNEL = "kernel parameter numaforge.profile"
BY_FIRMWARE = "OEM string numaforge.profile of the firmware"
BY_IMAGE = "/etc/numaforge/boot.yaml: profile"


def oem(*strings: str, formatted: int = 5) -> bytes:
    """Return SMBIOS type 11: a part whose second byte is its length, then strings with a NUL each."""
    head = bytes([11, formatted, 0, 0, len(strings)]).ljust(formatted, b"\0")
    return head + b"".join(text.encode() + b"\0" for text in strings) + b"\0"


@pytest.fixture
def root(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    files: Mapping[str, str | bytes] = request.param
    for name, content in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return tmp_path


def named(said: str) -> str:
    return f"ro quiet numaforge.profile={said} console=ttyS0\n"


CHOSEN: dict[str, tuple[Mapping[str, str | bytes], str | None, str, str]] = {
    "the image alone": ({KERNEL: "ro\n"}, "training", "training", BY_IMAGE),
    "the firmware before the image": (
        {FIRMWARE: oem("of the vendor", "numaforge.profile=cpu-only")},
        "training",
        "cpu-only",
        BY_FIRMWARE,
    ),
    "the first of two OEM strings": (
        {FIRMWARE: oem("numaforge.profile=cpu-only", "numaforge.profile=training")},
        None,
        "cpu-only",
        BY_FIRMWARE,
    ),
    "an OEM string after a longer formatted part": (
        {FIRMWARE: oem("numaforge.profile=cpu-only", formatted=9)},
        None,
        "cpu-only",
        BY_FIRMWARE,
    ),
    "an OEM string of another name is none": (
        {FIRMWARE: oem("xnumaforge.profile=cpu-only", "numaforge.profiles=cpu-only")},
        "training",
        "training",
        BY_IMAGE,
    ),
    "firmware of one byte": ({FIRMWARE: b"\x0b"}, "training", "training", BY_IMAGE),
    "firmware without a byte": ({FIRMWARE: b""}, "training", "training", BY_IMAGE),
    "a formatted part that is longer than all": ({FIRMWARE: b"\x0b\xff\0"}, "training", "training", BY_IMAGE),
    "a written file before the firmware": (
        {FIRMWARE: oem("numaforge.profile=cpu-only"), WRITTEN: "name: written\n"},
        "training",
        "written",
        f"/{WRITTEN}",
    ),
    "file systems with the labels of config drives name nothing": (
        {KERNEL: "ro\n", **dict.fromkeys(LABELLED, "")},
        "training",
        "training",
        BY_IMAGE,
    ),
    "a written file that extends one of the image's own by name": (
        {WRITTEN: "{name: written, extends: own}\n", OWN: "name: own\n"},
        None,
        "written",
        f"/{WRITTEN}",
    ),
    "the kernel before all": (
        {KERNEL: named("cpu-only"), WRITTEN: "name: written\n", FIRMWARE: oem("numaforge.profile=training")},
        "training",
        "cpu-only",
        BY_KERNEL,
    ),
    "the last of two kernel parameters, as the kernel has it": (
        {KERNEL: "numaforge.profile=nothing ro numaforge.profile=cpu-only\n"},
        None,
        "cpu-only",
        BY_KERNEL,
    ),
    "one of the image's own profiles by name": (
        {KERNEL: named("own"), OWN: "name: own\n"},
        None,
        "own",
        BY_KERNEL,
    ),
    "one of the image's own before a ready one of that name": (
        {KERNEL: named("training"), "etc/numaforge/profiles/training.yaml": "name: ours\n"},
        None,
        "ours",
        BY_KERNEL,
    ),
}


@pytest.mark.parametrize(("root", "image", "profile", "by"), CHOSEN.values(), ids=CHOSEN, indirect=["root"])
def test_first_source_naming_a_profile_wins(root, image, profile, by):
    found = chosen_profile(BootSettings(profile=image), root)
    assert (found.profile.name, found.by) == (profile, by)


NO_PROFILE: dict[str, tuple[Mapping[str, str | bytes], str]] = {
    "nothing names one": ({KERNEL: "ro\n"}, "/etc/numaforge/boot.yaml: no profile is named"),
    "an empty kernel parameter": ({KERNEL: named("")}, f"{BY_KERNEL}: '' names no profile"),
    "a name with dots": ({KERNEL: named("..")}, f"{BY_KERNEL}: there is no ready profile '..'"),
    "a name that is misspelled": ({KERNEL: named("trianing")}, "did you mean 'training'?"),
    "an empty OEM string": ({FIRMWARE: oem("numaforge.profile=")}, f"{BY_FIRMWARE}: '' names no profile"),
    "an empty file": ({WRITTEN: ""}, f"{WRITTEN}: is empty"),
    "a file that is a list": ({WRITTEN: "- a\n"}, f"{WRITTEN}: a profile is a mapping, not a list"),
    "a file with a key that there is not": ({WRITTEN: "cpsu: {}\n"}, f"{WRITTEN}: cpsu: unknown key"),
    "a file that is no text": ({WRITTEN: b"\xff\xfe\x00"}, WRITTEN),
    "a name that neither the image nor numaforge has": (
        {WRITTEN: "extends: owm\n", OWN: "name: own\n"},
        "there is no ready profile 'owm'; did you mean 'own'?",
    ),
    "one of the image's own that extends itself": (
        {WRITTEN: "extends: own\n", OWN: "extends: ./own.yaml\n"},
        "own.yaml goes in a circle",
    ),
}


@pytest.mark.parametrize(("root", "why"), NO_PROFILE.values(), ids=NO_PROFILE, indirect=["root"])
def test_missing_or_invalid_profile_is_refused_with_its_source(root, why):
    with pytest.raises(ProfileError) as caught:
        chosen_profile(BootSettings(), root)
    assert why in str(caught.value)


@pytest.mark.parametrize("root", [{KERNEL: named("nothing")}], indirect=True, ids=["kernel"])
def test_unknown_profile_name_does_not_fall_back_to_the_next_source(root):
    with pytest.raises(ProfileError, match="'nothing'"):
        chosen_profile(BootSettings(profile="training"), root)


SOURCES: dict[str, tuple[tuple[Source, ...], str]] = {
    "the order of the sources is the image's": (("firmware", "kernel"), BY_FIRMWARE),
    "a source that is not listed names nothing": (("firmware",), BY_FIRMWARE),
    "no source": ((), BY_IMAGE),
}


@pytest.mark.parametrize(
    "root",
    [{KERNEL: named("cpu-only"), WRITTEN: "name: written\n", FIRMWARE: oem("numaforge.profile=cpu-only")}],
    indirect=True,
    ids=["all"],
)
@pytest.mark.parametrize(("sources", "by"), SOURCES.values(), ids=SOURCES)
def test_image_chooses_its_profile_sources(root, sources, by):
    assert chosen_profile(BootSettings(profile="training", sources=sources), root).by == by


SLOW = "tuning: {governor: powersave}\n"
BASE = "etc/numaforge/profiles/base.yaml"
EXTENDED: dict[str, Mapping[str, str]] = {
    "one of the image's own by its name": {WRITTEN: "extends: own\n", OWN: SLOW},
    "an own one that extends another by its name": {
        WRITTEN: "extends: own\n",
        OWN: "extends: base\n",
        BASE: SLOW,
    },
    "an own one that extends another as a file beside it": {
        WRITTEN: "extends: own\n",
        OWN: "extends: ./base.yaml\n",
        BASE: SLOW,
    },
    "an own one that extends the ready one of the same name": {
        WRITTEN: "extends: training\n",
        "etc/numaforge/profiles/training.yaml": f"extends: training\n{SLOW}",
    },
}


@pytest.mark.parametrize("root", EXTENDED.values(), ids=EXTENDED, indirect=True)
def test_written_profile_extends_image_profiles(root):
    assert chosen_profile(BootSettings(), root).profile.tuning.governor == "powersave"


@pytest.mark.parametrize(
    "root",
    [{WRITTEN: "extends: epyc-nps1\n", "etc/numaforge/profiles/cpu-only.yaml": SLOW}],
    indirect=True,
    ids=["an own cpu-only"],
)
def test_ready_profile_extends_only_ready_profiles(root):
    assert chosen_profile(BootSettings(), root).profile.tuning.governor != "powersave"


# ---- the drive ----


def test_missing_drive_does_not_fall_back_to_the_next_source(tmp_path):
    settings = BootSettings(profile="training", sources=("drive",), drive=DEVICE, wait_seconds=0)
    with pytest.raises(ProfileError, match="is not there after 0 s"):
        chosen_profile(settings, tmp_path)


@pytest.mark.parametrize("root", [{DEVICE[1:]: "extends: training\n"}], indirect=True, ids=["a file"])
def test_only_a_block_device_counts_as_a_drive(root):
    with pytest.raises(ProfileError, match="is not a block device"):
        chosen_profile(BootSettings(profile="training", sources=("drive",), drive=DEVICE), root)


def test_drive_is_mounted_ro_noexec_nodev():
    _, _, types, _, options, device, folder = mounting(Path(DEVICE), "/tmp/folder")
    assert types == "iso9660,vfat"
    assert {*options.split(",")} == {"ro", "nosuid", "nodev", "noexec"}
    assert (device, folder) == (DEVICE, "/tmp/folder")


def test_profile_on_a_drive_extends_image_profiles_by_name(tmp_path):
    (tmp_path / ON_DRIVE).write_text("extends: own\n")
    assert profile_on_drive(tmp_path, BY_DRIVE) == {"name": "numaforge", "extends": "own"}


VIRTIO, SCSI = "sys/devices/virtio2/block/vdb", "sys/devices/host0/0:0:0:0/block/sdb"
SERIALS: dict[str, tuple[Mapping[str, str | bytes], str, str]] = {
    "of a virtio drive": ({f"{VIRTIO}/serial": "volume-1\n"}, VIRTIO, "volume-1"),
    "of a partition, that of its drive": (
        {f"{VIRTIO}/serial": "volume-1\n", f"{VIRTIO}/vdb1/partition": "1\n"},
        f"{VIRTIO}/vdb1",
        "volume-1",
    ),
    "of a SCSI drive": ({f"{SCSI}/device/wwid": "t10.ATA  disk  1\n"}, SCSI, "t10.ATAdisk1"),
    "none": ({f"{VIRTIO}/size": "8\n", f"{VIRTIO}/serial": "\n"}, VIRTIO, ""),
}


@pytest.mark.parametrize(("root", "block", "serial"), SERIALS.values(), ids=SERIALS, indirect=["root"])
def test_drive_is_identified_by_its_serial_number(root, block, serial):
    name = Path(block).name
    (root / "sys/class/block").mkdir(parents=True)
    (root / "sys/class/block" / name).symlink_to(root / block)
    link = root / DEVICE[1:]
    link.parent.mkdir(parents=True)
    link.symlink_to(f"../../{name}")
    assert serial_of(link, root) == serial


def test_drive_without_the_file_names_no_profile(tmp_path):
    assert profile_on_drive(tmp_path, BY_DRIVE) is None


def a_link_out_of_it(file: Path) -> None:
    secret = file.parent.parent / "secret"
    secret.write_text("extends: training\n")
    file.symlink_to(secret)


def a_link_within_it(file: Path) -> None:
    other = file.with_name("other.yaml")
    other.write_text("extends: training\n")
    file.symlink_to(other.name)


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a link out of it": (a_link_out_of_it, "links are not followed"),
    "a link within it": (a_link_within_it, "links are not followed"),
    "a link to nothing": (lambda file: file.symlink_to("/nonexistent"), "links are not followed"),
    "a pipe": (os.mkfifo, "is not a regular file"),
    "a folder": (Path.mkdir, "is not a regular file"),
    "bytes": (lambda file: file.write_bytes(b"\xff\xfe\0"), "is not UTF-8 text"),
    "more than is read": (lambda file: file.open("wb").truncate(MOST_MIB * 2**20 + 1), "is larger than"),
    "nothing": (lambda file: file.write_text(""), "is not a mapping"),
    "a list": (lambda file: file.write_text("- a\n"), "is not a mapping"),
    "a file of the node to extend": (
        lambda file: file.write_text("extends: /etc/shadow.yaml\n"),
        "extends: names the file /etc/shadow.yaml",
    ),
    "a file beside it to extend": (
        lambda file: file.write_text("extends: ../other.yaml\n"),
        "extends: names the file ../other.yaml",
    ),
    "a file of the node for MIG": (
        lambda file: file.write_text("mig: {mig_parted: /etc/shadow}\n"),
        "mig.mig_parted: names the file /etc/shadow",
    ),
}


@pytest.mark.parametrize(("make", "why"), HOSTILE.values(), ids=HOSTILE)
def test_invalid_content_of_the_drive_is_refused(make, why, tmp_path):
    drive = tmp_path / "drive"
    drive.mkdir()
    make(drive / ON_DRIVE)
    with pytest.raises(ProfileError) as caught:
        profile_on_drive(drive, BY_DRIVE)
    assert why in str(caught.value)
    assert BY_DRIVE in str(caught.value)


def test_drive_with_another_file_system_is_not_mounted(tmp_path):
    image = tmp_path / "drive.img"
    with image.open("wb") as file:
        file.truncate(4 << 20)
    if os.geteuid() or not shutil.which("losetup") or not shutil.which("mke2fs"):
        pytest.skip("makes a loop device of a file, which needs root, losetup and mke2fs")
    subprocess.run(["mke2fs", "-q", "-L", "NUMAFORGE", image], check=True)
    loop = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True, check=False)
    if loop.returncode:
        pytest.skip(f"no loop device: {loop.stderr}")
    device = loop.stdout.strip()
    link = tmp_path / DEVICE[1:]
    link.parent.mkdir(parents=True)
    link.symlink_to(device)
    try:
        with pytest.raises(ProfileError, match="cannot be mounted"):
            chosen_profile(BootSettings(sources=("drive",), drive=DEVICE), tmp_path)
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
