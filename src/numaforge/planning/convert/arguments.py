"""Files of distributions and clouds that hand settings or flags to a kubelet.

Source: docs.k3s.io/cli/agent, docs.rke2.io/reference/linux_agent_config, www.talos.dev (v1alpha1
configuration), cluster-api bootstrap/kubeadm/api, karpenter.sh/docs/concepts/nodeclasses,
learn.microsoft.com/azure/aks/custom-node-configuration.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numaforge.kubelet.config.documents import KubeadmError, extra_arguments, k3s_arguments
from numaforge.kubelet_minors.fields import API_VERSION
from numaforge.lib.given import mapping, mappings
from numaforge.planning.convert.draft import Draft
from numaforge.planning.convert.kernel_parameters import add_parameters
from numaforge.planning.convert.kubelet_configuration import place, place_flags
from numaforge.planning.convert.rows import Fate, FieldRow, Form, table, tables, value_at

_Document = Mapping[str, Any]
_Convert = Callable[[Draft, _Document], None]


# ---- OpenShift's MachineConfig ----

MACHINE_CONFIG_ROWS = table("machineconfig")


def convert_machine_config(draft: Draft, document: Mapping[str, Any]) -> None:
    """Convert the kernel parameters of a MachineConfig."""
    draft.take(document, MACHINE_CONFIG_ROWS)
    if not draft.mistakes:
        add_parameters(draft, value_at(document, "spec.kernelArguments") or [], "spec.kernelArguments")


# ---- k3s and RKE2: /etc/rancher/k3s/config.yaml ----

_K3S_ARGS = ("kubelet-arg", "kubelet-arg+")
_K3S_KEYS = (
    "write-kubeconfig-mode node-label node-taint cluster-init flannel-backend tls-san kube-apiserver-arg"
)
K3S_ROWS = table("k3s")


def is_k3s(document: Mapping[str, Any]) -> bool:
    """Whether a mapping is a config.yaml of k3s or RKE2."""
    return "kind" not in document and bool(document.keys() & {*_K3S_ARGS, *_K3S_KEYS.split()})


def convert_k3s(draft: Draft, document: Mapping[str, Any]) -> None:
    """Convert the kubelet's arguments in a config.yaml of k3s or RKE2."""
    draft.take(document, K3S_ROWS)
    field = next((name for name in _K3S_ARGS if name in document), _K3S_ARGS[0])
    place_flags(draft, k3s_arguments(document), field, {})


# ---- Talos ----

_TALOS_PARTS = {"SysctlConfig": "sysctls", "SysfsConfig": "sysfs", "KubeletConfig": "kubelet"}
TALOS_ROWS = table("talos")


def is_talos(document: Mapping[str, Any]) -> bool:
    """Whether a mapping is a machine configuration of Talos, or a patch of one."""
    return "kind" not in document and isinstance(document.get("machine"), Mapping)


