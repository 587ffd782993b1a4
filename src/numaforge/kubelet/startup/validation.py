"""Everything that a kubelet's validation of its configuration refuses, in its order and words, by minor.

Source: pkg/kubelet/apis/config/validation (validation.go, validation_linux.go,
validation_reserved_memory.go), and the logging and tracing validation of k8s.io/component-base. Where the
kubelet walks a map in random order, the order here is by name.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from numaforge.kubelet.config.gates import enabled, set_gates
from numaforge.kubelet.minors.options import TOPOLOGY_MANAGER_POLICIES, TOPOLOGY_MANAGER_SCOPES
from numaforge.kubelet.minors.versions import KubeletVersion
from numaforge.kubelet.startup.images import pattern_complaint
from numaforge.kubelet.values.cpusets import CpuSetError, parse_cpuset
from numaforge.kubelet.values.durations import Duration, parse_duration
from numaforge.kubelet.values.gotext import quoted, shown_float
from numaforge.kubelet.values.labels import label_value_complaints, qualified_name_complaints
from numaforge.quantity import Quantity

FIRST_MINOR_CHECKING_FLUSHES = 35
"""Earlier kubelets take any logging.flushFrequency, and panic when they start to flush."""

_SECOND = 10**9
_USER_NAMESPACE_LENGTH = 65536
_LARGEST_USER_NAMESPACE = 2**32 - 1
_LARGEST_VERBOSITY = 2**31 - 1
_LARGEST_SAMPLING_RATE = 1_000_000
_HUGEPAGES = "hugepages-"
_DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = re.compile(rf"{_DNS_LABEL}(\.{_DNS_LABEL})*")
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")
_REFUSED_IN_HOST = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}|[ \\^`{}|]")
_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@dataclass(frozen=True)
class InvalidSetting:
    """One validation error: the finding's rule, the field (dotted), the kubelet's text, and a way out."""

    rule: str
    path: str
    text: str
    remedy: str


class _Config:
    """A complete configuration with typed access; an unset field reads as Go's zero value."""

    def __init__(
        self, settings: Mapping[str, Any], version: KubeletVersion, gates: Mapping[str, bool], cgroup: int
    ) -> None:
        self.settings = settings
        self.version = version
        self.gates = gates
        self.cgroup_version = cgroup

    @property
    def minor(self) -> int:
        return self.version.rules_minor

    def gate(self, name: str) -> bool:
        return enabled(self.version, self.gates, name)

    def number(self, name: str) -> int:
        value: int = self.settings.get(name) or 0
        return value

    def text(self, name: str) -> str:
        value: str = self.settings.get(name) or ""
        return value

    def flag(self, name: str) -> bool:
        return bool(self.settings.get(name))

    def items(self, name: str) -> list[Any]:
        value: list[Any] = self.settings.get(name) or []
        return value

    def duration(self, name: str) -> Duration:
        return parse_duration(self.settings.get(name) or "0s")


def validate(
    settings: Mapping[str, Any], version: KubeletVersion, gates: Mapping[str, bool], *, cgroup_version: int
) -> tuple[InvalidSetting, ...]:
    """Return what this kubelet's validation refuses, in its order.

    `settings` is the complete configuration, `gates` the feature gates in force, `cgroup_version` the host's.
    """
    config = _Config(settings, version, gates, cgroup_version)
    return tuple(refusal for check in _CHECKS for refusal in check(config))


def validate_logging(
    settings: Mapping[str, Any], version: KubeletVersion, gates: Mapping[str, bool]
) -> tuple[InvalidSetting, ...]:
    """Return what the logging set-up refuses before the configuration as a whole is validated."""
    return tuple(_logging(_Config(settings, version, gates, 2)))


_Refusals = Iterator[InvalidSetting]


def _invalid(rule: str, path: str, text: str, remedy: str) -> InvalidSetting:
    return InvalidSetting(rule, path, f"invalid configuration: {text}", remedy)


def _gate_dependencies(config: _Config) -> _Refusals:
    if config.minor >= 35:
        for text in set_gates(config.version, config.gates):
            yield InvalidSetting(
                "NF103", "featureGates", text, "enable what the gate depends on, or disable the gate too"
            )


def _lease(config: _Config) -> _Refusals:
    if config.number("nodeLeaseDurationSeconds") <= 0:
        yield _invalid(
            "NF110",
            "nodeLeaseDurationSeconds",
            "nodeLeaseDurationSeconds must be greater than 0",
            "leave it out (40) or set a positive number of seconds",
        )


def _enforcement_needs_qos_cgroups(config: _Config) -> _Refusals:
    if config.minor <= 30 and not config.flag("cgroupsPerQOS") and config.items("enforceNodeAllocatable"):
        yield _invalid(
            "NF112",
            "cgroupsPerQOS",
            "enforceNodeAllocatable (--enforce-node-allocatable) is not supported unless cgroupsPerQOS "
            "(--cgroups-per-qos) is set to true",
            "set cgroupsPerQOS: true, or enforceNodeAllocatable: []",
        )


