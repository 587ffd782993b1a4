"""The commands that the lab runs, and the packages of Debian and Ubuntu that ship them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from lab.errors import RequirementError
from lab.progress import step

PACKAGE_OF_COMMAND = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mmdebstrap": "mmdebstrap",
    "iasl": "acpica-tools",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "sshd": "openssh-server",
    "busybox": "busybox",
    "mke2fs": "e2fsprogs",
    "unshare": "util-linux",
    "tar": "tar",
    "xz": "xz-utils",
    "gcc": "gcc",
    "sudo": "sudo",
    "curl": "curl",
    # what measures, in sandboxes
    "numactl": "numactl",
    "sysbench": "sysbench",
    "stress-ng": "stress-ng",
    "cyclictest": "rt-tests",
}
"""`busybox` is satisfied by busybox-static too; the two packages exclude each other, so it is only installed
where neither is."""

PACKAGE_OF_FILE = {
    "/usr/include/stdlib.h": "libc6-dev",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
}

ROOTLESS_PACKAGE_OF_COMMAND = {"newuidmap": "uidmap"}

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""Commands of a browser that can show pages in tests; the first is a package of Debian's, too."""

LOCK_SECONDS = 600
"""For another apt to end: a machine that was just started upgrades itself."""

_SYSTEM_PATH = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def find_command(name: str) -> str | None:
    """Return the path of a command, system directories included."""
    return shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", os.defpath), *_SYSTEM_PATH)))


def command(name: str) -> str:
    """Return the path of a command of `PACKAGE_OF_COMMAND`, or say which package ships it."""
    path = find_command(name)
    if path is None:
        raise RequirementError(
            f"the command {name} is missing", remedy=f"apt-get install {PACKAGE_OF_COMMAND[name]}"
        )
    return path


def missing_packages() -> list[str]:
    """Return the packages to install, in alphabetical order."""
    commands = dict(PACKAGE_OF_COMMAND)
    if os.geteuid() != 0:
        commands |= ROOTLESS_PACKAGE_OF_COMMAND
    packages = {package for name, package in commands.items() if find_command(name) is None}
    packages |= {package for file, package in PACKAGE_OF_FILE.items() if not Path(file).exists()}
    return sorted(packages)


def ensure() -> None:
    """Install what is missing when we are root, else name it and stop."""
    packages = missing_packages()
    if packages:
        _install(packages)


def browser() -> str | None:
    """Return the path of a browser, or None where there is none."""
    return next((path for name in BROWSERS if (path := find_command(name))), None)


def ensure_browser() -> None:
    """Install a browser when we are root and apt offers it; tests of pages skip without one."""
    if browser() is None and os.geteuid() == 0 and _is_offered(BROWSERS[0]):
        _install([BROWSERS[0]])


def _is_offered(package: str) -> bool:
    if find_command("apt-cache") is None:
        return False
    for arguments in (
        ["apt-cache", "policy", package],
        ["apt-get", "update"],
        ["apt-cache", "policy", package],
    ):
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        if "Candidate:" in done.stdout and "Candidate: (none)" not in done.stdout:
            return True
    return False


def _install(packages: list[str]) -> None:
    install = ["install", "--yes", "--no-install-recommends", *packages]
    if os.geteuid() != 0 or find_command("apt-get") is None:
        raise RequirementError(
            f"the lab needs packages that this machine does not have: {' '.join(packages)}",
            remedy="as root: apt-get " + " ".join(install),
        )
    with step(f"install {' '.join(packages)}"):
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for words in (["update"], install):
            arguments = ["apt-get", "-o", f"DPkg::Lock::Timeout={LOCK_SECONDS}", *words]
            done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RequirementError(
                    f"{' '.join(arguments)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}",
                    remedy=f"install by hand: {' '.join(packages)}",
                )
