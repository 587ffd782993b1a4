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
from numaforge.kubelet.config.gates import aggregate, enabled, known_minors_of, set_gates
from numaforge.kubelet.config.places import Places
from numaforge.kubelet.findings import dotted, fault
from numaforge.kubelet_minors.flags import FlagError, Flags, override, parse_flags
from numaforge.kubelet_minors.tables import FLAGS, NODE_LABELS, state_at
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
_LABEL_PREFIXES = ("kubelet.kubernetes.io", "node.kubernetes.io")
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
    `drop_in_documents` the data of each drop-in in merge order, `skipped` the files that are not read.
    """

    version: KubeletVersion

    settings: Mapping[str, Any]
    places: Places
    main: ConfigFile
    flags: Flags
    explicit: frozenset[str]
    drop_in_documents: Mapping[str, Document] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()

    @property
    def gates(self) -> Mapping[str, bool]:
        """The feature gates of files and flags together."""
        gates: Mapping[str, bool] = self.settings.get("featureGates") or {}
        return gates

    @property
    def minor(self) -> int:
        """The minor whose rules apply."""
        return self.version.rules_minor

    def enabled(self, gate: str) -> bool:
        """Whether a feature gate is on."""
        return enabled(self.version, self.gates, gate)

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
            unheard = written is None and self.minor < FIRST_MINOR_OF_VERSIONED_BASE
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
    refusals: list[StartError] = []
    try:
        configuration, _ = load(
            install.config_text or EMPTY_CONFIG,
            below(folder, install.drop_ins),
            install.flags,
            version,
            {DROP_IN_VARIABLE: "1"},
            install.config_file or CONFIG_PATH,
            folder,
            refusals,
        )
    except StartError as error:
        refusals.append(error)
    if refusals:
        first = refusals[0]
        finding = next(iter(first.findings), None)
        where, remedy = (finding.file or finding.where, finding.remedy) if finding else (None, None)
        raise KubeletConfigError(first.error, where=where, remedy=remedy) from first
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
    refusals: list[StartError],
    number: int = 0,
) -> tuple[Configuration, tuple[Finding, ...]]:
    """Load a configuration (main file, defaults, drop-ins, flags), with notes on a file that embeds it.

    `number` chooses among several that are embedded. The flags in the text come before `arguments`. Refusals
    after which loading can go on are added to `refusals`, in the kubelet's order. Raises StartError where it
    cannot, KubeletConfigError where kubeadm stops.
    """
    given, flags_of = _arguments_of(config_text, config_path)
    flags = _parsed_flags((*given, *arguments), version)
    by_flags = Places(config_path, {}, {}, flags.names, drop_in_dir)
    judged = _JudgedGates(version, refusals)
    judged.accepted(flags.gates, by_flags, _GATES_FAILED)
    _require_node_labels(flags)
    main, notes = _main_file(config_text, version, config_path, number, refusals, flags_of=flags_of)
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
    return replace(configuration, settings=settings, explicit=explicit), notes


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
        refused = fault("NF006", flag=error.flag, version=version, remedy=_flag_remedy(error.flag, version))
        raise StartError(str(error), refused.finding(str(error))) from error


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
        f"({', '.join(NODE_LABELS)})"
    )
    raise StartError(error, fault("NF006", "labels", labels=", ".join(unknown)).finding(error))


def _require_label_syntax(labels: Mapping[str, str]) -> None:
    complaints: dict[str, list[str]] = {}
    for label, value in sorted(labels.items()):
        complaints.setdefault(label, []).extend(qualified_name_complaints(label))
        complaints.setdefault(value, []).extend(label_value_complaints(value))
    texts = [f"'{text}' - {', '.join(reasons)}" for text, reasons in complaints.items() if reasons]
    if texts:
        error = f"failed to validate kubelet flags: invalid node labels: {'; '.join(texts)}"
        raise StartError(error, fault("NF006", "label syntax").finding(error))


def _is_reserved_label(label: str) -> bool:
    domain, slash, _ = label.partition("/")
    reserved, allowed = (
        bool(slash) and f".{domain}".endswith(tuple(f".{name}" for name in names))
        for names in (("kubernetes.io", "k8s.io"), _LABEL_PREFIXES)
    )
    return reserved and not allowed and label not in NODE_LABELS


def _arguments_of(text: str, path: str) -> tuple[tuple[str, ...], str]:
    try:
        return arguments_in(text)
    except YamlError:  # reported where the main file is read
        return (), ""
    except KubeadmError as error:
        where = f"{path}: nodeRegistration.kubeletExtraArgs"
        raise KubeletConfigError(f"kubeadm does not decode it: {error}", where=where) from error


def _main_file(
    text: str, version: KubeletVersion, path: str, number: int, refusals: list[StartError], *, flags_of: str
) -> tuple[ConfigFile, tuple[Finding, ...]]:
    """Return a main file, and notes on it."""
    loading = (
        f"failed to load kubelet config file, path: {path}, error: "
        f"failed to load Kubelet config file {path}, error"
    )
    if not text:
        error = f'{loading} kubelet config file "{path}" was empty'
        raise StartError(error, fault("NF003").finding(error, path), readable=False)
    if flags_of:
        note = fault("NF602", "flags", form=flags_of).finding(file=path)
        return decode_config(EMPTY_CONFIG, version), (note,)
    try:
        document = read_document(text)
        if is_openshift_without_settings(document.data):
            refused = fault("NF002", "OpenShift")
            raise StartError(refused.evidence, refused.finding(refused.evidence, path), readable=False)
        embedded = next(islice(embedded_in(text, document), number, None), None)
        kind = document.data.get("kind") if isinstance(document.data, dict) else None
        if embedded is None and kind in KUBEADM_KINDS:
            return decode_config(EMPTY_CONFIG, version), (fault("NF602", "kubeadm").finding(file=path),)
        document = embedded.document if embedded else document
        main = _decoded(text, version, document, refusals, loading, path)
    except (LoadError, YamlError) as error:
        reported = error.reported if isinstance(error, LoadError) else f"failed to decode: {error}"
        raise _unloadable(error, f"{loading} {reported}", path) from error
    if embedded is None:
        unread = (fault("NF527").finding(file=path),) if is_followed(text, document) else ()
        return main, unread
    values = {"path": dotted(embedded.path), "holder": embedded.holder, "name": embedded.name}
    return main, (fault("NF602", "embedded", **values).finding(file=path),)


def _decoded(
    text: str,
    version: KubeletVersion,
    document: Document,
    refusals: list[StartError],
    loading: str,
    path: str,
) -> ConfigFile:
    """Decode a document; where text is wanted, a number or a boolean is refused and read as its text."""
    while True:
        try:
            return decode_config(text, version, document)
        except LoadError as error:
            refusal = _unloadable(error, f"{loading} {error.reported}", path)
            mismatch = _MISMATCH.search(str(error))
            types = (mismatch["found"].partition(" ")[0], mismatch["wanted"]) if mismatch else None
            if document.json or types not in (("bool", "string"), ("number", "string")):
                raise refusal from error
            refusals.append(refusal)
            data = copy.deepcopy(document.data)
            *parents, last = error.path
            holder = reduce(getitem, parents, data)
            holder[last] = json.dumps(holder[last])
            document = document._replace(data=data)


def _unloadable(error: LoadError | YamlError, text: str, path: str) -> StartError:
    rule, where, readable = "NF001", "", False
    if isinstance(error, LoadError):
        rule, where, readable = error.rule, dotted(error.path), error.readable
    if mismatch := _MISMATCH.search(str(error)):
        wanted = _TYPES.get(mismatch["wanted"].removeprefix("v1beta1."), mismatch["wanted"])
        kind = _TYPES.get(mismatch["found"].partition(" ")[0], mismatch["found"])
        name = "text" if wanted == "text" else "type"
        refused = fault("NF004", name, path=where, type=kind, wanted=wanted)._replace(rule=rule)
    else:
        refused = fault(rule, path=where)
    return StartError(text, refused.finding(text, path, error.line), readable=readable)


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
    refusals: list[StartError]
    refused: set[str] = field(default_factory=set)

    def accepted(self, gates: Mapping[str, bool], places: Places, prefix: str) -> dict[str, bool]:
        """Return the gates without those that are refused, now or before."""
        while True:
            accepted = {name: value for name, value in gates.items() if name not in self.refused}
            errors = set_gates(self.version, accepted)
            by_length = sorted(accepted, key=len, reverse=True)
            names = [next((name for name in by_length if name in error.split()), "") for error in errors]
            if not errors or self.refused.issuperset(names):
                return accepted
            findings = [
                _gate_finding(*pair, self.version, places) for pair in zip(errors, names, strict=True)
            ]
            self.refusals.append(StartError(prefix + aggregate(errors), *findings))
            self.refused.update(names)


def _gate_finding(error: str, name: str, version: KubeletVersion, places: Places) -> Finding:
    if error.startswith("unrecognized"):
        unknown = fault("NF101", name=name, version=version, why=_gate_history(name, version))
        return places.finding(unknown, error)
    if error.startswith("cannot set"):
        return places.finding(fault("NF102", name=name, version=version), error)
    return places.finding(fault("NF103"), error)


def _gate_history(name: str, version: KubeletVersion) -> str:
    minors = known_minors_of(name)
    if not minors:
        return ", or correct its spelling"
    if min(minors) > version.rules_minor:
        return f": it comes with kubelet 1.{min(minors)}"
    return f": kubelet 1.{max(minors)} was the last to know it"


def _require_drop_in_variable(version: KubeletVersion, environment: Mapping[str, str], folder: str) -> None:
    if version.rules_minor >= FIRST_MINOR_WITHOUT_ENVIRONMENT_VARIABLE or DROP_IN_VARIABLE in environment:
        return
    error = (
        f"flag {folder} specified but environment variable {DROP_IN_VARIABLE} not set, cannot start kubelet"
    )
    raise StartError(error, fault("NF007", version=version, variable=DROP_IN_VARIABLE).finding(error))


def _with_drop_ins(
    configuration: Configuration, drop_ins: Mapping[str, str], judged: _JudgedGates, folder: str
) -> Configuration:
    try:
        merged = merge(configuration.settings, drop_ins, judged.version, folder)
    except DropInError as error:
        text = f"failed to merge kubelet configs: {error}"
        refused = fault("NF005", path=dotted(error.path))
        raise StartError(text, refused.finding(text, f"{folder}/{error.file}", error.line)) from error
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
