"""Sysctls that a kubelet may allow its pods: the namespaced ones.

Source: pkg/kubelet/sysctl/allowlist.go, IsValidSysctlPattern in pkg/apis/policy/validation, and
k8s.io/component-helpers/node/util/sysctl.
"""

import re

from numaforge.kubelet_minors.tables import NAMESPACED_SYSCTLS
from numaforge.kubelet_minors.values.gotext import quoted

_LONGEST = 253
_NAME = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_PATTERN = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]"
_NAMESPACED_BELOW = ("net.", "fs.mqueue.")
# From this minor on sysctls of UTS and user namespaces count too.
_FIRST_MINOR_OF_USER_NAMESPACES = 37


def sysctl_complaint(pattern: str, minor: int) -> str | None:
    """Return the message with which the kubelet rejects an entry of allowedUnsafeSysctls, or None."""
    if len(pattern.encode()) > _LONGEST or not re.fullmatch(_PATTERN, pattern):
        return f"sysctl {quoted(pattern)} must have at most {_LONGEST} characters and match regex {_PATTERN}"
    name = dotted_sysctl(pattern).partition("*")[0]
    if is_namespaced(name, minor):
        return None
    return f"the sysctls {quoted(name)} are not known to be namespaced"


def is_sysctl_name(name: str) -> bool:
    """Whether a key of defaultPodSysctls is a valid sysctl name (isValidSysctlName)."""
    return len(name.encode()) <= _LONGEST and re.fullmatch(_NAME, name) is not None


def is_namespaced(name: str, minor: int) -> bool:
    """Whether a kubelet knows a sysctl, in dotted notation, to be namespaced."""
    if name in NAMESPACED_SYSCTLS or name.startswith(_NAMESPACED_BELOW):
        return True
    return minor >= _FIRST_MINOR_OF_USER_NAMESPACES and (
        name == "kernel.domainname" or name.startswith("user.")
    )


def dotted_sysctl(name: str) -> str:
    """Return a sysctl in dotted notation; in the slash notation a dot is part of a name."""
    first = re.search(r"[./]", name)
    return name.translate(_SWAPPED) if first and first[0] == "/" else name


_SWAPPED = str.maketrans("./", "/.")
