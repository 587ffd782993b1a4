"""Errors of pyinfra and of Python in our form: why a host cannot be connected to, and a bug."""

import os
import traceback
from pathlib import Path

from pyinfra.api.exceptions import ConnectError, PyinfraError

from numaforge.lib.errors import HostError, HostUnreachableError, NumaforgeError


class HostConnectError(ConnectError):
    """Why a host cannot be connected to; `error` distinguishes refused from unreachable."""

    def __init__(self, error: NumaforgeError) -> None:
        super().__init__(str(error))
        self.error = error


def connect_error(error: ConnectError) -> NumaforgeError:
    """Return why a host cannot be connected to; of other connectors than ours, all is "unreachable"."""
    return error.error if isinstance(error, HostConnectError) else HostUnreachableError(str(error))


def fault(error: Exception) -> NumaforgeError:
    """Return the error for a bug; raises pyinfra's own errors, and all with NUMAFORGE_TRACEBACK=1."""
    if isinstance(error, PyinfraError) or os.environ.get("NUMAFORGE_TRACEBACK"):
        raise error
    if isinstance(error, OSError):
        return HostError(str(error), remedy="see the messages of this host and of this machine")
    frame = traceback.extract_tb(error.__traceback__)[-1]
    refused = HostError(
        f"internal error: {type(error).__name__}: {str(error)[:200]} "
        f"({Path(frame.filename).name}, line {frame.lineno})",
        remedy="nothing more is done on this host; please report it with the host's snapshot "
        "(`numaforge capture`), and run with NUMAFORGE_TRACEBACK=1 to see where it happened",
    )
    refused.__cause__ = error
    return refused