def _system_cgroups(config: _Config) -> _Refusals:
    if config.text("systemCgroups") and not config.text("cgroupRoot"):
        yield _invalid(
            "NF116",
            "systemCgroups",
            "systemCgroups (--system-cgroups) was specified and cgroupRoot (--cgroup-root) was not specified",
            "set cgroupRoot as well, usually to /",
        )


def _not_negative(name: str, flag: str) -> Callable[[_Config], _Refusals]:
    def check(config: _Config) -> _Refusals:
        value = config.number(name)
        if value < 0:
            yield _invalid(
                "NF110",
                name,
                f"{name} ({flag}) {value} must not be a negative number",
                f"set {name} to 0 or more",
            )

    return check


def _between(name: str, flag: str, low: int, high: int) -> Callable[[_Config], _Refusals]:
    def check(config: _Config) -> _Refusals:
        value = config.number(name)
        if not low <= value <= high:
            yield _invalid(
                "NF110",
                name,
                f"{name} ({flag}) {value} must be between {low} and {high}, inclusive",
                f"set {name} to a value from {low} to {high}",
            )

    return check


def _healthz_port(config: _Config) -> _Refusals:
    if config.number("healthzPort"):
        yield from _between("healthzPort", "--healthz-port", 1, 65535)(config)


def _read_only_port(config: _Config) -> _Refusals:
    yield from _between("readOnlyPort", "--read-only-port", 0, 65535)(config)


def _cfs_quota_period(config: _Config) -> _Refusals:
    period = config.duration("cpuCFSQuotaPeriod")
    name = "cpuCFSQuotaPeriod (--cpu-cfs-quota-period)"
    if not config.gate("CustomCPUCFSQuotaPeriod"):
        if period.nanoseconds != _SECOND // 10:
            yield _invalid(
                "NF115",
                "cpuCFSQuotaPeriod",
                f"{name} {{{period}}} requires feature gate CustomCPUCFSQuotaPeriod",
                "enable the feature gate CustomCPUCFSQuotaPeriod, or leave the period at 100ms",
            )
    elif not 10**6 <= period.nanoseconds <= _SECOND:
        yield _invalid(
            "NF110",
            "cpuCFSQuotaPeriod",
            f"{name} {{{period}}} must be between 1ms and 1sec, inclusive",
            "set a period from 1ms to 1s; the kernel's default is 100ms",
        )


def _image_thresholds(config: _Config) -> _Refusals:
    high, low = "imageGCHighThresholdPercent", "imageGCLowThresholdPercent"
    yield from _between(high, "--image-gc-high-threshold", 0, 100)(config)
    yield from _between(low, "--image-gc-low-threshold", 0, 100)(config)
    if config.number(low) >= config.number(high):
        yield _invalid(
            "NF116",
            low,
            f"{low} (--image-gc-low-threshold) {config.number(low)} must be less than {high} "
            f"(--image-gc-high-threshold) {config.number(high)}",
            "leave the low threshold below the high one (80 and 85 by default)",
        )


def _image_ages(config: _Config) -> _Refusals:
    if config.minor < 29:
        return
    oldest, youngest = config.duration("imageMaximumGCAge"), config.duration("imageMinimumGCAge")
    if oldest.nanoseconds and not config.gate("ImageMaximumGCAge"):
        name = "ImageMaximumGCAge" if config.minor == 29 else "imageMaximumGCAge"
        yield _invalid(
            "NF115",
            "imageMaximumGCAge",
            f"ImageMaximumGCAge feature gate is required for Kubelet configuration option {name}",
            "enable the feature gate ImageMaximumGCAge, or leave the setting out",
        )
    if config.minor >= 36 and youngest.nanoseconds < 0:
        yield _not_negative_duration("imageMinimumGCAge", youngest)
    if oldest.nanoseconds < 0:
        yield _not_negative_duration("imageMaximumGCAge", oldest)
    if 0 < oldest.nanoseconds <= youngest.nanoseconds:
        yield _invalid(
            "NF116",
            "imageMaximumGCAge",
            f"imageMaximumGCAge {oldest} must be greater than imageMinimumGCAge {youngest}",
            "raise imageMaximumGCAge above imageMinimumGCAge (2m by default)",
        )


def _not_negative_duration(name: str, value: Duration) -> InvalidSetting:
    return _invalid("NF110", name, f"{name} {value} must not be negative", f"set {name} to 0s or more")


def _max_images(config: _Config) -> _Refusals:
    value = config.number("nodeStatusMaxImages")
    if value < -1:
        yield _invalid(
            "NF110",
            "nodeStatusMaxImages",
            f"nodeStatusMaxImages (--node-status-max-images) {value} must be -1 or greater",
            "set -1 for no limit, or a limit from 0",
        )


