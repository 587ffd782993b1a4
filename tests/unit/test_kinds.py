"""What is remembered for a kind of machine is what would be computed for each machine of it."""

from __future__ import annotations

import weakref
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numaforge import kinds, render
from numaforge.errors import NumaforgeError, PlanError
from numaforge.file_content import PLAN_PATH
from numaforge.kinds import kind_of, once_per_kind, once_per_object
from numaforge.kubelet.minors.versions import KubeletVersion
from numaforge.kubelet.startup import check as judge
from numaforge.planning import node
from numaforge.planning.node import plan_node
from numaforge.profile import load_profile
from numaforge.roles.document import dumps
from numaforge.roles.mig.plan import as_planned
from numaforge.topology.model import (
    ComputeInstance,
    Ecc,
    FabricState,
    Gpu,
    GpuInstance,
    GpuProcess,
    HugepagePool,
    MigDevice,
    NodeTopology,
    PciLink,
    RemappedRows,
)
from tests.fixtures import machines as fixtures
from tests.unit.planning.strategies import machines

PROFILE = {
    "name": "test",
    "cpus": {"reserved": {"cores_per_numa_node": 1}},
    "memory": {"system_reserved": "128Mi"},
    "hugepages": [{"size": "2Mi", "count_per_numa_node": 4}],
    "kubelet": {"cpu_manager_policy": "static", "memory_manager_policy": "Static"},
    "tuning": {"sysctls": {"vm.swappiness": "1", "vm.max_map_count": "262144"}, "numa_balancing": False},
}
names = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True)
hosts = st.fixed_dictionaries(
    {
        "hostname": st.none() | names | st.sampled_from(["drop-in", "test", "static", 'odd"name', "straße"]),
        "kernel_cmdline": st.none() | st.just("root=UUID=1"),
        "sysctls": st.fixed_dictionaries(
            {
                "vm.swappiness": st.sampled_from(["1", "60"]),
                "vm.max_map_count": st.sampled_from(["1", "1048576"]),
            },
            optional={"fs.file-nr": st.integers(0, 99).map(str), "vm.hugetlb_optimize_vmemmap": st.just("1")},
        ),
    }
)
DGX = fixtures.dgx_h100()


@st.composite
def fleets(draw: st.DrawFn) -> list[NodeTopology]:
    """Draw machines of one kind: each has a name, GPUs, free pages and a kubelet binary of its own."""
    kind = draw(machines() | st.sampled_from([DGX, fixtures.epyc_gpu(), fixtures.lab_node()]))
    return [_one_of(draw, kind, number) for number in range(draw(st.integers(1, 3)))]


def _one_of(draw: st.DrawFn, kind: NodeTopology, number: int) -> NodeTopology:
    install = kind.kubelet or fixtures.kubeadm_kubelet()
    return replace(
        kind,
        **draw(hosts),
        gpus=tuple(replace(gpu, uuid=f"GPU-{number}-{9 - i}") for i, gpu in enumerate(kind.gpus)),
        numa_nodes=tuple(
            replace(
                one,
                hugepages={
                    size: HugepagePool(pool.total, draw(st.integers(0, pool.total)))
                    for size, pool in one.hugepages.items()
                },
            )
            for one in kind.numa_nodes
        ),
        kubelet=replace(
            install,
            binary=draw(st.none() | st.just(f"{number} 5 6 /usr/bin/kubelet")),
            state_files={"cpu_manager_state": str(number)},
        ),
    )


def planned_alone(machine: NodeTopology):
    """Return the plan, or its error, computed on the whole machine."""
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(node, "kind_of", lambda machine, _names: machine)
            patched.setattr(node, "_decided", node._decided.__wrapped__)
            return plan_node(machine, load_profile(PROFILE))
    except PlanError as error:
        return error.message


def planned(machine: NodeTopology):
    try:
        return plan_node(machine, load_profile(PROFILE))
    except PlanError as error:
        return error.message


@settings(max_examples=15, deadline=None)
@given(fleets(), st.sampled_from(["", "cut", "no plan"]))
def test_a_plan_is_the_one_of_the_machine_alone(fleet, earlier):
    for machine in fleet:
        assert planned(machine) == planned_alone(machine)
    for machine in fleet:  # and again, with what the first run left there
        plan = planned(machine)
        text = earlier if isinstance(plan, str) else dumps(plan)[: -3 if earlier == "cut" else None]
        again = replace(machine, previous_plan=text)
        assert planned(again) == planned_alone(again)


@settings(max_examples=15, deadline=None)
@given(fleets())
def test_a_file_is_the_one_of_the_plan_alone(fleet):
    for machine in fleet:
        plan = planned(machine)
        if isinstance(plan, str):
            continue
        config = machine.kubelet.config_text
        for file in plan.files:
            if file.path == PLAN_PATH:
                expected = dumps(plan)
            else:
                expected = render._rendered.__wrapped__(plan, file, config, None)
            assert render.render_file(plan, file, config) == expected


