"""The defaults that a kubelet fills in for unset fields, by minor.

Sources: pkg/kubelet/apis/config/v1beta1/defaults.go, pkg/kubelet/eviction/defaults_linux.go, loadConfigFile
in cmd/kubelet/app/server.go.
"""

import copy
import re
from collections.abc import Mapping
from typing import Any

from numaforge.kubelet.config.gates import enabled
from numaforge.kubelet_minors.fields import known_fields
from numaforge.kubelet_minors.values.durations import parse_duration
from numaforge.kubelet_minors.versions import KubeletVersion

EVICTION_HARD: Mapping[str, str] = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}

# From this minor on a kubelet refuses to run on cgroup v1 unless failCgroupV1 is false.
_FIRST_MINOR_REFUSING_CGROUP_V1 = 35
# From this minor on memory.high is not set unless a factor is given.
_FIRST_MINOR_WITHOUT_THROTTLING = 37

# A value of this table replaces an unset field, and a zero where the field's type is not a pointer.
_DEFAULTS: Mapping[str, Any] = {
    "enableServer": True,
    "syncFrequency": "1m0s",
    "fileCheckFrequency": "20s",
    "httpCheckFrequency": "20s",
    "address": "0.0.0.0",  # noqa: S104
    "port": 10250,
    "registryPullQPS": 5,
    "registryBurst": 10,
    "eventRecordQPS": 50,
    "eventBurst": 100,
    "enableDebuggingHandlers": True,
    "healthzPort": 10248,
    "healthzBindAddress": "127.0.0.1",
    "oomScoreAdj": -999,
    "streamingConnectionIdleTimeout": "4h0m0s",
    "nodeStatusUpdateFrequency": "10s",
    "nodeLeaseDurationSeconds": 40,
    "imageMinimumGCAge": "2m0s",
    "imageGCHighThresholdPercent": 85,
    "imageGCLowThresholdPercent": 80,
    "volumeStatsAggPeriod": "1m0s",
    "cgroupsPerQOS": True,
    "cgroupDriver": "cgroupfs",
    "cpuManagerPolicy": "none",
    "cpuManagerReconcilePeriod": "10s",
    "memoryManagerPolicy": "None",
    "topologyManagerPolicy": "none",
    "topologyManagerScope": "container",
    "runtimeRequestTimeout": "2m0s",
    "hairpinMode": "promiscuous-bridge",
    "maxPods": 110,
    "podPidsLimit": -1,
    "resolvConf": "/etc/resolv.conf",
    "cpuCFSQuota": True,
    "cpuCFSQuotaPeriod": "100ms",
    "nodeStatusMaxImages": 50,
    "maxOpenFiles": 1000000,
    "contentType": "application/vnd.kubernetes.protobuf",
    "kubeAPIQPS": 50,
    "kubeAPIBurst": 100,
    "evictionPressureTransitionPeriod": "5m0s",
    "mergeDefaultEvictionSettings": False,
    "enableControllerAttachDetach": True,
    "makeIPTablesUtilChains": True,
    "iptablesMasqueradeBit": 14,
    "iptablesDropBit": 15,
    "failSwapOn": True,
    "containerLogMaxSize": "10Mi",
    "containerLogMaxFiles": 5,
    "containerLogMaxWorkers": 1,
    "containerLogMonitorInterval": "10s",
    "configMapAndSecretChangeDetectionStrategy": "Watch",
    "volumePluginDir": "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
    "enableSystemLogHandler": True,
    "enableProfilingHandler": True,
    "enableDebugFlagsHandler": True,
    "seccompDefault": False,
    "memoryReservationPolicy": "None",
    "registerNode": True,
    "localStorageCapacityIsolation": True,
    "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
    "podLogsDir": "/var/log/pods",
}
_NESTED_DEFAULTS: Mapping[tuple[str, ...], Any] = {
    ("authentication", "anonymous", "enabled"): False,
    ("authentication", "webhook", "enabled"): True,
    ("authentication", "webhook", "cacheTTL"): "2m0s",
    ("authorization", "mode"): "Webhook",
    ("authorization", "webhook", "cacheAuthorizedTTL"): "5m0s",
    ("authorization", "webhook", "cacheUnauthorizedTTL"): "30s",
    ("logging", "format"): "text",
    ("logging", "flushFrequency"): "5s",
}
_ZEROES = ("", 0, False)
_DURATION = re.compile(r"[0-9].*[a-z]")