def _parallel_pulls(config: _Config) -> _Refusals:
    pulls = config.settings.get("maxParallelImagePulls")
    if pulls is None:
        return
    if pulls < 1:
        yield _invalid(
            "NF110",
            "maxParallelImagePulls",
            f"maxParallelImagePulls {pulls} must be a positive number",
            "set 1 or more, or leave it out",
        )
    if config.flag("serializeImagePulls") and pulls > 1:
        yield _invalid(
            "NF116",
            "maxParallelImagePulls",
            "maxParallelImagePulls cannot be larger than 1 unless SerializeImagePulls "
            "(--serialize-image-pulls) is set to false",
            "set serializeImagePulls: false",
        )


def _server_tls(config: _Config) -> _Refusals:
    if config.flag("serverTLSBootstrap") and not config.gate("RotateKubeletServerCertificate"):
        yield _invalid(
            "NF115",
            "serverTLSBootstrap",
            "serverTLSBootstrap true requires feature gate RotateKubeletServerCertificate",
            "do not switch the feature gate RotateKubeletServerCertificate off",
        )


def _run_once(config: _Config) -> _Refusals:
    if config.minor >= 32 and config.flag("runOnce"):
        yield _invalid(
            "NF111",
            "runOnce",
            "runOnce (--runOnce) true, Runonce mode has been deprecated and should not be set",
            "remove runOnce",
        )


def _taints(config: _Config) -> _Refusals:
    for index, taint in enumerate(config.items("registerWithTaints")):
        path = f"registerWithTaints[{index}]"
        added = taint.get("timeAdded")
        if not _is_valid_taint(taint):
            texts = " ".join(taint.get(name, "") for name in ("key", "value", "effect"))
            shown = f"{texts} {_shown_time(added)}"
            yield InvalidSetting(
                "NF119",
                path,
                f"invalid taint: {{{shown}}}",
                "give the taint a key that is a label name, and an effect: NoSchedule, PreferNoSchedule, "
                "NoExecute",
            )
        if added is not None:
            yield _invalid("NF119", f"{path}.timeAdded", "taint.TimeAdded is not nil", "remove timeAdded")


def _is_valid_taint(taint: Mapping[str, Any]) -> bool:
    value_fits = not label_value_complaints(taint.get("value", ""))
    effect_exists = taint.get("effect", "") in ("", *_TAINT_EFFECTS)
    return _is_qualified_name(taint.get("key", "")) and value_fits and effect_exists


def _is_qualified_name(key: str) -> bool:
    prefix, slash, _ = key.rpartition("/")
    if slash and (len(prefix) > 253 or not _DNS_SUBDOMAIN.fullmatch(prefix)):
        return False
    return not qualified_name_complaints(key)


def _shown_time(added: str | None) -> str:
    if added is None:
        return "<nil>"
    day, _, clock = added.removesuffix("Z").partition("T")
    return f"{day} {clock} +0000 UTC"


def _topology_policy(config: _Config) -> _Refusals:
    policy = config.text("topologyManagerPolicy")
    if policy not in TOPOLOGY_MANAGER_POLICIES:
        choices = " ".join(f'"{each}"' for each in TOPOLOGY_MANAGER_POLICIES)
        yield _invalid(
            "NF111",
            "topologyManagerPolicy",
            f"topologyManagerPolicy (--topology-manager-policy) {quoted(policy)} must be one of: [{choices}]",
            f"use one of {', '.join(TOPOLOGY_MANAGER_POLICIES)}",
        )


def _topology_scope(config: _Config) -> _Refusals:
    scope = config.text("topologyManagerScope")
    if scope not in TOPOLOGY_MANAGER_SCOPES:
        yield _invalid(
            "NF111",
            "topologyManagerScope",
            f"topologyManagerScope (--topology-manager-scope) {quoted(scope)} must be one of: "
            '"container", or "pod"',
            "use container or pod",
        )


def _shutdown(config: _Config) -> _Refusals:
    whole, critical = (
        config.duration("shutdownGracePeriod"),
        config.duration("shutdownGracePeriodCriticalPods"),
    )
    names = ("shutdownGracePeriod", "shutdownGracePeriodCriticalPods")
    if not config.gate("GracefulNodeShutdown"):
        if whole.nanoseconds > 0 or critical.nanoseconds > 0:
            yield _invalid(
                "NF115",
                names[0],
                "specifying shutdownGracePeriod or shutdownGracePeriodCriticalPods requires feature gate "
                "GracefulNodeShutdown",
                "enable the feature gate GracefulNodeShutdown, or remove the grace periods",
            )
        return
    if critical > whole:
        yield _invalid(
            "NF116",
            names[1],
            f"shutdownGracePeriodCriticalPods {{{critical}}} must be <= shutdownGracePeriod {{{whole}}}",
            "make shutdownGracePeriod the sum: it contains the critical pods' part",
        )
    for name, value in zip(names, (whole, critical), strict=True):
        if value.nanoseconds < 0 or 0 < value.nanoseconds < _SECOND:
            yield _invalid(
                "NF110",
                name,
                f"{name} {{{value}}} must be either zero or otherwise >= 1 sec",
                "set 0s or at least 1s",
            )


