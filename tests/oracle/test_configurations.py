"""`check` and the kubelet's own code on random configurations: the same texts and effective settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from lab.oracle import Answer, Oracle
from lab.progress import say
from numaforge.kubelet.findings import Report
from numaforge.kubelet.startup.check import check
from numaforge.quantity import Quantity
from tests.fixtures.kubelet_texts import in_any_order
from tests.oracle.case import Case
from tests.oracle.comparison import Comparison, pruned
from tests.oracle.configurations import configuration
from tests.oracle.machines import KINDS, described, topology
from tests.oracle.scale import ASKED, SCALE, oracle_of, share

CONFIGURATIONS = 47_000
BEYOND = (
    "failed to run Kubelet: ",
    "failed to construct kubelet dependencies: ",
    "invalid Node Allocatable ",
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


def disagreement(case: Case, answer: Answer, oracle: Oracle) -> str | None:
    """Say where `check` and the kubelet differ on a configuration."""
    report, ours = checked(case, oracle)
    # From Go 1.24 on a path names embedded structs too; most kubelets were built with an older one.
    theirs = in_any_order(answer["error"]).replace(".OutputRoutingOptions", "")
    if ours != theirs:
        return f"the kubelet says {theirs!r}, check says {ours!r}"
    if not answer["loaded"]:
        return None
    effective, expected = settled(report.effective), settled(answer["effective"])
    for name in sorted({*effective, *expected}):
        if effective.get(name) != expected.get(name):
            return (
                f"the kubelet's effective {name} is {json.dumps(expected.get(name))}, "
                f"check's {json.dumps(effective.get(name))}"
            )
    if "reservation" in answer and dict(report.reservation) != answer["reservation"]:
        return f"the kubelet reserves {answer.get('reservation')}, check {dict(report.reservation)}"
    return None


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


@pytest.mark.long
@pytest.mark.parametrize("minor", ASKED)
def test_check_answers_as_the_kubelet(minor: str) -> None:
    random = Random(f"configurations/{minor}/{SCALE}")  # noqa: S311
    with oracle_of(minor) as oracle:
        cases = [configuration(random) for _ in range(share(CONFIGURATIONS))]
        comparison = Comparison(oracle, disagreement)
        complaints = comparison.run(cases)
    loaded = sum(answer["loaded"] for answer in comparison.answers)
    say(f"{oracle.version}: {len(cases)} configurations, {loaded} loaded, {comparison.undecided} undecided")
    assert not complaints, "\n\n".join(complaints)
    assert len(comparison.answers) == share(CONFIGURATIONS)
    assert loaded > len(cases) / 4
    assert comparison.undecided < len(cases) / 50
