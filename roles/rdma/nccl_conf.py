"""The admin's own file for NCCL or RCCL: kept below our lines, and put back when ours go."""

from dataclasses import replace

from numaforge.lib.errors import PlanError
from numaforge.lib.reasons import Reasons
from numaforge.machine.snapshot.redaction import REDACTED
from numaforge.machine.topology.model import NodeTopology
from numaforge.roles.rdma.planned import LibrariesPlan

KEPT = "# What the admin has here, and gets back:"
"""The line of our file above the admin's own text."""

_OURS = "# Written by numaforge"
_GID_INDEX = "NCCL_IB_GID_INDEX"


def plan_conf(
    topology: NodeTopology, plan: LibrariesPlan, earlier: LibrariesPlan, reasons: Reasons
) -> LibrariesPlan:
    """Return the plan with the admin's text; raises PlanError where it contradicts ours or was not read."""
    path = plan.conf_path
    admin = _admin_conf(topology, path, earlier, writes=plan.nccl_conf)
    if not plan.nccl_conf or admin is None:
        return replace(plan, admin_conf=admin)
    _refuse_unread(admin, path)
    admin_settings = parse(admin)
    for name, value in admin_settings.items():
        if plan.nccl.get(name, value) != value:
            raise PlanError(
                f"has {name}={value}, planned {name}={plan.nccl[name]}",
                where=path,
                remedy="take that line out of the file, or set the same in the profile's rdma.libraries",
            )
    more = sorted(admin_settings.keys() - plan.nccl.keys())
    if more:
        reasons.notice("nccl-conf-kept", f"{path} has settings of the admin that stay: {', '.join(more)}")
    if _GID_INDEX in admin_settings:
        reasons.notice(
            "nccl-gid-index-pinned",
            f"{path} pins {_GID_INDEX}={admin_settings[_GID_INDEX]}: indexes differ from host to host and "
            "change as addresses come and go (NVIDIA/nccl#551, #890); take that line out",
        )
    return replace(plan, admin_conf=admin)


def parse(text: str) -> dict[str, str]:
    """Return the settings in a file as NCCL reads it (src/misc/param.cc): the first of duplicates counts."""
    settings: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            settings.setdefault(name, value)
    return settings


def is_admins(text: str | None) -> bool:
    """Return whether a file exists that we did not write, and so must not remove."""
    return text is not None and not text.startswith(_OURS)


def _admin_conf(topology: NodeTopology, path: str, previous: LibrariesPlan, *, writes: bool) -> str | None:
    """Return the admin's own text: the present file, or the one before ours; None without either.

    Where our file goes, the admin's is put back; it stays in the plan while it is untouched, so that the plan
    is the same before and after.
    """
    if previous.conf_path != path:  # of another vendor's GPUs
        previous = LibrariesPlan(conf_path=path)
    if previous.nccl_conf:
        return previous.admin_conf
    if writes:
        if path in topology.unreadable:
            raise PlanError(
                "could not be read by the user who took the snapshot, and would be lost",
                where=path,
                remedy="take the snapshot as root",
            )
        text = topology.nccl_conf
        if text is None or is_admins(text):
            return text
        _, separator, admins = text.partition(f"{KEPT}\n")  # ours, on a host whose plan was lost
        return admins if separator else None
    return topology.nccl_conf if topology.nccl_conf == previous.admin_conf else None


def _refuse_unread(text: str, path: str) -> None:
    if REDACTED in text or "\r" in text or "\0" in text:
        raise PlanError(
            "holds a secret or line ends of another system, which cannot be kept as they are",
            where=path,
            remedy="fix the file, or leave nccl_conf out",
        )