def _shutdown_by_priority(config: _Config) -> _Refusals:
    name = "shutdownGracePeriodByPodPriority"
    if not config.items(name):
        return
    if not config.gate("GracefulNodeShutdownBasedOnPodPriority"):
        yield _invalid(
            "NF115",
            name,
            f"Specifying {name} requires feature gate GracefulNodeShutdownBasedOnPodPriority",
            "enable the feature gate GracefulNodeShutdownBasedOnPodPriority, or remove the setting",
        )
        return
    periods = ("shutdownGracePeriod", "shutdownGracePeriodCriticalPods")
    if any(config.duration(period).nanoseconds > 0 for period in periods):
        yield _invalid(
            "NF116",
            name,
            f"Cannot specify both {name} and shutdownGracePeriod at the same time",
            "keep one of the two",
        )


def _swap(config: _Config) -> _Refusals:
    swap = config.settings.get("memorySwap") or {}
    behavior = swap.get("swapBehavior", "")
    remedy = "use LimitedSwap, or leave it out for no swap"
    if not config.gate("NodeSwap"):
        if behavior:
            yield _invalid(
                "NF115",
                "memorySwap.swapBehavior",
                "memorySwap.swapBehavior cannot be set when NodeSwap feature flag is disabled",
                "enable the feature gate NodeSwap, or remove memorySwap",
            )
        return
    if config.minor <= 29:
        allowed, shown = ("LimitedSwap", "UnlimitedSwap"), '"", "LimitedSwap", or "UnlimitedSwap"'
    else:
        allowed, shown = ("NoSwap", "LimitedSwap"), '"", "LimitedSwap" or "NoSwap"'
    if behavior not in ("", *allowed):
        text = f"memorySwap.swapBehavior {quoted(behavior)} must be one of: {shown}"
        yield _invalid("NF111", "memorySwap.swapBehavior", text, remedy)


def _crash_loop(config: _Config) -> _Refusals:
    if config.minor < 32:
        return
    period = (config.settings.get("crashLoopBackOff") or {}).get("maxContainerRestartPeriod")
    path = "crashLoopBackOff.maxContainerRestartPeriod"
    name = "CrashLoopBackOff.MaxContainerRestartPeriod"
    if not config.gate("KubeletCrashLoopBackOffMax"):
        if period is not None:
            yield _invalid(
                "NF115",
                path,
                f"FeatureGate KubeletCrashLoopBackOffMax not enabled, {name} must not be set",
                "enable the feature gate KubeletCrashLoopBackOffMax, or remove the setting",
            )
        return
    if period is None:
        yield _invalid(
            "NF115",
            path,
            f"FeatureGate KubeletCrashLoopBackOffMax is enabled, {name} must be set",
            "set the period, from 1s to 300s",
        )
        return
    span = parse_duration(period)
    milliseconds = abs(span.nanoseconds) // 10**6 * (1 if span.nanoseconds >= 0 else -1)
    if not 1000 <= milliseconds <= 300_000:
        yield _invalid(
            "NF110",
            path,
            f"{name} (got: {shown_float(span.seconds)} seconds) must be set between 1s and 300s",
            "set the period, from 1s to 300s",
        )


def _enforcements(config: _Config) -> _Refusals:
    field = "enforceNodeAllocatable"
    named = f"{field} (--enforce-node-allocatable)"
    values = config.items(field)
    compressible = config.minor >= 32
    if compressible:
        for kind in ("system-reserved", "kube-reserved"):
            if kind in values and f"{kind}-compressible" in values:
                yield _invalid(
                    "NF112",
                    field,
                    f'both "{kind}" and "{kind}-compressible" cannot be specified together in {named}',
                    f"keep {kind} or {kind}-compressible",
                )
    seen: set[str] = set()
    for index, value in enumerate(values):
        path = f"{field}[{index}]"
        if config.minor >= 31 and value in seen:
            yield _invalid(
                "NF112", path, f"duplicated enforcements {quoted(value)} in {named}", "remove one of them"
            )
            continue
        seen.add(value)
        yield from _enforcement(config, value, path, named)


def _enforcement(config: _Config, value: str, path: str, named: str) -> _Refusals:
    kinds = ["system-reserved", "kube-reserved"]
    if config.minor >= 32:
        kinds += [f"{kind}-compressible" for kind in kinds]
    if value == "none":
        if len(config.items("enforceNodeAllocatable")) > 1:
            yield _invalid(
                "NF112",
                path,
                f'{named} may not contain additional enforcements when "none" is specified',
                'keep "none" alone, or remove it',
            )
        return
    if value in kinds:
        yield from _reserved_cgroup(config, value.removesuffix("-compressible"), path, named)
    elif value != "pods":
        yield _invalid(
            "NF112",
            path,
            f"option {quoted(value)} specified for {named}. Valid options are "
            f"{_enforcement_choices(config.minor)}",
            "use pods, system-reserved, kube-reserved or none",
        )
        return
    if config.minor >= 31 and not config.flag("cgroupsPerQOS"):
        yield _invalid(
            "NF112",
            "cgroupsPerQOS",
            f'cgroupsPerQOS (--cgroups-per-qos) must be set to true when "{value}" contained in {named}',
            "set cgroupsPerQOS: true, or enforceNodeAllocatable: [none]",
        )


