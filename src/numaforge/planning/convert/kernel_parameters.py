"""Kernel parameters of another tool's file that a profile accepts."""

import re
from collections.abc import Iterable
from typing import Any

from pydantic import TypeAdapter, ValidationError

from numaforge.lib.mistakes import sentence
from numaforge.planning.convert.draft import Draft
from numaforge.roles.kernel_cmdline.parameters import REPEATED, parameter_name, with_one_pci
from numaforge.roles.kernel_cmdline.section import Parameter

_PARAMETER: TypeAdapter[str] = TypeAdapter(Parameter)
_PAGES = {"hugepages", "hugepagesz"}
_NODE_PAGES = re.compile(r"(?:(?P<node>[0-9]{1,4}):)?(?P<count>[0-9]{1,9})")
# Parameters that a key of the section kernel sets; planning refuses both.
_BY_KEY = {
    "intel_iommu": "kernel.iommu",
    "amd_iommu": "kernel.iommu",
    "iommu": "kernel.iommu",
    "iommu.passthrough": "kernel.iommu",
    "isolcpus": "kernel.isolated_cpus",
    "nohz_full": "kernel.nohz_full",
    "rcu_nocbs": "kernel.rcu_nocbs",
    "skew_tick": "kernel.skew_tick",
    "init_on_alloc": "kernel.init_on_alloc",
    "numa_balancing": "kernel.numa_balancing",
    "processor.max_cstate": "kernel.max_cstate",
    "intel_idle.max_cstate": "kernel.max_cstate",
}


def add_parameters(draft: Draft, parameters: Iterable[str], field: str) -> None:
    """Add parameters to kernel.cmdline; leave out the others with a note.

    Never writes kernel.unsafe: accepting a risk is up to the admin.
    """
    given = [word for parameter in parameters for word in str(parameter).split()]
    # The last of equal words counts, as the last console is /dev/console; a number of pages is of a size.
    kept = [
        word
        for number, word in enumerate(given)
        if parameter_name(word) in _PAGES or word not in given[number + 1 :]
    ]
    words = with_one_pci(kept)
    accepted: list[str] = []
    for word in _with_pages_placed(draft, words, field):
        name = parameter_name(word)
        if name in _PAGES:
            draft.left_out(field, f"{word} is left out: set it in the section hugepages", "hugepages")
        elif (reason := _refusal(word)) is not None:
            draft.left_out(field, f"{word} is left out: {reason}", "kernel.cmdline")
        elif (key := _BY_KEY.get(name)) and draft.has(key):
            draft.left_out(field, f"{word} is left out: {key} sets it", key)
        elif earlier := _earlier_value(draft, accepted, word):
            draft.left_out(field, f"{word} is left out: {earlier} is already set", "kernel.cmdline")
        else:
            accepted.append(word)
    draft.add("kernel.cmdline", accepted, field)


def _with_pages_placed(draft: Draft, words: list[str], field: str) -> list[str]:
    """Put each hugepages=, of the size named before it, into hugepages; return the other words."""
    default = next((word for word in reversed(words) if word.startswith("default_hugepagesz=")), "=2M")
    size = _page_size(default.partition("=")[2])
    pages: list[dict[str, Any]] = []
    for word in words:
        name, _, value = word.partition("=")
        if name == "hugepagesz":
            size = _page_size(value)
        elif name == "hugepages":
            parts = [_NODE_PAGES.fullmatch(part) for part in value.split(",")]
            if size is None or None in parts or draft.has("hugepages"):
                return words
            pages += [_pool(size, match) for match in parts if match]
    if not pages:
        return words
    draft.add("hugepages", pages, field)
    text = (
        "hugepages= becomes pools that are set while the node runs; at: boot keeps them in the command line"
    )
    draft.differs(field, text, "hugepages")
    return [word for word in words if word.partition("=")[0] not in _PAGES]


def _pool(size: str, match: re.Match[str]) -> dict[str, Any]:
    node = {"numa_node": int(match["node"])} if match["node"] else {}
    return {"size": size, "count": int(match["count"]), **node}


def _page_size(text: str) -> str | None:
    match = re.fullmatch(r"([0-9]{1,6})([MG])", text.upper())
    return f"{match[1]}{match[2]}i" if match else None


def _refusal(word: str) -> str | None:
    try:
        _PARAMETER.validate_python(word)
    except ValidationError as invalid:
        return sentence(dict[str, Any](invalid.errors()[0]))
    return None


def _earlier_value(draft: Draft, accepted: list[str], word: str) -> str | None:
    """Return another value of the same parameter, ignoring repeated words and further consoles."""
    if parameter_name(word) in REPEATED:
        return None
    values = [*draft.listed("kernel.cmdline"), *accepted]
    return next(
        (value for value in values if parameter_name(value) == parameter_name(word) and value != word), None
    )
