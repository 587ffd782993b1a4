"""Every sentence that plans of known machines say: `python -m tests.machines.wording` records them again.

The ready machines are planned with each ready profile, the captured ones for training, and two machines with
the example of each key of a profile. A sentence stands once, with the first plan that says it.
"""

import json
from collections.abc import Iterator
from dataclasses import replace

from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.read import read_topology
from numaforge.machine.topology.saved import ready_machine, ready_machines
from numaforge.planning.node import plan_node
from numaforge.planning.profile import NodeProfile
from numaforge.planning.profiles import load_profile, ready_profiles
from tests.fixtures.profile_examples import examples
from tests.machines import files
from tests.machines.facts import KUBELET_VERSION

STORED = files.FOLDER.with_name("fixtures") / "planning_wording.json"

Sentences = dict[str, dict[str, str]]


def wording() -> dict[str, Sentences]:
    """Return reasons by a decision's subject, messages by a notice's id, refusals by the profile's field."""
    reasons: Sentences = {}
    messages: Sentences = {}
    refusals: Sentences = {}
    for where, machine, wish in _plans():
        try:
            plan = plan_node(replace(machine, swap_bytes=0, cgroup_version=2), wish, KUBELET_VERSION)
        except PlanError as error:
            refusals.setdefault(error.where or "", {}).setdefault(str(error), where)
            continue
        for decision in plan.decisions:
            reasons.setdefault(decision.subject, {}).setdefault(decision.reason, where)
        for notice in plan.notices:
            messages.setdefault(notice.id, {}).setdefault(notice.message, where)
    return {"decisions": reasons, "notices": messages, "refusals": refusals}


def _plans() -> Iterator[tuple[str, NodeTopology, NodeProfile]]:
    ready = {name: ready_machine(name) for name in ready_machines()}
    purposes = {purpose: load_profile(purpose) for purpose in ready_profiles()}
    for name, machine in ready.items():
        for purpose, profile in purposes.items():
            yield f"{name}, {purpose}", machine, profile
    for key, sections in examples():
        profile = load_profile(sections)
        full = "mi300x" if key.startswith("Amd") else "gb200" if key.startswith("Imex") else "dgx-h100"
        for name in (full, "small-vm"):
            yield f"{name}, {key}", ready[name], profile
    for file in files.machine_files():
        yield f"{file.name}, training", read_topology(file.snapshot()), purposes["training"]


if __name__ == "__main__":
    STORED.write_text(json.dumps(wording(), indent=1, ensure_ascii=False) + "\n")
