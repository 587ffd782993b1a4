"""Validation of the node: taints, sysctls, cgroups, user namespaces, ports, metrics."""

import re
from collections.abc import Mapping
from typing import Any

from numaforge.kubelet.config.gates import set_gates
from numaforge.kubelet.findings import fault
from numaforge.kubelet.startup.sysctls import dotted_sysctl, is_namespaced, is_sysctl_name
from numaforge.kubelet.startup.validation.refusals import CompleteConfig, Refusals, between, invalid
from numaforge.kubelet_minors.values.gotext import quoted
from numaforge.kubelet_minors.values.labels import label_value_complaints, qualified_name_complaints

_USER_NAMESPACE_LENGTH = 65536
_LARGEST_USER_NAMESPACE = 2**32 - 1
_DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = re.compile(rf"{_DNS_LABEL}(\.{_DNS_LABEL})*")
_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def gate_dependencies(config: CompleteConfig) -> Refusals:
    if config.minor >= 35:
        for error in set_gates(config.version, config.gates):
            yield fault("NF103", "validation", error=error)


def healthz_port(config: CompleteConfig) -> Refusals:
    if config.number("healthzPort"):
        yield from between("healthzPort", "--healthz-port", 1, 65535)(config)


def hidden_metrics(config: CompleteConfig) -> Refusals:
    shown, previous = config.text("showHiddenMetricsForVersion"), f"1.{config.minor - 1}"
    if shown and shown != previous:
        name = "hidden metrics from 1.36" if config.minor >= 36 else "hidden metrics"
        yield fault("NF111", name, value=quoted(shown), previous=previous)


def default_sysctls(config: CompleteConfig) -> Refusals:
    sysctls = config.settings.get("defaultPodSysctls") or {}
    if sysctls and not config.gate("DefaultPodSysctls"):
        yield invalid("NF115", "sysctls")
        return
    earlier: set[str] = set()
    for name in sorted(sysctls):
        if not is_sysctl_name(name):
            yield invalid("NF111", "sysctl name", name=name, quoted=quoted(name))
            continue
        dotted = dotted_sysctl(name)
        if not is_namespaced(dotted, config.minor):
            yield invalid("NF111", "sysctl namespace", name=name, quoted=quoted(name))
        if dotted in earlier:
            yield invalid("NF116", "sysctl twice", name=name, quoted=quoted(dotted))
        earlier.add(dotted)


def taints(config: CompleteConfig) -> Refusals:
    for index, taint in enumerate(config.items("registerWithTaints")):
        added = taint.get("timeAdded")
        if not _is_valid_taint(taint):
            texts = " ".join(taint.get(name, "") for name in ("key", "value", "effect"))
            yield fault("NF119", "taint", index=index, taint=f"{texts} {_shown_time(added)}")
        if added is not None:
            yield invalid("NF119", "time added", index=index)


def _is_valid_taint(taint: Mapping[str, Any]) -> bool:
    key = taint.get("key", "")
    prefix, slash, _ = key.rpartition("/")
    return (
        not (slash and (len(prefix) > 253 or not _DNS_SUBDOMAIN.fullmatch(prefix)))
        and not qualified_name_complaints(key)
        and not label_value_complaints(taint.get("value", ""))
        and taint.get("effect", "") in ("", *_TAINT_EFFECTS)
    )


def _shown_time(added: str | None) -> str:
    if added is None:
        return "<nil>"
    day, _, clock = added.removesuffix("Z").partition("T")
    return f"{day} {clock} +0000 UTC"


def host(config: CompleteConfig) -> Refusals:
    on_cgroup_v1 = config.cgroup_version == 1
    if config.minor >= 31 and on_cgroup_v1 and config.flag("failCgroupV1"):
        fate = "is in maintenance mode"
        if config.minor >= 35:
            fate = "is unsupported and will be removed in a future release"
        yield fault("NF117", "cgroup v1", fate=fate)
        return
    if config.minor >= 32 and on_cgroup_v1 and config.settings.get("singleProcessOOMKill") is False:
        yield invalid("NF117", "OOM kill")
        return
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
        yield invalid("NF110", "user namespaces", complaint=complaint)
