"""How a node watches itself: what is planned, what it compares, and what it tells."""

import hashlib
import re
from dataclasses import replace
from typing import Any

import pytest

from numaforge.change.transaction import CURRENT
from numaforge.lib.file_content import PLAN_PATH
from numaforge.machine.topology.saved import ready_machine, ready_machines
from numaforge.planning.plan import NodePlan
from numaforge.planning.render import plan_files, render_plan
from numaforge.roles.watch.files import WATCH_CONF_PATH, WATCH_SCRIPT_PATH, files
from numaforge.roles.watch.part import CONDITION
from numaforge.roles.watch.section import DIRECTORY
from numaforge.verification.table import entries
from tests.fixtures.plans import planned, refusal

WATCHED: dict[str, Any] = {
    "name": "watched",
    "tuning": {"governor": "performance", "sysctls": {"vm.swappiness": "1", "vm.max_map_count": "1048576"}},
    "hugepages": [{"size": "1Gi", "count_per_numa_node": 8}],
    "system": {"daemons": "reserved"},
    "watch": {"enabled": True},
}


def plan_on(machine: str = "dgx-h100", **changes: Any) -> NodePlan:
    return planned(ready_machine(machine), **{**WATCHED, **changes})


def rows(plan: NodePlan) -> list[list[str]]:
    (text,) = [file.text for file in plan_files(plan) if file.path == WATCH_CONF_PATH]
    return [line.split("\t") for line in text.splitlines()[1:]]


def told(plan: NodePlan) -> str:
    """Return the metrics that follow from the plan alone."""
    return "".join(f"{fields[0]}\n" for kind, *fields in rows(plan) if kind == "text")


def test_profile_without_watch_installs_nothing() -> None:
    plan = plan_on(watch={})
    assert plan.watch is None
    assert files(plan) == ()
    assert WATCH_CONF_PATH not in [file.path for file in plan_files(plan)]
    assert entries(plan, "watch") == {}


MISTAKES = {
    "a folder without a watch": ({"directory": "/a"}, "has directory and does not watch; set enabled: true"),
    "a relative folder": ({"enabled": True, "directory": "a"}, "watch.directory"),
    "a folder with dots": ({"enabled": True, "directory": "/a/../b"}, "watch.directory"),
    "a folder with a blank": ({"enabled": True, "directory": "/a b"}, "watch.directory"),
    "a word for a switch": ({"enabled": "yes"}, "watch.enabled"),
}


@pytest.mark.parametrize(("wish", "why"), MISTAKES.values(), ids=MISTAKES)
def test_invalid_watch_is_refused_with_its_place(wish: dict[str, Any], why: str) -> None:
    assert why in refusal(ready_machine("dgx-h100"), watch=wish)


def test_metrics_directory_and_kubelet_kubeconfig_are_the_defaults() -> None:
    watch = plan_on().watch
    kubeconfig = "/etc/kubernetes/kubelet.conf"
    assert (watch.directory, watch.kubeconfig, watch.node) == (DIRECTORY, kubeconfig, None)
    other = plan_on(watch={"enabled": True, "directory": "/srv/metrics", "condition": False}).watch
    assert (other.metrics, other.kubeconfig) == ("/srv/metrics/numaforge.prom", None)


def test_node_name_is_the_kubelet_registration_name() -> None:
    machine = ready_machine("dgx-h100")
    flags = ("--hostname-override=GPU-7.example.com", "--kubeconfig=/srv/kubelet.conf")
    renamed = replace(machine, kubelet=replace(machine.kubelet, flags=(*machine.kubelet.flags, *flags)))
    plan = planned(renamed, **WATCHED)
    assert (plan.watch.node, plan.watch.kubeconfig) == ("gpu-7.example.com", "/srv/kubelet.conf")
    assert ["node", "gpu-7.example.com"] in rows(plan)
    assert 'numaforge_plan_info{node="gpu-7.example.com",plan="' in told(plan)


def test_plan_metric_carries_the_checksum_of_the_plan_document() -> None:
    plan = plan_on()
    checksum = hashlib.sha256(render_plan(plan)[PLAN_PATH].encode()).hexdigest()
    line = f'numaforge_plan_info{{node="dgx-01",plan="{checksum[:16]}",cpu_manager_policy="static"}} 1\n'
    assert line in told(plan)
    assert ["file", f"file:{PLAN_PATH}", checksum, PLAN_PATH] in rows(plan)


LAST_GPU = 'UUID="GPU-00000000-0000-4000-8000-000000000007",pci_bus_id="0000:df:00.0",numa="1"'
TOLD = [
    'numaforge_plan_allocatable{node="dgx-01",resource="cpu",unit="core"} 212.0',
    'numaforge_plan_allocatable{node="dgx-01",resource="hugepages_1Gi",unit="byte"} 17179869184',
    'numaforge_plan_reserved_cpu{node="dgx-01",cpu="57",numa="1"} 1',
    f'numaforge_plan_gpu{{node="dgx-01",{LAST_GPU}}} 1',
    'numaforge_plan_hugepages{node="dgx-01",numa="0",size="1Gi"} 8',
]


