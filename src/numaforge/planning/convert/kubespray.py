"""Variables of kubespray that become the kubelet's configuration.

Source: kubernetes-sigs/kubespray, roles/kubernetes/node (defaults, templates/kubelet-config.v1beta1.yaml.j2).
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from numaforge.lib.given import mapping
from numaforge.planning.convert.draft import Draft
from numaforge.planning.convert.kubelet_configuration import place, settings_of_flags
from numaforge.planning.convert.rows import Fate, Form, table

# The variables, by the kubelet's field that they set.
_FIELDS = {
    "cpuManagerPolicy": "kubelet_cpu_manager_policy",
    "cpuManagerPolicyOptions": "kubelet_cpu_manager_policy_options",
    "topologyManagerPolicy": "kubelet_topology_manager_policy",
    "topologyManagerScope": "kubelet_topology_manager_scope",
    "evictionHard": "eviction_hard",
}
# kubespray's own defaults, where the switch is on, or one of the amounts is set.
_RESERVED = {
    "kubeReserved": ("kube_reserved", "kube_cpu_reserved", "100m", "kube_memory_reserved", "256Mi"),
    "systemReserved": ("system_reserved", "system_cpu_reserved", "500m", "system_memory_reserved", "512Mi"),
}
# Ansible's filter `bool`, with which kubespray reads its switches.
_WORDS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
_UNREAD = {
    "{{": "a template: write its value in the profile",
    "$ANSIBLE_VAULT": "encrypted: set the profile's key in the inventory's own encrypted variables",
}
_EXTRA = ("kubelet_config_extra_args", "kubelet_node_config_extra_args")
_FLAGS = ("kubelet_custom_flags", "kubelet_node_custom_flags")

ROWS = table("kubespray")
(OTHERS_ROW,) = table("kubespray-others")
_LEFT_ALONE = {row.field for row in ROWS if row.fate is Fate.NOT_OURS}
_OURS = ("kubelet_", "kube_reserved", "system_reserved", "eviction_")


def is_variables(document: Mapping[str, Any]) -> bool:
    """Whether a mapping holds variables of kubespray, about nodes or not; our files have a schema."""
    variables = {row.path()[0] for row in ROWS}
    names = {str(name) for name in document}
    return names.isdisjoint(("kind", "schema")) and any(
        name in variables or name.startswith(("kube_", "kubelet_")) for name in names
    )


def convert(draft: Draft, document: Mapping[str, Any]) -> None:
    """Convert group variables: strictly those of the kubelet's resources; all others are the cluster's."""
    variables = {row.path()[0] for row in ROWS}
    unknown = [str(name) for name in document if name not in variables]
    for name in unknown:
        is_kubelet_variable = name.startswith(_OURS)
        nearest = get_close_matches(name, variables, n=1, cutoff=0.6 if is_kubelet_variable else 0.95)
        if is_kubelet_variable or nearest:
            draft.refuse(name, "unknown variable" + (f"; did you mean {nearest[0]}?" if nearest else ""))
    values = {name: value for name, value in document.items() if name in variables}
    for name in [name for name, value in values.items() if isinstance(value, str)]:
        unread = next((why for mark, why in _UNREAD.items() if mark in str(values[name])), None)
        if unread and name not in _LEFT_ALONE:
            draft.left_out(name, unread)
        if unread:
            values[name] = None  # neither its value nor a default is known
    for row in ROWS:
        if row.form is Form.SWITCH and isinstance(word := values.get(row.field), str):
            values[row.field] = _WORDS.get(word.strip().lower(), word)
    draft.take(values, ROWS)
    if draft.mistakes:
        return
    if unknown:
        draft.note(
            ", ".join(unknown) if len(unknown) < 4 else f"{len(unknown)} other variables",
            Fate.NOT_OURS,
            OTHERS_ROW.why,
        )
    entries = [mapping(entry) for entry in values.get("additional_sysctl") or ()]
    sysctls = {str(entry["name"]): entry.get("value") for entry in entries if "name" in entry}
    draft.put("tuning.sysctls", sysctls or None, "additional_sysctl")
    _place_kubelet(draft, values)


def _place_kubelet(draft: Draft, values: Mapping[str, Any]) -> None:
    config: dict[str, Any] = {field: values[name] for field, name in _FIELDS.items() if name in values}
    names = dict(_FIELDS)
    for field, (switch, cpu, cpu_default, memory, memory_default) in _RESERVED.items():
        if values.get(switch) or any(values.get(name) is not None for name in (cpu, memory)):
            parts = {"cpu": values.get(cpu, cpu_default), "memory": values.get(memory, memory_default)}
            config[field] = {part: value for part, value in parts.items() if value is not None}
            names |= {f"{field}.cpu": cpu, f"{field}.memory": memory}
            if not values.get(switch):
                text = f"kubespray before 2.27 reserves it only where {switch} is true; later ones always do"
                draft.differs(", ".join(sorted(values.keys() & {cpu, memory})), text)
    # Later lines of the kubelet's file win, as kubespray writes them, and flags over them.
    layers = {extra: mapping(values.get(extra)) for extra in _EXTRA}
    for flags in _FLAGS:
        given = values.get(flags)  # kubespray writes the entries of a list into one line
        line = " ".join(map(str, given)) if isinstance(given, list) else given
        layers[flags] = settings_of_flags(draft, line, flags)
    for origin, settings in layers.items():
        config |= settings
        paths = [path for field in settings for path in (field, f"{field}.cpu", f"{field}.memory")]
        names |= {path: origin if origin in _FLAGS else f"{origin}.{path}" for path in paths}
    place(draft, config, lambda field: names.get(field, field))
