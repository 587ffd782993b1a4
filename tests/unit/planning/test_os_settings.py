"""A plan as settings of Talos and Bottlerocket: what they accept, nothing lost, one file for each kind."""

import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.os_settings.kinds import System, kinds_of, settings_of
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import ready_profiles
from tests.fixtures.machines import dgx_h100, gb300_host, hgx_a100, mi300x
from tests.fixtures.plans import planned

SCHEMAS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
SYSTEMS: tuple[System, ...] = ("talos", "talos-documents", "bottlerocket")
EVERYTHING: dict[str, Any] = {
    "name": "everything",
    "kernel": {"cmdline": ["iommu=pt", "quiet"]},
    "maintenance": {"reboot": "allowed"},
    "modules": {
        "load": ["nvidia_peermem"],
        "options": {"nvidia": ["NVreg_EnableStreamMemOPs=1"]},
        "blocked": ["nouveau"],
    },
    "hugepages": [{"size": "1Gi", "count_per_numa_node": 4}],
    "interrupts": {
        "workqueues": "reserved",
        "default_affinity": "reserved",
        "irqbalance": "off",
        "devices": "reserved",
    },
    "host": {"limits": {"memlock": "unlimited"}},
    "tuning": {
        "governor": "performance",
        "sysctls": {"vm.swappiness": 1},
        "transparent_hugepages": {"enabled": "madvise", "defrag": "never"},
    },
    "kubelet": {"memory_manager_policy": "Static"},
    "device_plugin": {"time_slicing": {"nvidia.com/gpu": 4}},
    "mig": {"gpus": [{"devices": {"1g.10gb": 7}}]},
}


def plan(machine: NodeTopology, version: str | None = "1.34.2", /, **profile: Any) -> NodePlan:
    return planned(machine, version, **profile)


DGX = dgx_h100()


@cache
def written(system: System, *, cut: bool = False) -> tuple[dict[str, Any], dict[str, Any], dict[str, str]]:
    """Return the settings of EVERYTHING, the schematic, and why a key is left out."""
    without = "device_plugin" if cut else "mig"
    profile = {name: value for name, value in EVERYTHING.items() if name != without}
    settings = settings_of(system, DGX, plan(DGX, **profile))
    (_, text), *others = settings.files
    left_out = {row.key: row.why for row in settings.left_out}
    return parsed(system, text)[0], yaml.safe_load(others[0][1]) if others else {}, left_out


def parsed(system: System, text: str) -> list[Any]:
    return [tomllib.loads(text)] if system == "bottlerocket" else [*yaml.safe_load_all(text)]


def at(document: Any, *names: str | int) -> Any:
    for name in names:
        document = document[name]
    return document


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("machine", [dgx_h100, hgx_a100, mi300x, gb300_host])
def test_every_ready_profile_fits_the_schema(system: System, machine: Any) -> None:
    checked = 0
    for profile in (*({"extends": name} for name in ready_profiles()), EVERYTHING):
        try:
            chosen = plan(machine(), **profile)
        except PlanError:
            continue  # a profile for other GPUs
        (_, text), *others = settings_of(system, machine(), chosen).files
        for document in parsed(system, text):
            Draft202012Validator(SCHEMAS[system]).validate(document)
            checked += 1
        for _, schematic in others:
            Draft202012Validator(SCHEMAS["schematic"]).validate(yaml.safe_load(schematic))
    assert checked


TALOS = {
    "kubelet": (("kubelet", "extraConfig", "cpuManagerPolicy"), "static"),
    "sysctl": (("sysctls", "vm.swappiness"), "1"),
    "governor": (("sysfs", "devices/system/cpu/cpu7/cpufreq/scaling_governor"), "performance"),
    "knob": (("sysfs", "kernel/mm/transparent_hugepage/defrag"), "never"),
    "pages": (("sysfs", "devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages"), "4"),
    "module": (("kernel", "modules", 0), {"name": "nvidia_peermem"}),
    "options of a module": (
        ("kernel", "modules", 1),
        {"name": "nvidia", "parameters": ["NVreg_EnableStreamMemOPs=1"]},
    ),
}


@pytest.mark.parametrize(("names", "value"), TALOS.values(), ids=TALOS)
def test_plan_becomes_a_talos_patch(names: tuple[str | int, ...], value: object) -> None:
    patch, _, _ = written("talos")
    assert at(patch["machine"], *names) == value


def test_talos_schematic_has_kernel_parameters_and_blocked_modules() -> None:
    _, schematic, _ = written("talos")
    arguments = ["iommu=pt", "quiet", "module_blacklist=nouveau"]
    assert schematic == {"customization": {"extraKernelArgs": arguments}}


@pytest.mark.parametrize(
    ("names", "value"),
    [
        pytest.param(("kubernetes", "cpu-manager-policy-options"), ["full-pcpus-only"], id="options"),
        pytest.param(("kubernetes", "memory-manager-reserved-memory", "1", "enabled"), True, id="memory"),
        pytest.param(("kernel", "sysctl", "vm.swappiness"), "1", id="sysctl"),
        pytest.param(("kernel", "modules", "nouveau"), {"allowed": False}, id="blocked"),
        pytest.param(("kernel", "modules", "nvidia_peermem", "autoload"), True, id="loaded"),
        pytest.param(("kernel", "hugepages", "static", "1Gi", "count"), "0:4,1:4", id="pages by NUMA node"),
        pytest.param(("kernel", "hugepages", "transparent", "defrag"), "never", id="transparent"),
        pytest.param(
            ("boot", "kernel-parameters"),
            {"iommu": ["pt"], "quiet": [], "nvidia.NVreg_EnableStreamMemOPs": ["1"]},
            id="parameters, those of modules too",
        ),
        pytest.param(("boot", "reboot-to-reconcile"), True, id="reboot"),
        pytest.param(
            ("kubelet-device-plugins", "nvidia"),
            {
                "device-sharing-strategy": "time-slicing",
                "time-slicing": {"replicas": 4, "rename-by-default": False},
            },
            id="shared GPUs",
        ),
    ],
)
def test_plan_becomes_bottlerocket_settings(names: tuple[str, ...], value: object) -> None:
    document, _, _ = written("bottlerocket")
    assert at(document["settings"], *names) == value


