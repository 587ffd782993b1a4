"""Sysctls that a kubelet may allow its pods: those of a namespace of their own.

Source: pkg/kubelet/sysctl/allowlist.go, IsValidSysctlPattern in pkg/apis/policy/validation, and
k8s.io/component-helpers/node/util/sysctl.
"""

from __future__ import annotations

import re

from numaforge.kubelet.values.gotext import quoted

_LONGEST = 253
_NAME = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_PATTERN = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]"
_NAMESPACED = frozenset(
    {
        "kernel.sem",
        "kernel.shm",
        "kernel.shmall",
        "kernel.shmmax",
        "kernel.shmmni",
        "kernel.shm_rmid_forced",
        "kernel.msg",
        "kernel.msgmax",
        "kernel.msgmnb",
        "kernel.msgmni",
    }
)
_NAMESPACED_BELOW = ("net.", "fs.mqueue.")
IN_A_NAMESPACE = (
    "of a namespace: kernel.shm*, kernel.msg*, kernel.sem, kernel.domainname, fs.mqueue.*, net.*, user.*"
)
"""Which sysctls the newest kubelet knows to belong to one."""
# From this minor on the namespaces of host names and of users count too.
_FIRST_MINOR_OF_USER_NAMESPACES = 37


def sysctl_complaint(pattern: str, minor: int) -> str | None:
    """Return the kubelet's text about an entry of allowedUnsafeSysctls that it refuses, or None."""
    if len(pattern.encode()) > _LONGEST or not re.fullmatch(_PATTERN, pattern):
        return f"sysctl {quoted(pattern)} must have at most {_LONGEST} characters and match regex {_PATTERN}"
    name = dotted_sysctl(pattern).partition("*")[0]
    if is_namespaced(name, minor):
        return None
    return f"the sysctls {quoted(name)} are not known to be namespaced"


def is_sysctl_name(name: str) -> bool:
    """Say whether a key of defaultPodSysctls names a sysctl (isValidSysctlName)."""
    return len(name.encode()) <= _LONGEST and re.fullmatch(_NAME, name) is not None


def is_namespaced(name: str, minor: int) -> bool:
    """Say whether a kubelet knows that a sysctl, with dots between its parts, belongs to a namespace."""
    if name in _NAMESPACED or name.startswith(_NAMESPACED_BELOW):
        return True
    return minor >= _FIRST_MINOR_OF_USER_NAMESPACES and (
        name == "kernel.domainname" or name.startswith("user.")
    )


def dotted_sysctl(name: str) -> str:
    """Return a sysctl with dots between its parts; in the notation with slashes a dot belongs to a name."""
    first = re.search(r"[./]", name)
    return name.translate(_SWAPPED) if first and first[0] == "/" else name


_SWAPPED = str.maketrans("./", "/.")
