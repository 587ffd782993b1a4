"""Which profile a node plans itself with: who wins of those that name one, and what is no profile."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from numaforge.errors import ProfileError
from numaforge.first_boot.chosen import WRITTEN, chosen_profile
from numaforge.first_boot.settings import BootSettings

KERNEL = "proc/cmdline"
OWN = "etc/numaforge/profiles/own.yaml"
FIRMWARE = "sys/firmware/dmi/entries/11-0/raw"
DRIVE = "dev/disk/by-label/NUMAFORGE"
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
    "a written file before a drive": (
        {WRITTEN: "name: written\n", DRIVE: ""},
        None,
        "written",
        f"/{WRITTEN}",
    ),
    "the kernel before all": (
        {
            KERNEL: named("cpu-only"),
            WRITTEN: "name: written\n",
            FIRMWARE: oem("numaforge.profile=training"),
            DRIVE: "",
        },
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
def test_the_first_that_names_a_profile_wins(root: Path, image: str | None, profile: str, by: str) -> None:
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
    "a drive that cannot be mounted": ({DRIVE: ""}, f"{DRIVE}: cannot be mounted"),
}


@pytest.mark.parametrize(("root", "why"), NO_PROFILE.values(), ids=NO_PROFILE, indirect=["root"])
def test_what_is_said_and_cannot_be_had_is_an_error_with_its_source(root: Path, why: str) -> None:
    with pytest.raises(ProfileError) as caught:
        chosen_profile(BootSettings(), root)
    assert why in str(caught.value)


@pytest.mark.parametrize("root", [{KERNEL: named("nothing")}], indirect=True, ids=["kernel"])
def test_a_profile_that_is_named_wrongly_is_no_reason_to_ask_the_next(root: Path) -> None:
    with pytest.raises(ProfileError, match="'nothing'"):
        chosen_profile(BootSettings(profile="training"), root)
