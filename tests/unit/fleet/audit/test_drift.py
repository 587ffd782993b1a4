"""What a machine is held to by the plan that is saved on it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from numaforge.findings.engine import Verdict
from numaforge.fleet.audit.drift import RULES
from numaforge.machine.topology.model import GpuInstance, NodeTopology
from numaforge.machine.topology.saved import ready_machine
from numaforge.planning.as_planned import machine_as_planned
from numaforge.planning.document import dumps
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.planning.render import render_plan
from numaforge.roles.kernel_values.paths import knob_values
from tests.fixtures.judged import found, with_verdict
from tests.fixtures.machines import mi300x_cpx_kfd, with_cpu_states

Change = Callable[[NodeTopology], NodeTopology]


WISH = {
    "cpus": {"reserved": {"cores_per_numa_node": 2}},
    "hugepages": [{"size": "2Mi", "count_per_numa_node": 16}],
    "kubelet": {"cpu_manager_policy": "static"},
    "kernel": {"cmdline": ["iommu=pt"]},
    "maintenance": {"reboot": "allowed"},
    "tuning": {
        "governor": "performance",
        "sysctls": {"vm.swappiness": "1"},
        "numa_balancing": False,
        "transparent_hugepages": {"enabled": "never"},
    },
    "mig": {"gpus": [{"indices": [0], "devices": {"3g": 1, "1g": 2}}]},
}


def kept(machine: NodeTopology) -> NodeTopology:
    """Return a machine that is as its saved plan wants it."""
    plan = plan_node(machine, load_profile(WISH))
    after, tuning, kubelet = machine_as_planned(machine, plan), plan.tuning, plan.kubelet
    drop_in = {kubelet.drop_in or "": render_plan(plan)[kubelet.drop_in or ""]}
    return replace(
        after,
        kernel_cmdline=" ".join([after.kernel_cmdline or "", *plan.kernel.cmdline]),
        kernel_values={**after.kernel_values, **knob_values(tuning)},
        sysctls={**after.sysctls, **tuning.raised_sysctls, **tuning.sysctls},
        cpufreq=replace(after.cpufreq, governors={**after.cpufreq.governors, **tuning.governors}),
        kubelet=replace(
            after.kubelet,
            config_dir=kubelet.config_dir,
            drop_ins=drop_in,
            flags=(*after.kubelet.flags, f"--config-dir={kubelet.config_dir}"),
        ),
        previous_plan=dumps(plan),
    )


PLANNED = kept(ready_machine("dgx-h100"))


def with_kubelet(machine: NodeTopology, **changes: object) -> NodeTopology:
    assert machine.kubelet is not None
    return replace(machine, kubelet=replace(machine.kubelet, **changes))


def with_gpu(machine: NodeTopology, **changes: object) -> NodeTopology:
    first, *others = machine.gpus
    return replace(machine, gpus=(replace(first, **changes), *others))


FIRST = PLANNED.gpus[0].pci_address

DRIFTS: tuple[tuple[Change, str, list[str]], ...] = (
    (lambda m: replace(m, previous_plan="{"), "NP101", ["plan"]),
    (lambda m: replace(m, hostname="gpu-99"), "NP102", ["hostname"]),
    (lambda m: with_cpu_states(m, online=m.online - {7}), "NP102", ["CPUs"]),
    (lambda m: with_kubelet(m, version="1.35.0"), "NP109", ["kubelet"]),
    (lambda m: with_gpu(m, mig_mode="disabled"), "NP110", [FIRST]),
    (lambda m: with_gpu(m, gpu_instances=(GpuInstance(1, 9, 0, 4),)), "NP110", [FIRST]),
    (lambda m: replace(m, gpus=m.gpus[1:]), "NP110", [FIRST]),
)


def test_machine_as_planned_has_no_drift() -> None:
    assert found(RULES, PLANNED) == {}
    assert with_verdict(RULES, PLANNED, Verdict.UNKNOWN, Verdict.NOT_APPLICABLE) == set()


def partitioned(now: str) -> list[str | None]:
    """Return where the rule for AMD's GPUs finds something on 8 MI300X planned for CPX and NPS4."""
    machine = mi300x_cpx_kfd()
    wish = {"amd_partitions": {"gpus": [{"compute": "CPX", "memory": "NPS4"}]}}
    saved = replace(machine, previous_plan=dumps(plan_node(machine, load_profile(wish), "1.36.0")))
    first, *others = saved.gpus
    assert first.partition is not None
    first = replace(first, partition=replace(first.partition, compute=now))
    return found(RULES, replace(saved, gpus=(first, *others))).get("NP111", [])


def test_amd_partition_mode_drift_is_found() -> None:
    assert (partitioned("CPX"), partitioned("QPX")) == ([], ["0000:05:00.0-compute"])


@pytest.mark.parametrize(
    ("change", "rule", "places"), DRIFTS, ids=[f"{rule}-{places[0]}" for _, rule, places in DRIFTS]
)
def test_every_deviation_from_the_plan_is_found(change: Change, rule: str, places: list[str]) -> None:
    assert found(RULES, change(PLANNED)) == {rule: places}


def test_kubelet_settings_lost_from_the_drop_in_are_found() -> None:
    lacking = found(RULES, with_kubelet(PLANNED, drop_ins={}))
    assert [*lacking] == ["NP108"]
    assert {"cpuManagerPolicy", "reservedSystemCPUs"} <= {*lacking["NP108"]}


def test_without_a_plan_no_rule_applies() -> None:
    bare = replace(PLANNED, previous_plan=None)
    assert with_verdict(RULES, bare, Verdict.NOT_APPLICABLE) == {rule.id for rule in RULES}


def test_unread_settings_are_unknown() -> None:
    bare = replace(PLANNED, kernel_cmdline=None, kernel_values={}, sysctls={}, kubelet=None)
    assert found(RULES, bare) == {}
    assert {"NP104", "NP107", "NP108", "NP109"} <= with_verdict(RULES, bare, Verdict.UNKNOWN)
