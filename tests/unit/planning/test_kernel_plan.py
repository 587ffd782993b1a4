"""What is decided about the kernel's command line."""

from dataclasses import replace
from typing import Any

import pytest

from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import PlanError, ProfileError
from numaforge.machine.topology.model import Core, NodeTopology
from numaforge.planning.document import dumps, loads
from numaforge.planning.node import plan_node
from numaforge.planning.plan import NodePlan
from numaforge.planning.profile import NodeProfile
from numaforge.planning.profiles import load_profile
from numaforge.roles.kernel_cmdline.plan import KernelPlan
from tests.fixtures.machines import lab_node, two_cpu_vm


def profile(reboot: str = "never", *cmdline: str) -> NodeProfile:
    wish: dict[str, Any] = {"name": "t", "kernel": {"cmdline": [*cmdline]}, "maintenance": {"reboot": reboot}}
    return load_profile({**wish, "memory": {"system_reserved": "512Mi"}})


@pytest.mark.parametrize(
    ("running", "reboot", "notice"),
    [
        pytest.param("quiet iommu=pt", "never", None, id="the-kernel-has-it"),
        pytest.param("quiet", "never", "reboot-pending", id="missing-and-no-leave-to-reboot"),
        pytest.param(
            "xiommu=pt iommu=ptx", "never", "reboot-pending", id="part-of-a-word-is-another-parameter"
        ),
        pytest.param("quiet", "allowed", "reboots", id="leave-to-reboot"),
    ],
)
def test_missing_parameter_is_noticed_with_its_pending_or_planned_reboot(running, reboot, notice):
    planned = plan_node(replace(lab_node(), kernel_cmdline=running), profile(reboot, "iommu=pt"))
    assert planned.kernel == KernelPlan(("iommu=pt",), reboot)
    named = [each.id for each in planned.notices if each.id.startswith("reboot")]
    assert named == ([notice] if notice else [])


def test_plan_is_the_same_after_its_reboot():
    wish = profile("allowed", "iommu=pt")
    before, after = (
        plan_node(replace(lab_node(), kernel_cmdline=running), wish)
        for running in ("quiet", "quiet iommu=pt")
    )
    assert dumps(after) == dumps(before)


def test_empty_kernel_section_makes_no_decisions():
    decisions = plan_node(lab_node(), profile()).decisions
    assert not [each for each in decisions if each.subject.startswith("kernel.")]


def test_plan_document_keeps_the_kernel_parameters():
    plan = plan_node(lab_node(), profile("allowed", "iommu=pt", "intel_iommu=on"))
    assert loads(dumps(plan)).kernel == KernelPlan(("iommu=pt", "intel_iommu=on"), "allowed")


# ---- intents ----

INTEL = replace(lab_node(), cpu_vendor="GenuineIntel", nohz_full=frozenset(), kernel="6.8.0-31-generic")
AMD = replace(INTEL, cpu_vendor="AuthenticAMD")
ARM = replace(INTEL, cpu_vendor=None, architecture="aarch64")
POWER = replace(INTEL, cpu_vendor=None, architecture="ppc64le")


def planned(
    topology: NodeTopology = INTEL, hugepages: list[dict[str, Any]] | None = None, **kernel: Any
) -> NodePlan:
    wish = {
        "name": "t",
        "memory": {"system_reserved": "512Mi"},
        "cpus": {"reserved": {"cores_per_numa_node": 1}},
        "hugepages": hugepages or [],
        "kernel": kernel,
        "maintenance": {"reboot": "allowed"},
    }
    return plan_node(topology, load_profile(wish))


ALLOCATABLE = format_cpulist(planned().cpus.allocatable)


