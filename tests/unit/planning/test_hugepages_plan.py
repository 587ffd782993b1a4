"""How a profile's huge pages are spread, and what is refused."""

from dataclasses import replace

import pytest

from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import HugepagePool, NodeTopology
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import load_profile
from numaforge.roles.hugepages.expected import expected as expectations
from numaforge.roles.hugepages.plan import plan_hugepages
from tests.fixtures.machines import GIB, grace_memory_only, kubeadm_kubelet, lab_node, machine
from tests.fixtures.plans import after, decided, planned, refusal
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)


def plan(topology: NodeTopology, *entries: dict) -> NodePlan:
    return planned(topology, hugepages=list(entries))


def pages(chosen: NodePlan, size: str = "2Mi") -> list[int | None]:
    return [chosen.hugepages.planned(node.id).get(size) for node in chosen.memory.numa_nodes]


@cases("amounts, expected", CASES["spreads"])
def test_pages_are_spread_over_numa_nodes(amounts, expected):
    chosen = plan(lab_node(), *({"size": "2Mi", **amount} for amount in amounts))
    assert (pages(chosen), pages(chosen, "1Gi")) == (expected, [None] * 4)


def test_several_page_sizes_are_planned_together():
    both = {"size": "2Mi", "count_per_numa_node": 2}, {"size": "1Gi", "count": 1, "numa_node": 1}
    chosen = plan(lab_node(), *both)
    assert (pages(chosen, "2Mi"), pages(chosen, "1Gi")) == ([2, 2, 2, 2], [0, 1, 0, 0])


def with_memory(*gib: float) -> NodeTopology:
    """Return a machine whose NUMA nodes have this memory."""
    sizes = tuple(int(size * GIB) for size in gib)
    return machine(
        packages=2,
        cores_per_numa_node=4,
        kubelet=kubeadm_kubelet(),
        numa_memory_bytes=sizes,
        hugepages={"2Mi": HugepagePool(0, 0)},
    )


MIB = 1 / 1024
SECOND = {
    "60-MiB-less": ((93 - 60 * MIB, 93), "25%", [11904, 11904]),
    "60-MiB-more": ((93 + 60 * MIB, 93), "25%", [11904, 11904]),
    "a-module-is-gone": ((93, 61), "25%", [11904, 7808]),
    "another-share": ((93 - 60 * MIB, 93), "25.1%", [11951, 11951]),
}


@pytest.mark.parametrize(("memory", "share", "expected"), SECOND.values(), ids=SECOND.keys())
def test_memory_shift_at_reboot_keeps_the_share(memory, share, expected):
    chosen = plan(with_memory(93, 93), {"size": "2Mi", "share": "25%"})
    assert pages(chosen) == [11904, 11904]
    for _ in range(3):
        chosen = plan(after(with_memory(*memory), chosen), {"size": "2Mi", "share": share})
        assert pages(chosen) == expected


def test_memory_only_numa_nodes_get_no_pages_by_default():
    chosen = plan(grace_memory_only(), {"size": "2Mi", "count": 10})
    assert [count for count in pages(chosen) if count] == [10]


def with_pools(total: int, **more: HugepagePool) -> NodeTopology:
    pools = {"2Mi": HugepagePool(total, total), **more}
    nodes = tuple(replace(node, hugepages={**node.hugepages, **pools}) for node in lab_node().numa_nodes)
    return replace(lab_node(), numa_nodes=nodes)


def test_existing_pools_count_as_used_memory():
    there = with_pools(0, **{"1Gi": HugepagePool(1, 1)})
    message = refusal(there, hugepages=[{"size": "2Mi", "count": 600, "numa_node": 1}])
    assert "node 1 has 2015Mi of memory, but 1 x 1Gi already there + 600 x 2Mi wanted = 2224Mi" in message


def test_pool_of_an_earlier_plan_is_released():
    second = plan(after(with_pools(2), plan(lab_node(), {"size": "2Mi", "count": 8})))
    assert pages(second) == pages(plan(after(with_pools(0), second))) == [0, 0, 0, 0]


