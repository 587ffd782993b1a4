"""Root file systems of the releases that nodes run: Debian's and Ubuntu's own packages, without a kernel.

What a mirror does not have is no root: `UnavailableError` says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab import cache
from lab.errors import LabError
from lab.image import UNUSED_DOCUMENTS, bootstrap_command, mirror

PACKAGES = (
    "apt",
    "busybox-static",
    "containerd",
    "ethtool",
    "grub-pc-bin",
    "grub2-common",
    "iproute2",
    "irqbalance",
    "kmod",
    "openssh-server",
    "procps",
    "python3-minimal",
    "sudo",
    "systemd-sysv",
    "udev",
    "unattended-upgrades",
)
"""What a GPU node has of its distribution, as far as numaforge writes files for it or runs it."""

UBUNTU_MIRROR = "http://archive.ubuntu.com/ubuntu"
UBUNTU_KEYS = "usr/share/keyrings/ubuntu-archive-keyring.gpg"
KEYS_FROM = "trixie"
"""Debian's release whose package of Ubuntu's keys is taken, so that Debian's archive vouches for them."""

KERNEL_FROM = "trixie"
"""The oldest release here whose kernel knows `pci=config_acs=`: 6.12, where Debian 12 has 6.1."""
_NOT_THERE = ("does not have a Release file", "Failed to fetch", "Could not resolve", "Unable to connect")
"""apt's errors where a mirror is unreachable, or has no such suite."""


RPM_FROM = "trixie"
"""Debian's release whose rpm and dnf the root of RPM packages has."""
RPM_TOOLS = ("createrepo-c", "dnf", "dnf-plugins-core", "file", "python3-systemd", "rpm", "systemd-sysv")


class UnavailableError(LabError):
    """The package mirrors that can be reached here have no such release."""


@dataclass(frozen=True)
class Release:
    """A release of a distribution, by the name of its suite."""

    suite: str
    name: str

    @property
    def ubuntu(self) -> bool:
        return self.name.startswith("Ubuntu")


RELEASES = {
    release.suite: release
    for release in (
        Release("bookworm", "Debian 12"),
        Release("trixie", "Debian 13"),
        Release("jammy", "Ubuntu 22.04 LTS"),
        Release("noble", "Ubuntu 24.04 LTS"),
        Release("resolute", "Ubuntu 26.04 LTS"),
    )
}

SYSTEMD = (
    "libsystemd-shared",
    "libsystemd0",
    "libudev1",
    "systemd",
    "systemd-dev",
    "systemd-sysv",
    "udev",
)
"""The packages of systemd that a node of the lab has."""
SYSTEMD_FROM = Release("bookworm-backports", "systemd 254 for Debian 12")
"""The oldest with `systemctl soft-reboot`, where Debian 12 has 252."""


def build(suite: str) -> Path:
    """Return the folder of a release's root, made where it is not in the cache; needs root.

    Raises UnavailableError where no mirror has it.
    """
    release = RELEASES[suite]
    packages = (*PACKAGES, "ubuntu-archive-keyring") if suite == KEYS_FROM else PACKAGES
    sources = _ubuntu_sources(suite) if release.ubuntu else mirror()
    key = cache.digest([suite, *packages, *sources, *UNUSED_DOCUMENTS])
    keys = [f"--keyring={build(KEYS_FROM) / UBUNTU_KEYS}"] if release.ubuntu else []

    def make(folder: Path) -> None:
        _bootstrap(release, [*keys, f"--include={','.join(packages)}"], folder / "root", sources)

    return cache.obtain(f"root-{suite}", key, make) / "root"


def build_kernel() -> Path:
    """Return a folder with the packages of Debian 13's kernel for virtual machines and a static busybox.

    Raises UnavailableError where no mirror has it.
    """
    packages = ("linux-image-cloud-amd64", "busybox-static")
    key = cache.digest([KERNEL_FROM, *packages, *mirror()])

    def make(folder: Path) -> None:
        options = [f"--include={','.join(packages)}"]
        _bootstrap(RELEASES[KERNEL_FROM], options, folder / "root", mirror(), variant="extract")

    return cache.obtain("root-kernel", key, make) / "root"


def build_systemd() -> Path:
    """Return a folder with the files of SYSTEMD from SYSTEMD_FROM.

    Raises UnavailableError where no mirror has it.
    """
    key = cache.digest([SYSTEMD_FROM.suite, *SYSTEMD, *mirror()])
    extract = (
        'cd "$1" && mkdir files && APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-get --quiet download '
        f'{" ".join(SYSTEMD)} && for package in *.deb; do dpkg-deb --extract "$package" files || exit; done'
    )

    def make(folder: Path) -> None:
        _bootstrap(SYSTEMD_FROM, [f"--extract-hook={extract}"], folder / "root", mirror(), variant="custom")

    return cache.obtain("root-systemd", key, make) / "root/files"


def build_tools(suite: str, packages: tuple[str, ...]) -> Path:
    """Return the root of a release of Debian with programs; raises UnavailableError as `build` does."""
    key = cache.digest([suite, *packages, *mirror(), *UNUSED_DOCUMENTS])

    def make(folder: Path) -> None:
        options = [f"--include={','.join(('ca-certificates', *packages))}"]
        _bootstrap(RELEASES[suite], options, folder / "root", mirror())

    return cache.obtain(f"root-tools-{suite}", key, make) / "root"


def build_rpm() -> Path:
    """Return a root whose packages are RPM's: `dnf` and `rpm` are Debian's, the packages are of the lab.

    Raises UnavailableError as `build` does.
    """
    tools = build_tools(RPM_FROM, RPM_TOOLS)
    script = Path(__file__).with_name("rpm_root.sh")

    def make(folder: Path) -> None:
        root = folder / "root"
        subprocess.run(["cp", "-a", str(tools), str(root)], check=True)
        shutil.copy(script, root / "root/make")
        done = subprocess.run(
            ["chroot", str(root), "sh", "/root/make"], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise LabError(f"a root of RPM packages cannot be made: {done.stderr.strip()[-2000:]}")

    return cache.obtain("root-rpm", cache.digest([str(tools), script.read_text()]), make) / "root"


def _ubuntu_sources(suite: str) -> list[str]:
    url = os.environ.get("NUMAFORGE_UBUNTU_MIRROR", UBUNTU_MIRROR)
    return [f"deb {url} {pocket} main universe" for pocket in (suite, f"{suite}-updates")]


def _bootstrap(
    release: Release, options: list[str], root: Path, sources: list[str], variant: str = "minbase"
) -> None:
    done = subprocess.run(
        [
            *bootstrap_command(),
            f"--variant={variant}",
            "--dpkgopt=force-unsafe-io",
            *(f"--dpkgopt=path-exclude={pattern}" for pattern in UNUSED_DOCUMENTS),
            *options,
            release.suite,
            str(root),
            *sources,
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        reason = done.stderr.strip()[-2000:]
        kind = UnavailableError if any(words in reason for words in _NOT_THERE) else LabError
        raise kind(f"{release.name} ({release.suite}) cannot be had: {reason}")