INTENTS = {
    "iommu-of-intel": (INTEL, {"iommu": "passthrough"}, "intel_iommu=on iommu=pt"),
    "iommu-of-amd-is-on-already": (AMD, {"iommu": "passthrough"}, "iommu=pt"),
    "iommu-of-arm": (ARM, {"iommu": "passthrough"}, "iommu.passthrough=1"),
    "iommu-of-another-cpu-is-left-alone": (POWER, {"iommu": "passthrough"}, ""),
    "yaml-reads-off-as-false": (INTEL, {"iommu": False}, "intel_iommu=off"),
    "iommu-off-on-amd": (AMD, {"iommu": "off"}, "amd_iommu=off"),
    "iommu-kept": (INTEL, {"iommu": "keep"}, ""),
    "isolated-are-all-but-the-reserved": (
        INTEL,
        {"isolated_cpus": "allocatable"},
        f"isolcpus=managed_irq,domain,{ALLOCATABLE}",
    ),
    "without-a-tick": (INTEL, {"nohz_full": "allocatable"}, f"nohz_full={ALLOCATABLE}"),
    "a-kernel-that-always-ticks": (replace(INTEL, nohz_full=None), {"nohz_full": "allocatable"}, ""),
    "rcu-elsewhere": (INTEL, {"rcu_nocbs": "allocatable"}, f"rcu_nocbs={ALLOCATABLE}"),
    "pages-not-cleared": (INTEL, {"init_on_alloc": False}, "init_on_alloc=0"),
    "numa-balancing": (INTEL, {"numa_balancing": False}, "numa_balancing=disable"),
    "ticks-spread": (INTEL, {"skew_tick": True}, "skew_tick=1"),
    "sleep-states-of-intel-have-two-drivers": (
        INTEL,
        {"max_cstate": 1},
        "intel_idle.max_cstate=1 processor.max_cstate=1",
    ),
    "sleep-states-of-amd": (AMD, {"max_cstate": 1}, "processor.max_cstate=1"),
    "sleep-states-of-arm-have-no-parameter": (ARM, {"max_cstate": 1}, ""),
    "every-console-in-its-order": (
        INTEL,
        {"cmdline": ["console=tty0", "console=ttyS0,115200"]},
        "console=tty0 console=ttyS0,115200",
    ),
    "after-what-is-said-in-full": (INTEL, {"cmdline": ["quiet"], "skew_tick": True}, "quiet skew_tick=1"),
}


@pytest.mark.parametrize(("topology", "kernel", "cmdline"), INTENTS.values(), ids=INTENTS)
def test_kernel_intent_becomes_parameters_of_the_machine(topology, kernel, cmdline):
    chosen = planned(topology, **kernel)
    assert " ".join(chosen.kernel.cmdline) == cmdline


REFUSALS = {
    "said-twice": (
        INTEL,
        {"cmdline": ["iommu=pt"], "iommu": "passthrough"},
        r"kernel\.cmdline says iommu=pt, and kernel\.iommu comes to iommu=pt",
    ),
    "said-twice-with-a-dash": (INTEL, {"cmdline": ["skew-tick=0"], "skew_tick": True}, "skew-tick=0"),
    "grubby-keeps-one-console": (
        replace(INTEL, os_release={"ID": "rocky", "ID_LIKE": "rhel fedora"}),
        {"cmdline": ["console=tty0", "console=ttyS0,115200"]},
        "keeps one of each name",
    ),
    "iommu-off-on-arm": (ARM, {"iommu": "off"}, "Arm kernel has no parameter"),
    "reserved-cpus-are-not-isolated": (INTEL, {"isolated_cpus": "0-3"}, "reserved for the system"),
    "no-such-cpu": (INTEL, {"nohz_full": "4,99"}, "CPUs 99 are not online"),
}


@pytest.mark.parametrize(("topology", "kernel", "said"), REFUSALS.values(), ids=REFUSALS)
def test_impossible_kernel_settings_are_refused(topology, kernel, said):
    with pytest.raises(PlanError, match=said):
        planned(topology, **kernel)


