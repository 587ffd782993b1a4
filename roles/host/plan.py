"""The userland: limits, packages that stay at their version, swap at boot, clock, control groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from numaforge.lib.codec import ByName
from numaforge.lib.errors import PlanError
from numaforge.lib.given import digits
from numaforge.lib.reasons import Decision, Notice, Reasoned
from numaforge.machine.snapshot.catalogue import HELD_PACKAGES
from numaforge.machine.topology.model import NodeTopology, Userland
from numaforge.machine.topology.runtime import pod_units
from numaforge.roles.host.managers import contests
from numaforge.roles.host.section import UNLIMITED
from numaforge.roles.interrupts.plan import InterruptsPlan
from numaforge.roles.kernel_values.plan import TuningPlan

if TYPE_CHECKING:
    from numaforge.planning.profile import NodeProfile


@dataclass(frozen=True)
class HostPlan:
    """The userland; empty means unchanged.

    `limits` are "unlimited", a number ("nofile", "nproc") or bytes, by their PAM names; `limited_units` get
    theirs when they start next. `holds` are the packages that stay at their version, whether or not something
    else held them before; `package_manager` ("apt", "dnf", "zypper") does it. `swap_services` are kept from
    making swap at boot.
    """

    limits: ByName[str] = field(default_factory=dict)
    limited_units: tuple[str, ...] = ()
    hold_kinds: tuple[str, ...] = ()  # "kernel", "driver", "kubelet", "containerd"
    holds: tuple[str, ...] = ()
    package_manager: str | None = None
    swap_off: bool = False
    swap_services: tuple[str, ...] = ()  # "zramswap.service"
    time_sync: bool = False
    cgroup: int | None = None  # 2: required


UNIFIED = "systemd.unified_cgroup_hierarchy=1"

_IN_BYTES = {"memlock", "stack", "core"}
_UNIT_LIMITS = {"nofile": "LimitNOFILE", "stack": "LimitSTACK", "core": "LimitCORE"}
_WHY_HELD = {
    "kernel": "a driver's module fits one kernel",
    "driver": "libraries of another version than the module start no container",
    "kubelet": "it is upgraded with its cluster, on a drained node",
    "containerd": "its restart and its configuration belong to a maintenance",
}


def plan_host(
    machine: NodeTopology, profile: NodeProfile, tuning: TuningPlan, interrupts: InterruptsPlan
) -> Reasoned[HostPlan]:
    """Return the plan for the userland.

    Notices name what this host cannot do, and who else sets what is decided already. Raises PlanError for
    more open files than the kernel allows, and for control groups of version 1.
    """
    userland = machine.userland or Userland()
    _refuse_too_many_files(machine, profile)
    _refuse_cgroup_v1(machine, profile)
    wish = profile.host
    can_hold = userland.can_hold is True and userland.packages is not None
    services = tuple(unit for unit in userland.swap_units or () if unit.endswith(".service"))
    asked_limits = wish.limits.model_dump(exclude_none=True)
    limits = {name: str(value) for name, value in sorted(asked_limits.items())}
    plan = HostPlan(
        limits=limits,
        limited_units=pod_units(machine) if limits else (),
        hold_kinds=wish.hold_packages if can_hold else (),
        holds=_holds(userland, wish.hold_packages) if can_hold else (),
        package_manager=userland.package_manager,
        swap_off=tuning.swap_off,
        swap_services=services if tuning.swap_off else (),
        time_sync=wish.time_sync == "required",
        cgroup=2 if wish.cgroup == "v2" else None,
    )
    notices = (
        *_hold_notices(userland, wish.hold_packages, plan),
        *_clock_notice(userland, plan),
        *(
            Notice("managed-elsewhere", f"{contest}: configure only one of them")
            for contest in contests(machine, tuning, interrupts)
        ),
    )
    return Reasoned(plan, tuple(_decisions(plan, profile)), notices)


def _refuse_too_many_files(topology: NodeTopology, profile: NodeProfile) -> None:
    wish, most = profile.host.limits.nofile, topology.sysctls.get("fs.nr_open", "")
    bound = digits(most)
    if wish is not None and bound is not None and wish > bound:
        raise PlanError(
            f"{wish} open files, and the kernel lets a process have {most} (fs.nr_open): no login would "
            "succeed",
            where="host.limits.nofile",
            remedy=f"ask for {most} or fewer, or raise fs.nr_open first",
        )


def brings_cgroup_v2(profile: NodeProfile) -> bool:
    """Whether a boot for this profile brings control groups of version 2."""
    return UNIFIED in profile.kernel.cmdline and profile.maintenance.reboot == "allowed"


def _refuse_cgroup_v1(topology: NodeTopology, profile: NodeProfile) -> None:
    if profile.host.cgroup == "v2" and topology.cgroup_version == 1 and not brings_cgroup_v2(profile):
        raise PlanError(
            "v2 is required, and this host has control groups of version 1",
            where="host.cgroup",
            remedy=f"add {UNIFIED} to kernel.cmdline with maintenance.reboot: allowed, or leave host.cgroup "
            "out",
        )


def _holds(userland: Userland, kinds: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(package.name for package in userland.packages or () if package.kind in kinds)


def _hold_notices(userland: Userland, kinds: tuple[str, ...], plan: HostPlan) -> Iterator[Notice]:
    if kinds and not plan.hold_kinds:
        lacks = "dnf has no versionlock: install python3-dnf-plugin-versionlock"
        reason = lacks if plan.package_manager == "dnf" else "no package manager of it is known"
        yield Notice("cannot-hold", f"no package is held on this host: {reason}")
    kinds_installed = {package.kind for package in userland.packages or ()}
    for kind in plan.hold_kinds:
        if kind not in kinds_installed:
            message = f"no package of this host is of the {kind}: something else installed it, or nothing"
            yield Notice("nothing-to-hold", message)


def _clock_notice(userland: Userland, plan: HostPlan) -> Iterator[Notice]:
    if plan.time_sync and userland.clock_synchronised is False:
        yield Notice(
            "clock-not-synchronised",
            "the clock is not synchronised, and host.time_sync is required: verification will fail",
        )


def _decisions(plan: HostPlan, profile: NodeProfile) -> Iterator[Decision]:
    for name, value in plan.limits.items():
        units = ", ".join(plan.limited_units) if name in _UNIT_LIMITS else ""
        reach = f", for logins and, when they start next, {units}" if units else ", for logins"
        yield Decision(f"host.limits.{name}", value, profile.choice(f"host.limits.{name}") + reach)
    for kind in plan.hold_kinds:
        reason = f"{profile.choice('host.hold_packages')}: {_WHY_HELD[kind]}"
        yield Decision(f"host.hold_packages.{kind}", "held", reason)
    if plan.swap_off:
        reason = f"{profile.choice('tuning.swap')}: not at boot either, whichever unit would turn it on"
        yield Decision("host.swap", ", ".join(("off at boot", *plan.swap_services)), reason)
    if plan.time_sync:
        yield Decision("host.time_sync", "required", profile.choice("host.time_sync"))
    if plan.cgroup:
        yield Decision("host.cgroup", "v2", profile.choice("host.cgroup"))


# ---- what the files say ----


def pam_limits(plan: HostPlan) -> dict[str, str]:
    """Return the limits in the units of limits.conf(5): KiB, files, processes."""
    return {
        name: value if value == UNLIMITED or name not in _IN_BYTES else str(-(-int(value) // 1024))
        for name, value in sorted(plan.limits.items())
    }


def unit_limits(plan: HostPlan) -> dict[str, str]:
    """Return the limits as systemd's directives, in bytes."""
    directives = {_UNIT_LIMITS[name]: value for name, value in plan.limits.items() if name in _UNIT_LIMITS}
    return {name: "infinity" if value == UNLIMITED else value for name, value in sorted(directives.items())}


def upgrade_patterns(plan: HostPlan) -> tuple[str, ...]:
    """Return regular expressions for the packages that unattended upgrades leave alone."""
    globs = [glob for kind in plan.hold_kinds for glob in HELD_PACKAGES[kind]]
    return tuple(dict.fromkeys(_pattern(glob) for glob in globs))


def _pattern(glob: str) -> str:
    """Return a glob as a regular expression that is matched from the start of the name."""
    text = glob.replace(".", "[.]").replace("*", ".*")
    return text.removesuffix(".*") if glob.endswith("*") else f"{text}$"
