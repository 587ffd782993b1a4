"""Who else sets what a plan sets: TuneD, other daemons, files of sysctl.d, a driver, the kubelet."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from numaforge.lib.cpulist import format_cpulist
from numaforge.machine.topology.model import HostProcess, NodeTopology, Userland
from numaforge.roles.interrupts.plan import InterruptsPlan
from numaforge.roles.kernel_values.files import SYSCTL_PATH
from numaforge.roles.kernel_values.paths import knob_values
from numaforge.roles.kernel_values.plan import TuningPlan

GOVERNOR, PREFERENCE = "the CPUs' governor", "the CPUs' energy preference"
KSM = "the merging of pages (KSM)"
AFFINITY, LATER = "the affinity of NICs' interrupts", "where later interrupts start"

# What each service sets, whatever its configuration.
_SERVICES = {
    "tlp.service": ("TLP", (GOVERNOR, PREFERENCE)),
    "power-profiles-daemon.service": ("power-profiles-daemon", (GOVERNOR, PREFERENCE)),
    "cpupower.service": ("cpupower.service", (GOVERNOR,)),
    "cpufrequtils.service": ("cpufrequtils", (GOVERNOR,)),
    "ondemand.service": ("ondemand.service", (GOVERNOR,)),
    "ksm.service": ("ksm.service", (KSM,)),
    "ksmtuned.service": ("ksmtuned", (KSM,)),
    "irqbalance.service": ("irqbalance", (LATER,)),
}

KUBELET_SYSCTLS = {
    "vm.overcommit_memory": "1",
    "vm.panic_on_oom": "0",
    "kernel.panic": "10",
    "kernel.panic_on_oops": "1",
    "kernel.keys.root_maxkeys": "1000000",
    "kernel.keys.root_maxbytes": "25000000",
}
"""What the kubelet sets at each start, or requires with protectKernelDefaults (setupKernelTunables)."""


class Contest(NamedTuple):
    """A manager that sets a knob of the plan to another value; `where` is its file or unit."""

    manager: str
    does: str
    where: str

    def __str__(self) -> str:
        return f"{self.manager} ({self.where}) {self.does}"


def _knobs(tuning: TuningPlan, interrupts: InterruptsPlan) -> tuple[str, ...]:
    """Return the knobs that the plan sets, without their values."""
    by_knob = {
        GOVERNOR: tuning.governors,
        PREFERENCE: tuning.energy_preferences,
        "transparent huge pages": tuning.transparent_hugepages,
        "sysctls": tuning.sysctls or tuning.raised_sysctls,
        KSM: tuning.ksm,
        AFFINITY: interrupts.devices,
        # An irqbalance that the plan restricts or stops does not interfere.
        LATER: interrupts.default_affinity and interrupts.irqbalance is None,
    }
    return tuple(knob for knob, planned in by_knob.items() if planned)


def contests(machine: NodeTopology, tuning: TuningPlan, interrupts: InterruptsPlan) -> tuple[Contest, ...]:
    """Return the managers that set a knob of the plan to another value; unknown values are no contest."""
    userland, knobs = machine.userland, _knobs(tuning, interrupts)
    contesting = [*_by_kubelet(machine, tuning)]
    if userland is not None:
        contesting += [*_by_tuned(userland, tuning, interrupts, knobs), *_by_services(userland, knobs)]
        contesting += [*_by_driver(userland, tuning, knobs), *_by_sysctl_files(userland, tuning)]
    return tuple(contesting)


def _by_kubelet(machine: NodeTopology, tuning: TuningPlan) -> Iterator[Contest]:
    if machine.kubelet is None:
        return
    for name, value in KUBELET_SYSCTLS.items():
        if (planned := tuning.sysctls.get(name)) not in (None, value):
            does = f"sets {name} to {value} when it starts, and the plan to {planned}"
            yield Contest("the kubelet", does, "kubelet.service")


def _by_tuned(
    userland: Userland, tuning: TuningPlan, interrupts: InterruptsPlan, knobs: Sequence[str]
) -> Iterator[Contest]:
    inside = any(process.name == "openshift-tuned" or process.in_pod for process in _tuned(userland))
    if inside:
        for knob in knobs:
            does = f"may set {knob}, which the plan sets: only its operator knows"
            yield Contest("a TuneD in a pod", does, "Node Tuning Operator")
        return
    if not (_tuned(userland) or "tuned.service" in (userland.services or ())):
        return
    profiles = " ".join(userland.tuned_profiles)
    # NVIDIA's own profiles come with nodewright, which puts them back.
    name = "nvidia-tuned" if profiles.startswith("nvidia-") else "TuneD"
    for knob, tuned_value, planned_value in _tuned_values(userland.tuned, tuning, interrupts):
        if planned_value not in tuned_value.split("|"):
            does = f"sets {knob} to {tuned_value}, and the plan to {planned_value}"
            yield Contest(name, does, f"profile {profiles}")


def _tuned(userland: Userland) -> list[HostProcess]:
    return [process for process in userland.processes or () if process.name in ("tuned", "openshift-tuned")]


def _tuned_values(
    tuned: Mapping[str, str], tuning: TuningPlan, interrupts: InterruptsPlan
) -> Iterator[tuple[str, str, str]]:
    """Yield each knob that both set, with TuneD's value and the plan's; skip values with TuneD variables."""
    switches = tuning.transparent_hugepages
    preference = next(iter(tuning.energy_preferences.values()), None)
    both = {
        GOVERNOR: ("cpu.governor", next(iter(tuning.governors.values()), None)),
        PREFERENCE: ("cpu.energy_performance_preference", preference),
        "transparent huge pages": ("vm.transparent_hugepages", switches.get("enabled")),
        "defrag of transparent huge pages": ("vm.transparent_hugepage.defrag", switches.get("defrag")),
        **{path: (f"sysfs.{path}", value) for path, value in knob_values(tuning).items()},
        LATER: ("scheduler.default_irq_smp_affinity", format_cpulist(interrupts.default_affinity) or None),
        **{name: (f"sysctl.{name}", value) for name, value in tuning.sysctls.items()},
    }
    for knob, (key, planned_value) in both.items():
        if planned_value is not None and "${" not in tuned.get(key, "${"):
            yield knob, " ".join(tuned[key].split()), planned_value


def _by_services(userland: Userland, planned_knobs: Sequence[str]) -> Iterator[Contest]:
    running = {process.unit for process in userland.processes or ()}
    for unit, (manager, knobs) in _SERVICES.items():
        if unit in (userland.services or ()) or unit in running:
            for knob in set(knobs) & {*planned_knobs}:
                yield Contest(manager, f"sets {knob}, which the plan sets too", unit)


def _by_driver(userland: Userland, tuning: TuningPlan, knobs: Sequence[str]) -> Iterator[Contest]:
    file = "/etc/infiniband/openib.conf"
    network = sorted(name for name in tuning.sysctls if name.startswith("net."))
    for switch in userland.driver_tuning:
        when = f"when it is loaded ({switch}=yes), and the plan"
        if switch == "RUN_AFFINITY_TUNER":
            if AFFINITY in knobs:
                yield Contest("NVIDIA's network driver", f"sets {AFFINITY} {when} too", file)
        elif network:
            does = f"sets sysctls of the network {when} {network[0]}"
            yield Contest("NVIDIA's network driver", does, file)


def _by_sysctl_files(userland: Userland, tuning: TuningPlan) -> Iterator[Contest]:
    """Yield contests with files that systemd-sysctl reads after ours: the last one wins at boot."""
    our_file = PurePosixPath(SYSCTL_PATH).name
    last: dict[str, tuple[str, str]] = {}
    for path, settings in userland.sysctl_files.items():
        if PurePosixPath(path).name > our_file:
            last.update({name: (path, value) for name, value in settings.items() if name in tuning.sysctls})
    for name, (path, value) in sorted(last.items()):
        if value != tuning.sysctls[name]:
            does = f"sets {name} to {value} at boot, after the plan's file sets {tuning.sysctls[name]}"
            yield Contest("a file of sysctl.d", does, path)
