"""The fields of KubeletConfiguration kubelet.config.k8s.io/v1beta1: their Go types and their first minor.

Source: k8s.io/kubelet config/v1beta1/types.go, releases 0.28 to 0.36, with the logging and tracing types of
k8s.io/component-base.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from numaforge.kubelet.durations import parse_duration, quoted_in_bytes
from numaforge.kubelet.gojson import GoJsonError, Types, kind_of
from numaforge.kubelet.gotext import quoted
from numaforge.kubelet.quantities import Quantity
from numaforge.kubelet.versions import KubeletVersion

API_VERSION = "kubelet.config.k8s.io/v1beta1"
KIND = "KubeletConfiguration"
ROOT_TYPE = "v1beta1.KubeletConfiguration"

_LAYOUT = "2006-01-02T15:04:05Z07:00"
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")

FIELDS: Mapping[str, str] = {
    "apiVersion": "string",
    "kind": "string",
    "enableServer": "*bool",
    "staticPodPath": "string",
    "podLogsDir": "string",
    "syncFrequency": "metav1.Duration",
    "fileCheckFrequency": "metav1.Duration",
    "httpCheckFrequency": "metav1.Duration",
    "staticPodURL": "string",
    "staticPodURLHeader": "map[string][]string",
    "address": "string",
    "port": "int32",
    "readOnlyPort": "int32",
    "tlsCertFile": "string",
    "tlsPrivateKeyFile": "string",
    "tlsCipherSuites": "[]string",
    "tlsCurvePreferences": "[]int32",
    "tlsMinVersion": "string",
    "rotateCertificates": "bool",
    "serverTLSBootstrap": "bool",
    "authentication": "v1beta1.KubeletAuthentication",
    "authorization": "v1beta1.KubeletAuthorization",
    "registryPullQPS": "*int32",
    "registryBurst": "int32",
    "imagePullCredentialsVerificationPolicy": "v1beta1.ImagePullCredentialsVerificationPolicy",
    "preloadedImagesVerificationAllowlist": "[]string",
    "eventRecordQPS": "*int32",
    "eventBurst": "int32",
    "enableDebuggingHandlers": "*bool",
    "enableContentionProfiling": "bool",
    "healthzPort": "*int32",
    "healthzBindAddress": "string",
    "oomScoreAdj": "*int32",
    "clusterDomain": "string",
    "clusterDNS": "[]string",
    "streamingConnectionIdleTimeout": "metav1.Duration",
    "nodeStatusUpdateFrequency": "metav1.Duration",
    "nodeStatusReportFrequency": "metav1.Duration",
    "nodeLeaseDurationSeconds": "int32",
    "imageMinimumGCAge": "metav1.Duration",
    "imageMaximumGCAge": "metav1.Duration",
    "imageGCHighThresholdPercent": "*int32",
    "imageGCLowThresholdPercent": "*int32",
    "volumeStatsAggPeriod": "metav1.Duration",
    "kubeletCgroups": "string",
    "systemCgroups": "string",
    "cgroupRoot": "string",
    "cgroupsPerQOS": "*bool",
    "cgroupDriver": "string",
    "cpuManagerPolicy": "string",
    "singleProcessOOMKill": "*bool",
    "cpuManagerPolicyOptions": "map[string]string",
    "cpuManagerReconcilePeriod": "metav1.Duration",
    "memoryManagerPolicy": "string",
    "topologyManagerPolicy": "string",
    "topologyManagerScope": "string",
    "topologyManagerPolicyOptions": "map[string]string",
    "qosReserved": "map[string]string",
    "runtimeRequestTimeout": "metav1.Duration",
    "hairpinMode": "string",
    "maxPods": "int32",
    "podCIDR": "string",
    "podPidsLimit": "*int64",
    "resolvConf": "*string",
    "runOnce": "bool",
    "cpuCFSQuota": "*bool",
    "cpuCFSQuotaPeriod": "*metav1.Duration",
    "nodeStatusMaxImages": "*int32",
    "maxOpenFiles": "int64",
    "contentType": "string",
    "kubeAPIQPS": "*int32",
    "kubeAPIBurst": "int32",
    "serializeImagePulls": "*bool",
    "maxParallelImagePulls": "*int32",
    "evictionHard": "map[string]string",
    "evictionSoft": "map[string]string",
    "evictionSoftGracePeriod": "map[string]string",
    "evictionPressureTransitionPeriod": "metav1.Duration",
    "evictionMaxPodGracePeriod": "int32",
    "evictionMinimumReclaim": "map[string]string",
    "mergeDefaultEvictionSettings": "*bool",
    "podsPerCore": "int32",
    "enableControllerAttachDetach": "*bool",
    "protectKernelDefaults": "bool",
    "makeIPTablesUtilChains": "*bool",
    "iptablesMasqueradeBit": "*int32",
    "iptablesDropBit": "*int32",
    "featureGates": "map[string]bool",
    "failSwapOn": "*bool",
    "memorySwap": "v1beta1.MemorySwapConfiguration",
    "containerLogMaxSize": "string",
    "containerLogMaxFiles": "*int32",
    "containerLogMaxWorkers": "*int32",
    "containerLogMonitorInterval": "*metav1.Duration",
    "configMapAndSecretChangeDetectionStrategy": "v1beta1.ResourceChangeDetectionStrategy",
    "systemReserved": "map[string]string",
    "kubeReserved": "map[string]string",
    "reservedSystemCPUs": "string",
    "showHiddenMetricsForVersion": "string",
    "systemReservedCgroup": "string",
    "kubeReservedCgroup": "string",
    "enforceNodeAllocatable": "[]string",
    "allowedUnsafeSysctls": "[]string",
    "volumePluginDir": "string",
    "providerID": "string",
    "kernelMemcgNotification": "bool",
    "logging": "v1.LoggingConfiguration",
    "enableSystemLogHandler": "*bool",
    "enableSystemLogQuery": "*bool",
    "shutdownGracePeriod": "metav1.Duration",
    "shutdownGracePeriodCriticalPods": "metav1.Duration",
    "shutdownGracePeriodByPodPriority": "[]v1beta1.ShutdownGracePeriodByPodPriority",
    "crashLoopBackOff": "v1beta1.CrashLoopBackOffConfig",
    "reservedMemory": "[]v1beta1.MemoryReservation",
    "enableProfilingHandler": "*bool",
    "enableDebugFlagsHandler": "*bool",
    "seccompDefault": "*bool",
    "memoryThrottlingFactor": "*float64",
    "memoryReservationPolicy": "v1beta1.MemoryReservationPolicy",
    "registerWithTaints": "[]v1.Taint",
    "registerNode": "*bool",
    "tracing": "*v1.TracingConfiguration",
    "localStorageCapacityIsolation": "*bool",
    "containerRuntimeEndpoint": "string",
    "imageServiceEndpoint": "string",
    "failCgroupV1": "*bool",
    "userNamespaces": "*v1beta1.UserNamespaces",
}

# The first minor that knows a field; fields that are not named here are older than 1.28.
SINCE_MINOR: Mapping[str, int] = {
    "imageMaximumGCAge": 29,
    "podLogsDir": 30,
    "containerLogMaxWorkers": 30,
    "containerLogMonitorInterval": 30,
    "failCgroupV1": 31,
    "singleProcessOOMKill": 32,
    "crashLoopBackOff": 32,
    "imagePullCredentialsVerificationPolicy": 33,
    "preloadedImagesVerificationAllowlist": 33,
    "mergeDefaultEvictionSettings": 33,
    "userNamespaces": 33,
    "tlsCurvePreferences": 36,
    "memoryReservationPolicy": 36,
}

_STRUCTS: Mapping[str, Mapping[str, str]] = {
    "v1beta1.KubeletAuthentication": {
        "x509": "v1beta1.KubeletX509Authentication",
        "webhook": "v1beta1.KubeletWebhookAuthentication",
        "anonymous": "v1beta1.KubeletAnonymousAuthentication",
    },
    "v1beta1.KubeletX509Authentication": {"clientCAFile": "string"},
    "v1beta1.KubeletWebhookAuthentication": {"enabled": "*bool", "cacheTTL": "metav1.Duration"},
    "v1beta1.KubeletAnonymousAuthentication": {"enabled": "*bool"},
    "v1beta1.KubeletAuthorization": {
        "mode": "v1beta1.KubeletAuthorizationMode",
        "webhook": "v1beta1.KubeletWebhookAuthorization",
    },
    "v1beta1.KubeletWebhookAuthorization": {
        "cacheAuthorizedTTL": "metav1.Duration",
        "cacheUnauthorizedTTL": "metav1.Duration",
    },
    "v1beta1.MemoryReservation": {"numaNode": "int32", "limits": "v1.ResourceList"},
    "v1beta1.ShutdownGracePeriodByPodPriority": {"priority": "int32", "shutdownGracePeriodSeconds": "int64"},
    "v1beta1.MemorySwapConfiguration": {"swapBehavior": "string"},
    "v1beta1.CrashLoopBackOffConfig": {"maxContainerRestartPeriod": "*metav1.Duration"},
    "v1beta1.UserNamespaces": {"idsPerPod": "*int64"},
    "v1.Taint": {"key": "string", "value": "string", "effect": "v1.TaintEffect", "timeAdded": "metav1.Time"},
    "v1.TracingConfiguration": {"endpoint": "*string", "samplingRatePerMillion": "*int32"},
    "v1.LoggingConfiguration": {
        "format": "string",
        "flushFrequency": "v1.TimeOrMetaDuration",
        "verbosity": "v1.VerbosityLevel",
        "vmodule": "v1.VModuleConfiguration",
        "options": "v1.FormatOptions",
    },
    "v1.FormatOptions": {"text": "v1.TextOptions", "json": "v1.JSONOptions"},
    "v1.TextOptions": {"splitStream": "bool", "infoBufferSize": "resource.QuantityValue"},
    "v1.JSONOptions": {"splitStream": "bool", "infoBufferSize": "resource.QuantityValue"},
    "v1.VModuleItem": {"filePattern": "string", "verbosity": "v1.VerbosityLevel"},
}

_ALIASES = {
    "v1beta1.KubeletAuthorizationMode": "string",
    "v1beta1.ImagePullCredentialsVerificationPolicy": "string",
    "v1beta1.ResourceChangeDetectionStrategy": "string",
    "v1beta1.MemoryReservationPolicy": "string",
    "v1.TaintEffect": "string",
    "v1.ResourceList": "map[string]resource.Quantity",
    "v1.VerbosityLevel": "uint32",
    "v1.VModuleConfiguration": "[]v1.VModuleItem",
}


@cache
def types_of(minor: int) -> Types:
    """Return the Go types into which a kubelet of this minor decodes its configuration."""
    known = {name: go_type for name, go_type in FIELDS.items() if SINCE_MINOR.get(name, 0) <= minor}
    return Types(
        structs={**_STRUCTS, ROOT_TYPE: known}, aliases=_ALIASES, parsers=_PARSERS, read_null=_READ_NULL
    )


def known_fields(version: KubeletVersion) -> Mapping[str, str]:
    """Return the top-level fields that this kubelet knows, with their Go types."""
    return types_of(version.rules_minor).structs[ROOT_TYPE]


def struct_fields(go_type: str) -> Mapping[str, str]:
    """Return the fields of a nested struct, or of nothing for a type that is no struct."""
    return _STRUCTS.get(go_type.removeprefix("*").removeprefix("[]"), {})


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise GoJsonError(f"json: cannot unmarshal {kind_of(value)} into Go value of type string", ())
    return value


def _duration(value: Any) -> str:
    return str(parse_duration("" if value is None else _text(value)))


def _flush_frequency(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(parse_duration(f"{value}ns"))
    if value is None or isinstance(value, str):
        return _duration(value)
    written = json.dumps(value, separators=(",", ":"))
    kind = f"number {written}" if isinstance(value, float) else kind_of(value)
    raise ValueError(
        f"invalid duration {quoted(written)}: "
        f"json: cannot unmarshal {kind} into Go value of type time.Duration"
    )


def _quantity(value: Any) -> str:
    if value is None:
        return "0"
    # Whatever stands there is parsed as text, also a boolean or a list, which then is no quantity.
    text = value if isinstance(value, str) else json.dumps(value)
    Quantity.parse(text.strip())
    return text.strip()


def _time(value: Any) -> str:
    text = _text(value)
    if not _RFC_3339.fullmatch(text):
        shown = quoted_in_bytes(text)
        raise ValueError(f'parsing time {shown} as "{_LAYOUT}": cannot parse {shown} as "2006"')
    return text


_PARSERS = {
    "metav1.Duration": _duration,
    "metav1.Time": _time,
    "v1.TimeOrMetaDuration": _flush_frequency,
    "resource.Quantity": _quantity,
    "resource.QuantityValue": _quantity,
}
# To Duration.UnmarshalJSON null is the empty text, which is no duration; to Quantity.UnmarshalJSON it is 0.
_READ_NULL = frozenset({"metav1.Duration", "resource.Quantity", "resource.QuantityValue"})
