"""Load a configuration as the kubelet does: flags, main file, defaults, drop-ins, flags again, gates.

Source: NewKubeletCommand, loadConfigFile and kubeletConfigFlagPrecedence in cmd/kubelet/app/server.go.
"""

import copy
import json
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import reduce
from itertools import islice
from operator import getitem
from typing import Any, NamedTuple

from numaforge.findings import Finding
from numaforge.kubelet.config.decode import ConfigFile, LoadError, decode_config, read_document
from numaforge.kubelet.config.defaults import with_defaults, with_eviction_defaults
from numaforge.kubelet.config.documents import (
    KUBEADM_KINDS,
    KubeadmError,
    arguments_in,
    embedded_in,
    is_followed,
    is_openshift_without_settings,
)
from numaforge.kubelet.config.dropins import (
    FIRST_MINOR_OF_VERSIONED_BASE,
    FIRST_MINOR_WITHOUT_ENVIRONMENT_VARIABLE,
    DropInError,
    merge,
)
from numaforge.kubelet.config.gates import aggregate, known_minors_of, set_gates
from numaforge.kubelet.config.places import Places
from numaforge.kubelet.findings import dotted, finding_of
from numaforge.kubelet_minors.flags import FlagError, Flags, override, parse_flags
from numaforge.kubelet_minors.history import state_at
from numaforge.kubelet_minors.tables import FLAGS
from numaforge.kubelet_minors.values.goyaml import Document, YamlError
from numaforge.kubelet_minors.values.labels import label_value_complaints, qualified_name_complaints
from numaforge.kubelet_minors.versions import KNOWN_MINORS, KubeletVersion
from numaforge.lib.errors import KubeletConfigError
from numaforge.lib.kubelet_paths import CONFIG_PATH, DROP_IN_DIR
from numaforge.machine.topology.model import KubeletInstall

EMPTY_CONFIG = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
"""Stands in for the main file of a kubelet without one."""
DROP_IN_VARIABLE = "KUBELET_CONFIG_DROPIN_DIR_ALPHA"

_FIRST_MINOR_OF_PANIC = 32
_MISMATCH = re.compile(r"cannot unmarshal (?P<found>.+?) into Go struct field \S+ of type (?P<wanted>\S+)")
_TYPES = {
    "string": "text",
    "bool": "true or false",
    "number": "a number",
    "int32": "a whole number",
    "int64": "a whole number",
    "uint32": "a whole number",
    "float64": "a number",
    "array": "a list",
    "object": "a map",
    "map[string]string": "a map of text",
    "map[string]bool": "a map of true or false",
    "[]string": "a list of text",
}
_PATHS = ("staticPodPath", "tlsCertFile", "tlsPrivateKeyFile", "resolvConf", "volumePluginDir", "podLogsDir")
# k8s.io/kubelet/pkg/apis/well_known_labels.go
_LABEL_PREFIXES = ("kubelet.kubernetes.io", "node.kubernetes.io")
_LABELS = (
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
)
_NOWHERE = object()
_EMPTY: tuple[Any, ...] = (None, "", [])
_PANIC = "panic: failed to merge global and in-flight KubeletConfiguration while setting defaults, error: "
_GATES_FAILED = "failed to set feature gates from initial flags-based config: "


class Origin(NamedTuple):
    """The origin of a setting's value: the path of a file, or a flag such as `--kube-reserved`."""

    place: str
    is_flag: bool = False


