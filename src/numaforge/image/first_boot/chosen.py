"""The profile with which a node plans itself: sources and precedence."""

import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from numaforge.image.first_boot.settings import MANIFEST, SETTINGS, BootSettings, Source, read_settings
from numaforge.lib.errors import NumaforgeError, ProfileError
from numaforge.lib.given import NotJsonError, mapping, parse_json, read_text
from numaforge.lib.strict_yaml import MOST_MIB, read_yaml
from numaforge.planning.profile import NodeProfile
from numaforge.planning.profiles import is_path, load_profile

PARAMETER = "numaforge.profile"
WRITTEN = "etc/numaforge/profile.yaml"
"""The file that cloud-init's `write_files`, Ignition or a cloud's agent writes."""
PROFILES = "etc/numaforge/profiles"
ON_DRIVE = "numaforge.yaml"
_OEM_STRINGS = "sys/firmware/dmi/entries"
_MOST_BYTES = 4096
_MOUNT_SECONDS = 20
_PAUSE_SECONDS = 0.2


class NamedProfile(NamedTuple):
    """A profile, and the source that named it."""

    profile: NodeProfile
    by: str


def chosen_profile(settings: BootSettings, root: Path = Path("/")) -> NamedProfile:
    """Return the profile of this node.

    The first of the image's sources that names one wins, and last the image's own boot.yaml. A named profile
    that cannot be loaded is an error, and no reason to try the next source. Raises ProfileError with the
    source.
    """
    return _first(settings, root, settings.sources)


def is_image(root: Path) -> bool:
    """Whether a folder is the root of an image whose nodes plan themselves."""
    return _below(root, SETTINGS).is_file()


def image_profile(root: Path) -> NamedProfile:
    """Return the profile of an image's nodes where only the image names one."""
    return _first(read_settings(_below(root, SETTINGS)), root, ("file",))


def image_kubelet(root: Path) -> str | None:
    """Return the version of the root's kubelet in an image's manifest; None where it has none."""
    try:
        kubelet = parse_json(_below(root, Path(MANIFEST)).read_text(encoding="utf-8"))["kubelet"]
        return None if kubelet["version"] is None else str(kubelet["version"])
    except (OSError, NotJsonError, UnicodeDecodeError, KeyError, TypeError):
        return None


