"""The lab's errors."""

from __future__ import annotations

from numaforge.lib.errors import ExitCode, NumaforgeError


class LabError(NumaforgeError):
    """The lab cannot do what was asked."""

    exit_code = ExitCode.NO


class RequirementError(LabError):
    """This machine lacks a command that the lab needs."""

    exit_code = ExitCode.BAD_INPUT