@dataclass(frozen=True)
class Configuration:
    """A kubelet's configuration as loaded: complete settings, the place of each, and the inputs.

    `main` is the decoded main file, `explicit` the top-level fields that a file or flag sets,
    `drop_in_documents` the data of each drop-in in merge order, `skipped` the files that are not read,
    `refusals` the refusals of feature gates, which `settings` is loaded without.
    """

    version: KubeletVersion

    settings: Mapping[str, Any]
    places: Places
    main: ConfigFile
    flags: Flags
    explicit: frozenset[str]
    drop_in_documents: Mapping[str, Document] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    refusals: "tuple[StartError, ...]" = ()

    @property
    def gates(self) -> Mapping[str, bool]:
        """The feature gates of files and flags together."""
        gates: Mapping[str, bool] = self.settings.get("featureGates") or {}
        return gates

    def origin(self, *path: str) -> Origin | None:
        """Return the origin of a setting such as ("kubeReserved", "memory"), or None for a default.

        Only a flag can set an empty value; an empty value in a file leaves the setting at its default.
        """
        flag = self.flags.names.get(".".join(path)) or self.flags.names.get(path[0])
        if flag is not None:
            return Origin(flag, is_flag=True)
        drop_ins = {
            f"{self.places.drop_in_dir}/{name}": document.data
            for name, document in reversed(list(self.drop_in_documents.items()))
        }
        for file, data in (*drop_ins.items(), (self.places.main, self.main.settings)):
            written = _written(data, path)
            unheard = written is None and self.version.rules_minor < FIRST_MINOR_OF_VERSIONED_BASE
            if written is not _NOWHERE and not unheard:
                return None if written in _EMPTY else Origin(file)
        return next((Origin(file) for file, data in drop_ins.items() if self._in_any_case(data, path)), None)

    def _in_any_case(self, data: Mapping[str, Any], path: Sequence[str]) -> bool:
        """Whether a drop-in sets the value as `MaxPods`, which counts where nothing sets `maxPods`."""
        fields = {key.lower(): value for key, value in data.items()}
        written = _written(fields, (path[0].lower(), *path[1:]))
        return written not in (_NOWHERE, *_EMPTY) and written == _written(self.settings, path)


class StartError(Exception):
    """The kubelet does not start: its own error, and the findings that explain it.

    `readable` is False where the input is not a kubelet configuration at all.
    """

    def __init__(self, error: str, *findings: Finding, readable: bool = True) -> None:
        super().__init__(error)
        self.error = error
        self.findings = findings
        self.readable = readable


def load_installed(install: KubeletInstall, version: KubeletVersion) -> Configuration:
    """Load what an installed kubelet reads: its main file, its drop-ins, its flags.

    Assumes that the environment of a 1.28 or 1.29 enables drop-ins. Raises KubeletConfigError with the
    kubelet's own message where the kubelet could not load its configuration.
    """
    folder = install.config_dir or DROP_IN_DIR
    try:
        configuration, _ = load(
            install.config_text or EMPTY_CONFIG,
            below(folder, install.drop_ins),
            install.flags,
            version,
            {DROP_IN_VARIABLE: "1"},
            install.config_file or CONFIG_PATH,
            folder,
        )
        for refusal in configuration.refusals:
            raise refusal
    except StartError as error:
        finding = next(iter(error.findings), None)
        where, remedy = (finding.file or finding.where, finding.remedy) if finding else (None, None)
        raise KubeletConfigError(error.error, where=where, remedy=remedy) from error
    return configuration


def _written(settings: Any, path: Sequence[str]) -> Any:
    """Return a file's value at a path: None also below a null, _NOWHERE where the file does not set it."""
    value = settings
    for step in path:
        if value is None:
            return None
        if not isinstance(value, Mapping) or step not in value:
            return _NOWHERE
        value = value[step]
    return value


def below(folder: str, files: Mapping[str, str]) -> dict[str, str]:
    """Return the files below a folder, keyed by path relative to it."""
    inside = f"{folder.rstrip('/')}/"
    return {path.removeprefix(inside): text for path, text in files.items() if path.startswith(inside)}


