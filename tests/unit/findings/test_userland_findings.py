"""Each rule about the userland applies to the hosts that it is made for, and to no other."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from numaforge.findings.engine import Judgement, Verdict
from numaforge.findings.userland.packages import is_bounded
from numaforge.fleet.audit.host_rules import RULES
from numaforge.machine.topology.model import HostProcess, InstalledPackage, NodeTopology, Userland
from tests.fixtures import judged as by
from tests.fixtures import machines
from tests.fixtures.gpu_machines import KINDS as GPU_MACHINES
from tests.fixtures.machines import lab_node, with_cpu_states
from tests.fixtures.plans import after, notices, planned
from tests.fixtures.workers import DRIVER, SOUND, SYSTEMD, drives, with_containerd, worker


def judged(machine: NodeTopology) -> dict[str, Judgement]:
    return by.judged(RULES, machine)


def found(machine: NodeTopology) -> set[str]:
    return set(by.found(RULES, machine))


def test_a_sound_worker_raises_no_alarm():
    assert found(worker()) == set()
    passed = by.with_verdict(RULES, worker(), Verdict.PASSED)
    # It isolates no CPUs, was not planned yet, and has no RDMA CNI plugin beside the shared device plugin.
    assert {rule.id for rule in RULES} - passed == {"NH110", "NH203", "NH502"}


@dataclass(frozen=True)
class Case:
    """A worker, the only rule that finds something, and what it says."""

    machine: Callable[[], NodeTopology]
    evidence: str


def static(*drivers: str) -> NodeTopology:
    """Return a worker with these drivers beside the static CPU manager."""
    built = worker(claim_drivers=drivers)
    text = f"{built.kubelet.config_text}cpuManagerPolicy: static\n"
    return replace(built, kubelet=replace(built.kubelet, config_text=text))


CASES = {
    "NH101": Case(lambda: replace(worker(), cgroup_version=1), "version 1"),
    "NH102": Case(lambda: worker(swaps=("/dev/zram0",)), "compressed in memory"),
    "NH103": Case(lambda: worker(swap_units=("dev-zram0.swap",)), "next boot"),
    "NH104": Case(lambda: worker(processes=SOUND.processes[:2], clock_synchronised=None), "chronyd"),
    "NH105": Case(lambda: worker(clock_synchronised=False), "NTPSynchronized=no"),
    "NH106": Case(
        lambda: worker(processes=(replace(SOUND.processes[0], open_files=1024), *SOUND.processes[1:])),
        "1024 open files",
    ),
    "NH107": Case(lambda: replace(worker(), kernel_cmdline="ro quiet"), "crashkernel="),
    "NH108": Case(lambda: worker(nvmes=drives(0, 0)), "no NVMe drive"),
    "NH109": Case(
        lambda: replace(worker(), kernel_cmdline="crashkernel=1G hugepagesz=512M hugepages=4"),
        "hugepagesz=512M: this kernel has 2Mi, 1Gi",
    ),
    "NH110": Case(lambda: with_cpu_states(worker(), isolated=frozenset({4, 5})), "isolates CPUs 4-5"),
    "NH301": Case(lambda: with_containerd(imports=("/etc/containerd/config.toml",)), "imports"),
    "NH302": Case(
        lambda: with_containerd(
            version="2.1.4", versions={"/etc/containerd/config.toml": 3, "/etc/containerd/conf.d/a.toml": 2}
        ),
        "conf.d/a.toml is of version 2",
    ),
    "NH303": Case(lambda: with_containerd(versions={"/etc/containerd/config.toml": 3}), "reads up to 2"),
    "NH304": Case(lambda: with_containerd(version="2.1.4"), "converts at every start"),
    "NH305": Case(lambda: with_containerd(runtimes={"nvidia": True, "runc": False}), "is false"),
    "NH306": Case(lambda: with_containerd(cdi=False), "enable_cdi is false"),
    "NH307": Case(lambda: with_containerd(nri=False), "disabled"),
    "NH308": Case(
        lambda: with_containerd(cdi=False, runtimes={"runc": True}, default_runtime="runc"),
        "no runtime handler",
    ),
    "NH309": Case(lambda: with_containerd(cdi=False, default_runtime="runc"), "is runc"),
    "NH310": Case(lambda: with_containerd(runtimes={"runc": True}), "there is runc"),
    "NH311": Case(lambda: with_containerd(sandbox_image="internal:5000/pause"), "no version"),
    "NH401": Case(lambda: static("dra.cpu"), "dra.cpu has registered"),
    "NH402": Case(lambda: static("gpu.nvidia.com"), "gpu.nvidia.com has registered"),
    "NH501": Case(lambda: replace(worker(), rdma_netns="exclusive"), "the mode is exclusive"),
    "NH502": Case(lambda: worker(rdma_plugin=False, rdma_cni=True), "the mode is shared"),
}
ALSO = {"NH302": {"NH304"}, "NH308": {"NH306"}, "NH309": {"NH306"}}


@pytest.mark.parametrize("rule", CASES)
def test_each_fault_is_found_and_nothing_else(rule):
    machine = CASES[rule].machine()
    assert found(machine) == {rule} | ALSO.get(rule, set())
    assert CASES[rule].evidence in judged(machine)[rule].findings[0].evidence


def test_isolated_cpus_are_found_before_there_is_a_kubelet():
    assert found(with_cpu_states(replace(worker(), kubelet=None), isolated=frozenset({4}))) == {"NH110"}


PACKAGES = (InstalledPackage("nvidia-driver-580", "580.95", "driver", held=False),)


OPEN_PACKAGES = {
    "not held, and upgraded unattended": ({"packages": PACKAGES}, {"NH201", "NH202"}),
    "not held": ({"packages": PACKAGES, "upgrades": False}, {"NH202"}),
    "skipped by the upgrades": ({"packages": PACKAGES, "upgrades_skip": ("nvidia-",)}, {"NH202"}),
    "patterns that match nothing": (
        {"packages": PACKAGES, "upgrades_skip": ("[", "driver")},
        {"NH201", "NH202"},
    ),
    "held": ({"packages": (replace(PACKAGES[0], held=True),)}, set()),
    "unknown": ({"packages": (replace(PACKAGES[0], held=None),), "upgrades": None}, set()),
}


@pytest.mark.parametrize(("userland", "expected"), OPEN_PACKAGES.values(), ids=OPEN_PACKAGES)
def test_packages_open_to_unattended_change_are_found(userland, expected):
    assert found(worker(**userland)) == expected


def tunable(**userland: Any) -> NodeTopology:
    """Return a worker whose kernel has what the tests tune."""
    sysctls = dict.fromkeys(("vm.swappiness", "vm.overcommit_memory", "net.core.default_qdisc"), "0")
    pages = machines.transparent_hugepages(enabled="always")
    return replace(worker(lab_node(), **userland), sysctls=sysctls, kernel_values=pages)


def with_plan(machine: NodeTopology, tuning: dict[str, Any], **sections: Any) -> NodeTopology:
    return after(machine, planned(machine, tuning=tuning, **sections))


def tuned(profile: str, **settings: str) -> dict[str, Any]:
    """Return a running TuneD with a profile and what that sets; dots are written as two underscores."""
    named = {name.replace("__", "."): value for name, value in settings.items()}
    return {"services": ("tuned.service",), "tuned_profiles": (profile,), "tuned": named}


SWAPPINESS = {"sysctls": {"vm.swappiness": 1}}
LATER_FILE = {"sysctl_files": {"/etc/sysctl.d/99-local.conf": {"vm.swappiness": "60"}}}
TUNED_POD = (*SOUND.processes, HostProcess("openshift-tuned", in_pod=True))
OVERCOMMIT = {"sysctls": {"vm.overcommit_memory": 2}, "unsafe": {"vm.overcommit_memory": "no memory"}}
CONFLICTS = {
    "TuneD sets another value": (
        tuned("throughput-performance", sysctl__vm__swappiness="10"),
        SWAPPINESS,
        "TuneD sets vm.swappiness to 10, and the plan to 1",
    ),
    "NVIDIA's profile sets another value": (
        tuned("nvidia-h100-performance", vm__transparent_hugepages="always"),
        {"transparent_hugepages": "madvise"},
        "nvidia-tuned sets transparent huge pages to always, and the plan to madvise",
    ),
    "a later file of sysctl.d": (LATER_FILE, SWAPPINESS, "a file of sysctl.d sets vm.swappiness to 60 at"),
    "the Node Tuning Operator": ({"processes": TUNED_POD}, SWAPPINESS, "a TuneD in a pod may set sysctls"),
    "the kubelet": ({}, OVERCOMMIT, "the kubelet sets vm.overcommit_memory to 1 when it starts"),
    "the network driver": (
        {"driver_tuning": ("RUN_SYSCTL",)},
        {"sysctls": {"net.core.default_qdisc": "fq"}},
        "NVIDIA's network driver sets sysctls of the network",
    ),
}


@pytest.mark.parametrize(("userland", "tuning", "evidence"), CONFLICTS.values(), ids=CONFLICTS)
def test_conflicting_manager_is_named_with_its_setting(userland, tuning, evidence):
    machine = with_plan(tunable(**userland), tuning)
    (finding,) = judged(machine)["NH203"].findings
    assert evidence in finding.evidence
    assert f"({finding.where})" in notices(planned(machine, tuning=tuning))["managed-elsewhere"]


def test_power_daemon_conflicts_with_the_governor():
    machine = with_plan(worker(machines.epyc_gpu(), services=("tlp.service",)), {"governor": "performance"})
    assert "TLP sets the CPUs' governor" in judged(machine)["NH203"].findings[0].evidence


ALONE = {"devices": "reserved", "irqbalance": "off", "default_affinity": "reserved"}


VARIABLE = "${f:cpulist_invert:${isolated_cores}}"
DEFAULT = {"interrupts": {"default_affinity": "reserved"}}
SERVICES = {
    "ksmtuned": (
        {"services": ("ksmtuned.service",)},
        {"tuning": {"ksm": False}},
        "ksmtuned sets the merging of pages (KSM)",
    ),
    "ksmtuned, and no KSM is planned": ({"services": ("ksmtuned.service",)}, {}, None),
    "mlnx_affinity": (
        {"driver_tuning": ("RUN_AFFINITY_TUNER",)},
        {"interrupts": ALONE},
        "NVIDIA's network driver sets the affinity of NICs' interrupts when it is loaded",
    ),
    "irqbalance beside the default affinity": (
        {"services": ("irqbalance.service",)},
        DEFAULT,
        "irqbalance sets where later interrupts start",
    ),
    "irqbalance that is stopped": ({"services": ("irqbalance.service",)}, {"interrupts": ALONE}, None),
    "TuneD's default affinity": (
        tuned("mine", scheduler__default_irq_smp_affinity="5"),
        {"interrupts": ALONE},
        "TuneD sets where later interrupts start to 5",
    ),
    "a variable of TuneD's, which is unknown": (
        tuned("mine", scheduler__default_irq_smp_affinity=VARIABLE),
        {"interrupts": ALONE},
        None,
    ),
}


@pytest.mark.parametrize(("userland", "sections", "evidence"), SERVICES.values(), ids=SERVICES)
def test_services_for_ksm_and_irq_balancing_are_named(userland, sections, evidence):
    built, values = tunable(**userland), {"/sys/kernel/mm/ksm/run": "1"}
    machine = replace(built, kernel_values=values, nics=machines.dgx_h100().nics)
    cpus = {"reserved": {"cores_per_numa_node": 1}}
    findings = judged(with_plan(machine, **{"tuning": {}, "cpus": cpus, **sections}))["NH203"].findings
    assert [finding.evidence.startswith(evidence or "-") for finding in findings] == [True] * bool(evidence)


EARLIER_FILE = {"sysctl_files": {"/usr/lib/sysctl.d/50-default.conf": {"vm.swappiness": "60"}}}
HARMLESS = {
    "the same value, and a knob that is not planned": tuned(
        "mine", sysctl__vm__swappiness="1", cpu__governor="powersave"
    ),
    "TuneD does not run": {"tuned_profiles": ("mine",), "tuned": {"sysctl.vm.swappiness": "60"}},
    "an earlier file of sysctl.d": EARLIER_FILE,
    "a power daemon, and no governor is planned": {"services": ("tlp.service",)},
    "a tuner of interrupts": {"driver_tuning": ("RUN_AFFINITY_TUNER",)},
}


@pytest.mark.parametrize("userland", HARMLESS.values(), ids=HARMLESS)
def test_manager_without_conflicting_settings_is_not_named(userland):
    machine = with_plan(tunable(**userland), SWAPPINESS)
    assert judged(machine)["NH203"].verdict is Verdict.PASSED


@pytest.mark.parametrize("kind", GPU_MACHINES)
@pytest.mark.parametrize("userland", [None, Userland()], ids=["no look", "an empty look"])
def test_unknown_userland_raises_no_alarm(kind, userland):
    machine = replace(GPU_MACHINES[kind](), userland=userland, cgroup_version=None, kernel_cmdline=None)
    assert found(machine) == set()


def test_crio_is_not_judged_as_containerd():
    crio = HostProcess("crio", "crio.service", open_files=1048576)
    machine = worker(processes=(crio, *SOUND.processes[1:]), containerd=None)
    assert found(machine) == set()
    assert judged(machine)["NH305"].reason == "the runtime is CRI-O"


def test_kubelet_cgroup_driver_may_come_from_containerd():
    machine = with_containerd(version="2.1.4", runtimes={"nvidia": False, "runc": False}, versions={})
    newer = replace(machine, kubelet=replace(machine.kubelet, version="1.34.1"))
    assert "NH305" in found(machine)
    assert judged(newer)["NH305"].verdict is Verdict.NOT_APPLICABLE


def test_swap_tolerated_by_the_kubelet_is_not_a_finding():
    machine = worker(swaps=("/dev/sda2",))
    kubelet = replace(machine.kubelet, config_text=SYSTEMD + DRIVER + "failSwapOn: false\n")
    assert found(replace(machine, kubelet=kubelet)) == set()


@pytest.mark.parametrize(
    ("pattern", "bounded"),
    [
        pytest.param("linux-", True, id="the beginning of a name"),
        pytest.param(r"libstdc\+\+6$", True, id="signs that stand for themselves"),
        pytest.param("(lib)?xen(store)?$", True, id="Ubuntu's own example"),
        pytest.param("linux-(image|headers).*", True, id="alternatives"),
        pytest.param("[+*{]nvidia", True, id="signs of a class"),
        pytest.param("(a+)+$", False, id="a repeated group"),
        pytest.param(r"(a)\1", False, id="a group named again"),
        pytest.param("a?" * 30 + "a" * 30, False, id="many choices"),
        pytest.param(".*.*.*.*x", False, id="four without an end"),
        pytest.param("a" * 201, False, id="too long"),
    ],
)
def test_only_bounded_regular_expressions_are_matched(pattern, bounded):
    assert is_bounded(pattern) == bounded


def test_unbounded_pattern_makes_the_answer_unknown():
    host = {"packages": PACKAGES, "upgrades_skip": ("(n+)+$",)}
    assert found(worker(**host)) == {"NH202"}


@pytest.mark.parametrize(
    ("arguments", "evidence"),
    [
        pytest.param(
            "hugepagesz=1G hugepages=2", ["hugepagesz=1G"], id="a pool that 64 KiB pages do not have"
        ),
        pytest.param("default_hugepagesz=1G", ["default_hugepagesz=1G"], id="as the default"),
        pytest.param("hugepagesz=512M hugepages=2 hugepagesz=16G", [], id="sizes that are there"),
        pytest.param("hugepagesz=2m hugepagesz=524288K", [], id="in another unit"),
        pytest.param("hugepages=16", [], id="the default size"),
    ],
)
def test_kernel_with_64_kib_pages_has_other_huge_page_sizes(arguments, evidence):
    tray = replace(machines.gb200_nvl72_tray(), kernel_cmdline=f"ro {arguments}")
    told = [each.evidence.partition(":")[0] for each in judged(tray)["NH109"].findings]
    assert told == evidence


@pytest.mark.parametrize(
    ("drivers", "verdict"),
    [
        pytest.param(None, Verdict.UNKNOWN, id="the-sockets-were-not-captured"),
        pytest.param((), Verdict.NOT_APPLICABLE, id="no-driver"),
        pytest.param(("dra.net",), Verdict.PASSED, id="another-driver"),
    ],
)
def test_claim_drivers_are_judged_only_where_present(drivers, verdict):
    assert judged(worker(claim_drivers=drivers))["NH401"].verdict is verdict


def test_unreadable_configuration_leaves_the_engine_unknown():
    built = worker(claim_drivers=("dra.cpu",))
    assert built.kubelet is not None
    unread = replace(built, kubelet=replace(built.kubelet, config_text=None))
    assert judged(unread)["NH401"].verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("netns", "found", "verdicts"),
    [
        pytest.param("shared", (True, False), ("passed", "not-applicable"), id="the-shared-plugin-in-shared"),
        pytest.param("exclusive", (False, True), ("not-applicable", "passed"), id="the-cni-in-exclusive"),
        pytest.param("exclusive", (True, True), ("found", "passed"), id="both-in-exclusive"),
        pytest.param("shared", (True, True), ("passed", "found"), id="both-in-shared"),
        pytest.param(None, (True, True), ("unknown", "unknown"), id="the-mode-is-not-known"),
        pytest.param("exclusive", (None, None), ("unknown", "unknown"), id="an-older-snapshot"),
    ],
)
def test_rdma_netns_mode_matches_the_device_provider(netns, found, verdicts):
    plugin, cni = found
    said = judged(replace(worker(rdma_plugin=plugin, rdma_cni=cni), rdma_netns=netns))
    assert (said["NH501"].verdict, said["NH502"].verdict) == verdicts


def test_network_namespace_mode_is_ignored_without_rdma_devices():
    said = judged(replace(worker(), rdma_netns="exclusive", rdma_devices=()))
    assert said["NH501"].verdict is Verdict.NOT_APPLICABLE
