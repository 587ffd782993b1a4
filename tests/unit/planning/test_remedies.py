"""Every remedy works: it is applied to the profile that was refused, and then the machine can be planned."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.read import read_topology
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile, ready_profiles
from tests.fixtures.machines import MACHINES
from tests.machines.files import machine_files
from tests.unit.planning.remedies import Case, ways_out

VERSIONS = ("1.30.0", "1.33.0", "1.36.0")
# The first refusal may hide others: so many are followed one after the other, and none may come again.
STEPS = 8
FILES = [pytest.param(file.name, marks=pytest.mark.long) for file in machine_files()]
WISHES: Mapping[str, dict[str, Any]] = {
    "nothing": {},
    **{name: {"extends": name} for name in ready_profiles()},
    "cores-per-package": {"cpus": {"reserved": {"cores_per_package": 9}}},
    "many-cores": {"cpus": {"reserved": {"cores": 500}}},
    "cores-per-numa-node": {"cpus": {"reserved": {"cores_per_numa_node": 4}}},
    "memory": {"extends": "inference-mig", "memory": {"kube_reserved": "9Ti", "system_reserved": "64Gi"}},
    "static-memory": {"kubelet": {"memory_manager_policy": "Static"}},
    "pages-by-share": {
        "extends": "training",
        "hugepages": [{"size": "2Mi", "share": "99%"}],
        "kubelet": {"memory_manager_policy": "Static"},
    },
    "pages-by-count": {"hugepages": [{"size": "1Gi", "count": 4000}]},
    "options-without-static": {
        "kubelet": {"cpu_manager_policy": "none", "cpu_manager_options": {"full-pcpus-only": True}}
    },
    "options-against-each-other": {
        "kubelet": {
            "topology_manager_policy": "single-numa-node",
            "cpu_manager_options": {
                "align-by-socket": True,
                "full-pcpus-only": True,
                "distribute-cpus-across-cores": True,
            },
            "topology_manager_options": {"max-allowable-numa-nodes": "8"},
        }
    },
    "claims-and-a-manager": {
        "kubelet": {
            "resource_engine": "dra",
            "cpu_manager_policy": "static",
            "cpu_manager_options": {"full-pcpus-only": True},
        }
    },
    "words-for-no-driver": {"dra": {"cpu_group_by": "socket"}},
    "topology-options-without-policy": {
        "kubelet": {
            "topology_manager_policy": "none",
            "topology_manager_options": {"prefer-closest-numa-nodes": True},
        }
    },
}


@cache
def machine(name: str) -> NodeTopology:
    if name in MACHINES:
        return MACHINES[name]()
    return read_topology(next(file for file in machine_files() if file.name == name).snapshot())


def refusal(case: Case) -> PlanError | None:
    try:
        plan_node(case.machine, load_profile(case.profile), case.version)
    except PlanError as error:
        return error
    return None


def follow(case: Case, known: dict[str, str | None], seen: tuple[str, ...] = ()) -> str | None:
    """Return why no plan is reached, None where one is; `known` are the answers so far."""
    key = f"{case.version} {json.dumps(case.profile, sort_keys=True)}"
    if key not in known:
        known[key] = _follow(case, known, seen)
    return known[key]


def _follow(case: Case, known: dict[str, str | None], seen: tuple[str, ...]) -> str | None:
    refused = refusal(case)
    if refused is None:
        return None
    if str(refused) in seen or len(seen) >= STEPS:
        return "\n".join((*seen, str(refused)))
    ways = ways_out(case, refused)
    answers = (follow(way, known, (*seen, str(refused))) for way in ways)
    if not seen:
        # Of the remedy that an admin reads first, each alternative has to work.
        return next((failed for failed in answers if failed), None)
    tried = []
    for failed in answers:
        if failed is None:
            return None
        tried.append(failed)
    return tried[0] if tried else None


@pytest.mark.variants(5)
@pytest.mark.parametrize("name", [*MACHINES, *FILES])
def test_every_remedy_makes_the_profile_plannable(name: str) -> None:
    known: dict[str, str | None] = {}
    for key, wish in WISHES.items():
        ready = key == "nothing" or key in ready_profiles()
        # What is wished for wrongly is the same for every version, but for the options.
        for version in VERSIONS if ready else VERSIONS[::2] if "options" in key else VERSIONS[-1:]:
            failed = follow(Case(machine(name), dict(wish), version), known)
            assert failed is None, f"{wish} for kubelet {version}:\n{failed}"
