"""The defaults that a kubelet fills in for unset fields, by minor.

Sources: pkg/kubelet/apis/config/v1beta1/defaults.go, pkg/kubelet/eviction/defaults_linux.go, loadConfigFile
in cmd/kubelet/app/server.go.
"""

import copy
from collections.abc import Mapping
from typing import Any

from numaforge.kubelet.config.gates import enabled
from numaforge.kubelet_minors.fields import ROOT_TYPE, types_of
from numaforge.kubelet_minors.tables import DEFAULTS, EVICTION_HARD
from numaforge.kubelet_minors.values.durations import parse_duration
from numaforge.kubelet_minors.versions import KubeletVersion

# From this minor on a kubelet refuses to run on cgroup v1 unless failCgroupV1 is false.
_FIRST_MINOR_REFUSING_CGROUP_V1 = 35
# From this minor on memory.high is not set unless a factor is given.
_FIRST_MINOR_WITHOUT_THROTTLING = 37

_ZEROES = ("", 0, False)


def with_defaults(
    settings: Mapping[str, Any], version: KubeletVersion, gates: Mapping[str, bool]
) -> dict[str, Any]:
    """Return the settings with this minor's defaults filled in; `gates` are the feature gates in force."""
    filled = copy.deepcopy(dict(settings))
    structs = types_of(version.rules_minor).structs
    _default_status_report(filled)
    for path, value in DEFAULTS.items():
        _fill(filled, path, value, structs)
    if filled["podPidsLimit"] < 0:
        filled["podPidsLimit"] = -1
    if filled.get("serializeImagePulls") is None:
        filled["serializeImagePulls"] = (filled.get("maxParallelImagePulls") or 0) < 2
    if filled.get("enforceNodeAllocatable") is None:
        filled["enforceNodeAllocatable"] = ["pods"]
    if filled.get("memoryThrottlingFactor") is None and version.rules_minor < _FIRST_MINOR_WITHOUT_THROTTLING:
        filled["memoryThrottlingFactor"] = 0.9
    if "failCgroupV1" in structs[ROOT_TYPE] and filled.get("failCgroupV1") is None:
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


def _fill(filled: dict[str, Any], path: str, value: Any, structs: Mapping[str, Mapping[str, str]]) -> None:
    """Fill in a default of a field that this kubelet knows, by dotted name."""
    *parents, name = path.split(".")
    holder, fields = filled, structs[ROOT_TYPE]
    for parent in parents:
        holder, fields = holder.setdefault(parent, {}), structs[fields[parent]]
    if name in fields and _is_unset(holder.get(name), fields[name]):
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
    if go_type in ("metav1.Duration", "v1.TimeOrMetaDuration"):
        return parse_duration(value).nanoseconds == 0
    return value in _ZEROES