def _below(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def _first(settings: BootSettings, root: Path, sources: tuple[Source, ...]) -> NamedProfile:
    profiles = {file.stem: file for file in sorted((root / PROFILES).glob("*.yaml"))}
    for source in sources:
        if choice := _READERS[source](settings, root):
            profile, by = choice
            return NamedProfile(load_profile(profile, where=by, images=profiles), by)
    if settings.profile:
        by = f"{SETTINGS}: profile"
        return NamedProfile(load_profile(settings.profile, where=by, images=profiles), by)
    raise ProfileError(
        "no profile is named",
        where=str(SETTINGS),
        remedy=f"name one: profile in that file; or one of its sources ({', '.join(settings.sources)}): "
        f"{PARAMETER}= on the kernel's command line, /{WRITTEN}, {ON_DRIVE} on the drive, an OEM string "
        f"{PARAMETER}=NAME",
    )


_Named = tuple[str | Path | dict[str, Any], str]
"""A profile's name, file or document, and its source in words."""


def _of_kernel(_: BootSettings, root: Path) -> _Named | None:
    try:
        words = (root / "proc/cmdline").read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        return None
    choices = [word.partition("=")[2] for word in words if word.startswith(f"{PARAMETER}=")]
    return (choices[-1], f"kernel parameter {PARAMETER}") if choices else None


def _of_file(_: BootSettings, root: Path) -> _Named | None:
    file = root / WRITTEN
    return (file, f"/{WRITTEN}") if file.exists() else None


def _of_drive(settings: BootSettings, root: Path) -> _Named | None:
    drive = str(settings.drive)
    device = root / drive.lstrip("/")
    deadline = time.monotonic() + settings.wait_seconds
    while not device.is_block_device():
        if device.exists():
            raise ProfileError("is not a block device", where=str(device))
        if time.monotonic() > deadline:
            raise ProfileError(
                f"is not there after {settings.wait_seconds} s",
                where=str(device),
                remedy=f"attach it, or take drive out of {SETTINGS}: nothing else names the profile instead",
            )
        time.sleep(_PAUSE_SECONDS)
    serial = serial_of(device, root)
    by = f"{ON_DRIVE} on the drive {drive}" + (f" with the serial number {serial}" if serial else "")
    with _mounted(device) as folder:
        profile = profile_on_drive(folder, by)
    return None if profile is None else (profile, by)


def serial_of(device: Path, root: Path = Path("/")) -> str:
    """Return the serial number of a drive or of a partition's drive, "" without one.

    Another drive at the same place is another source of the profile.
    """
    block = (root / "sys/class/block" / device.resolve().name).resolve()
    for folder in (block, block.parent):
        for name in ("serial", "wwid", "device/serial", "device/wwid"):
            with suppress(OSError):
                if serial := "".join((folder / name).read_text(errors="replace").split()):
                    return serial
    return ""


def profile_on_drive(folder: Path, by: str) -> dict[str, Any] | None:
    """Return the profile on a mounted drive; None where it has none.

    Raises ProfileError for a link, for anything else that is not a file with a profile, and for a profile
    that names a file: that would be one of the node.
    """
    file = folder / ON_DRIVE
    try:
        if not stat.S_ISREG(file.lstat().st_mode):
            raise ProfileError("is not a regular file; links are not followed", where=by)
        document = read_yaml(read_text(file, most_mib=MOST_MIB), by, ProfileError, octal=False)
    except FileNotFoundError:
        return None
    except NumaforgeError as error:
        where = (error.where or by).replace(str(file), by)
        raise ProfileError(error.message, where=where, remedy=error.remedy) from error
    if not isinstance(document, dict):
        raise ProfileError(
            "is not a mapping", where=by, remedy="write a profile, such as `extends: training`"
        )
    extends, parted = document.get("extends"), mapping(document.get("mig")).get("mig_parted")
    for key, file_named in (
        ("extends", isinstance(extends, str) and is_path(extends) and extends),
        ("mig.mig_parted", isinstance(parted, str) and parted),
    ):
        if file_named:
            raise ProfileError(
                f"names the file {file_named}",
                where=f"{by}: {key}",
                remedy="a profile on a drive extends by name a ready profile or one of the image's",
            )
    return {"name": Path(ON_DRIVE).stem, **document}


def mounting(device: Path, folder: str) -> list[str]:
    """Return the command that mounts a drive, of the kinds of file system that config drives have."""
    return ["mount", "-t", "iso9660,vfat", "-o", "ro,nosuid,nodev,noexec", str(device), folder]


@contextmanager
def _mounted(device: Path) -> Iterator[Path]:
    """Mount a drive read-only in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="numaforge-") as folder:
        mount = mounting(device, folder)
        try:
            done = subprocess.run(mount, capture_output=True, text=True, check=False, timeout=_MOUNT_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ProfileError(f"cannot be mounted: {error}", where=str(device)) from error
        if done.returncode != 0:
            raise ProfileError(f"cannot be mounted: {done.stderr.strip()}", where=str(device))
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True, timeout=_MOUNT_SECONDS)


def _of_firmware(_: BootSettings, root: Path) -> _Named | None:
    """Read the OEM strings (SMBIOS type 11): they follow the formatted part, each ending with a NUL."""
    for entry in sorted((root / _OEM_STRINGS).glob("11-*/raw")):
        try:
            raw = entry.read_bytes()[:_MOST_BYTES]
        except OSError as error:
            raise NumaforgeError(f"cannot be read: {error.strerror}", where=str(entry)) from error
        strings = raw[raw[1] if len(raw) > 1 else len(raw) :].decode("utf-8", "replace").split("\0")
        choices = [text.partition("=")[2] for text in strings if text.startswith(f"{PARAMETER}=")]
        if choices:
            return choices[0], f"OEM string {PARAMETER} of the firmware"
    return None


_READERS: Mapping[Source, Callable[[BootSettings, Path], _Named | None]] = {
    "kernel": _of_kernel,
    "file": _of_file,
    "drive": _of_drive,
    "firmware": _of_firmware,
}
