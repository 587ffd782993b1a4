"""Text of other tools, read strictly: YAML documents, TOML, or an INI file."""

import configparser
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from email import message_from_string
from typing import Any

from numaforge.lib.errors import NumaforgeError
from numaforge.lib.given import mappings
from numaforge.lib.mistakes import shown
from numaforge.lib.strict_yaml import read_manifests

# Ansible's tags say how it treats a text: one is encrypted, the other is no template.
_MIG_PARTED = "mig-configs"  # mig-parted reads a key twice, and DeepOps' own file has one
_EKSCTL = "ClusterConfig"
_NODE_CONFIG = "application/node.eks.aws"
OTHER_PARTS = "other parts of the user data"
_ASSIGNMENT = re.compile(
    r"(?:export +)?(?P<name>(?:GRUB|IRQBALANCE)_\w+|-?[a-z]\w*[./][\w./*-]+)\s*(?P<more>\+?)=\s*(?P<value>.*)"
)
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")
_ANSIBLE_TAG = re.compile(r"(?m)(?<=[:-] )!(?:vault|unsafe)(?= |$)")


def read_mappings(text: str, file: str) -> list[Mapping[str, Any]]:
    """Return the mappings of a YAML file, or of Ansible.

    The last one of a key that is written twice counts for the kubelet, kubectl and mig-parted; other tools
    refuse it. Raises NumaforgeError for that, and for a file without any mapping.
    """
    documents, repeated = read_manifests(_ANSIBLE_TAG.sub("", text), file)
    documents = [one for one in documents if one is not None]
    if repeated and not any(
        isinstance(one, dict) and (_MIG_PARTED in one or one.get("kind", _EKSCTL) != _EKSCTL)
        for one in documents
    ):
        raise NumaforgeError(f"{repeated[0].partition('; ')[0]}", where=file)
    if not documents:
        raise NumaforgeError("is empty", where=file, remedy="name the file to convert")
    mappings_in = [one for one in documents if isinstance(one, dict)]
    if not mappings_in:
        remedy = None
        if any("op" in one and "path" in one for one in mappings(documents[0])):
            remedy = "it is a JSON patch (RFC 6902): write what it makes, as machine: {kubelet: ...}"
        elif any("tasks" in one or "name" in one for one in mappings(documents[0])):
            remedy = (
                "it is a list of Ansible's plays or tasks: give their variables, or a file that they write"
            )
        elif text.startswith("#!"):
            remedy = "it is a script: convert the files that it writes"
        elif "root=" in text:
            remedy = 'give a kernel command line as GRUB_CMDLINE_LINUX="..." in a file'
        raise NumaforgeError(f"{shown(documents[0])} is not a mapping", where=file, remedy=remedy)
    return [inner for one in mappings_in for inner in (mappings(one.get("items")) or [one])]


def read_mime(text: str, place: str) -> Mapping[str, Any]:
    """Return the only NodeConfig in user data of EKS, and the types of the other parts as OTHER_PARTS.

    Raises NumaforgeError for none and for several, which nodeadm would merge.
    """
    leaves = [part for part in message_from_string(text).walk() if not part.is_multipart()]
    parts = [part for part in leaves if part.get_content_type() == _NODE_CONFIG]
    if len(parts) != 1:
        problem = f"is MIME with {len(parts)} parts of {_NODE_CONFIG}"
        raise NumaforgeError(
            problem, where=place, remedy="give the NodeConfig alone, merged where several are"
        )
    payload = parts[0].get_payload(decode=True)
    config = read_mappings(payload.decode(errors="replace") if isinstance(payload, bytes) else "", place)[0]
    others = [part.get_content_type() for part in leaves if part not in parts]
    return {**config, OTHER_PARTS: others} if others else config


def read_assignments(text: str, file: str, *, sure: bool) -> dict[str, str] | None:
    """Return the `name = value` lines of a file of sysctl.d or of GRUB's defaults; None for another file.

    Raises NumaforgeError for another line where it is `sure` to be such a file.
    """
    assignments = [(line, _ASSIGNMENT.fullmatch(line)) for line in _meaningful(text)]
    wrong = next((line for line, match in assignments if not match), None)
    if wrong is not None and (sure or assignments[0][0].startswith("GRUB_")):
        raise NumaforgeError(f"{shown(wrong)} is not an assignment", where=file, remedy="write NAME=VALUE")
    if wrong is not None or not assignments:
        return None
    values: dict[str, str] = {}
    for _, match in assignments:
        if match:
            earlier = values.get(match["name"], "") if match["more"] else ""
            text = _VARIABLE.sub(lambda one: values.get(one[1], one[0]), _unquoted(match["value"]))
            values[match["name"]] = f"{earlier}{text}"
    return values


def _meaningful(text: str) -> Iterator[str]:
    lines = (line.strip() for line in text.replace("\\\n", " ").splitlines())
    return (line for line in lines if line and not line.startswith(("#", ";")))


def _unquoted(value: str) -> str:
    try:
        words = shlex.split(value, comments=True)
    except ValueError:
        return value
    return words[0] if len(words) == 1 else value


def read_toml(text: str, file: str) -> dict[str, Any]:
    """Return the content of a TOML file. Raises NumaforgeError."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise NumaforgeError(f"not valid TOML: {error}", where=file) from error
    except ValueError as error:  # from int() and datetime, which tomllib passes on
        raise NumaforgeError(
            "not valid TOML: a number has too many digits, or a date is none", where=file
        ) from error
    except RecursionError as error:
        raise NumaforgeError("not valid TOML: nested too deeply", where=file) from error


def read_ini(text: str, file: str) -> dict[str, dict[str, str]]:
    """Return the options of an INI file by section, in their original case.

    Raises NumaforgeError for a duplicate section or option, and for text outside of sections.
    """
    parser = configparser.ConfigParser(
        interpolation=None, delimiters=("=",), inline_comment_prefixes=("#",), default_section="", strict=True
    )
    parser.optionxform = str  # type: ignore[method-assign, assignment]
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise NumaforgeError(f"not an INI file: {' '.join(str(error).split())}", where=file) from error
    return {section: dict(parser[section]) for section in parser.sections()}
