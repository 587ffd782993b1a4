"""What is decided about the kernel's command line."""

from dataclasses import replace
from typing import Any

import pytest

from numaforge.lib.cpulist import format_cpulist
from numaforge.machine.topology.model import Core, NodeTopology
from numaforge.planning.document import dumps, loads
from numaforge.planning.plan import NodePlan
from numaforge.planning.profile import NodeProfile
from numaforge.roles.kernel_cmdline.plan import KernelPlan
from tests.fixtures.machines import lab_node, two_cpu_vm, with_cpu_states
from tests.fixtures.plans import decided, notices, planned, refusal


def rebooting(running: str, reboot: str, *cmdline: str) -> NodePlan:
    host = replace(lab_node(), kernel_cmdline=running)
    return planned(host, kernel={"cmdline": [*cmdline]}, maintenance={"reboot": reboot})


@pytest.mark.parametrize(
    ("running", "reboot", "notice"),
    [
        pytest.param("quiet iommu=pt", "never", [], id="the-kernel-has-it"),
        pytest.param("quiet", "never", ["reboot-pending"], id="missing-and-no-leave-to-reboot"),
        pytest.param("xiommu=pt iommu=ptx", "never", ["reboot-pending"], id="part-of-a-word-is-another"),
        pytest.param("quiet", "allowed", ["reboots"], id="leave-to-reboot"),
    ],
)
def test_missing_parameter_is_noticed_with_its_pending_or_planned_reboot(running, reboot, notice):
    plan = rebooting(running, reboot, "iommu=pt")
    assert plan.kernel == loads(dumps(plan)).kernel == KernelPlan(("iommu=pt",), reboot)
    assert [name for name in notices(plan) if name.startswith("reboot")] == notice


def test_plan_is_the_same_after_its_reboot():
    before, after = (rebooting(running, "allowed", "iommu=pt") for running in ("quiet", "quiet iommu=pt"))
    assert dumps(after) == dumps(before)


def test_empty_kernel_section_makes_no_decisions():
    decisions = rebooting("quiet", "never").decisions
    assert not [each for each in decisions if each.subject.startswith("kernel.")]


# ---- intents ----

INTEL = replace(lab_node(), cpu_vendor="GenuineIntel", nohz_full=frozenset(), kernel="6.8.0-31-generic")
AMD = replace(INTEL, cpu_vendor="AuthenticAMD")
ARM = replace(INTEL, cpu_vendor=None, architecture="aarch64")
POWER = replace(INTEL, cpu_vendor=None, architecture="ppc64le")
CONSOLES = ["console=tty0", "console=ttyS0,115200"]
NO_CPULISTS = ("", "most", True, "7-2")


def pages(size: str, count: int, **more: Any) -> dict[str, Any]:
    return {"size": size, "count_per_numa_node": count, "at": "boot", **more}


def wished(hugepages: list[dict[str, Any]] | None = None, **kernel: Any) -> dict[str, Any]:
    return {
        "name": "t",
        "memory": {"system_reserved": "512Mi"},
        "cpus": {"reserved": {"cores_per_numa_node": 1}},
        "hugepages": hugepages or [],
        "kernel": kernel,
        "maintenance": {"reboot": "allowed"},
    }


def plan(
    topology: NodeTopology = INTEL, hugepages: list[dict[str, Any]] | None = None, **kernel: Any
) -> NodePlan:
    return planned(topology, **wished(hugepages, **kernel))


ALLOCATABLE = format_cpulist(plan().cpus.allocatable)


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
    assert " ".join(plan(topology, **kernel).kernel.cmdline) == cmdline


