"""The kinds of files that are converted, how each is recognised, and its table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from numaforge.lib.errors import NumaforgeError
from numaforge.planning.convert import (
    arguments,
    eks,
    gke,
    kubelet_configuration,
    kubespray,
    mig_parted,
    performance_profile,
    tuned,
)
from numaforge.planning.convert.documents import read_assignments, read_mapping, read_mime, read_toml
from numaforge.planning.convert.draft import Conversion, Draft
from numaforge.planning.convert.rows import FieldRow

AUTO = "auto"
_OPENSHIFT = "performance.openshift.io"


@dataclass(frozen=True)
class FileForm:
    """One form of a file: its name, how its content is recognised, and what becomes of its fields.

    `by` converts: (draft, the file's content, the name chosen in it or None, the file). `extra` are rows,
    with their heading, for what has no field in the file, or the same field in each section.
    """

    kind: str
    called: str
    versions: tuple[str, ...]  # of apiVersion; empty where the file has none
    has: Callable[[Mapping[str, Any]], bool]
    rows: tuple[FieldRow, ...]
    by: Callable[[Draft, Mapping[str, Any], str | None, str], None]
    extra: tuple[str, tuple[FieldRow, ...]] = ("", ())


def _object(kind: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda document: document.get("kind") == kind


def _keys(*names: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda document: bool(document.keys() & set(names)) and "kind" not in document


def _one(
    convert: Callable[[Draft, Any], None],
) -> Callable[[Draft, Mapping[str, Any], str | None, str], None]:
    def by(draft: Draft, document: Mapping[str, Any], name: str | None, file: str) -> None:
        if name is not None:
            raise NumaforgeError("--name does not apply to this file", where=file)
        convert(draft, document)

    return by


FORMS: tuple[FileForm, ...] = (
    FileForm(
        "performanceprofile",
        "an OpenShift PerformanceProfile",
        tuple(f"{_OPENSHIFT}/{version}" for version in ("v1alpha1", "v1", "v2")),
        _object("PerformanceProfile"),
        performance_profile.ROWS,
        _one(performance_profile.convert),
        ("added by the operator without a field that says so", performance_profile.OPERATOR_ROWS),
    ),
    FileForm(
        "kubeletconfiguration",
        "a KubeletConfiguration",
        ("kubelet.config.k8s.io/v1beta1",),
        _object("KubeletConfiguration"),
        kubelet_configuration.ROWS,
        _one(kubelet_configuration.convert),
    ),
    FileForm(
        "kubeletconfiguration",
        "an OpenShift KubeletConfig",
        ("machineconfiguration.openshift.io/v1",),
        _object("KubeletConfig"),
        kubelet_configuration.OPENSHIFT_ROWS,
        _one(kubelet_configuration.convert),
    ),
    FileForm(
        "mig-parted",
        "a configuration of mig-parted",
        (),
        _keys("mig-configs"),
        mig_parted.ROWS,
        mig_parted.convert,
    ),
    FileForm(
        "tuned",
        "a TuneD profile",
        (),
        tuned.is_profile,
        tuned.TUNED_ROWS,
        _one(tuned.convert),
        ("in every section", tuned.UNIT_ROWS),
    ),
    FileForm(
        "tuned",
        "an OpenShift Tuned",
        ("tuned.openshift.io/v1",),
        _object("Tuned"),
        tuned.TUNED_OBJECT_ROWS,
        lambda draft, document, name, _: tuned.convert_object(draft, document, name),
    ),
    FileForm(
        "kubespray",
        "variables of kubespray",
        (),
        kubespray.is_variables,
        kubespray.ROWS,
        _one(kubespray.convert),
        ("beside these", (kubespray.OTHERS_ROW,)),
    ),
    FileForm(
        "gke",
        "a node system configuration of GKE",
        (),
        _keys("kubeletConfig", "linuxConfig"),
        gke.ROWS,
        _one(gke.convert),
    ),
    FileForm(
        "eks",
        "a NodeConfig of EKS",
        ("node.eks.aws/v1alpha1",),
        _object("NodeConfig"),
        eks.NODE_CONFIG_ROWS,
        _one(eks.convert_node_config),
    ),
    FileForm(
        "eks",
        "a ClusterConfig of eksctl",
        ("eksctl.io/v1alpha5",),
        _object("ClusterConfig"),
        eks.EKSCTL_ROWS,
        lambda draft, document, name, _: eks.convert_eksctl(draft, document, name),
    ),
    FileForm(
        "eks",
        "settings of Bottlerocket",
        (),
        _keys("settings"),
        eks.BOTTLEROCKET_ROWS,
        _one(eks.convert_bottlerocket),
    ),
    FileForm(
        "k3s",
        "a config.yaml of k3s or RKE2",
        (),
        arguments.is_k3s,
        arguments.K3S_ROWS,
        _one(arguments.convert_k3s),
    ),
    FileForm(
        "talos",
        "a machine configuration of Talos",
        (),
        arguments.is_talos,
        arguments.TALOS_ROWS,
        _one(arguments.convert_talos),
    ),
    FileForm(
        "cluster-api",
        "a KubeadmConfig of Cluster API",
        (),
        arguments.is_capi,
        arguments.CAPI_ROWS,
        _one(arguments.convert_capi),
    ),
    FileForm(
        "karpenter",
        "a class of nodes of Karpenter",
        (),
        arguments.is_karpenter,
        arguments.KARPENTER_ROWS,
        _one(arguments.convert_karpenter),
    ),
    FileForm(
        "aks",
        "a node configuration of AKS",
        (),
        arguments.is_aks,
        arguments.AKS_ROWS,
        _one(arguments.convert_aks),
    ),
    FileForm(
        "sysctl",
        "a file of sysctl.d",
        (),
        arguments.is_sysctls,
        arguments.SYSCTL_ROWS,
        _one(arguments.convert_sysctls),
    ),
    FileForm(
        "grub",
        "defaults of GRUB",
        (),
        arguments.is_grub,
        arguments.GRUB_ROWS,
        _one(arguments.convert_grub),
    ),
)

OTHERS: tuple[tuple[str, str, str], ...] = (
    (
        "resourceList",
        "a configuration of the SR-IOV network device plugin",
        "that plugin alone reads it; rdma.pools in a profile are pools of the shared RDMA device plugin",
    ),
    ("configList", "a configuration of the shared RDMA device plugin", "numaforge rdma check FILE reads it"),
    (
        "sharing",
        "a configuration of NVIDIA's device plugin",
        "numaforge device-plugin check FILE reads it, and device_plugin in a profile writes one",
    ),
)
"""Files that are not converted: a key of theirs, what they are, and where they go."""
FORM_NAMES: tuple[str, ...] = tuple(dict.fromkeys(form.kind for form in FORMS))


def convert(text: str, file: str, kind: str = AUTO, name: str | None = None) -> Conversion:
    """Convert a file to a profile. Raises NumaforgeError with every mistake.

    `place` names the file in messages, `name` chooses where it has several profiles. With the kind `auto`,
    the file's content decides.
    """
    document = _document(text, file, kind)
    form = _form(document, file, kind)
    if form.versions and document.get("apiVersion") not in form.versions:
        raise NumaforgeError(
            f"{document.get('apiVersion')!r} is not a version of {form.called} that is known",
            where=f"{file}: apiVersion",
            remedy=f"write {' or '.join(form.versions)}",
        )
    draft = Draft()
    form.by(draft, document, name, file)
    return draft.done(form.called, file)


def whose(text: str) -> str | None:
    """Return what a file of another tool is, and where it goes; None where that is not known."""
    try:
        document = _document(text, "", AUTO)
    except NumaforgeError:
        return None
    forms = [form for form in FORMS if form.has(document)]
    if len(forms) == 1:
        return f"it is {forms[0].called}: numaforge convert FILE makes a profile of it"
    return next((f"it is {called}: {to}" for key, called, to in OTHERS if key in document), None)


def _document(text: str, file: str, kind: str) -> Mapping[str, Any]:
    """Return the mapping that the text holds: an INI file or TOML begins with a section, YAML does not."""
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line and not line.startswith(("#", ";"))), "")
    if first.startswith("[") and first.rstrip().endswith("]"):
        is_toml = kind == "eks" or (kind == AUTO and first.startswith(("[settings", '["settings')))
        return read_toml(text, file) if is_toml else tuned.read(text, file)
    if kind == "eks" and first.startswith("settings."):
        return read_toml(text, file)
    if first.lower().startswith(("mime-version:", "content-type: multipart/")):
        return read_mapping(read_mime(text, file), file)
    if (assignments := read_assignments(text)) is not None:
        return assignments
    return read_mapping(text, file)


def _form(document: Mapping[str, Any], file: str, kind: str) -> FileForm:
    forms = [form for form in FORMS if form.has(document) and kind in (AUTO, form.kind)]
    if len(forms) == 1:
        return forms[0]
    fields = (
        f"kind {document['kind']!r}"
        if document.get("kind")
        else f"keys {', '.join(map(str, [*document][:5]))}"
    )
    if forms:
        raise NumaforgeError(
            f"could be {' or '.join(form.called for form in forms)}",
            where=file,
            remedy="say the KIND before FILE",
        )
    for key, called, where_to in OTHERS:
        if key in document:
            raise NumaforgeError(f"is {called}, which becomes no profile", where=file, remedy=where_to)
    if kind == AUTO:
        raise NumaforgeError(
            f"unknown file type: it has the {fields}",
            where=file,
            remedy=f"name a file of one of {', '.join(FORM_NAMES)}",
        )
    names = " or ".join(form.called for form in FORMS if form.kind == kind)
    raise NumaforgeError(
        f"is not {names}: it has the {fields}", where=file, remedy="name the KIND that it is, or another file"
    )
