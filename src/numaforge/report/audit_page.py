"""An audit as one HTML page that fetches nothing and works without scripts."""

import base64
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from numaforge import __version__
from numaforge.fleet.audit.fleet import AuditFinding, Changes, FleetAudit
from numaforge.lib.ordering import first_of, grouped
from numaforge.lib.quantity import counted
from numaforge.lib.resources import template_dir
from numaforge.report.audit_documents import IN_WORDS, STATES, state_counts, state_of
from numaforge.report.hostnames import folded
from numaforge.report.printable import plain


class Portrait(NamedTuple):
    """The picture of the first of several machines that look alike."""

    machines: tuple[str, ...]
    svg: str


def audit_page(audit: FleetAudit, changed: Changes | None, portraits: Sequence[Portrait]) -> str:
    """Return the page of an audit: counts, makes, machines with their findings, rules, pictures."""
    environment = Environment(
        loader=FileSystemLoader(template_dir() / "audit"),
        autoescape=True,
        finalize=lambda value: value if hasattr(value, "__html__") else plain(value),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"anchor": _anchor, "folded": folded, "size": _size, "counted": counted}
    environment.filters["base64"] = lambda svg: base64.b64encode(svg.encode()).decode()
    titles = {entry.finding.id: entry.rule.title for entry in audit.findings}
    return environment.get_template("page.html.j2").render(
        title=f"Audit of {counted(len(audit.machines) + len(audit.failed), 'machine')}",
        version=__version__,
        audit=audit,
        counts=state_counts(audit),
        in_words=IN_WORDS,
        accepted=sum(entry.accepted for entry in audit.findings),
        changed=changed,
        choices={
            "state": [(state, state) for state in STATES],
            "make": [(number, make) for number, make in enumerate(audit.makes)],
            "rule": [(rule, f"{rule} {title}") for rule, title in sorted(titles.items())],
        },
        machines=_machines(audit, portraits),
        by_rule=grouped((entry.finding.id, entry) for entry in audit.findings),
        portraits=portraits,
    )


def _machines(audit: FleetAudit, portraits: Sequence[Portrait]) -> list[dict[str, Any]]:
    """Return the page's entry for each machine, the gravest states and the most findings first."""
    states, findings_of = state_of(audit), audit.by_machine
    makes = {name: number for number, names in enumerate(audit.makes.values()) for name in names}
    looks = {name: number for number, portrait in enumerate(portraits) for name in portrait.machines}
    return [
        {
            "name": name,
            "state": states[name],
            "make": makes.get(name, ""),
            "rules": dict.fromkeys(entry.finding.id for entry in findings_of.get(name, ())),
            "summary": _summary(findings_of.get(name, ())),
            "found": findings_of.get(name, ()),
            "look": looks.get(name),
        }
        for name in sorted(
            states, key=lambda name: (STATES.index(states[name]), -len(findings_of.get(name, ())))
        )
    ]


def _summary(several: Sequence[AuditFinding]) -> str:
    return first_of(dict.fromkeys(one.rule.title for one in several if not one.accepted), joint="; ")


def _size(svg: str) -> str:
    """Return width and height of a picture, so that the page does not jump when it is shown."""
    size = re.search(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"', svg)
    return f'width="{float(size[1]):.0f}" height="{float(size[2]):.0f}"' if size else ""


def _anchor(name: str) -> str:
    return "machine-" + "".join(
        char if char.isalnum() or char in "-_." else f"_{ord(char):x}_" for char in name
    )
