"""Validation of the node: taints, topology policy, lease, user namespaces."""

import re
from collections.abc import Mapping
from typing import Any

from numaforge.kubelet.config.gates import set_gates
from numaforge.kubelet.startup.sysctls import IN_A_NAMESPACE, dotted_sysctl, is_namespaced, is_sysctl_name
from numaforge.kubelet.startup.validation.refusals import CompleteConfig, InvalidSetting, Refusals, invalid
from numaforge.kubelet_minors.options import TOPOLOGY_MANAGER_POLICIES, TOPOLOGY_MANAGER_SCOPES
from numaforge.kubelet_minors.values.gotext import quoted
from numaforge.kubelet_minors.values.labels import label_value_complaints, qualified_name_complaints

_USER_NAMESPACE_LENGTH = 65536


_LARGEST_USER_NAMESPACE = 2**32 - 1


_DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"


_DNS_SUBDOMAIN = re.compile(rf"{_DNS_LABEL}(\.{_DNS_LABEL})*")


_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def gate_dependencies(config: CompleteConfig) -> Refusals:
    if config.minor >= 35:
        for text in set_gates(config.version, config.gates):
            yield InvalidSetting(
                "NF103", "featureGates", text, "enable what the gate depends on, or disable the gate too"
            )


def lease(config: CompleteConfig) -> Refusals:
    if config.number("nodeLeaseDurationSeconds") <= 0:
        yield invalid(
            "NF110",
            "nodeLeaseDurationSeconds",
            "nodeLeaseDurationSeconds must be greater than 0",
            "leave it out (40) or set a positive number of seconds",
        )


def default_sysctls(config: CompleteConfig) -> Refusals:
    field = "defaultPodSysctls"
    sysctls = config.settings.get(field) or {}
    if sysctls and not config.gate("DefaultPodSysctls"):
        yield invalid(
            "NF115",
            field,
            f"DefaultPodSysctls feature gate is required for Kubelet configuration option {field}",
            "enable the feature gate DefaultPodSysctls, or leave the setting out",
        )
        return
    earlier: set[str] = set()
    for name in sorted(sysctls):
        path = f'{field}["{name}"]'
        if not is_sysctl_name(name):
            text = f"{quoted(name)} is not a valid sysctl name for {field}"
            yield invalid("NF111", path, text, "name a sysctl: net.ipv4.ip_forward")
            continue
        dotted = dotted_sysctl(name)
        if not is_namespaced(dotted, config.minor):
            text = f"{quoted(name)} is not known to be namespaced for {field}"
            yield invalid("NF111", path, text, f"name a sysctl {IN_A_NAMESPACE}")
        if dotted in earlier:
            text = f"duplicate sysctl {quoted(dotted)} found in {field}"
            yield invalid("NF116", path, text, "keep one spelling, with dots or with slashes")
        earlier.add(dotted)


def run_once(config: CompleteConfig) -> Refusals:
    if config.minor >= 32 and config.flag("runOnce"):
        yield invalid(
            "NF111",
            "runOnce",
            "runOnce (--runOnce) true, Runonce mode has been deprecated and should not be set",
            "remove runOnce",
        )


def taints(config: CompleteConfig) -> Refusals:
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
            yield invalid("NF119", f"{path}.timeAdded", "taint.TimeAdded is not nil", "remove timeAdded")


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


def topology_policy(config: CompleteConfig) -> Refusals:
    policy = config.text("topologyManagerPolicy")
    if policy not in TOPOLOGY_MANAGER_POLICIES:
        choices = " ".join(f'"{policy}"' for policy in TOPOLOGY_MANAGER_POLICIES)
        yield invalid(
            "NF111",
            "topologyManagerPolicy",
            f"topologyManagerPolicy (--topology-manager-policy) {quoted(policy)} must be one of: [{choices}]",
            f"use one of {', '.join(TOPOLOGY_MANAGER_POLICIES)}",
        )


def topology_scope(config: CompleteConfig) -> Refusals:
    scope = config.text("topologyManagerScope")
    if scope not in TOPOLOGY_MANAGER_SCOPES:
        yield invalid(
            "NF111",
            "topologyManagerScope",
            f"topologyManagerScope (--topology-manager-scope) {quoted(scope)} must be one of: "
            '"container", or "pod"',
            "use container or pod",
        )


def host(config: CompleteConfig) -> Refusals:
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
        yield invalid(
            "NF117",
            "singleProcessOOMKill",
            "singleProcessOOMKill must not be explicitly set to false when using cgroup v1",
            "remove singleProcessOOMKill, or boot the host with cgroup v2",
        )
        return
    yield from _user_namespaces(config)


def _user_namespaces(config: CompleteConfig) -> Refusals:
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
        yield invalid("NF110", path, f"{path} {complaint}", f"use a multiple of {_USER_NAMESPACE_LENGTH}")