def test_isolating_cpus_without_reserved_cpus_is_refused():
    one_core = replace(two_cpu_vm(), cores=(Core(0, 0, frozenset({0, 1})),))
    with pytest.raises(PlanError, match="none is left for the system"):
        plan_node(one_core, load_profile({"kernel": {"isolated_cpus": "allocatable"}}))


def test_contradicting_numa_balancing_at_boot_and_later_is_refused():
    wish = {"kernel": {"numa_balancing": False}, "tuning": {"numa_balancing": True}}
    with pytest.raises(PlanError, match="is false, and tuning"):
        plan_node(INTEL, load_profile(wish))


@pytest.mark.parametrize("value", ["", "most", True, "7-2"])
def test_invalid_isolated_cpus_are_refused(value):
    with pytest.raises(ProfileError, match="allocatable"):
        load_profile({"kernel": {"isolated_cpus": value}})


def test_isolated_cpus_are_noticed():
    assert "cpus-isolated" in [notice.id for notice in planned(isolated_cpus="allocatable").notices]


def test_plan_is_the_same_once_cpus_are_isolated():
    booted = replace(INTEL, isolated=planned().cpus.allocatable, nohz_full=planned().cpus.allocatable)
    wish = {"isolated_cpus": "allocatable", "nohz_full": "allocatable"}
    assert dumps(planned(booted, **wish)) == dumps(planned(INTEL, **wish))


def pages(size: str, count: int, **more: Any) -> dict[str, Any]:
    return {"size": size, "count_per_numa_node": count, "at": "boot", **more}


BOOT_PAGES = {
    "by-numa-node": ("6.8.0", [pages("1Gi", 1)], "hugepagesz=1G hugepages=0:1,1:1,2:1,3:1"),
    "an-older-kernel-spreads": ("5.15.0", [pages("2Mi", 8)], "hugepagesz=2M hugepages=32"),
    "one-numa-node-only": ("6.8.0", [pages("2Mi", 8, numa_node=1)], "hugepagesz=2M hugepages=1:8"),
    "no-pages": ("6.8.0", [pages("2Mi", 0)], ""),
}


@pytest.mark.parametrize(("kernel", "hugepages", "cmdline"), BOOT_PAGES.values(), ids=BOOT_PAGES)
def test_pages_are_reserved_at_boot(kernel, hugepages, cmdline):
    chosen = planned(replace(INTEL, kernel=kernel), hugepages)
    assert " ".join(chosen.kernel.cmdline) == cmdline


@pytest.mark.parametrize(
    ("kernel", "hugepages", "said"),
    [
        pytest.param("6.8.0", [pages("2Mi", 8), pages("1Gi", 1)], "two sizes", id="two-sizes"),
        pytest.param(
            "5.15.0", [pages("2Mi", 8, numa_node=1)], "spreads pages", id="uneven-on-an-older-kernel"
        ),
    ],
)
def test_pages_that_cannot_be_reserved_at_boot_are_refused(kernel, hugepages, said):
    with pytest.raises(PlanError, match=said):
        planned(replace(INTEL, kernel=kernel), hugepages)


def test_accepted_risk_is_repeated_in_the_plan():
    plan = planned(cmdline=["iommu=pt"], unsafe={"net.ifnames=0": "NICs are renamed"})
    assert plan.kernel.cmdline == ("iommu=pt", "net.ifnames=0")
    assert [each.message for each in plan.notices if each.id == "unsafe-parameter"] == [
        "net.ifnames=0 is not a known parameter; the profile's reason: NICs are renamed"
    ]
    (reason,) = [each.reason for each in plan.decisions if each.subject == "kernel.unsafe"]
    assert reason.endswith("NICs are renamed")


def test_repeated_pci_parameters_are_merged():
    kernel = NodeProfile(kernel={"cmdline": ["pci=realloc", "quiet", "pci=noaer"]}).kernel
    assert kernel.cmdline == ("pci=realloc,noaer", "quiet")
