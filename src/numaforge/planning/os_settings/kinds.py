"""The kinds of machines of a fleet whose settings are the same, and their files."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from numaforge.lib.ordering import unlike
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.os_settings.bottlerocket import settings_toml
from numaforge.planning.os_settings.content import LeftOut, OsSettings, kubelet_of
from numaforge.planning.os_settings.talos import documents_patch, machine_patch
from numaforge.planning.plan import NodePlan
from numaforge.roles.template import header

System = Literal["talos", "talos-documents", "bottlerocket"]
_WIDTH = 110


class Kind(NamedTuple):
    """Machines with the same settings: their names, the settings' files by name, and what these leave out."""

    machines: tuple[str, ...]
    files: dict[str, str]
    left_out: tuple[LeftOut, ...]


def kinds_of(system: System, nodes: Sequence[tuple[str, NodeTopology, NodePlan]]) -> list[Kind]:
    """Return the kinds of named machines, each with its files. Raises PlanError for one without a kubelet."""
    machines: dict[OsSettings, list[str]] = {}
    headers: dict[OsSettings, str] = {}
    for name, machine, plan in nodes:
        settings = settings_of(system, machine, plan)
        machines.setdefault(settings, []).append(name)
        headers.setdefault(settings, f"{header(plan)} For the kubelet {kubelet_of(plan).version}.")
    kinds = []
    taken: set[str] = set()
    for settings, names in machines.items():
        stem = unlike(re.sub(r"[^A-Za-z0-9.-]", "-", names[0]).lstrip(".-") or "machine", taken)
        taken.add(stem)
        first, *others = settings.files
        files = {f"{stem}.{first[0]}": "".join(_head(headers[settings], names, settings)) + first[1]}
        files |= {f"{stem}.{end}": text for end, text in others}
        kinds.append(Kind(tuple(names), files, settings.left_out))
    return kinds


def settings_of(system: System, machine: NodeTopology, plan: NodePlan) -> OsSettings:
    """Return a plan as the settings of a system."""
    if system == "bottlerocket":
        return settings_toml(plan, machine)
    return documents_patch(plan) if system == "talos-documents" else machine_patch(plan)


def _head(title: str, names: Sequence[str], settings: OsSettings) -> Iterator[str]:
    """Yield the comments of a file: for which machines it is, what it leaves out, and what to know."""
    yield from _comment(title)
    yield from _comment(f"Machines: {', '.join(names)}")
    if settings.left_out:
        yield from _comment("Not expressed here:")
        for row in settings.left_out:
            yield from _comment(f"{row.key}: {row.why}", "  ")
    for note in settings.notes:
        yield from _comment(f"Note: {note}")


def _comment(text: str, indent: str = "") -> Iterator[str]:
    plain = "".join(character if character.isprintable() else "?" for character in text)
    for line in textwrap.wrap(
        plain,
        _WIDTH,
        initial_indent=f"# {indent}",
        subsequent_indent=f"# {indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    ):
        yield f"{line}\n"