def _reserved_cgroup(config: _Config, kind: str, path: str, named: str) -> _Refusals:
    side = kind.removesuffix("-reserved")
    if config.text(f"{side}ReservedCgroup"):
        return
    if config.minor >= 32:
        when = f'must be specified when "{kind}" or "{kind}-compressible" included in {named}'
    else:
        when = f'must be specified when "{kind}" contained in {named}'
    yield _invalid(
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


def _hairpin(config: _Config) -> _Refusals:
    mode = config.text("hairpinMode")
    if mode not in ("none", "hairpin-veth", "promiscuous-bridge"):
        yield _invalid(
            "NF111",
            "hairpinMode",
            f'option {quoted(mode)} specified for hairpinMode (--hairpin-mode). Valid options are "none", '
            '"hairpin-veth" or "promiscuous-bridge"',
            "use none, hairpin-veth or promiscuous-bridge",
        )


_PULL_POLICIES = ("NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify")


def _image_credentials(config: _Config) -> _Refusals:
    if config.minor < 33:
        return
    field, allowed = "imagePullCredentialsVerificationPolicy", "preloadedImagesVerificationAllowlist"
    policy = config.text(field)
    if not config.gate("KubeletEnsureSecretPulledImages"):
        for name in (field, allowed):
            if config.settings.get(name):
                yield _invalid(
                    "NF115",
                    name,
                    f"`{name}` must not be set if KubeletEnsureSecretPulledImages feature gate is not "
                    "enabled",
                    "enable the feature gate KubeletEnsureSecretPulledImages, or remove the setting",
                )
        return
    if policy not in _PULL_POLICIES:
        first, second, third, fourth = (f'"{each}"' for each in _PULL_POLICIES)
        yield _invalid(
            "NF111",
            field,
            f"option {quoted(policy)} specified for {field}. Valid options are {first}, {second}, {third} or "
            f"{fourth}",
            f"use one of {', '.join(_PULL_POLICIES)}",
        )
    if config.items(allowed) and policy != "NeverVerifyAllowlistedImages":
        yield _invalid(
            "NF116",
            allowed,
            f"can't set `{allowed}` if `imagePullCredentialsVertificationPolicy` is not "
            '"NeverVerifyAllowlistedImages"',
            f"set {field}: NeverVerifyAllowlistedImages, or remove the list",
        )
        return
    complaint = _first_complaint(config.items(allowed), config.minor)
    if complaint:
        yield _invalid(
            "NF111",
            allowed,
            f"invalid image pattern in `{allowed}`: {complaint}",
            "name images without tag, or everything below a path: registry.example/team/*",
        )


def _first_complaint(patterns: list[str], minor: int) -> str | None:
    complaints = (pattern_complaint(pattern, minor) for pattern in patterns)
    return next(filter(None, complaints), None)


def _reserved_cpus(config: _Config) -> _Refusals:
    cpus = config.text("reservedSystemCPUs")
    if not cpus:
        return
    if config.text("systemReservedCgroup") or config.text("kubeReservedCgroup"):
        yield _invalid(
            "NF113",
            "reservedSystemCPUs",
            "can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup "
            "(--system-reserved-cgroup) "
            "or kubeReservedCgroup (--kube-reserved-cgroup)",
            "remove systemReservedCgroup and kubeReservedCgroup, or reserve CPUs by number in "
            "systemReserved.cpu",
        )
    try:
        parse_cpuset(cpus)
    except CpuSetError as error:
        yield _invalid(
            "NF113",
            "reservedSystemCPUs",
            f"unable to parse reservedSystemCPUs (--reserved-cpus) {cpus}, error: {error}",
            'write ids and ascending ranges without spaces, for example "0-1,64-65"',
        )


def _reserved_memory(config: _Config) -> _Refusals:
    seen: set[tuple[int, str]] = set()
    for index, entry in enumerate(config.items("reservedMemory")):
        node = entry.get("numaNode", 0)
        for name, quantity in sorted((entry.get("limits") or {}).items()):
            path = f"reservedMemory[{index}].limits.{name}"
            if name != "memory" and not name.startswith(_HUGEPAGES):
                yield _invalid(
                    "NF114",
                    path,
                    f"the limit type {quoted(name)} for NUMA node {node} is not supported, only "
                    "[memory hugepages-<HugePageSize>] is accepted",
                    "reserve memory only",
                )
            if Quantity.parse(quantity).amount == 0:
                yield _invalid(
                    "NF114",
                    path,
                    f"reserved memory may not be zero for NUMA node {node} and resource {quoted(name)}",
                    "remove the entry",
                )
            if (node, name) in seen:
                yield _invalid(
                    "NF114",
                    path,
                    f"the reserved memory has a duplicate value for NUMA node {node} and resource "
                    f"{quoted(name)}",
                    "keep one entry for each NUMA node",
                )
            seen.add((node, name))


def _host(config: _Config) -> _Refusals:
    on_cgroup_v1 = config.cgroup_version == 1
    if config.minor >= 31 and on_cgroup_v1 and config.flag("failCgroupV1"):
        fate = "is in maintenance mode"
        if config.minor >= 35:
            fate = "is unsupported and will be removed in a future release"
        yield InvalidSetting(
            "NF117",
            "failCgroupV1",
            f"kubelet is configured to not run on a host using cgroup v1. cgroup v1 support {fate}",
            "boot the host with cgroup v2, or set failCgroupV1: false",
        )
        return
    if config.minor >= 32 and on_cgroup_v1 and config.settings.get("singleProcessOOMKill") is False:
        yield _invalid(
            "NF117",
            "singleProcessOOMKill",
            "singleProcessOOMKill must not be explicitly set to false when using cgroup v1",
            "remove singleProcessOOMKill, or boot the host with cgroup v2",
        )
        return
    yield from _user_namespaces(config)


def _user_namespaces(config: _Config) -> _Refusals:
    ids = (config.settings.get("userNamespaces") or {}).get("idsPerPod")
    if config.minor < 33 or ids is None:
        return
    complaint = None
    if ids < _USER_NAMESPACE_LENGTH:
        complaint = f"must not be less than {_USER_NAMESPACE_LENGTH}"
    elif ids % _USER_NAMESPACE_LENGTH:
        complaint = f"must be a multiple of {_USER_NAMESPACE_LENGTH}"
    elif ids > _LARGEST_USER_NAMESPACE:
        complaint = f"must not be more than {_LARGEST_USER_NAMESPACE}"
    if complaint:
        path = "userNamespaces.idsPerPod"
        yield _invalid("NF110", path, f"{path} {complaint}", f"use a multiple of {_USER_NAMESPACE_LENGTH}")


def _logging(config: _Config) -> _Refusals:
    logging = config.settings.get("logging") or {}
    flush = logging.get("flushFrequency", "5s")
    if config.minor >= FIRST_MINOR_CHECKING_FLUSHES and parse_duration(flush).nanoseconds <= 0:
        yield _field_error("flushFrequency", f'Invalid value: "{flush}": Must be greater than zero')
    log_format = logging.get("format", "text")
    if log_format not in ("text", "json"):
        yield _field_error("format", f"Invalid value: {quoted(log_format)}: Unsupported log format")
    elif log_format == "json" and not config.gate("LoggingBetaOptions"):
        yield _field_error("format", "Forbidden: Log format json is disabled, see LoggingBetaOptions feature")
    verbosity = logging.get("verbosity", 0)
    if verbosity > _LARGEST_VERBOSITY:
        yield _field_error("verbosity", f"Invalid value: {verbosity}: Must be <= {_LARGEST_VERBOSITY}")
    yield from _log_modules(logging.get("vmodule") or [], log_format)
    yield from _log_options(config, logging.get("options") or {})


def _log_modules(modules: list[Mapping[str, Any]], log_format: str) -> _Refusals:
    if modules and log_format not in ("", "text"):
        yield _field_error("vmodule", "Forbidden: Only supported for text log format")
    for index, module in enumerate(modules):
        pattern, verbosity = module.get("filePattern", ""), module.get("verbosity", 0)
        field = f"vmodule[{index}]"
        if not pattern:
            yield _field_error(field, "Required value: File pattern must not be empty")
        if "=" in pattern or "," in pattern:
            yield _field_error(
                field, f"Invalid value: {quoted(pattern)}: File pattern must not contain equal sign or comma"
            )
        if verbosity > _LARGEST_VERBOSITY:
            yield _field_error(field, f"Invalid value: {verbosity}: Must be <= {_LARGEST_VERBOSITY}")


def _log_options(config: _Config, options: Mapping[str, Any]) -> _Refusals:
    if config.gate("LoggingAlphaOptions"):
        return
    # splitStream is not seen here: registering its flag puts the file's value back to false.
    for kind in ("text", "json"):
        routing = options.get(kind) or {}
        forbidden = "Forbidden: Feature LoggingAlphaOptions is disabled"
        if Quantity.parse(routing.get("infoBufferSize", "0")).amount:
            yield _field_error(f"options.{kind}.infoBufferSize", forbidden)


def _field_error(field: str, text: str) -> InvalidSetting:
    path = f"logging.{field}"
    return InvalidSetting(
        "NF118", path, f"{path}: {text}", "leave the logging settings at their defaults, or correct them"
    )


def _hidden_metrics(config: _Config) -> _Refusals:
    shown = config.text("showHiddenMetricsForVersion")
    previous = f"1.{config.minor - 1}"
    if not shown or shown == previous:
        return
    text = (
        f"--show-hidden-metrics-for-version must be omitted or have the value '{previous}'. "
        "Only the previous minor version is allowed"
    )
    if config.minor >= 36:
        text = (
            "invalid showHiddenMetricsForVersion: showHiddenMetricsForVersion: "
            f"Invalid value: {quoted(shown)}: must be omitted or have the value '{previous}'; "
            "only the previous minor version is allowed"
        )
    yield InvalidSetting("NF111", "showHiddenMetricsForVersion", text, f'use "{previous}", or leave it out')


def _tracing(config: _Config) -> _Refusals:
    tracing = config.settings.get("tracing")
    if tracing is None:
        return
    if config.minor <= 33 and not config.gate("KubeletTracing"):
        yield _invalid(
            "NF115",
            "tracing",
            "tracing should not be configured if KubeletTracing feature flag is disabled.",
            "enable the feature gate KubeletTracing, or remove tracing",
        )
        return
    rate = tracing.get("samplingRatePerMillion", 0)
    complaint = None
    if rate < 0:
        complaint = "sampling rate must be positive"
    elif rate > _LARGEST_SAMPLING_RATE:
        complaint = "sampling rate per million must be less than or equal to one million"
    if complaint:
        path = "tracing.samplingRatePerMillion"
        yield InvalidSetting("NF110", path, f"{path}: Invalid value: {rate}: {complaint}", "use 0 to 1000000")
    if "endpoint" in tracing:
        yield from _tracing_endpoint(tracing["endpoint"])


def _tracing_endpoint(endpoint: str) -> _Refusals:
    url = endpoint if "//" in endpoint else f"dns://{endpoint}"
    complaint = _url_error(url)
    scheme = "" if complaint else urlsplit(url).scheme
    if not complaint and scheme not in ("dns", "unix", "unix-abstract"):
        complaint = (
            f"unsupported scheme: {scheme}.  Options are none, dns, unix, or unix-abstract.  "
            "See https://github.com/grpc/grpc/blob/master/doc/naming.md"
        )
    if complaint:
        yield InvalidSetting(
            "NF111",
            "tracing.endpoint",
            f"tracing.endpoint: Invalid value: {quoted(url)}: {complaint}",
            "write host:port",
        )


def _url_error(url: str) -> str | None:
    """Return why url.Parse of net/url refuses a text, as far as endpoints go wrong."""
    if _CONTROL_CHARACTER.search(url):
        return f"parse {quoted(url)}: net/url: invalid control character in URL"
    scheme, colon, rest = url.partition(":")
    complaint = None
    if colon and not scheme:
        complaint = "missing protocol scheme"
    elif colon and not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme):
        complaint = "first path segment in URL cannot contain colon"
    elif rest.startswith("//"):
        host = re.split(r"[/?#]", rest.removeprefix("//"), maxsplit=1)[0]
        complaint = _host_error(host.rpartition("@")[2])
    return f"parse {quoted(url)}: {complaint}" if complaint else None


