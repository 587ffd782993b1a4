"""What `check` says of configurations, in the form of the oracle."""

from collections.abc import Mapping
from typing import Any

from lab.oracle import Oracle
from numaforge.kubelet.findings import Report
from numaforge.kubelet.startup.check import check
from numaforge.lib.quantity import Quantity
from tests.fixtures.kubelet_texts import in_any_order
from tests.oracle.case import Case
from tests.oracle.comparison import pruned
from tests.oracle.machines import KINDS, described, topology

BEYOND = (
    "failed to run Kubelet: ",
    "failed to construct kubelet dependencies: ",
    "invalid Node Allocatable ",
    "Failed to enforce ",
)
"""How errors begin that the kubelet dies with after its configuration was loaded and validated."""


def checked(case: Case, oracle: Oracle) -> tuple[Report, str]:
    """Return what `check` says of a case, and its error in any order where the oracle comes so far."""
    report = check(
        case.text,
        topology=topology(described(case.machine or KINDS["small"])),
        version=oracle.version,
        drop_ins=case.drop_in_texts,
        flags=case.flags,
        state_files=case.state,
        config_path=f"{oracle.folder}/config.yaml",
        drop_in_dir=f"{oracle.folder}/drop-ins",
        root_dir=f"{oracle.folder}/root",
    )
    ours = in_any_order(report.error or "")
    if not case.machine and ours.startswith(BEYOND):
        ours = ""
    return report, ours


def settled(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings in one form: `check` leaves the quantities of reservedMemory as they were written."""
    reserved = [
        {
            **entry,
            "limits": {name: str(Quantity.parse(size)) for name, size in (entry.get("limits") or {}).items()},
        }
        for entry in settings.get("reservedMemory") or ()
    ]
    found: dict[str, Any] = pruned({**settings, "reservedMemory": reserved})
    return found
