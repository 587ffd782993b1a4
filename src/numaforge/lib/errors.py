"""The exception family of numaforge: everything that it refuses."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of `numaforge`; BLOCKED, ROLLED_BACK and HELD are those of nodes to change."""

    YES = 0
    NO = 1
    BAD_INPUT = 2
    BLOCKED = 3
    ROLLED_BACK = 4
    HELD = 5
    UNREACHABLE = 6  # a host did not answer, and nothing worse is known of the others
    INTERRUPTED = 130  # as a shell reports SIGINT


class NumaforgeError(Exception):
    """An error: what is wrong, where, and what would be accepted.

    `where` names the place (a host, a file, a field such as `cpus.reserved.cpulist`), `remedy` the way out.
    The command line prints `str(error)` and exits with `exit_code`; nothing prints a traceback.
    """

    exit_code = ExitCode.BAD_INPUT

    def __init__(self, message: str, *, where: str | None = None, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.remedy = remedy

    def __str__(self) -> str:
        prefix = f"{' '.join(self.where.split())}: " if self.where else ""  # a name begins no line
        way_out = f"\n  {self.remedy}" if self.remedy else ""
        return f"{prefix}{self.message}{way_out}"

    def at(self, where: str) -> "NumaforgeError":
        """Return the same error with `place` (a host, a file) put before the place it already names."""
        place = f"{where}: {self.where}" if self.where else where
        located = type(self)(self.message, where=place, remedy=self.remedy)
        located.__cause__ = self.__cause__
        return located


class SnapshotError(NumaforgeError):
    """A snapshot cannot be taken or read."""


class ArgumentError(NumaforgeError, TypeError):
    """An argument of another type for a function of `numaforge.api`."""


class TopologyError(NumaforgeError):
    """A snapshot does not describe a machine."""


class ProfileError(NumaforgeError):
    """A profile is not valid."""


class PlanError(NumaforgeError):
    """A valid profile cannot be met on this machine, or a plan document cannot be read."""


class KubeletConfigError(NumaforgeError):
    """A kubelet configuration cannot be read, or the kubelet would refuse it."""


class HostError(NumaforgeError):
    """A host cannot be reached, or lacks what the work needs."""


class HostRefusedError(HostError):
    """A host, or a jump host before it, answers and does not let us in: its key, or the login."""

    exit_code = ExitCode.NO


class HostUnreachableError(HostError):
    """A host does not answer now, or its answer is cut off; what runs there runs on."""

    exit_code = ExitCode.UNREACHABLE
