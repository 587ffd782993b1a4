"""The identity of a node, as the node reads it itself."""

from typing import NamedTuple

from numaforge.lib import shell
from numaforge.lib.framing import Answer, Output, asking
from numaforge.lib.kernel_files import parse_values

_FILES = ("/proc/sys/kernel/random/boot_id", "/etc/machine-id", "/sys/class/dmi/id/product_uuid")
"""Those that the kubelet reads for the Node object (GetSystemUUID and machine/info.go in cAdvisor)."""


class Identity(NamedTuple):
    """Which host it is, and its boot, as the host reports them; None where unreadable."""

    boot_id: str | None = None
    machine_id: str | None = None
    system_uuid: str | None = None


def identity_script() -> str:
    """Return the script whose answer `read_identity` reads."""
    return asking(shell.library("lib/kernel_files") + shell.call("tell_values", _FILES))


def read_identity(output: Output) -> Identity:
    """Read what `identity_script` printed; raises HostUnreachableError for an answer that is cut off."""
    values = parse_values(Answer.of(output).lines)
    return Identity(*(values.get(path, "").strip().lower() or None for path in _FILES))
