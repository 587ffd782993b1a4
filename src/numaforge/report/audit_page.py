"""An audit as one page of HTML: no script, font or picture to fetch, and nothing that only a script shows."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from numaforge import __version__
from numaforge.audit.fleet import AuditFinding, Changes, FleetAudit
from numaforge.ordering import first_of, grouped
from numaforge.report.audit_documents import STATES, state_counts, state_of
from numaforge.report.hostnames import folded
from numaforge.report.terminal import plain
from numaforge.report.wording import counted

_STYLE = """
:root { color-scheme: light dark; --back: #ffffff; --fore: #1b1f24; --muted: #57606a; --line: #d0d7de;
  --soft: #f6f8fa; --link: #0550ae; --error: #b3261e; --warning: #8a5300; --note: #0550ae; --sound: #1a6b35; }
@media (prefers-color-scheme: dark) { :root { --back: #0d1117; --fore: #e6edf3; --muted: #9da7b3;
  --line: #373e47; --soft: #161b22; --link: #79b8ff; --error: #ff8a80; --warning: #f0b34a; --note: #79b8ff;
  --sound: #6fcf8a; } }
* { box-sizing: border-box; }
html { scroll-padding-top: 10rem; }
body { margin: 0 auto; padding: 1rem; max-width: 72rem; background: var(--back); color: var(--fore);
  font: 16px/1.45 system-ui, 'Liberation Sans', 'DejaVu Sans', sans-serif; overflow-wrap: anywhere; }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
h1 { font-size: 1.5rem; margin: 0 0 .5rem; } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
nav a { margin-right: 1rem; }
ul.counts { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; }
.counts b { font-size: 1.3rem; }
.muted { color: var(--muted); }
.error, .not-read { color: var(--error); } .warning { color: var(--warning); } .note { color: var(--note); }
.sound { color: var(--sound); }
form.filter { position: sticky; top: 0; background: var(--back); padding: .5rem 0; display: none;
  gap: .5rem 1rem; flex-wrap: wrap; align-items: end; border-bottom: 1px solid var(--line); z-index: 1; }
.scripted form.filter { display: flex; }
.filter div { min-width: 0; max-width: 100%; }
.filter label { display: block; font-size: .85rem; color: var(--muted); }
.filter input, .filter select { display: block; font: inherit; color: inherit; background: var(--soft);
  border: 1px solid var(--line); border-radius: 6px; padding: .3rem .5rem; max-width: 100%; }
details { border-bottom: 1px solid var(--line); }
details.machine { content-visibility: auto; contain-intrinsic-size: auto 2.6rem; }
summary { cursor: pointer; padding: .5rem .25rem; }
summary .name { font-weight: 600; }
.inside { padding: 0 .25rem 1rem 1.25rem; }
.inside ul { padding-left: 1.1rem; } .inside li { margin: .4rem 0; }
.accepted { opacity: .7; }
figure { margin: 1rem 0; overflow-x: auto; } img { max-width: 100%; height: auto; background: #ffffff; }
[hidden] { display: none !important; }
@media (max-width: 40rem) { body { padding: .6rem; } .inside { padding-left: .4rem; }
  form.filter { position: static; } html { scroll-padding-top: 0; } }
@media print { form.filter { display: none !important; } }
""".strip()

_SCRIPT = """
document.documentElement.classList.add('scripted');
const form = document.querySelector('form.filter'), told = document.getElementById('told');
const machines = [...document.querySelectorAll('details.machine')];
const texts = new Map();
const textOf = (machine) => {
  if (!texts.has(machine)) texts.set(machine, machine.textContent.toLowerCase());
  return texts.get(machine);
};
const apply = () => {
  const words = form.search.value.toLowerCase().split(/\\s+/).filter(Boolean);
  let shown = 0;
  for (const machine of machines) {
    const is = (name) => !form[name].value || machine.dataset[name] === form[name].value;
    const fits = is('state') && is('make')
      && (!form.rule.value || machine.dataset.rules.split(' ').includes(form.rule.value))
      && words.every((word) => textOf(machine).includes(word));
    machine.hidden = !fits;
    shown += fits;
  }
  told.textContent = `${shown} of ${machines.length} shown`;
};
form.addEventListener('input', apply);
form.addEventListener('submit', (event) => event.preventDefault());
form.addEventListener('reset', () => setTimeout(apply));
document.addEventListener('keydown', (event) => {
  if (event.key === '/' && !event.target.matches('input, select')) {
    event.preventDefault();
    form.search.focus();
  }
  if (event.key === 'Escape' && event.target === form.search) form.reset();
});
const open = () => {
  const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!(place instanceof HTMLDetailsElement)) return;
  place.hidden = false;
  place.open = true;
  place.scrollIntoView();
};
addEventListener('hashchange', open);
apply();
open();
""".strip()

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "form-action 'none'"
)
_IN_WORDS = {"error": "with errors", "warning": "with warnings", "note": "with notes"}


@dataclass(frozen=True)
class Portrait:
    """The picture of machines that look alike: the first of them is drawn."""

    machines: tuple[str, ...]
    svg: str


def audit_page(audit: FleetAudit, changed: Changes | None, portraits: Sequence[Portrait]) -> str:
    """Return the page of an audit: counts, makes, machines with their findings, rules, pictures."""
    return "\n".join(_page(audit, changed, portraits)) + "\n"


def _page(audit: FleetAudit, changed: Changes | None, portraits: Sequence[Portrait]) -> Iterator[str]:
    title = f"Audit of {counted(len(audit.machines) + len(audit.failed), 'machine')}"
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f'<meta name="generator" content="numaforge {_safe(__version__)}">'
    yield f"<title>{title}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n<body>"
    yield f"<header>\n<h1>{title}</h1>"
    yield from _counts(audit)
    since = '<a href="#since">Changes</a>' if changed else ""
    looks = '<a href="#pictures">Pictures</a>' if portraits else ""
    parts = f'<a href="#machines">Machines</a><a href="#rules">Rules</a>{looks}{since}'
    yield f'<nav aria-label="Parts">{parts}</nav>'
    yield "</header>\n<main>"
    yield from _makes(audit)
    if changed is not None:
        yield from _since(changed)
    yield from _machines(audit, portraits)
    yield from _rules(audit)
    yield from _pictures(portraits)
    yield f"</main>\n<script>\n{_SCRIPT}\n</script>\n</body>\n</html>"


def _counts(audit: FleetAudit) -> Iterator[str]:
    yield '<ul class="counts">'
    for state, count in state_counts(audit).items():
        yield f'<li class="{_class(state)}"><b>{count}</b> {_IN_WORDS.get(state, state)}</li>'
    accepted = sum(each.accepted for each in audit.findings)
    if accepted:
        yield f'<li class="muted"><b>{accepted}</b> accepted by the baseline</li>'
    yield "</ul>"


def _makes(audit: FleetAudit) -> Iterator[str]:
    yield '<section aria-labelledby="makes">\n<h2 id="makes">Makes and racks</h2>\n<ul>'
    for make, names in audit.makes.items():
        yield f"<li><b>{len(names)}</b> x {_safe(make)}: {_safe(folded(names))}</li>"
    for cluster, trays in audit.racks.items():
        yield f"<li>NVLink domain {_safe(cluster)}: {_safe(folded(trays))}</li>"
    yield "</ul>\n</section>"


def _since(changed: Changes) -> Iterator[str]:
    yield '<section aria-labelledby="since">\n<h2 id="since">Since the earlier audit</h2>'
    rows = [
        *(
            f"{_link(each.machine)}: new: {_rule_link(each.finding.id)} {_safe(each.rule.title)}"
            for each in changed.new
        ),
        *(f"{_link(name)}: gone: {_safe(key)}" for name, keys in changed.gone.items() for key in keys),
        *(
            f"{_link(each.machine)}: {_safe(each.what)}: {_safe(each.before or 'not known')} &rarr; "
            f"{_safe(each.after or 'not known')}"
            for each in changed.facts
        ),
        *(f"{_link(name)}: was not audited before" for name in changed.machines_new),
        *(f"{_safe(name)}: is not audited any more" for name in changed.machines_gone),
    ]
    yield from (
        ["<ul>", *(f"<li>{row}</li>" for row in rows), "</ul>"] if rows else ["<p>Nothing has changed.</p>"]
    )
    yield "</section>"


def _machines(audit: FleetAudit, portraits: Sequence[Portrait]) -> Iterator[str]:
    states, found = state_of(audit), audit.by_machine
    makes = {name: number for number, names in enumerate(audit.makes.values()) for name in names}
    looks = {name: number for number, each in enumerate(portraits) for name in each.machines}
    rules = {each.finding.id: each.rule.title for each in audit.findings}
    yield '<section aria-labelledby="machines">\n<h2 id="machines">Machines</h2>'
    yield from _filter(audit, rules)
    for name in sorted(states, key=lambda name: (STATES.index(states[name]), -len(found.get(name, ())))):
        several = found.get(name, [])
        ids = " ".join(dict.fromkeys(each.finding.id for each in several))
        state = states[name]
        yield (
            f'<details class="machine" id="{_anchor(name)}" data-state="{state}" '
            f'data-make="{makes.get(name, "")}" data-rules="{ids}">'
        )
        told = _safe(_summary(several)) or "nothing found"
        yield (
            f'<summary><span class="name">{_safe(name)}</span> <span class="{_class(state)}">{state}</span> '
            f'<span class="muted">{told}</span></summary>\n<div class="inside">'
        )
        yield from _findings(several)
        if name in looks:
            yield f'<p><a href="#look-{looks[name]}">Its picture</a></p>'
        yield "</div>\n</details>"
    yield "</section>"


def _filter(audit: FleetAudit, rules: Mapping[str, str]) -> Iterator[str]:
    yield '<form class="filter" role="search">'
    search = '<input id="search" name="search" type="search">'
    yield f'<div><label for="search">Search (key /)</label>{search}</div>'
    yield from _select("state", "State", {state: state for state in STATES})
    yield from _select("make", "Make", {str(number): str(make) for number, make in enumerate(audit.makes)})
    yield from _select("rule", "Rule", {rule: f"{rule} {title}" for rule, title in sorted(rules.items())})
    yield '<div><button type="reset">Show all</button> <output id="told" class="muted"></output></div>'
    yield "</form>"


def _select(name: str, label: str, choices: Mapping[str, str]) -> Iterator[str]:
    options = "".join(
        f'<option value="{_safe(value)}">{_safe(text)}</option>' for value, text in choices.items()
    )
    yield f'<div><label for="{name}">{label}</label><select id="{name}" name="{name}">'
    yield f'<option value="">all</option>{options}</select></div>'


def _summary(several: Sequence[AuditFinding]) -> str:
    shown = [each for each in several if not each.accepted]
    titles = [*dict.fromkeys(each.rule.title for each in shown)]
    return first_of(titles, joint="; ")


def _findings(several: Sequence[AuditFinding]) -> Iterator[str]:
    if not several:
        return
    yield "<ul>"
    for each in several:
        finding = each.finding
        where = f"{_safe(finding.where)}: " if finding.where else ""
        accepted = ' <span class="muted">(accepted by the baseline)</span>' if each.accepted else ""
        marked = ' class="accepted"' if each.accepted else ""
        severity = f'<span class="{finding.severity}">{finding.severity}</span>'
        yield (
            f"<li{marked}>{severity} {_rule_link(finding.id)} {where}{_safe(finding.evidence)}{accepted}</li>"
        )
    yield "</ul>"


def _rules(audit: FleetAudit) -> Iterator[str]:
    groups = grouped((each.finding.id, each) for each in audit.findings)
    yield '<section aria-labelledby="rules">\n<h2 id="rules">Rules that found something</h2>'
    for rule, several in groups.items():
        finding = several[0].finding
        names = [*dict.fromkeys(each.machine for each in several)]
        severity = finding.severity
        yield (
            f'<details id="rule-{rule}" open><summary><span class="{severity}">{severity} {rule}</span> '
            f'{_safe(several[0].rule.title)} <span class="muted">({counted(len(names), "machine")})</span>'
            "</summary>"
        )
        source = f'<br><span class="muted">Source: {_safe(finding.source)}</span>' if finding.source else ""
        yield f'<div class="inside"><p>{_safe(folded(names))}</p>'
        yield f"<p>What helps: {_safe(finding.remedy)}{source}</p></div>"
        yield "</details>"
    yield "</section>"


def _pictures(portraits: Sequence[Portrait]) -> Iterator[str]:
    if not portraits:
        return
    yield '<section aria-labelledby="pictures">\n<h2 id="pictures">Pictures</h2>'
    for number, each in enumerate(portraits):
        data = base64.b64encode(each.svg.encode()).decode()
        others = folded(each.machines[1:])
        alike = f"{_safe(each.machines[0])}{f'; alike: {_safe(others)}' if others else ''}"
        size = _size(each.svg)
        yield (
            f'<figure id="look-{number}"><figcaption>{alike}</figcaption>'
            f'<img loading="lazy" {size} alt="The machine {_safe(each.machines[0])}" '
            f'src="data:image/svg+xml;base64,{data}"></figure>'
        )
    yield "</section>"


def _size(svg: str) -> str:
    """Return width and height of a picture, so that the page does not jump when it is shown."""
    found = re.search(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"', svg)
    return f'width="{float(found[1]):.0f}" height="{float(found[2]):.0f}"' if found else ""


def _link(name: str) -> str:
    return f'<a href="#{_anchor(name)}">{_safe(name)}</a>'


def _rule_link(rule: str) -> str:
    return f'<a href="#rule-{rule}">{rule}</a>'


def _anchor(name: str) -> str:
    return "machine-" + "".join(
        char if char.isalnum() or char in "-_." else f"_{ord(char):x}_" for char in name
    )


def _class(state: str) -> str:
    return state.replace(" ", "-")


def _safe(text: object) -> str:
    return html.escape(plain(text))