def with_defaults(
    settings: Mapping[str, Any], version: KubeletVersion, gates: Mapping[str, bool]
) -> dict[str, Any]:
    """Return the settings with this minor's defaults filled in; `gates` are the feature gates in force."""
    filled = copy.deepcopy(dict(settings))
    types = known_fields(version)
    _default_status_report(filled)
    for name, value in _DEFAULTS.items():
        if name in types and _is_unset(filled.get(name), types[name]):
            filled[name] = value
    for path, value in _NESTED_DEFAULTS.items():
        _fill_nested(filled, path, value)
    if filled["podPidsLimit"] < 0:
        filled["podPidsLimit"] = -1
    if filled.get("serializeImagePulls") is None:
        filled["serializeImagePulls"] = (filled.get("maxParallelImagePulls") or 0) < 2
    if filled.get("enforceNodeAllocatable") is None:
        filled["enforceNodeAllocatable"] = ["pods"]
    if filled.get("memoryThrottlingFactor") is None and version.rules_minor < _FIRST_MINOR_WITHOUT_THROTTLING:
        filled["memoryThrottlingFactor"] = 0.9
    if "failCgroupV1" in types and filled.get("failCgroupV1") is None:
        filled["failCgroupV1"] = version.rules_minor >= _FIRST_MINOR_REFUSING_CGROUP_V1
    _fill_gated(filled, version, gates)
    return filled


def with_eviction_defaults(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a main file's settings with the default hard eviction thresholds filled in.

    A map in the file, even an empty one, replaces all defaults, unless mergeDefaultEvictionSettings is on.
    This does not apply to drop-ins and flags.
    """
    written = settings.get("evictionHard")
    if written is None:
        return {**settings, "evictionHard": dict(EVICTION_HARD)}
    if settings.get("mergeDefaultEvictionSettings"):
        return {**settings, "evictionHard": {**EVICTION_HARD, **written}}
    return dict(settings)


def _default_status_report(filled: dict[str, Any]) -> None:
    # Defaults to nodeStatusUpdateFrequency where that is set.
    if _is_unset(filled.get("nodeStatusReportFrequency"), "metav1.Duration"):
        update = filled.get("nodeStatusUpdateFrequency")
        unset = _is_unset(update, "metav1.Duration")
        filled["nodeStatusReportFrequency"] = "5m0s" if unset else update


def _fill_nested(filled: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    *parents, name = path
    holder = filled
    for parent in parents:
        holder = holder.setdefault(parent, {})
    is_duration = isinstance(value, str) and _DURATION.fullmatch(value)
    go_type = "*bool" if isinstance(value, bool) else "metav1.Duration" if is_duration else "string"
    if _is_unset(holder.get(name), go_type):
        holder[name] = value


def _fill_gated(filled: dict[str, Any], version: KubeletVersion, gates: Mapping[str, bool]) -> None:
    if version.rules_minor >= 32 and enabled(version, gates, "KubeletCrashLoopBackOffMax"):
        back_off = filled.setdefault("crashLoopBackOff", {})
        if back_off.get("maxContainerRestartPeriod") is None:
            back_off["maxContainerRestartPeriod"] = "5m0s"
    if version.rules_minor >= 33 and enabled(version, gates, "KubeletEnsureSecretPulledImages"):
        policy = "imagePullCredentialsVerificationPolicy"
        filled[policy] = filled.get(policy) or "NeverVerifyPreloadedImages"


def _is_unset(value: Any, go_type: str) -> bool:
    if value is None:
        return True
    if go_type.startswith("*"):
        return False
    if go_type == "metav1.Duration":
        return parse_duration(value).nanoseconds == 0
    return value in _ZEROES
