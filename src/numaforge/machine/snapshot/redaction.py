"""Keep secrets, serial numbers and addresses out of a snapshot, whatever file they stand in."""

import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256

REDACTED = "REDACTED"

# The texts may be a hostile host's: each pattern takes time in proportion to the text. A key is looked at
# once, and then taken as a whole (`++`).
_SENSITIVE_KEY = (
    r"(?=[\w.-]*?(?:token|passw(?:or)?d|secret|api-?_?key|authorization|credentials?|key-data))[\w.-]++"
)
# A switch, a duration, a path or a reference is not the secret itself.
_HARMLESS = r"(?:true|false|null|\d+[a-z]*|/[^\s\"',]*|\$\S+|)"

_RULES = (
    # Credentials in a URL: scheme://user:password@host.
    (
        re.compile(r"(?P<kept>\b[a-z][a-z0-9+.-]{0,31}://)[^\s/@\"']+@", re.IGNORECASE),
        rf"\g<kept>{REDACTED}@",
    ),
    (
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
        ),
        REDACTED,
    ),
    (re.compile(r"(?P<kept>\b(?:Bearer|Basic)\s+)[\w.~+/=-]{8,}", re.IGNORECASE), rf"\g<kept>{REDACTED}"),
    # key: value, key=value, "key": "value", --key=value, --key value.
    (
        re.compile(
            rf"(?P<kept>(?<![\w.-])-{{0,2}}{_SENSITIVE_KEY}[\"']?(?:[ \t]*[:=][ \t]*|[ \t]+(?=\S)|\0)[\"']?)"
            rf"(?!{_HARMLESS}(?:[\s\"',\0]|\Z))(?![\[{{])[^\s\"',\0]+",
            re.IGNORECASE,
        ),
        rf"\g<kept>{REDACTED}",
    ),
)

# staticPodURLHeader maps header names to lists of values, {"Authorization": ["..."]}, as a YAML block too.
_HEADERS_FLOW = re.compile(r"(?P<kept>staticPodURLHeader[\"']?\s*:\s*)\{[^{}]*\}")
_HEADERS_BLOCK = re.compile(
    r"^(?P<indent>[ \t]*)(?P<kept>staticPodURLHeader[ \t]*:)[ \t]*(?:#[^\n]*)?"
    r"(?:\n(?:(?P=indent)(?:[ \t]+|- )[^\n]*|[ \t]*(?=\n)))+",
    re.MULTILINE,
)
_KUBECONFIG = re.compile(r"^[\"' \t{]*+kind[\"']?\s*:\s*[\"']?Config\b", re.MULTILINE)
_SERIAL_OF_BOARD = re.compile(r"^serial(?: number)?[ \t]*:.*\n?", re.IGNORECASE | re.MULTILINE)
_SERIAL_ELEMENT = re.compile(r"<(?:(?=[^<>]*?(?:serial|guid))[^<>]*+|pdi)>", re.IGNORECASE)
_COMMAND_LINE = re.compile(r"(?<![ \t])[ \t]*+<process_name>[^<]*</process_name>\n?")
_ANSWER_OF_PLUGIN = re.compile(r'("AllocResp":)"[^"]*"')


@lru_cache(maxsize=512)
def redact(text: str) -> str:
    """Return a configuration text, command line or environment file with every secret replaced."""
    if _KUBECONFIG.search(text):
        return f"{REDACTED}\n"
    text = _HEADERS_FLOW.sub(r"\g<kept>{}", text)
    text = _HEADERS_BLOCK.sub(r"\g<indent>\g<kept> {}", text)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def redact_cpuinfo(text: str) -> str:
    """Return /proc/cpuinfo without the serial number that some ARM and POWER boards print there."""
    return _SERIAL_OF_BOARD.sub("", text)


def redact_nvidia_smi(text: str) -> str:
    """Return nvidia-smi's XML without serial numbers, GUIDs and the command lines of processes."""
    lines = _COMMAND_LINE.sub("", text).splitlines(keepends=True)
    return "".join(line for line in lines if not _SERIAL_ELEMENT.search(line))


def redact_device_checkpoint(text: str) -> str:
    """Return the kubelet's device checkpoint without what device plugins set in containers."""
    return _ANSWER_OF_PLUGIN.sub(r'\1""', text)


def checksum(lines: Iterable[str]) -> str:
    """Return the SHA-256 of lines that stay on their host, to compare them with another host's."""
    return sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()