def test_bottlerocket_cuts_gpus_into_one_profile_per_model() -> None:
    document, _, left_out = written("bottlerocket", cut=True)
    nvidia = document["settings"]["kubelet-device-plugins"]["nvidia"]
    assert nvidia == {"device-partitioning-strategy": "mig", "mig": {"profile": {"h100.80gb": "1g.10gb"}}}
    assert "mig" not in left_out


LEFT_OUT = {
    "two profiles": ({"gpus": [{"devices": {"3g.40gb": 1, "1g.10gb": 4}}]}, "of one profile"),
    "a part of a GPU": ({"gpus": [{"devices": {"1g.10gb": 3}}]}, "of one profile"),
    "GPUs cut in two ways": (
        {
            "gpus": [
                {"indices": [0], "devices": {"1g.10gb": 7}},
                {"indices": [1], "devices": {"7g.80gb": 1}},
            ]
        },
        "all GPUs of a model alike",
    ),
    "cut by the GPU operator": (
        {"managed_by": "gpu-operator", "gpus": [{"devices": {"1g.10gb": 7}}]},
        "mig.managed_by: gpu-operator cuts",
    ),
}


@pytest.mark.parametrize(("wish", "why"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_geometry_that_bottlerocket_cannot_cut_is_left_out(wish: dict[str, Any], why: str) -> None:
    settings = settings_of("bottlerocket", DGX, plan(DGX, mig=wish))
    assert why in next(row.why for row in settings.left_out if row.key == "mig")
    assert "device-partitioning-strategy" not in settings.files[0][1]


STRICT = "kubelet: cpuManagerPolicyOptions.strict-cpu-reservation"


@pytest.mark.parametrize(
    ("system", "keys"),
    [("talos", {"mig"}), ("bottlerocket", {STRICT, "tuning.governor", "interrupts.workqueues"})],
)
def test_unsupported_settings_are_named_per_operating_system(system: System, keys: set[str]) -> None:
    common = {"interrupts.devices", "interrupts.default_affinity", "interrupts.irqbalance", "host.limits"}
    assert {*written(system, cut=True)[2]} == common | keys


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_kubelet_setting_is_written_or_listed_as_left_out(system: System) -> None:
    chosen = plan(DGX, **{**EVERYTHING, "device_plugin": {}})
    strange = {**chosen.kubelet.settings, "seccompDefault": True, "containerLogMaxSize": "10Mi"}
    strange_plan = replace(chosen, kubelet=replace(chosen.kubelet, settings=strange))
    settings = settings_of(system, DGX, strange_plan)
    named = {row.key for row in settings.left_out}
    assert "kubelet: seccompDefault" in named
    assert "seccompDefault" not in settings.files[0][1]
    assert ("kubelet: containerLogMaxSize" in named) == (system == "bottlerocket")
    assert ("containerLogMaxSize: 10Mi" in settings.files[0][1]) == (system != "bottlerocket")


def test_bottlerocket_sets_two_huge_page_sizes_on_the_command_line() -> None:
    chosen = plan(DGX, extends="training")
    words = ("hugepagesz=1G", "hugepages=4", "hugepagesz=2M", "hugepages=8", "a/b=1")
    settings = settings_of("bottlerocket", DGX, replace(chosen, kernel=replace(chosen.kernel, cmdline=words)))
    named = {row.key for row in settings.left_out if row.key.startswith("kernel parameter")}
    assert named == {f"kernel parameter {word}" for word in words}


@pytest.mark.parametrize("system", SYSTEMS)
def test_identical_machines_share_a_file(system: System) -> None:
    machines = [replace(DGX, hostname="a"), replace(DGX, hostname="b"), replace(hgx_a100(), hostname="../c")]
    nodes = [(str(each.hostname), each, plan(each, extends="training")) for each in machines]
    kinds = kinds_of(system, nodes)
    end = "toml" if system == "bottlerocket" else "yaml"
    assert [kind.machines for kind in kinds] == [("a", "b"), ("../c",)]
    assert [[*kind.files] for kind in kinds] == [[f"a.{end}"], [f"c.{end}"]]
    assert "# Machines: a, b\n" in kinds[0].files[f"a.{end}"]


def test_comment_stays_a_comment() -> None:
    machine = replace(DGX, hostname="a\nmachine: {}\n\x1b[31m")
    (kind,) = kinds_of("talos", [(str(machine.hostname), machine, plan(machine, extends="training"))])
    (text,) = kind.files.values()
    assert "\x1b" not in text
    assert [*yaml.safe_load(text)["machine"]] == ["kubelet", "sysctls", "sysfs"]


def test_plan_without_a_kubelet_is_refused() -> None:
    machine = replace(DGX, kubelet=None)
    with pytest.raises(PlanError, match=r"no kubelet is known(.|\n)*give --kubelet-version"):
        settings_of("talos", machine, plan(machine, None, extends="training"))
