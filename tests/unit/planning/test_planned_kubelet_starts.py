"""A planned configuration is one with which that kubelet starts, on every known version."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from numaforge.kubelet_minors.versions import KNOWN_MINORS
from numaforge.lib.errors import PlanError
from numaforge.lib.quantity import parse_bytes
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile, ready_profiles
from tests.fixtures.machines import lab_node
from tests.fixtures.planned_kubelets import report
from tests.unit.planning.strategies import machines


@pytest.mark.parametrize("name", ready_profiles())
def test_kubelet_reserves_the_cpus_and_memory_of_the_plan(name):
    topology = lab_node()
    plan = plan_node(topology, load_profile(name))
    judged = report(topology, plan)
    memory = plan.memory
    assert judged.reserved_cpus == plan.cpus.reserved
    assert parse_bytes(judged.reservation["memory"]) == (
        memory.kube_reserved_bytes + memory.system_reserved_bytes + memory.eviction_hard_bytes
    )


option = st.sampled_from(
    [
        "full-pcpus-only",
        "distribute-cpus-across-numa",
        "align-by-socket",
        "distribute-cpus-across-cores",
        "strict-cpu-reservation",
        "prefer-align-cpus-by-uncorecache",
    ]
)
wishes: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "memory": st.fixed_dictionaries(
            {
                "kube_reserved": st.integers(0, 2**26),
                "eviction_hard": st.fixed_dictionaries(
                    {"memory.available": st.sampled_from(["0%", "1%", "3.3%", "50Mi"])}
                ),
            }
        ),
        "kubelet": st.fixed_dictionaries(
            {
                "cpu_manager_options": st.dictionaries(option, st.booleans(), max_size=3),
                "topology_manager_policy": st.sampled_from(
                    ["none", "best-effort", "restricted", "single-numa-node", None]
                ),
                "memory_manager_policy": st.sampled_from(["None", "Static", None]),
            }
        ),
    }
)


@given(machines(), wishes, st.sampled_from(KNOWN_MINORS))
def test_kubelet_starts_with_every_plan(topology, wish, minor):
    try:
        plan = plan_node(topology, load_profile(wish), f"1.{minor}.0")
    except PlanError:
        assume(False)
        raise
    judged = report(topology, plan)
    assert judged.starts, judged.error