def test_plan_metrics_carry_the_labels_of_the_alerts() -> None:
    plan = plan_on()
    lines = told(plan).splitlines()
    assert [line for line in TOLD if line not in lines] == []
    given = replace(plan, allocatable=replace(plan.allocatable, devices={"nvidia.com/gpu": 8}))
    # As kube-state-metrics names a device.
    line = 'numaforge_plan_allocatable{node="dgx-01",resource="nvidia_com_gpu",unit="integer"} 8'
    assert line in told(given).splitlines()


def test_unknown_value_is_an_empty_label() -> None:
    machine = ready_machine("dgx-h100")
    unknown = replace(machine, gpus=tuple(replace(gpu, uuid=None, numa_node=None) for gpu in machine.gpus))
    line = 'numaforge_plan_gpu{node="dgx-01",UUID="",pci_bus_id="0000:1b:00.0",numa=""} 1\n'
    assert line in told(planned(unknown, **WATCHED))


def test_cpus_with_the_same_value_share_a_line() -> None:
    governors = [row for row in rows(plan_on()) if row[0] == "is" and row[1] == "governor"]
    path = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor"
    assert governors == [["is", "governor", "performance", "needed", "0-223", path]]


def test_raise_only_limit_may_be_higher() -> None:
    held = {row[1]: row[0] for row in rows(plan_on()) if row[0] in ("is", "least")}
    assert held["sysctl:vm.swappiness"] == "is"
    assert held["sysctl:vm.max_map_count"] == "least"


def test_parameter_that_may_wait_for_a_reboot_is_not_drift() -> None:
    wish = {"kernel": {"cmdline": ["skew_tick=1"]}}
    assert not [row for row in rows(plan_on(**wish)) if row[1] == "kernel_cmdline"]
    allowed = plan_on(**wish, maintenance={"reboot": "allowed"})
    assert ["has", "kernel_cmdline", "skew_tick=1", "needed", "-", "/proc/cmdline"] in rows(allowed)


def test_amd_gpu_modes_are_compared() -> None:
    partitions = {"gpus": [{"compute": "CPX", "memory": "NPS4"}], "naming": "mixed"}
    plan = plan_on("mi300x", amd_partitions=partitions)
    address = plan.amd_partitions.gpus[0].pci_address
    path = f"/sys/bus/pci/devices/{address}/current_memory_partition"
    assert ["is", f"amd_partitions:{address}-memory", "NPS4", "needed", "-", path] in rows(plan)


def test_every_file_except_merged_files_is_compared() -> None:
    plan = plan_on()
    compared = {row[3] for row in rows(plan) if row[0] == "file"}
    assert compared == {file.path for file in plan.files if file.template or file.path == PLAN_PATH}
    old = planned(ready_machine("dgx-h100"), "1.29.9", **WATCHED)
    merged = {file.path for file in old.files if file.template is None} - {PLAN_PATH}
    assert merged
    assert not merged & {row[3] for row in rows(old) if row[0] == "file"}


def test_only_units_started_at_boot_are_compared_not_timer_services() -> None:
    linked = {row[1]: row[2] for row in rows(plan_on()) if row[0] == "link"}
    wants = "/etc/systemd/system/timers.target.wants/numaforge-watch.timer"
    assert linked["unit:numaforge-watch.timer"] == wants
    assert "unit:numaforge-watch.service" not in linked
    assert "unit:numaforge-tuning.service" in linked
    ours = {unit for unit in entries(plan_on(), "unit_starts_at_boot") if unit.startswith("numaforge-")}
    assert ours == {unit.removeprefix("unit:") for unit in linked}


@pytest.mark.parametrize("machine", ready_machines())
def test_prometheus_reads_the_metrics_of_each_machine(machine: str) -> None:
    label = r'[a-zA-Z_]+="(?:[^"\\]|\\["\\])*"'
    sample = re.compile(rf"[a-z_]+\{{{label}(?:,{label})*\}} [0-9.]+")
    plan = plan_on(machine, hugepages=[], tuning={}, system={})
    lines = told(plan).splitlines()
    assert [line for line in lines if not line.startswith("# ") and not sample.fullmatch(line)] == []
    heads = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(heads) == len({*heads}), "a metric has its samples in one place"


def test_script_shares_its_names_with_the_code() -> None:
    script = render_plan(plan_on())[WATCH_SCRIPT_PATH]
    assert f"CURRENT={CURRENT} " in script
    assert f"CONDITION={CONDITION}\n" in script