ONE_CORE = replace(two_cpu_vm(), cores=(Core(0, 0, frozenset({0, 1})),))
GRUBBY = replace(INTEL, os_release={"ID": "rocky", "ID_LIKE": "rhel fedora"})
TWO_PAGES = [pages("2Mi", 8), pages("1Gi", 1)]
REFUSALS = {
    "said-twice": (
        INTEL,
        wished(cmdline=["iommu=pt"], iommu="passthrough"),
        "kernel.cmdline says iommu=pt, and kernel.iommu comes to iommu=pt",
    ),
    "said-twice-with-a-dash": (INTEL, wished(cmdline=["skew-tick=0"], skew_tick=True), "skew-tick=0"),
    "grubby-keeps-one-console": (GRUBBY, wished(cmdline=CONSOLES), "keeps one of each name"),
    "iommu-off-on-arm": (ARM, wished(iommu="off"), "Arm kernel has no parameter"),
    "reserved-cpus-are-not-isolated": (INTEL, wished(isolated_cpus="0-3"), "reserved for the system"),
    "no-such-cpu": (INTEL, wished(nohz_full="4,99"), "CPUs 99 are not online"),
    "none-reserved": (ONE_CORE, {"kernel": {"isolated_cpus": "allocatable"}}, "none is left for the system"),
    "numa-balancing-at-boot-and-later": (
        INTEL,
        {"kernel": {"numa_balancing": False}, "tuning": {"numa_balancing": True}},
        "is false, and tuning",
    ),
    "pages-of-two-sizes": (replace(INTEL, kernel="6.8.0"), wished(TWO_PAGES), "two sizes"),
    "pages-uneven-on-an-older-kernel": (
        replace(INTEL, kernel="5.15.0"),
        wished([pages("2Mi", 8, numa_node=1)]),
        "spreads pages",
    ),
    **{f"isolated-{value!r}": (INTEL, wished(isolated_cpus=value), "allocatable") for value in NO_CPULISTS},
}


@pytest.mark.parametrize(("topology", "profile", "said"), REFUSALS.values(), ids=REFUSALS)
def test_impossible_kernel_settings_are_refused(topology, profile, said):
    assert said in refusal(topology, **profile)


def test_plan_is_the_same_once_cpus_are_isolated():
    allocatable = plan().cpus.allocatable
    booted = with_cpu_states(replace(INTEL, nohz_full=allocatable), isolated=allocatable)
    wish = {"isolated_cpus": "allocatable", "nohz_full": "allocatable"}
    assert dumps(plan(booted, **wish)) == dumps(plan(INTEL, **wish))
    assert "cpus-isolated" in notices(plan(INTEL, **wish))


@pytest.mark.parametrize(
    ("word", "noticed"),
    [
        ("isolcpus=8-15", True),
        ("isolcpus=managed_irq,domain,8-15", True),
        ("isolcpus=managed_irq,8-15", False),
    ],
)
def test_cpus_that_the_command_line_isolates_are_noticed(word, noticed):
    assert ("cpus-isolated" in notices(plan(INTEL, cmdline=[word]))) is noticed


BOOT_PAGES = {
    "by-numa-node": ("6.8.0", [pages("1Gi", 1)], "hugepagesz=1G hugepages=0:1,1:1,2:1,3:1"),
    "an-older-kernel-spreads": ("5.15.0", [pages("2Mi", 8)], "hugepagesz=2M hugepages=32"),
    "one-numa-node-only": ("6.8.0", [pages("2Mi", 8, numa_node=1)], "hugepagesz=2M hugepages=1:8"),
    "no-pages": ("6.8.0", [pages("2Mi", 0)], ""),
}


@pytest.mark.parametrize(("kernel", "hugepages", "cmdline"), BOOT_PAGES.values(), ids=BOOT_PAGES)
def test_pages_are_reserved_at_boot(kernel, hugepages, cmdline):
    assert " ".join(plan(replace(INTEL, kernel=kernel), hugepages).kernel.cmdline) == cmdline


def test_accepted_risk_is_repeated_in_the_plan():
    chosen = plan(cmdline=["iommu=pt"], unsafe={"net.ifnames=0": "NICs are renamed"})
    assert chosen.kernel.cmdline == ("iommu=pt", "net.ifnames=0")
    assert notices(chosen)["unsafe-parameter"].endswith("NICs are renamed")
    assert decided(chosen, "kernel.unsafe")[1].endswith("NICs are renamed")


def test_repeated_pci_parameters_are_merged():
    kernel = NodeProfile(kernel={"cmdline": ["pci=realloc", "quiet", "pci=noaer"]}).kernel
    assert kernel.cmdline == ("pci=realloc,noaer", "quiet")
