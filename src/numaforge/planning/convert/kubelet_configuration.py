"""A KubeletConfiguration, alone or in an OpenShift KubeletConfig.

Source: k8s.io/kubelet config/v1beta1/types.go; openshift/api machineconfiguration/v1.
"""

import shlex
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import ceil
from typing import Any

from numaforge.kubelet_minors.flags import FlagError, FlagValueError, parse_flags
from numaforge.kubelet_minors.options import FULL_PCPUS_ONLY, STRICT_CPU_RESERVATION
from numaforge.kubelet_minors.versions import LATEST_MINOR, KubeletVersion
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.given import mapping, mappings
from numaforge.lib.mistakes import yaml_scalar
from numaforge.lib.quantity import counted, format_bytes, parse_quantity
from numaforge.planning.convert.draft import Draft
from numaforge.planning.convert.rows import Fate, table, value_at

Name = Callable[[str], str]

# Fields with the same meaning in a profile.
_PLACED = {
    "cpuManagerPolicy": "kubelet.cpu_manager_policy",
    "cpuManagerPolicyOptions": "kubelet.cpu_manager_options",
    "topologyManagerPolicy": "kubelet.topology_manager_policy",
    "topologyManagerPolicyOptions": "kubelet.topology_manager_options",
    "topologyManagerScope": "kubelet.topology_manager_scope",
    "memoryManagerPolicy": "kubelet.memory_manager_policy",
    "reservedSystemCPUs": "cpus.reserved.cpulist",
}
_PLACED_BY_FLAGS = (*_PLACED, "kubeReserved", "systemReserved", "evictionHard", "reservedMemory")
# Noted where missing: the kubelet's default is not a deliberate choice.
_CHOSEN_BY_MACHINE = (
    "cpuManagerPolicy",
    "topologyManagerPolicy",
    "memoryManagerPolicy",
    "kubeReserved.memory",
    "systemReserved.memory",
)

# Options that the kubelet has off, and a plan on where they are not set.
_ON_BY_DEFAULT = {
    FULL_PCPUS_ONLY: "pods with part of a core are refused; write false for off",
    STRICT_CPU_RESERVATION: "no pod runs on reserved CPUs; write false for off",
}
_MEMORY_AVAILABLE = "memory.available"
_DEFAULT_THRESHOLD = "100Mi"  # pkg/kubelet/eviction/defaults_linux.go


HEAD_ROWS, METADATA_ROWS, KUBELET_ROWS = table("head"), table("metadata"), table("kubelet")
ROWS, OPENSHIFT_ROWS = table("kubeletconfiguration"), table("kubeletconfig")


def convert(draft: Draft, document: Mapping[str, Any]) -> None:
    """Convert a KubeletConfiguration, or an OpenShift KubeletConfig that holds one."""
    if document.get("kind") == "KubeletConfig":
        draft.take(document, OPENSHIFT_ROWS)
        config = mapping(value_at(document, "spec.kubeletConfig"))
        place(draft, config, lambda field: f"spec.kubeletConfig.{field}")
        return
    draft.take(document, ROWS)
    place(draft, document, lambda field: field)


def place_flags(
    draft: Draft, flags: object, field: str, config: Mapping[str, Any], config_field: str = ""
) -> None:
    """Put what flags and a configuration say into a profile; the flags win.

    `flags` are a text, a list of texts or of {name, value}, or a mapping.
    """
    settings = settings_of_flags(draft, flags, field)
    place(
        draft,
        {**config, **settings},
        lambda name: field if name.partition(".")[0] in settings else f"{config_field}.{name}",
    )


def settings_of_flags(draft: Draft, flags: object, field: str) -> dict[str, Any]:
    """Return the settings of managers and reservations in kubelet flags, by the configuration's fields.

    Notes the other flags, but for those that a template or a variable fills in.
    """
    settings: dict[str, Any] = {}
    unknown, others = [], []
    for argument in _arguments(flags):
        if "{{" in " ".join(argument) or argument[0].startswith("$"):
            continue
        try:
            of_flag = parse_flags(argument, KubeletVersion(LATEST_MINOR)).settings
        except FlagValueError as error:
            draft.refuse(field, str(error))
            continue
        except FlagError:  # of a newer or a removed kubelet
            unknown.append(argument[0].partition("=")[0])
            continue
        if not of_flag.keys() & {*_PLACED_BY_FLAGS}:
            others.append(argument[0].partition("=")[0])
        for name, value in of_flag.items():
            both = isinstance(value, dict) and isinstance(settings.get(name), dict)
            settings[name] = {**settings[name], **value} if both else value
    placed = {name: value for name, value in settings.items() if name in _PLACED_BY_FLAGS}
    also = "; convert the file of --config, too" if "--config" in others else ""
    for fate, names, text in (
        (Fate.DIFFERS, [*placed], "taken from flags: {}; take these out, flags win over a profile's files"),
        (Fate.NOT_EXPRESSED, unknown, f"kubelet 1.{LATEST_MINOR} has no {{}}, and does not start with it"),
        (Fate.NOT_OURS, others, f"a profile leaves {{}} alone: keep it where it is{also}"),
    ):
        if names:
            draft.note(field, fate, text.format(", ".join(dict.fromkeys(names))))
    return placed


def _arguments(flags: object) -> list[list[str]]:
    """Return flags, each with its value where that is a word of its own."""
    if isinstance(flags, str):
        words = shlex.split(flags)
    else:
        pairs = [*flags.items()] if isinstance(flags, Mapping) else []
        entries = flags if isinstance(flags, list) else []
        pairs += [(one.get("name"), one.get("value")) for one in mappings(entries)]
        values = [
            (name, one) for name, value in pairs for one in (value if isinstance(value, list) else [value])
        ]
        words = [f"--{name}={yaml_scalar(value)}" for name, value in values]
        words += [word if word.startswith("-") else f"--{word}" for word in entries if isinstance(word, str)]
    arguments: list[list[str]] = []
    for word in words:
        if word.startswith("-") or not arguments:
            arguments.append([word])
        else:
            arguments[-1].append(word)
    return arguments


