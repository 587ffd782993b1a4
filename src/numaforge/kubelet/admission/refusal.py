"""A pod is refused: the reason and message that end up in its status."""

from numaforge.lib.errors import ExitCode, NumaforgeError

TOPOLOGY_AFFINITY = "TopologyAffinityError"
SMT_ALIGNMENT = "SMTAlignmentError"
UNEXPECTED = "UnexpectedAdmissionError"
EMPTY_POD_SHARED_POOL = "EmptyPodSharedPoolError"


class PodRejectedError(NumaforgeError):
    """A manager or a predicate rejects a pod; `reason` and `message` are the kubelet's.

    `resources` names the cause: one resource that has run out, or several that do not fit together.
    """

    exit_code = ExitCode.NO

    def __init__(self, reason: str, message: str, *resources: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.resources = resources


class KubeletHangError(NumaforgeError):
    """The kubelet never answers this request on this machine."""


def unexpected(cause: str, *resources: str) -> PodRejectedError:
    """Return the refusal for an allocation error (pkg/kubelet/cm/admission/errors.go, GetPodAdmitResult)."""
    return PodRejectedError(UNEXPECTED, f"Allocate failed due to {cause}, which is unexpected", *resources)
