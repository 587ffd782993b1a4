"""Node configuration of EKS: nodeadm's NodeConfig, eksctl's node groups, Bottlerocket's settings.

Source: awslabs/amazon-eks-ami nodeadm/api/v1alpha1, eksctl.io/usage/schema,
bottlerocket-os/bottlerocket-settings-sdk settings-extensions/{kubernetes,kernel}.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Any

from numaforge.kubelet.admission.nvidia_resources import GPU
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.given import digits, mapping
from numaforge.lib.mistakes import shown
from numaforge.planning.convert.draft import Draft
from numaforge.planning.convert.kernel_parameters import add_parameters
from numaforge.planning.convert.kubelet_configuration import place, place_flags
from numaforge.planning.convert.rows import read, table, value_at
from numaforge.planning.os_settings.bottlerocket import SETTINGS
from numaforge.roles.mig.models import model_named

_SHARING = {"time-slicing": "time_slicing", "mps": "mps"}

NODE_CONFIG_ROWS = table("nodeconfig")
BOTTLEROCKET_ROWS = table("bottlerocket")
_GROUPS = ("managedNodeGroups", "nodeGroups")
_GROUP_ROWS = table("eksctl-group")
EKSCTL_ROWS = table("eksctl")


def convert_node_config(draft: Draft, document: Mapping[str, Any]) -> None:
    """Convert nodeadm's NodeConfig."""
    draft.take(document, NODE_CONFIG_ROWS)
    kubelet = mapping(value_at(document, "spec.kubelet"))
    flags = kubelet.get("flags")  # nodeadm joins the entries of a list in one line
    line = " ".join(map(str, flags)) if isinstance(flags, list) else flags
    field = "spec.kubelet.config"
    place_flags(draft, line, "spec.kubelet.flags", mapping(kubelet.get("config")), field)


def convert_eksctl(draft: Draft, document: Mapping[str, Any], name: str | None) -> None:
    """Convert one node group of eksctl's ClusterConfig."""
    if mistakes := read(document, EKSCTL_ROWS).mistakes:
        draft.mistakes += mistakes
        return
    groups = {
        str(mapping(group).get("name")): (f"{kind}[{index}]", mapping(group))
        for kind in _GROUPS
        for index, group in enumerate(document.get(kind) or ())
    }
    if name is None and len(groups) != 1:
        text = f"{len(groups)} node groups: give --name, one of {', '.join(groups)}"
        draft.refuse("managedNodeGroups", text if groups else "has no node group, of which a profile is made")
        return
    chosen = name if name is not None else next(iter(groups))
    if chosen not in groups:
        draft.refuse("managedNodeGroups", f"no node group {chosen!r}; there is {', '.join(groups)}")
        return
    field, group = groups[chosen]
    draft.take(group, _GROUP_ROWS, prefix=f"{field}.")
    if draft.mistakes:
        return
    if "bottlerocket" in group:
        settings = mapping(value_at(group, "bottlerocket.settings"))
        _place_settings(draft, settings, f"{field}.bottlerocket.settings")
    else:
        config = mapping(group.get("kubeletExtraConfig"))
        place(draft, config, lambda known: f"{field}.kubeletExtraConfig.{known}")


def convert_bottlerocket(draft: Draft, document: Mapping[str, Any]) -> None:
    """Convert Bottlerocket's user data."""
    draft.take(document, BOTTLEROCKET_ROWS)
    if not draft.mistakes:
        _place_settings(draft, mapping(document.get("settings")), "settings")


def _place_settings(draft: Draft, settings: Mapping[str, Any], field: str) -> None:
    kubernetes, kernel = mapping(settings.get("kubernetes")), mapping(settings.get("kernel"))
    names = {
        **SETTINGS,
        "cpuManagerPolicyOptions": "cpu-manager-policy-options",
        "reservedMemory": "memory-manager-reserved-memory",
    }
    config: dict[str, Any] = {field: kubernetes[name] for field, name in names.items() if name in kubernetes}
    if options := kubernetes.get("cpu-manager-policy-options"):
        config["cpuManagerPolicyOptions"] = dict.fromkeys(options, "true")
    if parts := kubernetes.get("memory-manager-reserved-memory"):
        config["reservedMemory"] = [
            {"numaNode": node, "limits": {kind: size for kind, size in part.items() if kind != "enabled"}}
            for node, part in mapping(parts).items()
            if isinstance(part, dict) and part.get("enabled", True)
        ]

    def field_of(setting: str) -> str:
        head, dot, rest = setting.partition(".")
        return f"{field}.kubernetes.{names.get(head, head)}{dot}{rest}"

    place(draft, config, field_of)
    plugins = mapping(settings.get("kubelet-device-plugins"))
    _place_devices(draft, mapping(plugins.get("nvidia")), f"{field}.kubelet-device-plugins.nvidia")
    modules = mapping(kernel.get("modules"))
    loaded = [name for name, one in modules.items() if one.get("autoload")]
    draft.add("modules.load", loaded, f"{field}.kernel.modules")
    blocked = [name for name, one in modules.items() if one.get("allowed") is False]
    draft.add("modules.blocked", blocked, f"{field}.kernel.modules")
    pages = mapping(value_at(kernel, "hugepages.static"))
    _place_hugepages(draft, pages, f"{field}.kernel.hugepages.static")
    parameters = mapping(value_at(settings, "boot.kernel-parameters"))
    _place_parameters(draft, parameters, f"{field}.boot.kernel-parameters")