def place(draft: Draft, config: Mapping[str, Any], name: Name) -> None:
    """Put the CPU and memory settings of a kubelet's configuration into a profile.

    `name` returns a field's name in the file at hand.
    """
    if draft.mistakes:
        return  # the rest relies on well-formed fields
    for field, key in _PLACED.items():
        if config.get(field) not in (None, "", {}):
            draft.put(key, config[field], name(field))
    for field, key in (
        ("kubeReserved", "memory.kube_reserved"),
        ("systemReserved", "memory.system_reserved"),
    ):
        draft.put(key, mapping(config.get(field)).get("memory"), name(f"{field}.memory"))
    _place_thresholds(draft, config, name)
    _say_cpus(draft, config, name)
    _check_split(draft, config, name)
    missing = [field for field in _CHOSEN_BY_MACHINE if not value_at(config, field)]
    if missing:
        text = "unset: a profile without it lets the kubelet's own file and then the machine's shape decide"
        draft.differs(", ".join(missing), text)
    for option, meaning in _ON_BY_DEFAULT.items():
        field = f"cpuManagerPolicyOptions.{option}"
        if config.get("cpuManagerPolicy") == "static" and value_at(config, field) is None:
            text = f"unset: off in the kubelet; a profile without it has it on where it fits: {meaning}"
            draft.differs(name(field), text, "kubelet.cpu_manager_options")


def _place_thresholds(draft: Draft, config: Mapping[str, Any], name: Name) -> None:
    thresholds = dict(mapping(config.get("evictionHard")))
    if thresholds.pop("allocatableMemory.available", None) is not None:
        draft.left_out(
            f"{name('evictionHard')}.allocatableMemory.available",
            "a profile has the node's own signals alone",
        )
    draft.put("memory.eviction_hard", thresholds or None, name("evictionHard"))
    if thresholds and config.get("mergeDefaultEvictionSettings") is not True:
        draft.differs(
            name("evictionHard"),
            "signals that it does not name have no threshold in the kubelet, which drops its defaults; with "
            "a profile they keep them. Set 0% for none",
            "memory.eviction_hard",
        )


def _say_cpus(draft: Draft, config: Mapping[str, Any], name: Name) -> None:
    reserved = {
        name(f"{field}.cpu"): mapping(config.get(field)).get("cpu")
        for field in ("kubeReserved", "systemReserved")
    }
    amounts = {field: _amount(draft, field, value) for field, value in reserved.items() if value is not None}
    if not amounts or draft.mistakes:
        return
    fields = " + ".join(amounts)
    if config.get("reservedSystemCPUs"):
        draft.note(fields, Fate.SAME, "the kubelet ignores it beside reservedSystemCPUs")
        return
    if (count := ceil(sum(amounts.values()))) < 1:
        return
    draft.left_out(
        fields,
        f"the kubelet reserves {counted(count, 'CPU')} for it, threads of cores; a profile reserves whole "
        f"cores: set cpus.reserved.cores: {-(-count // 2)} where a core has two threads, {count} where it "
        "has one, or cores_per_numa_node",
        "cpus.reserved",
    )


def _check_split(draft: Draft, config: Mapping[str, Any], name: Name) -> None:
    """Place how the parts are split; those that the kubelet refuses (validateReservedMemory) are left out."""
    parts = config.get("reservedMemory")
    if not parts:
        return
    field = name("reservedMemory")
    limits = [mapping(mapping(part).get("limits")) for part in parts] if isinstance(parts, list) else []
    if not all(limits) or not limits:
        draft.refuse(field, "not a list of {numaNode: 0, limits: {memory: 1Gi}}")
        return
    if kinds_left_out := sorted({str(kind) for limit in limits for kind in limit if kind != "memory"}):
        text = f"{', '.join(kinds_left_out)} is left out: with pages in it no kubelet starts"
        draft.left_out(field, text, "hugepages")
    memory = [ceil(_amount(draft, field, limit["memory"])) for limit in limits if "memory" in limit]
    threshold = str(mapping(config.get("evictionHard")).get(_MEMORY_AVAILABLE, _DEFAULT_THRESHOLD))
    amounts = {
        name("kubeReserved.memory"): mapping(config.get("kubeReserved")).get("memory", 0),
        name("systemReserved.memory"): mapping(config.get("systemReserved")).get("memory", 0),
        "the hard threshold": threshold,
    }
    checked = config.get("memoryManagerPolicy") == "Static"  # without it the kubelet ignores them
    # A platform fills in reservations that its file does not name; the kubelet's own file is whole.
    is_whole = name("kubeReserved") == "kubeReserved" or mapping(config.get("kubeReserved")).get("memory")
    if checked and is_whole and memory and not threshold.endswith("%"):
        total = sum(ceil(_amount(draft, path, value)) for path, value in amounts.items())
        if not draft.mistakes and sum(memory) != total:
            draft.differs(
                field,
                f"adds up to {format_bytes(sum(memory))}, and {' + '.join(amounts)} to "
                f"{format_bytes(total)}: the kubelet does not start with it; it is left out, and the profile "
                "computes the sum",
            )
            return
    if len(memory) > 1 and len(set(memory)) == 1:
        draft.put("memory.split", "even", field)


def _amount(draft: Draft, field: str, value: Any) -> Fraction:
    try:
        return parse_quantity(value)
    except NumaforgeError as error:
        draft.refuse(field, error.message)
        return Fraction(0)