def load(
    config_text: str,
    drop_ins: Mapping[str, str],
    arguments: Sequence[str],
    version: KubeletVersion,
    environment: Mapping[str, str],
    config_path: str,
    drop_in_dir: str,
    number: int = 0,
) -> tuple[Configuration, tuple[Finding, ...]]:
    """Load a configuration (main file, defaults, drop-ins, flags), with notes on a file that embeds it.

    `number` chooses among several that are embedded. The flags in the text come before `arguments`. Raises
    StartError where the kubelet stops, KubeletConfigError where kubeadm does.
    """
    given, flags_of = _arguments_of(config_text, config_path)
    flags = _parsed_flags((*given, *arguments), version)
    by_flags = Places(config_path, {}, {}, flags.names, drop_in_dir)
    judged = _JudgedGates(version)
    judged.accepted(flags.gates, by_flags, _GATES_FAILED)
    _require_node_labels(flags)
    main, notes, judged.refusals[len(judged.refusals) :] = _main_file(
        config_text, version, config_path, number, flags_of=flags_of
    )
    places = Places(config_path, main.lines, {}, flags.names, drop_in_dir)
    settings = _defaulted(main.settings, judged, flags, places)
    settings = _with_absolute_paths(with_eviction_defaults(settings), config_path)
    configuration = Configuration(version, settings, places, main, flags, frozenset(main.settings))
    if drop_ins or "config-dir" in flags.outside_config:
        _require_drop_in_variable(version, environment, drop_in_dir)
        configuration = _with_drop_ins(configuration, drop_ins, judged, drop_in_dir)
    settings = override(_without_split_streams(configuration.settings), flags)
    if gates := settings.get("featureGates"):
        settings = {**settings, "featureGates": judged.accepted(gates, configuration.places, _GATES_FAILED)}
    explicit = configuration.explicit | {name.partition(".")[0] for name in flags.settings}
    refusals = tuple(judged.refusals)
    return replace(configuration, settings=settings, explicit=explicit, refusals=refusals), notes