def _host_error(host: str) -> str | None:
    colon = host.find(":", host.rfind("]")) if host.startswith("[") else host.rfind(":")
    port = host[colon:] if colon >= 0 else ""
    if not re.fullmatch(r"(:[0-9]*)?", port):
        return f"invalid port {quoted(port)} after host"
    refused = _REFUSED_IN_HOST.search(host)
    if refused is None:
        return None
    if refused[0].startswith("%"):
        return f"invalid URL escape {quoted(refused[0])}"
    return f"invalid character {quoted(refused[0])} in host name"


def _memory_throttling(config: _Config) -> _Refusals:
    factor = config.settings.get("memoryThrottlingFactor")
    if factor is None and config.gate("MemoryQoS"):
        yield _invalid(
            "NF115",
            "memoryThrottlingFactor",
            "memoryThrottlingFactor is required when MemoryQoS feature flag is enabled",
            "set memoryThrottlingFactor, for example 0.9",
        )
    if factor is not None and not 0 < factor <= 1:
        yield _invalid(
            "NF110",
            "memoryThrottlingFactor",
            f"memoryThrottlingFactor {shown_float(factor)} must be greater than 0 and less than or equal to "
            "1.0",
            "use a factor above 0 and up to 1",
        )


def _memory_reservation_policy(config: _Config) -> _Refusals:
    if config.minor < 36:
        return
    field = "memoryReservationPolicy"
    policy = config.text(field)
    if policy == "TieredReservation" and not config.gate("MemoryQoS"):
        yield _invalid(
            "NF115",
            field,
            f"{field} {quoted(policy)} requires MemoryQoS feature gate to be enabled",
            "enable the feature gate MemoryQoS, or use None",
        )
    if policy not in ("None", "TieredReservation"):
        yield _invalid(
            "NF111",
            field,
            f'option {quoted(policy)} specified for {field}. Valid options are "None" or "TieredReservation"',
            "use None or TieredReservation",
        )


