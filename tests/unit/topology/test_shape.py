"""The shape of a machine decides: what is planned for a kind is what would be planned for each machine."""

from __future__ import annotations

import inspect
from dataclasses import fields, is_dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numaforge import render
from numaforge.errors import PlanError
from numaforge.file_content import PLAN_PATH
from numaforge.kubelet.minors.versions import KubeletVersion
from numaforge.kubelet.startup import check as judge
from numaforge.kubelet_paths import CONFIG_PATH, DROP_IN_DIR, ROOT_DIR
from numaforge.memoize import once_per_value
from numaforge.planning import node
from numaforge.planning.node import plan_node
from numaforge.profile import load_profile
from numaforge.roles import ROLES
from numaforge.roles.document import dumps
from numaforge.roles.mig.plan import as_cut
from numaforge.roles.role import Turn
from numaforge.topology.model import (
    ComputeInstance,
    ComputeInstanceShape,
    Gpu,
    GpuInstance,
    GpuInstanceShape,
    GpuShape,
    HugepagePool,
    HugepagePoolShape,
    KubeletInstall,
    KubeletInstallShape,
    MachineShape,
    NodeTopology,
    NumaNode,
    NumaNodeShape,
)
from numaforge.topology.shape import shape_of
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
            patched.setattr(node, "shape_of", lambda machine: machine)
            patched.setattr(node, "_without_identity", lambda machine: machine.previous_plan)
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
            alone = dumps(plan) if file.path == PLAN_PATH else render._text(plan, file, config, None)
            assert render.render_file(plan, file, config) == alone


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
        places = CONFIG_PATH, DROP_IN_DIR, ROOT_DIR
        expected = judge._check.__wrapped__(STATIC, machine, version, {}, flags, {}, {}, *places)
        assert judge.check(STATIC, topology=machine, version=version, flags=flags) == expected


CUT = GpuInstance(1, 9, 4, 4, (ComputeInstance(0, 3, "MIG-a"),), (7,))
SHAPES = {
    MachineShape: NodeTopology,
    NumaNodeShape: NumaNode,
    HugepagePoolShape: HugepagePool,
    GpuShape: Gpu,
    GpuInstanceShape: GpuInstance,
    ComputeInstanceShape: ComputeInstance,
    KubeletInstallShape: KubeletInstall,
}


def named(number: int, machine: NodeTopology = DGX) -> NodeTopology:
    gpus = tuple(replace(gpu, uuid=f"GPU-{number}-{gpu.pci_address}") for gpu in machine.gpus)
    return replace(machine, hostname=f"gpu-{number}", gpus=gpus, kernel_cmdline=f"root={number}")


def with_gpu(**changes):
    return shape_of(replace(DGX, gpus=(replace(DGX.gpus[0], **changes), *DGX.gpus[1:])))


def kinds_planned(machines, profile) -> int:
    """Return for how many kinds these machines are planned."""
    with pytest.MonkeyPatch.context() as patched:
        seen = set()
        decided = node._decided.__wrapped__
        counted = once_per_value(lambda *kind: seen.add(len(seen)) or decided(*kind))
        patched.setattr(node, "_decided", counted)
        for machine in machines:
            plan_node(machine, profile)
    return len(seen)


def parts(value):
    """Yield every dataclass that a value has, at any depth."""
    if is_dataclass(value):
        yield value
        value = [getattr(value, each.name) for each in fields(value)]
    if isinstance(value, dict):
        value = value.values()
    if isinstance(value, tuple | list) or type(value).__name__ == "dict_values":
        for each in value:
            yield from parts(each)


def test_a_shape_has_shapes_at_every_depth():
    pools = {"2Mi": HugepagePool(8, 3)}
    whole = replace(
        DGX,
        hugepages=pools,
        numa_nodes=tuple(replace(each, hugepages=pools) for each in DGX.numa_nodes),
        gpus=tuple(replace(gpu, gpu_instances=(CUT,)) for gpu in DGX.gpus),
        kubelet=fixtures.kubeadm_kubelet(),
    )
    found = set(map(type, parts(shape_of(whole))))
    assert set(SHAPES) <= found
    assert not found & set(SHAPES.values())


def test_a_shape_names_the_sysctls_and_files_that_exist_without_their_values():
    there = replace(DGX, sysctls={"vm.swappiness": "60"}, kernel_values={"/sys/kernel/mm/ksm/run": "0"})
    assert shape_of(there).sysctls == ("vm.swappiness",)
    assert shape_of(there).kernel_values == ("/sys/kernel/mm/ksm/run",)


@pytest.mark.parametrize(
    "role", [role for role in ROLES if role.plan and role.plan.TURN is Turn.KIND], ids=str
)
def test_a_role_that_is_decided_for_a_kind_takes_its_shape(role):
    takes = [role.plan.decide, *filter(None, [getattr(role.plan, "review", None)])]
    assert {inspect.get_annotations(each)["machine"] for each in takes} == {"MachineShape"}


def test_machines_of_a_kind_are_planned_once():
    profile = load_profile({**PROFILE, "name": "once"})
    assert kinds_planned(map(named, range(3)), profile) == 1


def test_who_is_in_an_instance_makes_no_kind_and_where_it_lies_does():
    idle = replace(CUT, pids=(), compute_instances=(ComputeInstance(0, 3, "MIG-b"),))
    assert with_gpu(gpu_instances=(CUT,)) == with_gpu(gpu_instances=(idle,))
    assert with_gpu(gpu_instances=(CUT,)) != with_gpu(gpu_instances=(replace(CUT, start=0),))
    assert with_gpu(gpu_instances=()) != with_gpu(gpu_instances=None)


@pytest.mark.parametrize("name", sorted({each.name for each in fields(GpuShape)} - {"gpu_instances"}))
def test_every_field_of_a_shape_makes_a_kind(name):
    assert with_gpu(**{name: "another"}) != with_gpu()


def test_gpus_that_are_cut_alike_are_of_one_kind_with_the_plan_on_their_host():
    wish = load_profile("inference-mig")

    def cut(number: int) -> NodeTopology:
        plan = plan_node(named(number), wish)
        return replace(as_cut(named(number), plan.mig), previous_plan=dumps(plan))

    assert kinds_planned([cut(1), cut(2)], wish) == 1