def _without_split_streams(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings with splitStream off: registering its flags resets the field to false."""
    logging = settings.get("logging") or {}
    if not logging.get("options"):
        return settings
    options = {kind: {**routing, "splitStream": False} for kind, routing in logging["options"].items()}
    return {**settings, "logging": {**logging, "options": options}}


def _parsed_flags(arguments: Sequence[str], version: KubeletVersion) -> Flags:
    try:
        return parse_flags(arguments, version)
    except FlagError as error:
        remedy = _flag_remedy(error.flag, version)
        text = f"kubelet {version} cannot parse its command line"
        finding = finding_of("NF006", text, remedy, path=error.flag, text=str(error))
        raise StartError(str(error), finding) from error


def _flag_remedy(argument: str, version: KubeletVersion) -> str:
    name = argument.partition("=")[0].lstrip("-")
    known = [minor for minor in KNOWN_MINORS if name in FLAGS and state_at(FLAGS[name], minor)]
    if known and version.rules_minor > max(known):
        return f"remove the flag: kubelet 1.{max(known)} was the last to know it"
    if known and version.rules_minor < min(known):
        return f"remove the flag: it exists from kubelet 1.{min(known)} on"
    near = get_close_matches(name, FLAGS, n=1, cutoff=0.85)
    if near and not known:
        return f"did you mean --{near[0]}?"
    return "correct or remove the flag; `kubelet --help` lists the ones it knows"


def _require_node_labels(flags: Flags) -> None:
    labels: Mapping[str, str] = flags.outside_config.get("node-labels") or {}
    unknown = sorted(label for label in labels if _is_reserved_label(label))
    if not unknown:
        _require_label_syntax(labels)
        return
    error = (
        "failed to validate kubelet flags: unknown 'kubernetes.io' or 'k8s.io' labels specified with "
        f"--node-labels: [{' '.join(unknown)}]\n--node-labels in the 'kubernetes.io' namespace must begin "
        f"with an allowed prefix ({', '.join(_LABEL_PREFIXES)}) or be in the specifically allowed set "
        f"({', '.join(_LABELS)})"
    )
    raise StartError(
        error,
        finding_of(
            "NF006",
            f"a kubelet may not give its node the labels {', '.join(unknown)}",
            "label the node through the API, or use another prefix",
            path="--node-labels",
            text=error,
        ),
    )


def _require_label_syntax(labels: Mapping[str, str]) -> None:
    complaints: dict[str, list[str]] = {}
    for label, value in sorted(labels.items()):
        complaints.setdefault(label, []).extend(qualified_name_complaints(label))
        complaints.setdefault(value, []).extend(label_value_complaints(value))
    texts = [f"'{text}' - {', '.join(reasons)}" for text, reasons in complaints.items() if reasons]
    if not texts:
        return
    error = f"failed to validate kubelet flags: invalid node labels: {'; '.join(texts)}"
    remedy = "write labels as key=value, both of letters, digits, '-', '_' and '.'"
    raise StartError(
        error, finding_of("NF006", "a label has the wrong form", remedy, path="--node-labels", text=error)
    )


def _is_reserved_label(label: str) -> bool:
    prefix = label.partition("/")[0] if "/" in label else ""
    reserved = any(
        prefix == domain or prefix.endswith(f".{domain}") for domain in ("kubernetes.io", "k8s.io")
    )
    allowed = any(prefix == domain or prefix.endswith(f".{domain}") for domain in _LABEL_PREFIXES)
    return reserved and not allowed and label not in _LABELS


def _arguments_of(text: str, path: str) -> tuple[tuple[str, ...], str]:
    try:
        return arguments_in(text)
    except YamlError:  # reported where the main file is read
        return (), ""
    except KubeadmError as error:
        where = f"{path}: nodeRegistration.kubeletExtraArgs"
        raise KubeletConfigError(f"kubeadm does not decode it: {error}", where=where) from error


def _main_file(
    text: str, version: KubeletVersion, path: str, number: int, *, flags_of: str
) -> tuple[ConfigFile, tuple[Finding, ...], list[StartError]]:
    """Return a main file, notes on it, and the refusals of values that are read as text instead."""
    loading = (
        f"failed to load kubelet config file, path: {path}, error: "
        f"failed to load Kubelet config file {path}, error"
    )
    if not text:
        error = f'{loading} kubelet config file "{path}" was empty'
        finding = finding_of(
            "NF003",
            "the configuration file is empty",
            "give it a KubeletConfiguration",
            text=error,
            file=path,
        )
        raise StartError(error, finding, readable=False)
    if flags_of:
        remedy = "check the kubelet's file as well, with each of these as --flag"
        note = finding_of("NF602", f"the file is {flags_of}, and has no other setting", remedy, file=path)
        return decode_config(EMPTY_CONFIG, version, read_document(EMPTY_CONFIG)), (note,), []
    try:
        document = read_document(text)
        _require_settings(document, path)
        embedded = next(islice(embedded_in(text, document), number, None), None)
        if (
            embedded is None
            and isinstance(document.data, dict)
            and document.data.get("kind") in KUBEADM_KINDS
        ):
            note = finding_of(
                "NF602",
                "the file has kubeadm's flags alone; a node that joins takes its file from the cluster",
                "check the ConfigMap kubelet-config in kube-system as well",
                file=path,
            )
            return decode_config(EMPTY_CONFIG, version, read_document(EMPTY_CONFIG)), (note,), []
        main, refusals = _decoded(text, version, embedded.document if embedded else document, loading, path)
    except (LoadError, YamlError) as error:
        reported = error.reported if isinstance(error, LoadError) else f"failed to decode: {error}"
        raise _unloadable(error, f"{loading} {reported}", path) from error
    if embedded is None:
        message, remedy = "the kubelet reads the first document alone", "put all settings into one document"
        unread = finding_of("NF527", message, remedy, file=path) if is_followed(text, document) else None
        return main, (unread,) if unread else (), refusals
    note = finding_of(
        "NF602",
        f"the configuration is part of {embedded.holder} ({embedded.name}); what the platform merges it with "
        "is not seen here",
        "check the file that the node ends up with as well",
        path=dotted(embedded.path) or None,
        file=path,
    )
    return main, (note,), refusals


def _decoded(
    text: str, version: KubeletVersion, document: Document, loading: str, path: str
) -> tuple[ConfigFile, list[StartError]]:
    """Decode a document; where text is wanted, a number or a boolean is refused and read as its text."""
    refusals: list[StartError] = []
    while True:
        try:
            return decode_config(text, version, document), refusals
        except LoadError as error:
            refusals.append(_unloadable(error, f"{loading} {error.reported}", path))
            mismatch = _MISMATCH.search(str(error))
            types = (mismatch["found"].partition(" ")[0], mismatch["wanted"]) if mismatch else None
            if document.json or types not in (("bool", "string"), ("number", "string")):
                raise refusals[0] from error
            data = copy.deepcopy(document.data)
            *parents, last = error.path
            holder = reduce(getitem, parents, data)
            holder[last] = json.dumps(holder[last])
            document = document._replace(data=data)


def _require_settings(document: Document, path: str) -> None:
    """Raise StartError for an OpenShift KubeletConfig whose settings are not where OpenShift reads them."""
    if is_openshift_without_settings(document.data):
        error = (
            "an OpenShift KubeletConfig without spec.kubeletConfig has no settings of the kubelet to check"
        )
        remedy = "put settings of the kubelet, such as reservedSystemCPUs, under spec.kubeletConfig"
        finding = finding_of("NF002", error, remedy, path="spec", text=error, file=path)
        raise StartError(error, finding, readable=False)


def _unloadable(error: LoadError | YamlError, text: str, path: str) -> StartError:
    rule = error.rule if isinstance(error, LoadError) else "NF001"
    readable = isinstance(error, LoadError) and error.readable
    messages = {
        "NF001": ("this is not YAML", "correct the syntax"),
        "NF002": (
            "this is not a KubeletConfiguration that the kubelet knows",
            (
                "give the kubelet's own file, or kubeadm's ConfigMap kubelet-config: the file begins with "
                "apiVersion: kubelet.config.k8s.io/v1beta1 and kind: KubeletConfiguration"
            ),
        ),
        "NF004": (
            "a value has the wrong type or cannot be parsed",
            "write the value as the field's type wants it",
        ),
    }
    message, remedy = _mismatch(str(error)) or messages[rule]
    where = dotted(error.path) if isinstance(error, LoadError) and error.path else None
    finding = finding_of(rule, message, remedy, path=where, text=text, file=path, line=error.line)
    return StartError(text, finding, readable=readable)


def _mismatch(text: str) -> tuple[str, str] | None:
    """Return a message on the type that a value has and the one wanted, and the remedy, or None."""
    match = _MISMATCH.search(text)
    if not match:
        return None
    wanted_type = _TYPES.get(match["wanted"].removeprefix("v1beta1."), match["wanted"])
    remedy = "put the value in quotes" if wanted_type == "text" else f"write {wanted_type} there"
    found_type = _TYPES.get(match["found"].partition(" ")[0], match["found"])
    return f"the value is {found_type}, and the kubelet wants {wanted_type}", remedy


def _defaulted(
    settings: Mapping[str, Any], judged: "_JudgedGates", flags: Flags, places: Places
) -> dict[str, Any]:
    gates: Mapping[str, bool] = {**flags.gates, **(settings.get("featureGates") or {})}
    if judged.version.rules_minor >= _FIRST_MINOR_OF_PANIC:
        gates = judged.accepted(gates, places, _PANIC)
    return with_defaults(settings, judged.version, gates)


def _with_absolute_paths(settings: Mapping[str, Any], config_path: str) -> dict[str, Any]:
    """Resolve relative paths against the main file's folder, as configfiles.go does.

    A relative --config is relative to the working directory, which systemd sets to the root.
    """
    folder = posixpath.join("/", posixpath.dirname(config_path))
    resolved = _with_absolute(settings, _PATHS, folder)
    authentication = settings.get("authentication") or {}
    if authentication.get("x509"):
        x509 = _with_absolute(authentication["x509"], ("clientCAFile",), folder)
        resolved["authentication"] = {**authentication, "x509": x509}
    return resolved


def _with_absolute(settings: Mapping[str, Any], names: Iterable[str], folder: str) -> dict[str, Any]:
    relative = {name: settings[name] for name in names if settings.get(name)}
    paths = {name: posixpath.normpath(posixpath.join(folder, path)) for name, path in relative.items()}
    return {**settings, **{name: path for name, path in paths.items() if not relative[name].startswith("/")}}


@dataclass
class _JudgedGates:
    """The refusals of feature gates, each found once those before it are mended; and the refused gates."""

    version: KubeletVersion
    refusals: list[StartError] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)

    def accepted(self, gates: Mapping[str, bool], places: Places, prefix: str) -> dict[str, bool]:
        """Return the gates without those that are refused, now or before."""
        while True:
            accepted = {name: value for name, value in gates.items() if name not in self.refused}
            errors = set_gates(self.version, accepted)
            names = [_named_gate(error, accepted) for error in errors]
            if not errors or self.refused.issuperset(names):
                return accepted
            findings = [
                _gate_finding(*pair, self.version, places) for pair in zip(errors, names, strict=True)
            ]
            self.refusals.append(StartError(prefix + aggregate(errors), *findings))
            self.refused.update(names)


def _named_gate(error: str, gates: Mapping[str, bool]) -> str:
    return next((name for name in sorted(gates, key=len, reverse=True) if name in error.split()), "")


def _gate_finding(error: str, name: str, version: KubeletVersion, places: Places) -> Finding:
    if error.startswith("unrecognized"):
        return places.finding(
            "NF101",
            f"feature gate {name} does not exist in kubelet {version}",
            _unknown_gate_remedy(name, version),
            f"featureGates.{name}",
            error,
        )
    if error.startswith("cannot set"):
        return places.finding(
            "NF102",
            f"feature gate {name} cannot be changed any more in kubelet {version}",
            f"remove {name} from featureGates",
            f"featureGates.{name}",
            error,
        )
    return places.finding(
        "NF103",
        "a feature gate is on that needs one that is off",
        "enable what the gate depends on, or disable the gate too",
        "featureGates",
        error,
    )


def _unknown_gate_remedy(name: str, version: KubeletVersion) -> str:
    minors = known_minors_of(name)
    if not minors:
        return f"remove {name} from featureGates, or correct its spelling"
    if min(minors) > version.rules_minor:
        return f"remove {name} from featureGates: it comes with kubelet 1.{min(minors)}"
    return f"remove {name} from featureGates: kubelet 1.{max(minors)} was the last to know it"


def _require_drop_in_variable(version: KubeletVersion, environment: Mapping[str, str], folder: str) -> None:
    if version.rules_minor >= FIRST_MINOR_WITHOUT_ENVIRONMENT_VARIABLE or DROP_IN_VARIABLE in environment:
        return
    error = (
        f"flag {folder} specified but environment variable {DROP_IN_VARIABLE} not set, cannot start kubelet"
    )
    raise StartError(
        error,
        finding_of(
            "NF007",
            f"kubelet {version} has --config-dir as an alpha feature only",
            f"set the environment variable {DROP_IN_VARIABLE}, or merge the drop-ins into the main file",
            path="--config-dir",
            text=error,
        ),
    )


def _with_drop_ins(
    configuration: Configuration, drop_ins: Mapping[str, str], judged: _JudgedGates, folder: str
) -> Configuration:
    try:
        merged = merge(configuration.settings, drop_ins, judged.version, folder)
    except DropInError as error:
        text = f"failed to merge kubelet configs: {error}"
        finding = finding_of(
            "NF005",
            "a drop-in file cannot be loaded",
            "a drop-in is a KubeletConfiguration with apiVersion and kind that holds only what it changes",
            path=dotted(error.path) if error.path else None,
            text=text,
            file=f"{folder}/{error.file}",
            line=error.line,
        )
        raise StartError(text, finding) from error
    lines = {name: document.lines for name, document in merged.documents.items()}
    places = replace(configuration.places, drop_in_lines=lines)
    settings: Mapping[str, Any] = merged.settings
    if judged.version.rules_minor >= _FIRST_MINOR_OF_PANIC:
        settings = _defaulted(settings, judged, configuration.flags, places)
    return replace(
        configuration,
        settings=settings,
        places=places,
        explicit=configuration.explicit | frozenset(merged.origin),
        drop_in_documents=merged.documents,
        skipped=merged.skipped,
    )
