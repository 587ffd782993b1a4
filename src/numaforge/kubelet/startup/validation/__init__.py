"""Everything that a kubelet's validation of its configuration rejects, in its order and words, by minor.

Source: pkg/kubelet/apis/config/validation (validation.go, validation_linux.go,
validation_reserved_memory.go), and the logging and tracing validation of k8s.io/component-base. Where the
kubelet walks a map in random order, the order here is by name.
"""

from numaforge.kubelet.config.loading import Configuration
from numaforge.kubelet.findings import Fault
from numaforge.kubelet.startup.validation.images import (
    image_age_gate,
    image_ages,
    image_credentials,
    image_thresholds,
    max_images,
    parallel_pulls,
)
from numaforge.kubelet.startup.validation.lifecycle import crash_loop, shutdown, shutdown_by_priority
from numaforge.kubelet.startup.validation.logs import container_logs, log_query, logging, pod_logs
from numaforge.kubelet.startup.validation.memory import (
    memory_reservation_policy,
    memory_throttling,
    reserved_memory,
    swap,
)
from numaforge.kubelet.startup.validation.node import (
    default_sysctls,
    gate_dependencies,
    healthz_port,
    hidden_metrics,
    host,
    taints,
)
from numaforge.kubelet.startup.validation.refusals import (
    Check,
    CompleteConfig,
    between,
    not_negative,
    one_of,
    refused_if,
)
from numaforge.kubelet.startup.validation.reservations import cfs_quota_period, enforcements, reserved_cpus
from numaforge.kubelet.startup.validation.tracing import tracing
from numaforge.kubelet_minors.options import TOPOLOGY_MANAGER_POLICIES, TOPOLOGY_MANAGER_SCOPES


def validate(configuration: Configuration, *, cgroup_version: int) -> tuple[Fault, ...]:
    """Return the settings that this kubelet's validation rejects, in its order.

    `cgroup_version` is the host's. The evidence is the kubelet's message.
    """
    config = CompleteConfig(configuration, cgroup_version)
    return tuple(refusal for check in _CHECKS for refusal in check(config))


def validate_logging(configuration: Configuration) -> tuple[Fault, ...]:
    """Return what the logging set-up rejects before the whole configuration is validated."""
    return tuple(logging(CompleteConfig(configuration, 2)))


def _enforces_without_cgroups(config: CompleteConfig) -> bool:
    enforced = bool(config.items("enforceNodeAllocatable"))
    return config.minor <= 30 and enforced and not config.flag("cgroupsPerQOS")


def _bootstraps_without_gate(config: CompleteConfig) -> bool:
    return config.flag("serverTLSBootstrap") and not config.gate("RotateKubeletServerCertificate")


_CHECKS: tuple[Check, ...] = (
    gate_dependencies,
    refused_if("NF110", "lease", lambda config: config.number("nodeLeaseDurationSeconds") <= 0),
    refused_if("NF112", "unsupported", _enforces_without_cgroups),
    refused_if("NF116", "system cgroups", lambda c: c.text("systemCgroups") and not c.text("cgroupRoot")),
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
    between("readOnlyPort", "--read-only-port", 0, 65535),
    not_negative("registryBurst", "--registry-burst"),
    not_negative("registryPullQPS", "--registry-qps"),
    parallel_pulls,
    refused_if("NF115", "server TLS", _bootstraps_without_gate),
    refused_if("NF111", "run once", lambda config: config.minor >= 32 and config.flag("runOnce")),
    taints,
    one_of("topologyManagerPolicy", TOPOLOGY_MANAGER_POLICIES),
    one_of("topologyManagerScope", TOPOLOGY_MANAGER_SCOPES),
    shutdown,
    shutdown_by_priority,
    swap,
    crash_loop,
    enforcements,
    one_of("hairpinMode", ("none", "hairpin-veth", "promiscuous-bridge")),
    image_credentials,
    reserved_cpus,
    reserved_memory,
    host,
    hidden_metrics,
    logging,
    tracing,
    memory_throttling,
    memory_reservation_policy,
    refused_if("NF111", "runtime endpoint", lambda config: not config.text("containerRuntimeEndpoint")),
    log_query,
    container_logs,
    pod_logs,
)
