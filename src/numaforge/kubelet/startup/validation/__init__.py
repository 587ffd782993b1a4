"""Everything that a kubelet's validation of its configuration rejects, in its order and words, by minor.

Source: pkg/kubelet/apis/config/validation (validation.go, validation_linux.go,
validation_reserved_memory.go), and the logging and tracing validation of k8s.io/component-base. Where the
kubelet walks a map in random order, the order here is by name.
"""

from collections.abc import Callable, Mapping
from typing import Any

from numaforge.kubelet.startup.validation.images import (
    image_age_gate,
    image_ages,
    image_credentials,
    image_thresholds,
    max_images,
    parallel_pulls,
)
from numaforge.kubelet.startup.validation.lifecycle import crash_loop, shutdown, shutdown_by_priority
from numaforge.kubelet.startup.validation.logs import (
    FIRST_MINOR_CHECKING_FLUSHES,
    container_logs,
    log_query,
    logging,
    pod_logs,
)
from numaforge.kubelet.startup.validation.memory import (
    memory_reservation_policy,
    memory_throttling,
    reserved_memory,
    swap,
)
from numaforge.kubelet.startup.validation.node import (
    default_sysctls,
    gate_dependencies,
    host,
    lease,
    run_once,
    taints,
    topology_policy,
    topology_scope,
)
from numaforge.kubelet.startup.validation.numbers import between, not_negative
from numaforge.kubelet.startup.validation.refusals import CompleteConfig, InvalidSetting, Refusals
from numaforge.kubelet.startup.validation.reservations import (
    cfs_quota_period,
    enforcement_needs_qos_cgroups,
    enforcements,
    reserved_cpus,
    system_cgroups,
)
from numaforge.kubelet.startup.validation.serving import (
    hairpin,
    healthz_port,
    hidden_metrics,
    read_only_port,
    runtime_endpoint,
    server_tls,
)
from numaforge.kubelet.startup.validation.tracing import tracing
from numaforge.kubelet_minors.versions import KubeletVersion

__all__ = ["FIRST_MINOR_CHECKING_FLUSHES", "InvalidSetting", "validate", "validate_logging"]


def validate(
    settings: Mapping[str, Any], version: KubeletVersion, gates: Mapping[str, bool], *, cgroup_version: int
) -> tuple[InvalidSetting, ...]:
    """Return the settings that this kubelet's validation rejects, in its order.

    `settings` is the complete configuration, `gates` the feature gates in force, `cgroup_version` the host's.
    """
    config = CompleteConfig(settings, version, gates, cgroup_version)
    return tuple(refusal for check in _CHECKS for refusal in check(config))


def validate_logging(
    settings: Mapping[str, Any], version: KubeletVersion, gates: Mapping[str, bool]
) -> tuple[InvalidSetting, ...]:
    """Return what the logging set-up rejects before the whole configuration is validated."""
    return tuple(logging(CompleteConfig(settings, version, gates, 2)))


_CHECKS: tuple[Callable[[CompleteConfig], Refusals], ...] = (
    gate_dependencies,
    lease,
    enforcement_needs_qos_cgroups,
    system_cgroups,
    not_negative("eventBurst", "--event-burst"),
    not_negative("eventRecordQPS", "--event-qps"),
    healthz_port,
    cfs_quota_period,
    image_thresholds,
    image_age_gate,
    default_sysctls,
    image_ages,
    between("iptablesDropBit", "--iptables-drop-bit", 0, 31),
    between("iptablesMasqueradeBit", "--iptables-masquerade-bit", 0, 31),
    not_negative("kubeAPIBurst", "--kube-api-burst"),
    not_negative("kubeAPIQPS", "--kube-api-qps"),
    max_images,
    not_negative("maxOpenFiles", "--max-open-files"),
    not_negative("maxPods", "--max-pods"),
    between("oomScoreAdj", "--oom-score-adj", -1000, 1000),
    not_negative("podsPerCore", "--pods-per-core"),
    between("port", "--port", 1, 65535),
    read_only_port,
    not_negative("registryBurst", "--registry-burst"),
    not_negative("registryPullQPS", "--registry-qps"),
    parallel_pulls,
    server_tls,
    run_once,
    taints,
    topology_policy,
    topology_scope,
    shutdown,
    shutdown_by_priority,
    swap,
    crash_loop,
    enforcements,
    hairpin,
    image_credentials,
    reserved_cpus,
    reserved_memory,
    host,
    hidden_metrics,
    logging,
    tracing,
    memory_throttling,
    memory_reservation_policy,
    runtime_endpoint,
    log_query,
    container_logs,
    pod_logs,
)