STATIC = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
topologyManagerPolicy: single-numa-node
memoryManagerPolicy: Static
reservedSystemCPUs: "0"
evictionHard: {memory.available: 100Mi}
reservedMemory: [{numaNode: 0, limits: {memory: 100Mi}}]
"""


@settings(max_examples=10, deadline=None)
@given(fleets(), st.sampled_from([(), ("--max-pods=0",), ("--reserved-cpus=1",)]))
def test_a_kubelet_is_judged_as_on_the_machine_alone(fleet, flags):
    for machine in fleet:
        version = KubeletVersion.parse(machine.kubelet.version)
        places = judge.CONFIG_PATH, judge.DROP_IN_DIR, judge.ROOT_DIR
        expected = judge._check.__wrapped__(STATIC, machine, version, {}, flags, {}, {}, *places)
        assert judge.check(STATIC, topology=machine, version=version, flags=flags) == expected


def test_machines_of_a_kind_are_planned_once():
    calls = []
    counted = once_per_kind(lambda machine: calls.append(machine))
    for number in range(3):
        gpus = tuple(replace(gpu, uuid=f"GPU-{number}-{gpu.pci_address}") for gpu in DGX.gpus)
        counted(kind_of(replace(DGX, hostname=f"gpu-{number}", gpus=gpus, kernel_cmdline=f"root={number}")))
    assert len(calls) == 1


CHANGING = {
    "uuid": "GPU-1",
    "xgmi_hive": "1",
    "fabric": "0.1",
    "fabric_state": FabricState("in-progress"),
    "minor": 3,
    "pids": (7,),
    "mig_devices": (MigDevice(1, 0, "MIG-a"),),
    "gpu_instances": (GpuInstance(1, 9, 4, 4, (ComputeInstance(0, 3, "MIG-a"),), (7,)),),
    "link": PciLink(2.5, 16, 32.0, 16),
    "driver_link": PciLink(2.5, 16, 32.0, 16),
    "persistence": True,
    "ecc": Ecc(True, True, 0, 1),
    "remapped_rows": RemappedRows(0, 1, False, False),
    "recovery_action": "reset",
    "bar1_bytes": 2**28,
}


def with_gpu(**changes):
    return kind_of(replace(DGX, gpus=(replace(DGX.gpus[0], **changes), *DGX.gpus[1:])))


@pytest.mark.parametrize("name", sorted(set(CHANGING) - {"gpu_instances"}))
def test_what_changes_by_itself_on_a_gpu_makes_no_kind(name):
    assert with_gpu(**{name: CHANGING[name]}) == with_gpu()


def test_who_is_in_an_instance_makes_no_kind_and_where_it_lies_does():
    (instance,) = CHANGING["gpu_instances"]
    idle = replace(instance, pids=(), compute_instances=(ComputeInstance(0, 3, "MIG-b"),))
    assert with_gpu(gpu_instances=(instance,)) == with_gpu(gpu_instances=(idle,))
    assert with_gpu(gpu_instances=(instance,)) != with_gpu(gpu_instances=(replace(instance, start=0),))
    assert with_gpu(gpu_instances=()) != with_gpu(gpu_instances=None)


@pytest.mark.parametrize("name", sorted({each.name for each in fields(Gpu)} - set(CHANGING)))
def test_everything_else_of_a_gpu_makes_a_kind(name):
    assert with_gpu(**{name: "another"}) != with_gpu()


def test_users_of_gpus_make_no_kind():
    used = replace(DGX, gpu_processes={7: GpuProcess("python3")}, device_holders=())
    assert kind_of(used) == kind_of(DGX)


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (1, 1.0), ("1", 1), ((), []), ({"a": None}, {})],
    ids=["a-number-and-a-truth", "a-number-and-a-fraction", "a-text", "a-list", "nothing-and-not-there"],
)
def test_arguments_that_only_look_alike_are_told_apart(one, other):
    told = once_per_kind(lambda value: repr(value))
    assert (told(one), told(other)) == (repr(one), repr(other))


def test_an_error_is_raised_for_each_machine():
    @once_per_kind
    def refuse(value):
        raise NumaforgeError(f"no {value}")

    for _ in range(2):
        with pytest.raises(NumaforgeError, match="no 1"):
            refuse(1)


def test_what_is_remembered_has_a_limit():
    calls = []
    counted = once_per_kind(calls.append)
    for number in range(kinds._KEPT + 1):
        counted(number)
    counted(kinds._KEPT)
    assert len(calls) == kinds._KEPT + 1
    counted(0)
    assert len(calls) == kinds._KEPT + 2


def test_gpus_that_are_cut_alike_are_of_one_kind_with_the_plan_on_their_host():
    wish = load_profile("inference-mig")

    def cut(host: str) -> NodeTopology:
        gpus = tuple(replace(gpu, uuid=f"GPU-{host}-{n}") for n, gpu in enumerate(DGX.gpus))
        bare = replace(DGX, hostname=host, gpus=gpus)
        plan = plan_node(bare, wish)
        return replace(as_planned(bare, plan.mig), previous_plan=dumps(plan))

    assert kind_of(cut("gpu-1")) == kind_of(cut("gpu-2"))


class _Thing:
    """Something that lives as long as a test holds it."""


def test_what_is_remembered_for_an_object_ends_with_it():
    asked: list[str] = []

    @once_per_object
    def answer(_thing, word, *, loud=False):
        asked.append(word)
        return word.upper() if loud else word

    first = _Thing()
    assert [answer(first, "a"), answer(first, "a"), answer(first, "a", loud=True)] == ["a", "a", "A"]
    assert answer(_Thing(), "a") == "a"
    assert asked == ["a", "a", "a"]
    gone = weakref.ref(first)
    del first
    assert gone() is None
