"""Kernel parameters that a profile may name freely, by purpose, and those that none may name.

Both tables are in parameters.json. A parameter in neither may make the node unreachable, and needs
`kernel.unsafe` with its risk; refused is what is specific to a machine, or decides what it boots into.
Accepted are NAME for a switch, and NAME=VALUE|VALUE; "*" in a name stands for letters, digits, "_" and "-". A
word in angle brackets has a pattern, or one for `each` in a list with commas: text that no boot loader's
script misreads. The kernel checks the rest of a value's syntax.

Sources: Documentation/admin-guide/kernel-parameters.txt; systemd(1), also for runlevels, and
kernel-command-line(7).
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

_TABLES: Mapping[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
_VALUES: Mapping[str, Mapping[str, str]] = _TABLES["values"]
ACCEPTED: Mapping[str, tuple[str, ...]] = _TABLES["accepted"]
_REFUSED_NAMES = {name: why for why, names in _TABLES["refused"].items() for name in names}
_INITIAL_RAM_DISK = _REFUSED_NAMES["break"]
_REFUSED_PREFIXES = ("rd.", "rd_", "luks.")  # dracut's parameters, and those that unlock disks

_ELSEWHERE = {
    "hugepages": "hugepages with at: boot, which counts the machine's memory",
    "hugepagesz": "hugepages with at: boot, which counts the machine's memory",
}


REPEATED = frozenset({"console", "earlycon", "crashkernel"})
"""Parameters of which the kernel takes each: the last console is /dev/console."""


def with_one_pci(words: Sequence[str]) -> list[str]:
    """Return the words with the options of all `pci=` in the first: the kernel reads each of them."""
    options = ",".join(word.removeprefix("pci=") for word in words if word.startswith("pci="))
    first = next((index for index, word in enumerate(words) if word.startswith("pci=")), None)
    words_kept = [word for word in words if not word.startswith("pci=")]
    return words_kept if first is None else [*words_kept[:first], f"pci={options}", *words_kept[first:]]


def isolated_by(words: Sequence[str]) -> str:
    """Return the CPUs that isolcpus= takes from the scheduler; flags without `domain` take none."""
    for word in words:
        match = re.fullmatch(r"isolcpus=((?:nohz,|domain,|managed_irq,)*)(.+)", word)
        if match and (not match[1] or "domain" in match[1]):
            return match[2]
    return ""


def parameter_name(parameter: str) -> str:
    """Return the name of a kernel parameter; the kernel reads "-" in a name as "_"."""
    return parameter.partition("=")[0].replace("-", "_")


def refusal(parameter: str) -> str | None:
    """Return why no profile may set a parameter, None where one may."""
    name = parameter_name(parameter)
    return _INITIAL_RAM_DISK if name.startswith(_REFUSED_PREFIXES) else _REFUSED_NAMES.get(name)


def refused_pattern() -> str:
    """Return the pattern of what no profile may set, for schemas."""
    prefixes = "|".join(map(_spelled, _REFUSED_PREFIXES))
    names = "|".join(map(_spelled, _REFUSED_NAMES))
    return f"^(({prefixes})|({names})(=|$))"


def doubt(parameter: str) -> str | None:
    """Return why a parameter is not accepted as harmless; None for an accepted one."""
    if _accepted().fullmatch(parameter):
        return None
    name, equals, _ = parameter.partition("=")
    forms = [form for form in _forms() if re.fullmatch(_name_pattern(form.partition("=")[0]), name)]
    if not forms:
        return "is not among the parameters that are known to leave a node as reachable as it was"
    if not equals:
        return f"has no value; known are {_alternatives(forms)}"
    return f"has a value that is not known to be harmless; known are {_alternatives(forms)}"


def elsewhere(parameter: str) -> str | None:
    """Return the section of a profile that sets a parameter instead, None where there is none."""
    return _ELSEWHERE.get(parameter_name(parameter))


def accepted_pattern() -> str:
    """Return the pattern of the parameters that need no acknowledgement, for schemas."""
    return f"^({'|'.join(_form_pattern(form) for form in _forms())})$"


def _forms() -> list[str]:
    return [form for forms in ACCEPTED.values() for form in forms]


def _form_pattern(form: str) -> str:
    name, equals, values = form.partition("=")
    if not equals:
        return _name_pattern(name)
    return f"{_name_pattern(name)}=({'|'.join(_value_pattern(value) for value in _split(values))})"


def _name_pattern(name: str) -> str:
    return "[A-Za-z0-9_-]+".join(_spelled(piece) for piece in name.split("*"))


def _spelled(name: str) -> str:
    """Return the pattern of a name, in which "-" also matches where the table has "_"."""
    return re.escape(name).replace("_", "[_-]")


def _split(values: str) -> list[str]:
    """Return the alternatives; "|" within angle brackets separates nothing."""
    return re.findall(r"(?:<[^>]*>|[^|<])+", values)


def _value_pattern(value: str) -> str:
    return "".join(
        _word_pattern(_VALUES[piece]) if piece in _VALUES else re.escape(piece)
        for piece in re.split(r"(<[^>]+>)", value)
    )


def _word_pattern(word: Mapping[str, str]) -> str:
    return word["pattern"] if "pattern" in word else f"{word['each']}(,{word['each']})*"


def _alternatives(forms: list[str]) -> str:
    values = [value for form in forms for value in _split(form.partition("=")[2])]
    shown = (re.sub("<[^>]+>", lambda found: _VALUES[found[0]]["shown"], value) for value in values)
    return ", ".join(shown) or "none"


@cache
def _accepted() -> re.Pattern[str]:
    """Return the pattern of all accepted parameters; compiling takes 10 ms, and most profiles name none."""
    return re.compile(accepted_pattern())
