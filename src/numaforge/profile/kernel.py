"""Section `kernel`: the kernel command line, which takes effect at the next boot."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from numaforge.profile.section import Section
from numaforge.profile.values import as_text

# What the kernel, GRUB's own script language and grubby all take literally. A space ends a parameter, GRUB
# ends the line at ";" and expands "$".
_PARAMETER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(=[A-Za-z0-9_.,:/@%+=~!-]*)?")

# What a profile may not set, and why: each decides whether the machine comes back at all.
_BOOT_LOADER = "the boot loader of each machine sets it"
_ROOT = "it names the file system that this machine boots from"
_FIRST_PROCESS = "it decides what starts at boot, and the kubelet might not"
_INITIAL_RAM_DISK = "it is for the initial RAM disk, which has to find this machine's disks"
_REFUSED_NAMES = {
    **dict.fromkeys(("BOOT_IMAGE", "initrd"), _BOOT_LOADER),
    **dict.fromkeys(("root", "rootfstype", "rootflags", "rootwait", "rootdelay", "ro", "rw"), _ROOT),
    **dict.fromkeys(("nfsroot", "netroot", "resume", "resume_offset"), _ROOT),
    **dict.fromkeys(("init", "rdinit", "single", "emergency", "rescue"), _FIRST_PROCESS),
    **dict.fromkeys(("systemd.unit", "systemd.wants", "systemd.mask", "systemd.run"), _FIRST_PROCESS),
    "break": _INITIAL_RAM_DISK,
}
_REFUSED_PREFIX = "rd."  # dracut's own


def parameter_name(parameter: str) -> str:
    """Return the name of a kernel parameter; the kernel reads "-" in a name as "_"."""
    return parameter.partition("=")[0].replace("-", "_")


def _parameter(value: object) -> str:
    if not isinstance(value, str) or not _PARAMETER.fullmatch(value):
        raise ValueError(
            f"{value!r} is not a kernel parameter; write one NAME or NAME=VALUE per entry, without spaces, "
            'quotes, "$" or ";", for example intel_iommu=on'
        )
    name = parameter_name(value)
    reason = _INITIAL_RAM_DISK if name.startswith(_REFUSED_PREFIX) else _REFUSED_NAMES.get(name)
    if reason:
        raise ValueError(f"{value!r} is not for a profile: {reason}; leave it out")
    return value


def _each_once(parameters: tuple[str, ...]) -> tuple[str, ...]:
    by_name: dict[str, str] = {}
    for parameter in parameters:
        name = parameter_name(parameter)
        if name in by_name:
            raise ValueError(f"says {by_name[name]} and {parameter}; say each parameter once")
        by_name[name] = parameter
    return parameters


def _refused() -> str:
    """Return the pattern of what is refused, for schemas."""
    names = "|".join(re.escape(name).replace("_", "[_-]") for name in _REFUSED_NAMES)
    return f"^({re.escape(_REFUSED_PREFIX)}|({names})(=|$))"


Parameter = Annotated[
    str,
    BeforeValidator(_parameter),
    as_text("kernel parameter", f"^{_PARAMETER.pattern}$", none_of=_refused()),
]


class Kernel(Section):
    """What only a boot changes. `maintenance.reboot` says whether numaforge may boot the node for it."""

    cmdline: Annotated[tuple[Parameter, ...], AfterValidator(_each_once)] = Field(
        default=(),
        description="Parameters that the kernel command line is to have; all others stay as they are.",
        examples=[["intel_iommu=on", "iommu=pt", "default_hugepagesz=1G"]],
    )
