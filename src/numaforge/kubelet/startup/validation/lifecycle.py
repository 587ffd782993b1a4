"""Validation of shutdowns and restarts."""

from numaforge.kubelet.startup.validation.refusals import SECOND, CompleteConfig, Refusals, invalid
from numaforge.kubelet_minors.values.durations import parse_duration
from numaforge.kubelet_minors.values.gotext import shown_float

_GRACE_PERIODS = ("shutdownGracePeriod", "shutdownGracePeriodCriticalPods")


def shutdown(config: CompleteConfig) -> Refusals:
    period, critical = map(config.duration, _GRACE_PERIODS)
    if not config.gate("GracefulNodeShutdown"):
        if period.nanoseconds > 0 or critical.nanoseconds > 0:
            yield invalid("NF115", "shutdown")
        return
    if critical > period:
        yield invalid("NF116", "shutdown", critical=critical, period=period)
    for name, value in zip(_GRACE_PERIODS, (period, critical), strict=True):
        if value.nanoseconds < 0 or 0 < value.nanoseconds < SECOND:
            yield invalid("NF110", "shutdown", name=name, value=value)


def shutdown_by_priority(config: CompleteConfig) -> Refusals:
    if not config.items("shutdownGracePeriodByPodPriority"):
        return
    if not config.gate("GracefulNodeShutdownBasedOnPodPriority"):
        yield invalid("NF115", "shutdown by priority")
    elif any(config.duration(period).nanoseconds > 0 for period in _GRACE_PERIODS):
        yield invalid("NF116", "shutdown by priority")


def crash_loop(config: CompleteConfig) -> Refusals:
    if config.minor < 32:
        return
    period = (config.settings.get("crashLoopBackOff") or {}).get("maxContainerRestartPeriod")
    if not config.gate("KubeletCrashLoopBackOffMax"):
        if period is not None:
            yield invalid("NF115", "restart period set")
        return
    if period is None:
        yield invalid("NF115", "restart period unset")
        return
    span = parse_duration(period)
    milliseconds = abs(span.nanoseconds) // 10**6 * (1 if span.nanoseconds >= 0 else -1)
    if not 1000 <= milliseconds <= 300_000:
        yield invalid("NF110", "restart period", seconds=shown_float(span.seconds))
