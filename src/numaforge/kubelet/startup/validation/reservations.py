"""Validation of Node Allocatable: enforcement, its cgroups, reserved CPUs."""

from numaforge.kubelet.startup.validation.refusals import SECOND, CompleteConfig, Refusals, invalid
from numaforge.kubelet_minors.values.cpusets import CpuSetError, parse_cpuset
from numaforge.kubelet_minors.values.gotext import quoted


def enforcement_needs_qos_cgroups(config: CompleteConfig) -> Refusals:
    if config.minor <= 30 and not config.flag("cgroupsPerQOS") and config.items("enforceNodeAllocatable"):
        yield invalid(
            "NF112",
            "cgroupsPerQOS",
            "enforceNodeAllocatable (--enforce-node-allocatable) is not supported unless cgroupsPerQOS "
            "(--cgroups-per-qos) is set to true",
            "set cgroupsPerQOS: true, or enforceNodeAllocatable: []",
        )


def system_cgroups(config: CompleteConfig) -> Refusals:
    if config.text("systemCgroups") and not config.text("cgroupRoot"):
        yield invalid(
            "NF116",
            "systemCgroups",
            "systemCgroups (--system-cgroups) was specified and cgroupRoot (--cgroup-root) was not specified",
            "set cgroupRoot as well, usually to /",
        )


def cfs_quota_period(config: CompleteConfig) -> Refusals:
    period = config.duration("cpuCFSQuotaPeriod")
    name = "cpuCFSQuotaPeriod (--cpu-cfs-quota-period)"
    if not config.gate("CustomCPUCFSQuotaPeriod"):
        if period.nanoseconds != SECOND // 10:
            yield invalid(
                "NF115",
                "cpuCFSQuotaPeriod",
                f"{name} {{{period}}} requires feature gate CustomCPUCFSQuotaPeriod",
                "enable the feature gate CustomCPUCFSQuotaPeriod, or leave the period at 100ms",
            )
    elif not 10**6 <= period.nanoseconds <= SECOND:
        yield invalid(
            "NF110",
            "cpuCFSQuotaPeriod",
            f"{name} {{{period}}} must be between 1ms and 1sec, inclusive",
            "set a period from 1ms to 1s; the kernel's default is 100ms",
        )


def enforcements(config: CompleteConfig) -> Refusals:
    field = "enforceNodeAllocatable"
    title = f"{field} (--enforce-node-allocatable)"
    values = config.items(field)
    compressible = config.minor >= 32
    if compressible:
        for kind in ("system-reserved", "kube-reserved"):
            if kind in values and f"{kind}-compressible" in values:
                yield invalid(
                    "NF112",
                    field,
                    f'both "{kind}" and "{kind}-compressible" cannot be specified together in {title}',
                    f"keep {kind} or {kind}-compressible",
                )
    earlier: set[str] = set()
    for index, value in enumerate(values):
        path = f"{field}[{index}]"
        if config.minor >= 31 and value in earlier:
            yield invalid(
                "NF112", path, f"duplicated enforcements {quoted(value)} in {title}", "remove one of them"
            )
            continue
        earlier.add(value)
        yield from _enforcement(config, value, path, title)


def _enforcement(config: CompleteConfig, value: str, path: str, title: str) -> Refusals:
    kinds = ["system-reserved", "kube-reserved"]
    if config.minor >= 32:
        kinds += [f"{kind}-compressible" for kind in kinds]
    if value == "none":
        if len(config.items("enforceNodeAllocatable")) > 1:
            yield invalid(
                "NF112",
                path,
                f'{title} may not contain additional enforcements when "none" is specified',
                'keep "none" alone, or remove it',
            )
        return
    if value in kinds:
        yield from _reserved_cgroup(config, value.removesuffix("-compressible"), path, title)
    elif value != "pods":
        yield invalid(
            "NF112",
            path,
            f"option {quoted(value)} specified for {title}. Valid options are "
            f"{_enforcement_choices(config.minor)}",
            "use pods, system-reserved, kube-reserved or none",
        )
        return
    if config.minor >= 31 and not config.flag("cgroupsPerQOS"):
        yield invalid(
            "NF112",
            "cgroupsPerQOS",
            f'cgroupsPerQOS (--cgroups-per-qos) must be set to true when "{value}" contained in {title}',
            "set cgroupsPerQOS: true, or enforceNodeAllocatable: [none]",
        )


def _reserved_cgroup(config: CompleteConfig, kind: str, path: str, title: str) -> Refusals:
    side = kind.removesuffix("-reserved")
    if config.text(f"{side}ReservedCgroup"):
        return
    if config.minor >= 32:
        when = f'must be specified when "{kind}" or "{kind}-compressible" included in {title}'
    else:
        when = f'must be specified when "{kind}" contained in {title}'
    yield invalid(
        "NF112",
        path,
        f"{side}ReservedCgroup (--{kind}-cgroup) {when}",
        f"set {side}ReservedCgroup to an existing cgroup, or do not enforce {kind}",
    )


def _enforcement_choices(minor: int) -> str:
    if minor >= 32:
        return (
            '"pods", "system-reserved", "system-reserved-compressible", "kube-reserved", '
            '"kube-reserved-compressible" or "none"'
        )
    return '"pods", "system-reserved", "kube-reserved", or "none"'


def reserved_cpus(config: CompleteConfig) -> Refusals:
    cpus = config.text("reservedSystemCPUs")
    if not cpus:
        return
    if config.text("systemReservedCgroup") or config.text("kubeReservedCgroup"):
        yield invalid(
            "NF113",
            "reservedSystemCPUs",
            "can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup "
            "(--system-reserved-cgroup) or kubeReservedCgroup (--kube-reserved-cgroup)",
            "remove systemReservedCgroup and kubeReservedCgroup, or reserve CPUs by number in "
            "systemReserved.cpu",
        )
    try:
        parse_cpuset(cpus)
    except CpuSetError as error:
        yield invalid(
            "NF113",
            "reservedSystemCPUs",
            f"unable to parse reservedSystemCPUs (--reserved-cpus) {cpus}, error: {error}",
            'write ids and ascending ranges without spaces, for example "0-1,64-65"',
        )
