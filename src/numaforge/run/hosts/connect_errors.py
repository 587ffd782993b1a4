"""Why a host cannot be connected to, in pyinfra's form and in ours."""

from pyinfra.api.exceptions import ConnectError

from numaforge.lib.errors import HostUnreachableError, NumaforgeError


class HostConnectError(ConnectError):
    """Why a host cannot be connected to; `error` distinguishes refused from unreachable."""

    def __init__(self, error: NumaforgeError) -> None:
        super().__init__(str(error))
        self.error = error


def connect_error(error: ConnectError) -> NumaforgeError:
    """Return why a host cannot be connected to; of other connectors than ours, all is "unreachable"."""
    return error.error if isinstance(error, HostConnectError) else HostUnreachableError(str(error))
