"""The profile with which a node plans itself: its sources, and their precedence."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from numaforge.errors import NumaforgeError, ProfileError
from numaforge.first_boot.settings import MANIFEST, SETTINGS, BootSettings, read_settings
from numaforge.given import NotJsonError, parse_json, read_text
from numaforge.profile import NodeProfile, load_profile

PARAMETER = "numaforge.profile"
WRITTEN = "etc/numaforge/profile.yaml"
"""The file that cloud-init's `write_files`, Ignition or a cloud's agent writes."""
PROFILES = "etc/numaforge/profiles"
ON_DRIVE = "numaforge.yaml"
LABELS = ("NUMAFORGE", "config-2", "CIDATA", "cidata")
"""Labels of file systems that may hold a profile: ours, OpenStack's and cloud-init's config drives."""
_OEM_STRINGS = "sys/firmware/dmi/entries"
_MOST_BYTES = 4096
_MOUNT_SECONDS = 20


_Source = Callable[[Path], tuple[str, str] | None]


@dataclass(frozen=True)
class NamedProfile:
    """A profile, and the source that named it."""

    profile: NodeProfile
    by: str


def chosen_profile(settings: BootSettings, root: Path = Path("/")) -> NamedProfile:
    """Return the profile of this node.

    The first source that names one wins: the kernel parameter numaforge.profile, /etc/numaforge/profile.yaml,
    a config drive, an OEM string of the firmware, the image's own boot.yaml. A named profile that cannot be
    loaded is an error, and no reason to try the next source. Raises ProfileError with the source.
    """
    of_machine = (_of_kernel, _of_file, _of_drive, _of_firmware)
    return _first(settings, root, of_machine)


def is_image(root: Path) -> bool:
    """Whether a folder is the root of an image whose nodes plan themselves."""
    return _below(root, SETTINGS).is_file()


def image_profile(root: Path) -> NamedProfile:
    """Return the profile of an image's nodes where only the image names one."""
    return _first(read_settings(_below(root, SETTINGS)), root, (_of_file,))


def image_kubelet(root: Path) -> str | None:
    """Return the kubelet's version from an image's manifest; None where it has none."""
    try:
        packages = parse_json(_below(root, Path(MANIFEST)).read_text(encoding="utf-8"))["packages"]
        return str(packages["kubelet"]).partition("-")[0]
    except (OSError, NotJsonError, UnicodeDecodeError, KeyError, TypeError):
        return None


def _below(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def _first(settings: BootSettings, root: Path, sources: Iterable[_Source]) -> NamedProfile:
    for source in sources:
        if said := source(root):
            return NamedProfile(_load(*said, root), said[1])
    if settings.profile:
        by = f"{SETTINGS}: profile"
        return NamedProfile(_load(settings.profile, by, root), by)
    raise ProfileError(
        "no profile is named",
        where=str(SETTINGS),
        remedy=f"name one: profile in that file, /{WRITTEN}, {PARAMETER}= on the kernel's command line, "
        f"{ON_DRIVE} on a drive labelled {LABELS[0]}, or an OEM string {PARAMETER}=NAME",
    )


def _load(said: str, by: str, root: Path) -> NodeProfile:
    if "\n" in said:  # the text of a profile, from a drive
        with tempfile.TemporaryDirectory(prefix="numaforge-") as folder:
            file = Path(folder, ON_DRIVE)
            file.write_text(said, encoding="utf-8")
            try:
                return load_profile(file)
            except ProfileError as error:
                raise ProfileError(error.message, where=by, remedy=error.remedy) from error
    own = root / PROFILES / f"{said}.yaml"
    return load_profile(own if "/" not in said and own.is_file() else said, where=by)


def _of_kernel(root: Path) -> tuple[str, str] | None:
    try:
        words = (root / "proc/cmdline").read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        return None
    named = [word.partition("=")[2] for word in words if word.startswith(f"{PARAMETER}=")]
    return (named[-1], f"kernel parameter {PARAMETER}") if named else None


def _of_file(root: Path) -> tuple[str, str] | None:
    file = root / WRITTEN
    return (str(file), f"/{WRITTEN}") if file.exists() else None


def _of_drive(root: Path) -> tuple[str, str] | None:
    for label in LABELS:
        device = root / "dev/disk/by-label" / label
        if device.exists():
            with _mounted(device) as drive:
                file = drive / ON_DRIVE
                if file.is_file():
                    text = read_text(file, error=ProfileError)
                    return (f"{text.rstrip()}\n", f"{ON_DRIVE} on the drive {label}")
    return None


@contextmanager
def _mounted(device: Path) -> Iterator[Path]:
    """Mount a drive read-only in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="numaforge-") as folder:
        options = "ro,nosuid,nodev,noexec"
        mount = ["mount", "-o", options, str(device), folder]
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


def _of_firmware(root: Path) -> tuple[str, str] | None:
    """Read the OEM strings (SMBIOS type 11): they follow the formatted part, each ending with a NUL."""
    for entry in sorted((root / _OEM_STRINGS).glob("11-*/raw")):
        try:
            raw = entry.read_bytes()[:_MOST_BYTES]
        except OSError as error:
            raise NumaforgeError(f"cannot be read: {error.strerror}", where=str(entry)) from error
        strings = raw[raw[1] if len(raw) > 1 else len(raw) :].decode("utf-8", "replace").split("\0")
        named = [text.partition("=")[2] for text in strings if text.startswith(f"{PARAMETER}=")]
        if named:
            return named[0], f"OEM string {PARAMETER} of the firmware"
    return None
