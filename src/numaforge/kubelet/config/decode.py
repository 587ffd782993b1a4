"""Decode a configuration file: strictly first, then leniently, as the kubelet does.

Sources: pkg/kubelet/kubeletconfig/configfiles/configfiles.go, .../util/codec/codec.go, and the JSON and YAML
serializers of k8s.io/apimachinery.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from numaforge.kubelet_minors.fields import API_VERSION, KIND, ROOT_TYPE, types_of
from numaforge.kubelet_minors.values.gojson import GoJsonError, Path, decode, decode_json, kind_of, parse_json
from numaforge.kubelet_minors.values.gotext import quoted
from numaforge.kubelet_minors.values.goyaml import Document, YamlError, read
from numaforge.kubelet_minors.versions import KubeletVersion

# The line of runtime.NewScheme in k8s.io/apimachinery, part of the scheme's name; by the minor that moved it.
_SCHEME_LINES = {28: 100, 33: 110, 35: 111}
# Other kinds that the kubelet's scheme decodes, with the first minor that does.
_OTHER_KINDS = {
    (API_VERSION, "CredentialProviderConfig"): 0,
    (API_VERSION, "SerializedNodeConfigSource"): 0,
    (API_VERSION, "ImagePullIntent"): 35,
    (API_VERSION, "ImagePulledRecord"): 35,
    ("kubelet.config.k8s.io/v1", "CredentialProviderConfig"): 0,
}
# unicode.IsSpace
_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_META_NAMES = {"apiversion": "apiVersion", "kind": "kind"}
_TYPE_META = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


class LoadError(ValueError):
    """A file that the kubelet rejects; the message is its own, `rule` the finding's id, `path` the place.

    `reported` is the message as the loader of the main file reports it.
    """

    def __init__(
        self, message: str, rule: str, path: Path = (), line: int | None = None, *, decoded: bool = False
    ) -> None:
        super().__init__(message)
        self.reported = message if decoded else f"failed to decode: {message}"
        self.rule = rule
        self.path = path
        self.line = line

    @property
    def readable(self) -> bool:
        """Whether the text is a kubelet configuration, with a wrong value in it."""
        return self.rule == "NF004"


class ConfigFile(NamedTuple):
    """A decoded file: settings by field name (absent where unset), and what strict decoding rejects."""

    settings: Mapping[str, Any]
    lines: Mapping[Path, int]
    unknown: tuple[Path, ...]
    duplicates: tuple[tuple[Path, int], ...]


def decode_config(text: str, version: KubeletVersion, document: Document | None = None) -> ConfigFile:
    """Decode a KubeletConfiguration; `document` is `text` where it is already parsed.

    Raises LoadError with the part after `failed to decode: ` in the kubelet's message.
    """
    document = document or read_document(text)
    _require_kind(document, text, version)
    types = types_of(version.rules_minor)
    try:
        decoded = (
            decode_json(document.json, ROOT_TYPE, types)
            if document.json
            else decode(document.data, ROOT_TYPE, types)
        )
    except GoJsonError as error:
        raise LoadError(str(error), "NF004", error.path, document.lines.get(error.path)) from error
    return ConfigFile(
        settings={name: value for name, value in decoded.value.items() if name not in ("apiVersion", "kind")},
        lines=document.lines,
        unknown=decoded.unknown,
        duplicates=document.duplicates,
    )


@lru_cache(64)  # a fleet has few texts
def read_document(text: str) -> Document:
    """Read the YAML or JSON of a configuration file. Raises LoadError."""
    if text.lstrip(_SPACES).startswith("{"):
        return _read_json(text)
    try:
        return read(text)
    except YamlError as error:
        raise LoadError(str(error), "NF001", (), error.line) from error


def _read_json(text: str) -> Document:
    try:
        json = parse_json(text)
    except GoJsonError as error:
        raise LoadError(f"couldn't get version/kind; json parse error: {error}", "NF001") from error
    complaints = ", ".join(f'duplicate field "{field_path(path)}"' for path, _ in json.duplicates)
    return Document(json.data, json.lines, json.duplicates, complaints or None, json)


def interpret(document: Document) -> tuple[str, str]:
    """Return a document's apiVersion and kind, each empty where missing. Raises LoadError."""
    data = {} if document.data is None else document.data
    failed = "couldn't get version/kind; json parse error: json: cannot unmarshal"
    if not isinstance(data, dict):
        raise LoadError(f"{failed} {kind_of(data)} into Go value of type {_TYPE_META}", "NF002")
    meta = {"apiVersion": "", "kind": ""}
    # Go's own decoder ignores the case of these two names: `apiversion` counts too, and the last one wins.
    for key in data if document.json else sorted(data):
        name = _META_NAMES.get(key.lower())
        if name is None or data[key] is None:
            continue
        if not isinstance(data[key], str):
            mismatch = f"{kind_of(data[key])} into Go struct field .{name} of type string"
            raise LoadError(f"{failed} {mismatch}", "NF002", (key,), document.lines.get((key,)))
        meta[name] = data[key]
    if meta["apiVersion"].count("/") > 1:
        raise LoadError(f"unexpected GroupVersion string: {meta['apiVersion']}", "NF002", ("apiVersion",))
    return meta["apiVersion"], meta["kind"]


def _require_kind(document: Document, text: str, version: KubeletVersion) -> None:
    api_version, kind = interpret(document)
    if not kind:
        raise LoadError(f"Object 'Kind' is missing in '{text}'", "NF002")
    if not api_version:
        raise LoadError(f"Object 'apiVersion' is missing in '{text}'", "NF002")
    if (api_version, kind) == (API_VERSION, KIND):
        return
    where = ("kind",), document.lines.get(("kind",))
    if version.rules_minor >= _OTHER_KINDS.get((api_version, kind), version.rules_minor + 1):
        text = f"failed to cast object to KubeletConfiguration, unexpected type: {api_version}, Kind={kind}"
        raise LoadError(text, "NF002", *where, decoded=True)
    line = max(line for since, line in _SCHEME_LINES.items() if since <= version.rules_minor)
    raise LoadError(
        f"no kind {quoted(kind)} is registered for version {quoted(api_version)} in scheme "
        f'"pkg/runtime/scheme.go:{line}"',
        "NF002",
        *where,
    )


def field_path(path: Path) -> str:
    """Return a path as the strict decoder writes it: `reservedMemory[0].limit`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