def _with_talos(documents: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return documents, those that Talos reads beside a machine configuration put into it."""
    parts = [one for one in documents if one.get("apiVersion") == "v1alpha1" and one.get("kind")]
    holders = [one for one in documents if is_talos(one)]
    if not parts or len(holders) > 1:
        return [*documents]
    machine = dict(mapping(holders[0]["machine"])) if holders else {}
    modules = mappings(mapping(machine.get("kernel")).get("modules"))
    for part in parts:
        if key := _TALOS_PARTS.get(str(part["kind"])):
            settings = part.get(
                "params", {"extraConfig": part.get("config"), "extraArgs": part.get("extraArgs")}
            )
            machine[key] = {**mapping(machine.get(key)), **mapping(settings)}
        elif part["kind"] == "KernelModuleConfig":
            modules.append({name: part[name] for name in ("name", "parameters") if name in part})
    whole = {**(holders[0] if holders else {}), "machine": {**machine, "kernel": {"modules": modules}}}
    return [whole, *(one for one in documents if one not in parts and one not in holders)]


def convert_talos(draft: Draft, document: Mapping[str, Any]) -> None:
    """Convert a machine configuration of Talos."""
    draft.take(document, TALOS_ROWS)
    if draft.mistakes:
        return
    config, field = mapping(value_at(document, "machine.kubelet.extraConfig")), "machine.kubelet.extraArgs"
    place_flags(draft, value_at(document, field), field, config, "machine.kubelet.extraConfig")
    modules = [str(one.get("name")) for one in mappings(value_at(document, "machine.kernel.modules"))]
    draft.add("modules.load", modules, "machine.kernel.modules")
    field = "machine.install.extraKernelArgs"
    words = value_at(document, field) or []
    if removed := [word for word in words if word.startswith("-")]:
        draft.left_out(field, f"{', '.join(removed)}: Talos takes its own parameter away")
    add_parameters(draft, [word for word in words if not word.startswith("-")], field)


# ---- kubeadm ----

_KUBEADM_KINDS = ("JoinConfiguration", "InitConfiguration")
_KUBELET = "KubeletConfiguration"
KUBEADM_ROWS = table("kubeadm")


def joined(documents: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return documents, Talos' as one, and those that kubeadm hands to a kubelet as one by their kinds.

    An answer of the kubelet's /configz is a KubeletConfiguration.
    """
    head = {"apiVersion": API_VERSION, "kind": _KUBELET}
    documents = [
        {**head, **mapping(one.get("kubeletconfig"))} if "kubeletconfig" in one else one for one in documents
    ]
    documents = _with_talos(documents)
    kinds = (*_KUBEADM_KINDS, _KUBELET)
    of_kubeadm = {str(one["kind"]): one for one in documents if one.get("kind") in kinds}
    if not of_kubeadm.keys() & set(_KUBEADM_KINDS):
        return [*documents]
    return [of_kubeadm, *(one for one in documents if one.get("kind") not in kinds)]


def is_kubeadm(document: Mapping[str, Any]) -> bool:
    """Whether a mapping has kubeadm's documents by their kinds."""
    return "kind" not in document and bool(document.keys() & set(_KUBEADM_KINDS))


def convert_kubeadm(draft: Draft, document: Mapping[str, Any]) -> None:
    """Convert the kubelet's flags of a node that joins, else of the first node, and its configuration."""
    draft.take(document, KUBEADM_ROWS)
    if draft.mistakes:
        return
    fields = [f"{kind}.nodeRegistration.kubeletExtraArgs" for kind in _KUBEADM_KINDS]
    field, *others = [field for field in fields if value_at(document, field)] or fields[:1]
    for other in others:
        draft.left_out(other, f"it is of the first control plane node; taken is {field}")
    try:
        arguments = extra_arguments(document.get(field.partition(".")[0]))
    except KubeadmError as error:
        draft.refuse(field, str(error))
    else:
        flags = [f"{name}={value}" for name, value in arguments]
        place_flags(draft, flags, field, mapping(document.get(_KUBELET)), _KUBELET)


# ---- Cluster API's kubeadm bootstrap provider ----

_KUBEADM_AT = ("spec", "spec.template.spec", "spec.kubeadmConfigSpec", "spec.template.spec.kubeadmConfigSpec")
_REGISTRATIONS = ("joinConfiguration.nodeRegistration", "initConfiguration.nodeRegistration")
CAPI_ROWS = table("capi")
_CAPI_KINDS = ("KubeadmConfigTemplate", "KubeadmConfig", "KubeadmControlPlane", "KubeadmControlPlaneTemplate")


def is_capi(document: Mapping[str, Any]) -> bool:
    """Whether a document is one of Cluster API's with a configuration of kubeadm."""
    return document.get("kind") in _CAPI_KINDS


def convert_capi(draft: Draft, document: Mapping[str, Any]) -> None:
    """Convert the kubelet's arguments of nodes that join."""
    draft.take(document, CAPI_ROWS)
    fields = [f"{spec}.{node}.kubeletExtraArgs" for spec in _KUBEADM_AT for node in _REGISTRATIONS]
    field = next((field for field in fields if value_at(document, field)), fields[0])
    place_flags(draft, value_at(document, field), field, {})


# ---- Karpenter ----

_KARPENTER_AT = ("spec.kubelet", "spec.template.spec.kubelet")
KARPENTER_ROWS = table("karpenter")


def is_karpenter(document: Mapping[str, Any]) -> bool:
    """Whether a document is a class of nodes of Karpenter, or a pool with a kubelet."""
    version = str(document.get("apiVersion"))
    kubelets = [field for field in _KARPENTER_AT if value_at(document, field)]
    has_kubelet = document.get("kind") != "NodePool" or bool(kubelets)
    return "karpenter" in version.partition("/")[0] and "spec" in document and has_kubelet


def convert_karpenter(draft: Draft, document: Mapping[str, Any]) -> None:
    """Convert the kubelet of a class of nodes."""
    draft.take(document, KARPENTER_ROWS)
    field = next((field for field in _KARPENTER_AT if value_at(document, field)), _KARPENTER_AT[0])
    place(draft, mapping(value_at(document, field)), lambda name: f"{field}.{name}")


# ---- AKS: --kubelet-config and --linux-os-config ----

_AKS_SYSCTLS = {"netIpv4TcpkeepaliveIntvl": "net.ipv4.tcp_keepalive_intvl"} | {
    re.sub("[._-](.)", lambda match: match[1].upper(), name): name for name in tables()["aks-sysctls"].split()
}
AKS_ROWS = (
    *table("aks"),
    *(FieldRow(f"sysctls.{name}", Fate.BECOMES, "tuning.sysctls", form=Form.WORD) for name in _AKS_SYSCTLS),
)
_AKS_FIELDS = {row.path()[0] for row in AKS_ROWS}


def is_aks(document: Mapping[str, Any]) -> bool:
    """Whether a mapping is a file of AKS for `--kubelet-config` or `--linux-os-config`."""
    names = {str(name) for name in document}
    return bool(names) and names <= _AKS_FIELDS and names != {"sysctls"}


def convert_aks(draft: Draft, document: Mapping[str, Any]) -> None:
    """Convert a kubelet's or an operating system's configuration of AKS."""
    draft.take(document, AKS_ROWS)
    if draft.mistakes:
        return
    sysctls = {
        _AKS_SYSCTLS[name]: int(value) if isinstance(value, bool) else value
        for name, value in mapping(document.get("sysctls")).items()
    }
    draft.put("tuning.sysctls", sysctls or None, "sysctls")
    place(draft, document, str)


# ---- /etc/sysctl.d and /etc/default/grub ----

_SWAPPED = str.maketrans("./", "/.")
_GRUB_LINES = ("GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT")
GRUB_ROWS = table("grub")


def is_grub(document: Mapping[str, Any]) -> bool:
    """Whether a mapping has the variables of /etc/default/grub."""
    return bool(document) and any(str(name).startswith("GRUB_") for name in document)


def is_sysctls(document: Mapping[str, Any]) -> bool:
    """Whether a mapping has names of sysctls alone."""
    return bool(document) and all(
        ("." in str(name) or "/" in str(name)) and not isinstance(value, Mapping | list)
        for name, value in document.items()
    )


def convert_sysctls(draft: Draft, document: Mapping[str, Any]) -> None:
    """Convert a file of /etc/sysctl.d; a dash before a name, which ignores errors, is left out.

    Slashes and dots change places where a slash comes first (sysctl.d(5)): `net/ipv4/conf/eth0.1/forwarding`.
    """
    names = [str(name).lstrip("-") for name in document]
    dotted = [name.translate(_SWAPPED) if "/" in name.partition(".")[0] else name for name in names]
    values = dict(zip(dotted, document.values(), strict=True))
    draft.put("tuning.sysctls", values, "sysctls")


def convert_grub(draft: Draft, document: Mapping[str, Any]) -> None:
    """Convert the kernel parameters in /etc/default/grub."""
    draft.take(document, GRUB_ROWS)
    for name in _GRUB_LINES:
        words = str(document.get(name) or "").split()
        if elsewhere := [word for word in words if word.startswith("$")]:
            text = f"{' '.join(elsewhere)} is set in other files: convert them, too"
            draft.left_out(name, text, "kernel.cmdline")
        if not draft.mistakes:
            add_parameters(draft, [word for word in words if word not in elsewhere], name)


FORMS: tuple[tuple[str, str, Callable[[_Document], bool], tuple[FieldRow, ...], _Convert], ...] = (
    ("k3s", "a config.yaml of k3s or RKE2", is_k3s, K3S_ROWS, convert_k3s),
    ("talos", "a machine configuration of Talos", is_talos, TALOS_ROWS, convert_talos),
    ("kubeadm", "a configuration of kubeadm", is_kubeadm, KUBEADM_ROWS, convert_kubeadm),
    ("cluster-api", "a KubeadmConfig of Cluster API", is_capi, CAPI_ROWS, convert_capi),
    ("karpenter", "a class of nodes of Karpenter", is_karpenter, KARPENTER_ROWS, convert_karpenter),
    ("aks", "a node configuration of AKS", is_aks, AKS_ROWS, convert_aks),
    ("sysctl", "a file of sysctl.d", is_sysctls, table("sysctl"), convert_sysctls),
    ("grub", "defaults of GRUB", is_grub, GRUB_ROWS, convert_grub),
)
"""The forms of these files: name, what they are, how one is recognised, rows, conversion."""
