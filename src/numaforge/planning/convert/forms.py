"""The kinds of files that are converted, how each is recognised, and its table."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, NamedTuple

from numaforge.kubelet.config.documents import read_flags
from numaforge.kubelet_minors.fields import API_VERSION
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.given import mapping
from numaforge.lib.wrapped import by_name, texts_in
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
from numaforge.planning.convert.documents import read_assignments, read_mappings, read_mime, read_toml
from numaforge.planning.convert.draft import Conversion, Draft
from numaforge.planning.convert.rows import FieldRow, table, tables

AUTO = "auto"
_MACHINE_CONFIGURATION = "machineconfiguration.openshift.io/v1"
_FLAGS = "kubelet flags"  # the key of a text of flags, which has none
_UNIT = "unit of systemd"  # the key of a unit's first section


class FileForm(NamedTuple):
    """One form of a file: its name, how its content is recognised, and what becomes of its fields.

    `by` converts: (draft, the file's content, the name chosen in it or None, the file). `extra` are rows,
    with their heading, for what has no field in the file, or the same field in each section.
    """

    kind: str
    called: str
    has: Callable[[Mapping[str, Any]], bool]
    rows: tuple[FieldRow, ...]
    by: Callable[[Draft, Mapping[str, Any], str | None, str], None]
    versions: tuple[str, ...] = ()  # of apiVersion; empty where the file has none
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
        _object("PerformanceProfile"),
        performance_profile.ROWS,
        _one(performance_profile.convert),
        tuple(f"performance.openshift.io/{version}" for version in ("v1alpha1", "v1", "v2")),
        ("added by the operator, without a field for it", performance_profile.OPERATOR_ROWS),
    ),
    FileForm(
        "kubeletconfiguration",
        "a KubeletConfiguration",
        _object("KubeletConfiguration"),
        kubelet_configuration.ROWS,
        _one(kubelet_configuration.convert),
        (API_VERSION,),
    ),
    FileForm(
        "kubeletconfiguration",
        "an OpenShift KubeletConfig",
        _object("KubeletConfig"),
        kubelet_configuration.OPENSHIFT_ROWS,
        _one(kubelet_configuration.convert),
        (_MACHINE_CONFIGURATION,),
    ),
    FileForm(
        "mig-parted",
        "a configuration of mig-parted",
        _keys("mig-configs"),
        mig_parted.ROWS,
        mig_parted.convert,
    ),
    FileForm(
        "tuned",
        "a TuneD profile",
        tuned.is_profile,
        tuned.TUNED_ROWS,
        _one(tuned.convert),
        extra=("in every section", tuned.UNIT_ROWS),
    ),
    FileForm(
        "tuned",
        "an OpenShift Tuned",
        _object("Tuned"),
        tuned.TUNED_OBJECT_ROWS,
        lambda draft, document, name, _: tuned.convert_object(draft, document, name),
        ("tuned.openshift.io/v1",),
    ),
    FileForm(
        "kubespray",
        "variables of kubespray",
        kubespray.is_variables,
        kubespray.ROWS,
        _one(kubespray.convert),
        extra=("beside these", (kubespray.OTHERS_ROW,)),
    ),
    FileForm(
        "gke",
        "a node system configuration of GKE",
        _keys("kubeletConfig", "linuxConfig"),
        gke.ROWS,
        _one(gke.convert),
    ),
    FileForm(
        "eks",
        "a NodeConfig of EKS",
        _object("NodeConfig"),
        eks.NODE_CONFIG_ROWS,
        _one(eks.convert_node_config),
        ("node.eks.aws/v1alpha1",),
    ),
    FileForm(
        "eks",
        "a ClusterConfig of eksctl",
        _object("ClusterConfig"),
        eks.EKSCTL_ROWS,
        lambda draft, document, name, _: eks.convert_eksctl(draft, document, name),
        ("eksctl.io/v1alpha5",),
    ),
    FileForm(
        "eks",
        "settings of Bottlerocket",
        _keys("settings"),
        eks.BOTTLEROCKET_ROWS,
        _one(eks.convert_bottlerocket),
    ),
    FileForm(
        "kubelet-flags",
        "flags of a kubelet",
        _keys(_FLAGS),
        table("kubelet-flags"),
        _one(lambda draft, document: kubelet_configuration.place_flags(draft, document[_FLAGS], _FLAGS, {})),
    ),
    FileForm(
        "machineconfig",
        "an OpenShift MachineConfig",
        _object("MachineConfig"),
        arguments.MACHINE_CONFIG_ROWS,
        _one(arguments.convert_machine_config),
        (_MACHINE_CONFIGURATION,),
    ),
    *(
        FileForm(kind, called, has, rows, _one(convert_one))
        for kind, called, has, rows, convert_one in arguments.FORMS
    ),
)

FORM_NAMES: tuple[str, ...] = tuple(dict.fromkeys(form.kind for form in FORMS))


class _Candidate(NamedTuple):
    """A document that one form, or several, recognise: its name in the file, its place for messages."""

    name: str
    place: str
    document: Mapping[str, Any]
    forms: tuple[FileForm, ...]


def convert(
    text: str, file: str, kind: str = AUTO, name: str | None = None, key: str | None = None
) -> Conversion:
    """Convert a file to a profile. Raises NumaforgeError with every mistake.

    `file` is named in messages, `name` chooses where it has several profiles, `key` among several documents
    or texts in what deploys them. With the kind `auto`, the file's content decides.
    """
    documents = _documents(text, file, kind)
    candidates = [*_candidates(documents, file, kind)] or [*_wrapped(documents, file, kind)]
    chosen = _chosen(candidates, documents, file, kind, key)
    form, document, place = _only(chosen), chosen.document, chosen.place
    if form.versions and document.get("apiVersion") not in form.versions:
        raise NumaforgeError(
            f"{document.get('apiVersion')!r} is not a version of {form.called} that is known",
            where=f"{place}: apiVersion",
            remedy=f"write {' or '.join(form.versions)}",
        )
    draft = Draft()
    form.by(draft, document, name, place)
    return draft.done(form.called, place)


def whose(text: str) -> str | None:
    """Return what a file of another tool is, and where it goes; None where that is not known."""
    try:
        documents = _documents(text, "", AUTO)
    except NumaforgeError:
        return None
    forms = [form for candidate in _candidates(documents, "", AUTO) for form in candidate.forms]
    if len(forms) == 1:
        return f"it is {forms[0].called}: `numaforge convert FILE` makes a profile of it"
    return next((f"it is {called}: {to}" for called, to in _others(documents, "")), None)


def _others(documents: Sequence[Mapping[str, Any]], file: str) -> Iterator[tuple[str, str]]:
    """Yield what is not converted among documents and the texts in them: what it is, and where it goes."""
    listed = list(documents)
    for _, name, text in texts_in(documents, file):
        with suppress(NumaforgeError):  # a text of another kind
            listed += _documents(text, name, AUTO)
    for other in tables()["unconverted"]:
        names = (document.get(head) for document in listed for head in ("kind", "apiVersion"))
        if any(str(name).startswith(other["begins"]) for name in (*names, *chain.from_iterable(listed))):
            yield other["is"], other["instead"]


def _documents(text: str, file: str, kind: str) -> list[Mapping[str, Any]]:
    """Return the mappings that the text holds: an INI file or TOML begins with a section, YAML does not.

    kubeadm's documents of one file are one mapping, by their kinds.
    """
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line and not line.startswith(("#", ";"))), "")
    if first.lower().startswith(("mime-version:", "content-type: multipart/")):
        return [read_mime(text, file)]
    if kind in (AUTO, "kubelet-flags") and (flags := read_flags(text)) is not None:
        return [{_FLAGS: flags}]
    if first in ("[Unit]", "[Service]", "[Manager]", "[Slice]"):
        return [{_UNIT: first}]
    if first.startswith("[") and first.rstrip().endswith("]"):
        is_toml = kind == "eks" or (kind == AUTO and first.startswith(("[settings", '["settings')))
        return [read_toml(text, file) if is_toml else tuned.read(text, file)]
    if kind == "eks" and first.startswith("settings."):
        return [read_toml(text, file)]
    if (assignments := read_assignments(text, file, sure=kind in ("sysctl", "grub"))) is not None:
        return [assignments]
    return arguments.joined(read_mappings(text, file))


def _candidates(documents: Sequence[Mapping[str, Any]], file: str, kind: str) -> Iterator[_Candidate]:
    """Yield the documents that a form recognises, named by their objects' names."""
    for document in documents:
        if forms := tuple(form for form in FORMS if form.has(document) and kind in (AUTO, form.kind)):
            name = str(mapping(document.get("metadata")).get("name") or document.get("kind") or forms[0].kind)
            yield _Candidate(name, file, document, forms)


def _wrapped(documents: Sequence[Mapping[str, Any]], file: str, kind: str) -> Iterator[_Candidate]:
    """Yield the texts in ConfigMaps and Helm values that a form recognises, named by their keys."""
    texts = by_name(texts_in(documents, file))
    for name, text in texts.items():
        place = f"{file}: {name}"
        with suppress(NumaforgeError):  # a text of another kind
            for candidate in _candidates(_documents(text, place, kind), place, kind):
                yield candidate._replace(name=name)


def _chosen(
    candidates: Sequence[_Candidate],
    documents: Sequence[Mapping[str, Any]],
    file: str,
    kind: str,
    key: str | None,
) -> _Candidate:
    """Return the only candidate, or the one that `key` names; raises NumaforgeError."""
    names = [candidate.name for candidate in candidates]
    if key is not None and names.count(key) != 1:
        remedy = f"it has {', '.join(names)}" if names else "leave --key out"
        raise NumaforgeError(f"has no document {key!r}, or several", where=file, remedy=remedy)
    if not candidates:
        raise _unknown(documents, file, kind)
    if key is None and len(candidates) > 1:
        raise NumaforgeError(
            f"holds {len(candidates)} documents that become profiles",
            where=file,
            remedy=f"name one: --key {' or --key '.join(names)}"
            if len(set(names)) == len(names)
            else "put each in a file, and name one",
        )
    return candidates[0 if key is None else names.index(key)]


def _only(candidate: _Candidate) -> FileForm:
    if len(candidate.forms) == 1:
        return candidate.forms[0]
    raise NumaforgeError(
        f"could be {' or '.join(form.called for form in candidate.forms)}",
        where=candidate.place,
        remedy="give the KIND before FILE",
    )


def _unknown(documents: Sequence[Mapping[str, Any]], file: str, kind: str) -> NumaforgeError:
    """Return why a file becomes no profile."""
    for called, where_to in _others(documents, file):
        return NumaforgeError(f"is {called}, which becomes no profile", where=file, remedy=where_to)
    fields = " and the ".join(
        dict.fromkeys(
            f"kind {document['kind']!r}"
            if document.get("kind")
            else f"keys {', '.join(map(str, [*document][:5]))}"
            for document in documents[:3]
        )
    )
    if kind == AUTO:
        return NumaforgeError(
            f"unknown file type: it has the {fields}",
            where=file,
            remedy=f"name a file of one of {', '.join(FORM_NAMES)}",
        )
    names = " or ".join(form.called for form in FORMS if form.kind == kind)
    return NumaforgeError(
        f"is not {names}: it has the {fields}", where=file, remedy="name the KIND that it is, or another file"
    )