def _runtime_endpoint(config: _Config) -> _Refusals:
    if not config.text("containerRuntimeEndpoint"):
        yield _invalid(
            "NF111",
            "containerRuntimeEndpoint",
            "the containerRuntimeEndpoint was not specified or empty",
            "set it to the runtime's socket, for example unix:///run/containerd/containerd.sock",
        )


def _log_query(config: _Config) -> _Refusals:
    if not config.flag("enableSystemLogQuery"):
        return
    if not config.gate("NodeLogQuery"):
        option = "enableSystemLogQuery" if config.minor >= 35 else "enableSystemLogHandler"
        yield _invalid(
            "NF115",
            "enableSystemLogQuery",
            f"NodeLogQuery feature gate is required for {option}",
            "enable the feature gate NodeLogQuery, or remove enableSystemLogQuery",
        )
    if not config.flag("enableSystemLogHandler"):
        yield _invalid(
            "NF116",
            "enableSystemLogQuery",
            "enableSystemLogHandler is required for enableSystemLogQuery",
            "set enableSystemLogHandler: true",
        )


def _container_logs(config: _Config) -> _Refusals:
    if config.minor < 30:
        return
    if config.number("containerLogMaxWorkers") < 1:
        yield _invalid(
            "NF110",
            "containerLogMaxWorkers",
            "containerLogMaxWorkers must be greater than or equal to 1",
            "set 1 or more",
        )
    if config.duration("containerLogMonitorInterval").nanoseconds < 3 * _SECOND:
        yield _invalid(
            "NF110",
            "containerLogMonitorInterval",
            "containerLogMonitorInterval must be a positive time duration greater than or equal to 3s",
            "set 3s or more",
        )
    if config.minor >= 33 and config.number("containerLogMaxFiles") <= 1:
        yield _invalid(
            "NF110",
            "containerLogMaxFiles",
            "containerLogMaxFiles must be greater than 1",
            "set 2 or more",
        )


