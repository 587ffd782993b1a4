"""A pod is refused: the reason and message that end up in its status."""

from __future__ import annotations

from numaforge.errors import ExitCode, NumaforgeError

TOPOLOGY_AFFINITY = "TopologyAffinityError"
SMT_ALIGNMENT = "SMTAlignmentError"
UNEXPECTED = "UnexpectedAdmissionError"
EMPTY_POD_SHARED_POOL = "EmptyPodSharedPoolError"


class Refusal(NumaforgeError):
    """A manager or a predicate says no; `reason` and `message` are the kubelet's."""

    exit_code = ExitCode.NO

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def unexpected(cause: str) -> Refusal:
    """Return the refusal for an allocation error (pkg/kubelet/cm/admission/errors.go, GetPodAdmitResult)."""
    return Refusal(UNEXPECTED, f"Allocate failed due to {cause}, which is unexpected")
