"""Validation of Node Allocatable: enforcement, its cgroups, reserved CPUs."""

from numaforge.kubelet.startup.validation.refusals import SECOND, CompleteConfig, Refusals, invalid
from numaforge.kubelet_minors.values.cpusets import CpuSetError, parse_cpuset
from numaforge.kubelet_minors.values.gotext import quoted

_KINDS = ("system-reserved", "kube-reserved")
_FIRST_MINOR_OF_COMPRESSIBLE = 32


def cfs_quota_period(config: CompleteConfig) -> Refusals:
    period = config.duration("cpuCFSQuotaPeriod")
    if not config.gate("CustomCPUCFSQuotaPeriod"):
        if period.nanoseconds != SECOND // 10:
            yield invalid("NF115", "quota period", period=period)
    elif not 10**6 <= period.nanoseconds <= SECOND:
        yield invalid("NF110", "quota period", period=period)


def enforcements(config: CompleteConfig) -> Refusals:
    values = config.items("enforceNodeAllocatable")
    if config.minor >= _FIRST_MINOR_OF_COMPRESSIBLE:
        for kind in _KINDS:
            if kind in values and f"{kind}-compressible" in values:
                yield invalid("NF112", "both", kind=kind)
    for index, value in enumerate(values):
        if config.minor >= 31 and value in values[:index]:
            yield invalid("NF112", "twice", index=index, value=quoted(value))
        else:
            yield from _enforcement(config, value, index)


def _enforcement(config: CompleteConfig, value: str, index: int) -> Refusals:
    compressible = [f"{kind}-compressible" for kind in _KINDS if config.minor >= _FIRST_MINOR_OF_COMPRESSIBLE]
    if value == "none":
        if len(config.items("enforceNodeAllocatable")) > 1:
            yield invalid("NF112", "none", index=index)
        return
    if value in (*_KINDS, *compressible):
        kind = value.removesuffix("-compressible")
        side = kind.removesuffix("-reserved")
        if not config.text(f"{side}ReservedCgroup"):
            when = f'"{kind}" or "{kind}-compressible" included' if compressible else f'"{kind}" contained'
            yield invalid("NF112", "no cgroup", index=index, side=side, kind=kind, when=when)
    elif value != "pods":
        choices = '"pods", "system-reserved", "kube-reserved", or "none"'
        if compressible:
            choices = (
                '"pods", "system-reserved", "system-reserved-compressible", "kube-reserved", '
                '"kube-reserved-compressible" or "none"'
            )
        yield invalid("NF112", "unknown", index=index, value=quoted(value), choices=choices)
        return
    if config.minor >= 31 and not config.flag("cgroupsPerQOS"):
        yield invalid("NF112", "QoS cgroups", value=value)


def reserved_cpus(config: CompleteConfig) -> Refusals:
    cpus = config.text("reservedSystemCPUs")
    if not cpus:
        return
    if config.text("systemReservedCgroup") or config.text("kubeReservedCgroup"):
        yield invalid("NF113", "cgroups")
    try:
        parse_cpuset(cpus)
    except CpuSetError as error:
        yield invalid("NF113", "syntax", cpus=cpus, error=error)