def test_pool_planned_but_never_set_is_left_alone():
    chosen = plan(after(with_pools(300), plan(with_pools(300), {"size": "2Mi", "count": 8})))
    assert chosen.hugepages.pools == ()
    assert decided(chosen, "hugepages.2Mi")[0] == "left as it is"


@cases("entry, message, remedy", CASES["refusals"])
def test_refused(entry, message, remedy):
    assert refusal(lab_node(), hugepages=[entry]) == f"{message}\n  {remedy}"


VMEMMAP = "vm.hugetlb_optimize_vmemmap"


@cases("setting, running, wish, count, refused", CASES["pages_that_cost_extra_memory_are_refused"])
def test_pages_that_cost_extra_memory_are_refused(setting, running, wish, count, refused):
    topology = replace(with_pools(4), sysctls={VMEMMAP: setting} if setting else {})
    topology = replace(topology, kubelet=replace(topology.kubelet, running=running))
    wanted = [{"size": "2Mi", "count_per_numa_node": count}]
    profile = load_profile({"hugepages": wanted, "tuning": {"sysctls": wish}})
    if refused:
        with pytest.raises(PlanError, match="MemTotal grows with every new page"):
            plan_hugepages(topology, profile, None)
    else:
        assert plan_hugepages(topology, profile, None).value.planned(0) == {"2Mi": count}


def without_numa(total: int = 0) -> NodeTopology:
    whole = machine(cores_per_numa_node=4, numa_memory_bytes=16 * GIB, kubelet=kubeadm_kubelet())
    cores = tuple(replace(core, numa_node=None) for core in whole.cores)
    return replace(whole, numa_nodes=(), cores=cores, hugepages={"2Mi": HugepagePool(total, total)})


POOL = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        pytest.param({"count": 512}, 512, id="a total is the machine's"),
        pytest.param({"count_per_numa_node": 512}, 512, id="a count for each NUMA node is given once"),
        pytest.param({"share": "25%"}, 2048, id="a share is one of MemTotal"),
    ],
)
def test_kernel_without_numa_nodes_has_one_pool(amount, expected):
    chosen = plan(without_numa(total=3), {"size": "2Mi", **amount})
    assert chosen.hugepages.planned(None) == {"2Mi": expected}
    assert "numaforge-hugepages.conf" in str(chosen.files)
    assert [(row.path, row.value) for row in expectations(chosen)] == [(POOL, str(expected))]
    assert chosen.allocatable.hugepages_bytes == {"2Mi": expected * 2 * 2**20}
    assert decided(chosen, "hugepages.2Mi")[0] == f"{expected} on the machine"


def test_machine_wide_pool_set_by_an_earlier_plan_is_released():
    there = after(without_numa(total=512), plan(without_numa(), {"size": "2Mi", "count": 512}))
    assert plan(there).hugepages.pages == {None: {"2Mi": 0}}
    assert plan(replace(there, hugepages={"2Mi": HugepagePool(9, 9)})).hugepages.pages == {}


def test_boot_pages_are_reserved_for_the_whole_machine():
    wanted = [{"size": "2Mi", "count": 512, "at": "boot"}]
    chosen = planned(without_numa(), hugepages=wanted, maintenance={"reboot": "allowed"})
    assert chosen.kernel.cmdline[-2:] == ("hugepagesz=2M", "hugepages=512")


NO_NODE = "hugepages[0].numa_node: there is no NUMA node 0\n  leave hugepages[0].numa_node out"
IMPOSSIBLE = {
    "a NUMA node of it": ({"size": "2Mi", "count": 9, "numa_node": 0}, NO_NODE),
    "a size": ({"size": "1Gi", "count": 1}, "the machine has no pool for pages of 1Gi"),
    "more pages": ({"size": "2Mi", "count": 9000}, "the machine has 16Gi of memory, but"),
    "all memory": ({"size": "2Mi", "count": 8190}, "beside 8190 x 2Mi wanted, but"),
}


@pytest.mark.parametrize(("entry", "message"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_impossible_pools_without_numa_nodes_are_refused(entry, message):
    assert message in refusal(without_numa(), hugepages=[entry])