def _place_parameters(draft: Draft, parameters: Mapping[str, Any], field: str) -> None:
    """Put kernel parameters into a profile; Bottlerocket keeps no order between names (bottlerocket#3647)."""
    words: dict[str, list[str]] = {}
    for name, values in parameters.items():
        if isinstance(values, list):
            words[name] = [f"{name}={value}" if value else name for value in (values or [""])]
        else:
            text = f'{shown(values)} is not a list; Bottlerocket has one of texts, ["1"]'
            draft.left_out(f"{field}.{name}", text, "kernel.cmdline")
    sizes, counts = words.pop("hugepagesz", []), words.pop("hugepages", [])
    if sizes and len(sizes) != len(counts):
        text = f"{', '.join([*sizes, *counts])}: left out, as no count belongs to a size; set the pools"
        draft.left_out(field, text, "hugepages")
        sizes, counts = [], []
    pages = [word for pair in zip(sizes, counts, strict=True) for word in pair] if sizes else counts
    add_parameters(draft, [*chain.from_iterable(words.values()), *pages], field)


def _place_devices(draft: Draft, nvidia: Mapping[str, Any], field: str) -> None:
    """Put how NVIDIA's device plugin shares and cuts GPUs into a profile."""
    strategy = nvidia.get("device-sharing-strategy")
    shared = mapping(nvidia.get(strategy)) if strategy in _SHARING else {}
    if strategy in _SHARING:
        at = f"{field}.{strategy}"
        draft.put(f"device_plugin.{_SHARING[strategy]}", {GPU: shared.get("replicas", 2)}, at)
        draft.put("device_plugin.rename_shared", shared.get("rename-by-default"), at)
        draft.put("device_plugin.one_per_pod", shared.get("fail-requests-greater-than-one"), at)
    for strategy_key in _SHARING:
        if strategy_key in nvidia and strategy_key != strategy:
            text = f"counts only with device-sharing-strategy {strategy_key}"
            draft.left_out(f"{field}.{strategy_key}", text, "device_plugin")
    profiles = mapping(value_at(nvidia, "mig.profile"))
    if nvidia.get("device-partitioning-strategy") != "mig":
        if profiles:
            text = "counts only with device-partitioning-strategy mig"
            draft.left_out(f"{field}.mig.profile", text, "mig")
        return
    for model, name in profiles.items():
        key = str(model).replace(".", "-")
        try:
            gpus = {"model": key, "devices": {_profile(key, str(name)): "all"}}
        except NumaforgeError as error:
            draft.refuse(f"{field}.mig.profile.{model}", f"{error.message}; {error.remedy}")
        else:
            draft.add("mig.gpus", [gpus], f"{field}.mig.profile")


def _profile(model: str, text: str) -> str:
    """Return a MIG profile, named or as the largest of which a GPU has this number of instances."""
    number = digits(text)
    if number is None:
        return text
    profiles = [one for one in model_named(model).profiles if not one.attributes]
    suitable = [one for one in profiles if one.limit == number]
    if not suitable:
        counts = ", ".join(map(str, sorted({one.limit for one in profiles})))
        raise NumaforgeError(
            f"no profile cuts a GPU into {number} partitions", remedy=f"write one of {counts}"
        )
    return max(suitable, key=lambda one: one.slices).name


def _place_hugepages(draft: Draft, pages: Mapping[str, Any], field: str) -> None:
    for size, entry in pages.items():
        count = str(mapping(entry).get("count", ""))
        number = digits(count)
        if size == "essential":
            continue
        if number is not None:
            draft.add("hugepages", [{"size": size, "count": number}], field)
        else:
            text = f"{count!r} is not a number of pages; set a share"
            draft.left_out(f"{field}.{size}", text, "hugepages")