def _pod_logs(config: _Config) -> _Refusals:
    if config.minor < 30:
        return
    path = config.text("podLogsDir")
    remedy = "set an absolute path in its shortest form, for example /var/log/pods"
    complaints = []
    if not path:
        complaints.append("podLogsDir was not specified")
    if not path.startswith("/"):
        complaints.append(f"pod logs path {quoted(path)} must be absolute path")
    if path != _cleaned(path):
        complaints.append(f"pod logs path {quoted(path)} must be normalized")
    if not path.isascii():
        complaints.append(f"pod logs path {quoted(path)} mut contains ASCII characters only")
    for complaint in complaints:
        yield _invalid("NF111", "podLogsDir", complaint, remedy)


def _cleaned(path: str) -> str:
    cleaned = posixpath.normpath(path)
    # POSIX keeps two leading slashes, Go's filepath.Clean does not.
    return cleaned[1:] if cleaned.startswith("//") else cleaned


_CHECKS: tuple[Callable[[_Config], _Refusals], ...] = (
    _gate_dependencies,
    _lease,
    _enforcement_needs_qos_cgroups,
    _system_cgroups,
    _not_negative("eventBurst", "--event-burst"),
    _not_negative("eventRecordQPS", "--event-qps"),
    _healthz_port,
    _cfs_quota_period,
    _image_thresholds,
    _image_ages,
    _between("iptablesDropBit", "--iptables-drop-bit", 0, 31),
    _between("iptablesMasqueradeBit", "--iptables-masquerade-bit", 0, 31),
    _not_negative("kubeAPIBurst", "--kube-api-burst"),
    _not_negative("kubeAPIQPS", "--kube-api-qps"),
    _max_images,
    _not_negative("maxOpenFiles", "--max-open-files"),
    _not_negative("maxPods", "--max-pods"),
    _between("oomScoreAdj", "--oom-score-adj", -1000, 1000),
    _not_negative("podsPerCore", "--pods-per-core"),
    _between("port", "--port", 1, 65535),
    _read_only_port,
    _not_negative("registryBurst", "--registry-burst"),
    _not_negative("registryPullQPS", "--registry-qps"),
    _parallel_pulls,
    _server_tls,
    _run_once,
    _taints,
    _topology_policy,
    _topology_scope,
    _shutdown,
    _shutdown_by_priority,
    _swap,
    _crash_loop,
    _enforcements,
    _hairpin,
    _image_credentials,
    _reserved_cpus,
    _reserved_memory,
    _host,
    _hidden_metrics,
    _logging,
    _tracing,
    _memory_throttling,
    _memory_reservation_policy,
    _runtime_endpoint,
    _log_query,
    _container_logs,
    _pod_logs,
)
