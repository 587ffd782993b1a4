"""Validation of shutdowns and restarts."""

from numaforge.kubelet.startup.validation.refusals import SECOND, CompleteConfig, Refusals, invalid
from numaforge.kubelet_minors.values.durations import parse_duration
from numaforge.kubelet_minors.values.gotext import shown_float


def shutdown(config: CompleteConfig) -> Refusals:
    period, critical = (
        config.duration("shutdownGracePeriod"),
        config.duration("shutdownGracePeriodCriticalPods"),
    )
    names = ("shutdownGracePeriod", "shutdownGracePeriodCriticalPods")
    if not config.gate("GracefulNodeShutdown"):
        if period.nanoseconds > 0 or critical.nanoseconds > 0:
            yield invalid(
                "NF115",
                names[0],
                "specifying shutdownGracePeriod or shutdownGracePeriodCriticalPods requires feature gate "
                "GracefulNodeShutdown",
                "enable the feature gate GracefulNodeShutdown, or remove the grace periods",
            )
        return
    if critical > period:
        yield invalid(
            "NF116",
            names[1],
            f"shutdownGracePeriodCriticalPods {{{critical}}} must be <= shutdownGracePeriod {{{period}}}",
            "make shutdownGracePeriod the sum: it contains the critical pods' part",
        )
    for name, value in zip(names, (period, critical), strict=True):
        if value.nanoseconds < 0 or 0 < value.nanoseconds < SECOND:
            yield invalid(
                "NF110",
                name,
                f"{name} {{{value}}} must be either zero or otherwise >= 1 sec",
                "set 0s or at least 1s",
            )


def shutdown_by_priority(config: CompleteConfig) -> Refusals:
    name = "shutdownGracePeriodByPodPriority"
    if not config.items(name):
        return
    if not config.gate("GracefulNodeShutdownBasedOnPodPriority"):
        yield invalid(
            "NF115",
            name,
            f"Specifying {name} requires feature gate GracefulNodeShutdownBasedOnPodPriority",
            "enable the feature gate GracefulNodeShutdownBasedOnPodPriority, or remove the setting",
        )
        return
    periods = ("shutdownGracePeriod", "shutdownGracePeriodCriticalPods")
    if any(config.duration(period).nanoseconds > 0 for period in periods):
        yield invalid(
            "NF116",
            name,
            f"Cannot specify both {name} and shutdownGracePeriod at the same time",
            "keep one of the two",
        )


def crash_loop(config: CompleteConfig) -> Refusals:
    if config.minor < 32:
        return
    period = (config.settings.get("crashLoopBackOff") or {}).get("maxContainerRestartPeriod")
    path = "crashLoopBackOff.maxContainerRestartPeriod"
    name = "CrashLoopBackOff.MaxContainerRestartPeriod"
    if not config.gate("KubeletCrashLoopBackOffMax"):
        if period is not None:
            yield invalid(
                "NF115",
                path,
                f"FeatureGate KubeletCrashLoopBackOffMax not enabled, {name} must not be set",
                "enable the feature gate KubeletCrashLoopBackOffMax, or remove the setting",
            )
        return
    if period is None:
        yield invalid(
            "NF115",
            path,
            f"FeatureGate KubeletCrashLoopBackOffMax is enabled, {name} must be set",
            "set the period, from 1s to 300s",
        )
        return
    span = parse_duration(period)
    milliseconds = abs(span.nanoseconds) // 10**6 * (1 if span.nanoseconds >= 0 else -1)
    if not 1000 <= milliseconds <= 300_000:
        yield invalid(
            "NF110",
            path,
            f"{name} (got: {shown_float(span.seconds)} seconds) must be set between 1s and 300s",
            "set the period, from 1s to 300s",
        )
