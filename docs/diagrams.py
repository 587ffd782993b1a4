"""Draw the diagrams of the documentation from the code that they show: `python -m docs.picture_examples`.

The phases are those of `Phases`, the parts those of PARTS, the steps those of transaction.sh. What has
no place here makes `diagrams` fail, so that a change of the code asks for a look at the picture.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from numaforge.change import parts
from numaforge.image import bake as image
from numaforge.lib import shell
from numaforge.report.boxes import text_width
from numaforge.report.live import Age, fleet_screen
from numaforge.report.terminal import Screen
from numaforge.rollout import phases
from numaforge.rollout.fleet import Fleet, FleetSettings, Member
from numaforge.rollout.outcome import Outcome
from numaforge.rollout.record import Ending, Phase
from tests.fixtures.rollout_world import World

NODE = Path(shell.__file__).parents[1] / "node"
SECOND_SCHEDULER = Path(__file__).with_name("second-scheduler.json")
"""What `make test-second-scheduler` has seen."""

_STYLE = """
text { font-family: Inter, Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif; fill: #1b1f24; }
.muted { fill: #57606a; }
.bold { font-weight: 600; }
.canvas { fill: #ffffff; }
.plain { fill: #f6f8fa; stroke: #8c959f; }
.forwards { fill: #cfe8f7; stroke: #0072b2; }
.back { fill: #fde9c9; stroke: #b35c00; }
.good { fill: #eef7ee; stroke: #00795c; }
.bad { fill: #fbf3f8; stroke: #a6467d; stroke-dasharray: 4 2; }
.line { fill: none; stroke: #57606a; stroke-width: 1.4; }
""".strip()
_ARROW = (
    '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="#57606a"/></marker>'
)
_LINE = 16
_SIZE = 12
_SMALL = 11
_PADDING = 10


@dataclass(frozen=True)
class Block:
    """A box with a heading and lines below it; every text has to fit."""

    kind: str
    x: float
    y: float
    width: float
    height: float
    heading: str
    lines: tuple[str, ...] = ()

    def svg(self) -> Iterator[str]:
        """Yield its elements.

        Raises ValueError for a text that is wider or lower than the box.
        """
        if _PADDING + _LINE * (1 + len(self.lines)) > self.height + 4:
            raise ValueError(f"{self.heading}: {len(self.lines)} lines do not fit into {self.height} pixels")
        yield (
            f'<rect class="{self.kind}" x="{self.x}" y="{self.y}" width="{self.width}" '
            f'height="{self.height}" rx="5"/>'
        )
        rows = [(self.heading, _SIZE, "bold"), *((line, _SMALL, "muted") for line in self.lines)]
        for number, (line, size, style) in enumerate(rows):
            if text_width(line, size, style == "bold") > self.width - 8:
                raise ValueError(f"{line!r} does not fit into {self.width} pixels")
            y = self.y + self.height / 2 + 4 + (number - (len(rows) - 1) / 2) * _LINE
            yield _text(line, self.x + self.width / 2, y, size, style, "middle")


def _text(
    line: str, x: float, y: float, size: int = _SMALL, style: str = "muted", anchor: str = "start"
) -> str:
    placed = f'x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}"'
    return f'<text {placed} class="{style}">{escape(line)}</text>'


def _arrow(path: str) -> str:
    return f'<path class="line" d="{path}" marker-end="url(#arrow)"/>'


def _document(title: str, width: int, height: int, elements: Iterable[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-labelledby="title">'
    )
    canvas = f'<rect class="canvas" width="{width}" height="{height}"/>'
    defined = f"<style>{_STYLE}</style>\n<defs>{_ARROW}</defs>"
    body = "\n".join(elements)
    return f'{head}\n<title id="title">{escape(title)}</title>\n{defined}\n{canvas}\n{body}\n</svg>\n'


# ---- the path ----


def path() -> str:
    """Return the path that everything takes, from a snapshot to what is verified."""
    width, height, gap, top = 158, 66, 34, 100
    stations = (
        ("numaforge capture", ("gpu-01.snapshot.json:", "raw text of the host")),
        ("numaforge topology", ("NUMA nodes, cores,", "memory and devices")),
        ("numaforge plan", ("plan.json: decisions", "with their reasons")),
        ("numaforge apply", ("one maintenance, rolled", "back when it fails")),
        ("numaforge verify", ("the live node against", "the same plan.json")),
    )
    elements: list[str] = []
    for number, (name, lines) in enumerate(stations):
        x = 20 + number * (width + gap)
        kind = "good" if name == "numaforge verify" else "forwards"
        elements += Block(kind, x, top, width, height, name, lines).svg()
        if number:
            elements.append(_arrow(f"M{x - gap} {top + height / 2}H{x - 1}"))
    x = 20 + 2 * (width + gap)
    elements += Block("plain", x, 14, width, 48, "profiles/gpu.yaml", ("what you want",)).svg()
    elements.append(_arrow(f"M{x + width / 2} 62V{top - 1}"))
    return _document("The path from a snapshot to a verified node", 20 + 5 * (width + gap), 186, elements)


# ---- what happens before a kubelet starts ----


def boot() -> str:
    """Return the order of a boot on a node that plans itself, from its unit and from boot.sh."""
    before, after = _ordered()
    width, height, gap, top = 204, 96, 36, 22
    stations = (
        ("plain", "before", before),
        ("forwards", "numaforge-boot.service", ("is everything on which", "the plan rests as it was?")),
        ("plain", "container runtime", tuple(unit for unit in after if unit != "kubelet.service")),
        ("good", "kubelet.service", ("asks the same before", "each of its starts")),
    )
    elements: list[str] = []
    for number, (kind, name, lines) in enumerate(stations):
        x = 20 + number * (width + gap)
        elements += Block(kind, x, top, width, height, name, lines).svg()
        if number:
            elements.append(_arrow(f"M{x - gap} {top + height / 2}H{x - 1}"))
    elements.append(_text("yes", 20 + 2 * (width + gap) - gap / 2, top + height / 2 - 6, anchor="middle"))
    here, low = 20 + width + gap, top + height + 46
    lines = ("looks, plans itself, and", "carries out the plan,", "with one reboot at most")
    elements += Block("forwards", here, low, width, height, "numaforge boot", lines).svg()
    elements.append(_arrow(f"M{here + width / 2} {top + height}V{low - 1}"))
    elements.append(_text("no", here + width / 2 + 8, top + height + 26))
    elements.append(
        _arrow(f"M{here + width} {low + height / 2}H{here + 1.5 * width + gap}V{top + height + 1}")
    )
    elements.append(_text("as planned", here + width + 12, low + height / 2 - 6))
    why = ("console, journal, issue", "what was begun is undone")
    elements += Block("bad", here, low + height + 40, width, 66, "kubelet not started", why).svg()
    elements.append(_arrow(f"M{here + width / 2} {low + height}V{low + height + 39}"))
    elements.append(_text("refused", here + width / 2 + 8, low + height + 24))
    return _document(
        "What a node does before its kubelet starts", 4 * (width + gap), int(low + height + 126), elements
    )


def _ordered() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what the unit of a node's boot comes after, as far as it has room, and before."""
    unit = (Path(image.__file__).parent / "numaforge-boot.service").read_text()
    after = [name for line in re.findall("^After=(.*)$", unit, re.MULTILINE) for name in line.split()]
    before = [name for line in re.findall("^Before=(.*)$", unit, re.MULTILINE) for name in line.split()]
    shown = (
        "local-fs.target",
        "systemd-modules-load.service",
        "cloud-init.service",
        "nvidia-persistenced.service",
    )
    if not {*shown} <= {*after}:
        raise ValueError(f"the unit comes after {', '.join(after)}")
    return shown, tuple(before)


# ---- the phases of a node ----

_BOX = (160, 62)
_PLACES = {
    Phase.CLAIMED: (20, 246),
    Phase.CORDONED: (20, 96),
    Phase.DRAINED: (242, 96),
    Phase.APPLYING: (464, 96),
    Phase.APPLIED: (686, 96),
    Phase.VERIFIED: (908, 96),
    Phase.HELD: (464, 246),
    Phase.UNDOING: (686, 246),
}
_KINDS_OF_PHASE = {Phase.VERIFIED: "good", Phase.HELD: "bad", Phase.UNDOING: "back"}


class Course(NamedTuple):
    """How an arrow runs, and what stands beside it: where, in which words, with which anchor."""

    line: str
    x: float = 0
    y: float = 0
    words: str = ""
    anchor: str = "middle"


_ARROWS = {
    (Phase.CLAIMED, Phase.CORDONED): Course("M100 246V159", 108, 206, "cordon", "start"),
    (Phase.CORDONED, Phase.DRAINED): Course("M180 127H241", 211, 119, "drain"),
    (Phase.DRAINED, Phase.APPLYING): Course("M402 127H463", 433, 119, "begin"),
    (Phase.APPLYING, Phase.APPLIED): Course("M624 127H685", 655, 119, "applied"),
    (Phase.APPLIED, Phase.VERIFIED): Course("M846 127H907", 877, 119, "proof"),
    (Phase.DRAINED, Phase.APPLIED): Course("M322 96C322 52 766 52 766 95", 660, 58, "already as planned"),
    (Phase.APPLYING, Phase.CORDONED): Course("M520 96C520 14 100 14 100 95", 300, 26, "void: planned again"),
    (Phase.APPLYING, Phase.HELD): Course("M500 158V245", 492, 206, "failed", "end"),
    (Phase.APPLIED, Phase.UNDOING): Course("M790 158V245", 798, 206, "not as planned, or abort", "start"),
    (Phase.APPLIED, Phase.HELD): Course("M720 158L606 245"),
    (Phase.UNDOING, Phase.HELD): Course("M686 277H625", 655, 269, "failed"),
    (Phase.HELD, Phase.APPLYING): Course("M530 246V159", 538, 206, "resume", "start"),
    (Phase.HELD, Phase.APPLIED): Course("M580 246L694 159"),
}


class Following(NamedTuple):
    """What may follow a phase."""

    phases: tuple[Phase, ...]
    endings: tuple[Ending, ...]


@cache
def transitions() -> Mapping[Phase, Following]:
    """Return what follows each phase, as the methods of `Phases` say it."""
    (tree,) = ast.parse(inspect.getsource(phases.Phases)).body
    assert isinstance(tree, ast.ClassDef)  # noqa: S101 (what getsource gives for a class)
    methods = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}
    found: dict[Phase, Following] = {}
    for case in (node for node in ast.walk(methods["_next"]) if isinstance(node, ast.match_case)):
        (phase,) = _members(case.pattern, "Phase")
        follow = _reached(case.body, methods)
        names = [Phase[name] for node in follow for name in _advances(node)]
        endings = [Ending[name] for node in follow for name in _members(node, "Ending")]
        found[Phase[phase]] = Following(
            tuple(each for each in Phase if each in names and each is not Phase[phase]),
            tuple(each for each in Ending if each in endings),
        )
    return found


def _reached(body: Iterable[ast.AST], methods: dict[str, ast.FunctionDef]) -> list[ast.AST]:
    """Return the nodes and the methods of the class that they call, directly or not."""
    found: list[ast.AST] = list(body)
    for node in found:
        for each in ast.walk(node):
            if isinstance(each, ast.Attribute) and each.attr in methods and methods[each.attr] not in found:
                found.append(methods[each.attr])
    return found


def _advances(tree: ast.AST) -> list[str]:
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [
        name
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "_advance"
        for name in _members(call, "Phase")
    ]


def _members(tree: ast.AST, enum: str) -> list[str]:
    attributes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return [each.attr for each in attributes if isinstance(each.value, ast.Name) and each.value.id == enum]


def node_phases() -> str:
    """Return the phases of a node in a roll-out, and how each may end.

    Raises KeyError for a phase without a place or a transition without an arrow.
    """
    elements: list[str] = []
    width, height = _BOX
    for phase in Phase:
        x, y = _PLACES[phase]
        steps = transitions()[phase]
        kind = _KINDS_OF_PHASE.get(phase, "forwards")
        elements += Block(kind, x, y, width, height, str(phase), _in_lines(steps.endings)).svg()
        for following in steps.phases:
            course = _ARROWS[phase, following]
            elements.append(_arrow(course.line))
            elements.append(_text(course.words, course.x, course.y, anchor=course.anchor))
    elements += [
        _text("first a slot, then the record", 190, 281),
        _text("uncordon, then the slot is released", 1068, 184, anchor="end"),
        _text("Below a phase: how the roll-out of the node may end in it.", 20, 316),
        _text(
            "Each phase stands in the node's record before the next begins: a roll-out resumes there.",
            20,
            334,
        ),
        _text("An error before applying ends as blocked, nothing is changed; one after it is held.", 20, 352),
    ]
    return _document("The phases of a node in a roll-out", 1088, 366, elements)


def _in_lines(endings: tuple[Ending, ...]) -> tuple[str, ...]:
    """Return the endings in lines of two; that a node is held stands in a phase of its own."""
    names = [ending.replace("-", " ") for ending in endings if ending is not Ending.HELD]
    return tuple(", ".join(names[start : start + 2]) for start in range(0, len(names), 2))


# ---- the transaction ----

_FUNCTION = re.compile(r"^(\w+)\(\) \{[^\n]*\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_STEP = re.compile(
    r"for part in \$(?P<order>UPWARDS|DOWNWARDS)"
    r"|(?:step|call) \"\$part\" (?P<verb>keep|stop|apply|undo)\b(?: (?P<one>old|new))?"
    r"|\b(?P<way>upwards|downwards) (?P<all>\w+) (?P<side>old|new)"
    r"|^\s*(?:if )?(?P<function>keep_all|change|apply_all|undo_all)\b",
    re.MULTILINE,
)


class Row(NamedTuple):
    """One step of every part: its verb, and in which order the parts take it."""

    verb: str
    upwards: bool


def rows(*functions: str) -> list[Row]:
    """Return the steps of functions of transaction.sh, in their order."""
    bodies = dict(_FUNCTION.findall((NODE / "transaction.sh").read_text(encoding="utf-8")))
    found: list[Row] = []
    for function in functions:
        upwards = True
        for match in _STEP.finditer(bodies[function]):
            if match["order"]:
                upwards = match["order"] == "UPWARDS"
            elif match["verb"]:
                found.append(Row(" ".join(filter(None, (match["verb"], match["one"]))), upwards))
            elif match["way"]:
                found.append(Row(f"{match['all']} {match['side']}", match["way"] == "upwards"))
            else:
                found += rows(match["function"])
    return found


def provided(part: str) -> set[str]:
    """Return the verbs that a part has."""
    text = "".join(shell.library(name) for name in parts.shell_of([part]))
    return {name.removeprefix(f"{part}_") for name in re.findall(r"^(\w+)\(\)", text, re.MULTILINE)}


def transaction() -> str:
    """Return the steps of a transaction by part, forwards and back."""
    names = [part.name for part in parts.PARTS]
    left, column, height, gap, between, top = 128, 79, 22, 6, 40, 66
    bottom = top + len(names) * (height + gap)
    elements = [_text("the lowest part", left - 14, top - 14, anchor="end")]
    for number, name in enumerate(names):
        y = top + number * (height + gap) + height / 2 + 4
        elements.append(_text(name, left - 14, y, _SIZE, "bold", "end"))
    forwards = [row for row in rows("keep_all", "change", "go_on") if "old" not in row.verb]
    ends = (("good", "applied", ()), ("bad", "rolled-back,", ("or failed",)))
    x = left
    for kind, block, (end, words, more) in zip(
        ("forwards", "back"), (forwards, rows("undo")), ends, strict=True
    ):
        elements.append(_text(kind, x + 3, 24, _SIZE, "bold"))
        width = len(block) * column
        elements += [
            _arrow(f"M{x + 3} {bottom + 26}H{x + width - 110}"),
            *Block(end, x + width - 106, bottom + 6, 100, 40, words, more).svg(),
        ]
        for row in block:
            elements.append(
                _text(f"{row.verb} {'↓' if row.upwards else '↑'}", x + column / 2, top - 14, anchor="middle")
            )
            verb = row.verb.partition(" ")[0]
            for number, name in enumerate(names):
                if verb in provided(name):
                    y = top + number * (height + gap)
                    elements += Block(kind, x + 3, y, column - 6, height, verb).svg()
            x += column
        x += between
    middle = left + len(forwards) * column + between / 2
    elements.append(_arrow(f"M{middle - 14} {top + 40}H{middle + 16}"))
    notes = (
        "→ a step fails, exceeds its time, is killed, or loses power: everything that was touched goes back",
        "↓ the lowest part first, ↑ the highest part first; only the parts that a node needs take part",
    )
    elements += [_text(line, 14, bottom + 74 + number * _LINE, _SIZE) for number, line in enumerate(notes)]
    return _document(
        "The steps of a transaction, forwards and back", x - between + 14, bottom + 106, elements
    )


# ---- a live roll-out ----


class _Shown(NamedTuple):
    node: str
    phase: str
    reasons: tuple[str, ...]


class _Run:
    def outcome(self) -> Outcome | None:
        return None


_ENDED = {
    "gpu-01": Outcome(Ending.DONE, "the node is as planned"),
    "gpu-02": Outcome(Ending.DONE, "the node is as planned"),
    "gpu-03": Outcome(Ending.UNCHANGED, "the node is already as planned"),
    "gpu-04": Outcome(Ending.DONE, "the node is as planned"),
    "gpu-05": Outcome(Ending.BLOCKED, "the node could not be drained"),
}
_IN_PROGRESS = {
    "gpu-06": (212, "applying", "changes the node: reboot"),
    "gpu-07": (
        96,
        "drains",
        "web/web-1: PodDisruptionBudget web/web allows 0 disruptions (2 of 2 required pods are healthy)",
    ),
    "gpu-08": (41, "proves", "nvidia.com/gpu: predicted 8, found 6"),
    "gpu-09": (12, "applying", "changes the node: prove kubelet again"),
    "gpu-10": (
        3,
        "waits for a slot",
        "4 of at most 4 nodes are out of service: gpu-06, gpu-07, gpu-08 and 1 more",
    ),
}
_COMMAND = "numaforge rollout run inventory.py"
_TERMINAL = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="title">
<title id="title">A roll-out of twelve nodes in a terminal</title>
<style>
.{unique_id}-matrix {{ font-family: 'DejaVu Sans Mono', Menlo, Consolas, monospace; \
font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-family: 'DejaVu Sans Mono', Menlo, Consolas, monospace; font-size: 15px; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
_THEME = TerminalTheme(
    (255, 255, 255),
    (27, 31, 36),
    [
        (27, 31, 36),
        (164, 14, 38),
        (0, 121, 92),
        (179, 92, 0),
        (0, 114, 178),
        (166, 70, 125),
        (0, 121, 146),
        (87, 96, 106),
    ],
)


def live() -> str:
    """Return what a terminal shows of a roll-out of twelve nodes."""
    members = [Member(name, name) for name in (f"gpu-{number:02}" for number in range(1, 13))]
    fleet = Fleet(World().cluster, members, FleetSettings(), lambda _: _Run(), lambda: 0.0, lambda _: None)
    fleet.outcomes.update(_ENDED)
    fleet.running.update({host: _Run() for host in _IN_PROGRESS})
    for host in {**_ENDED, **_IN_PROGRESS}:
        del fleet.waiting[host]
    said = {host: _Shown(host, ended.ending, (ended.reason,)) for host, ended in _ENDED.items()}
    said |= {host: _Shown(host, phase, (why,)) for host, (_, phase, why) in _IN_PROGRESS.items()}
    seconds = {host: float(row[0]) for host, row in _IN_PROGRESS.items()}
    seconds |= {host: 900.0 - 60 * number for number, host in enumerate(_ENDED)}
    ages = {host: Age(-age, lambda: 0.0) for host, age in seconds.items()}
    room = Screen(80, 24)
    console = Console(
        file=StringIO(),
        record=True,
        width=room.width,
        force_terminal=True,
        color_system="standard",
        highlight=False,
    )
    console.print(fleet_screen(fleet, said, ages, room))  # type: ignore[arg-type]
    picture = console.export_svg(title=_COMMAND, theme=_THEME, code_format=_TERMINAL, unique_id="live")
    return re.sub(r"[ \t]+$", "", picture, flags=re.MULTILINE)


# ---- a pod between two schedulers ----

_GPU = "nvidia.com/gpu"
_SECOND = "scheduler-plugins-scheduler"
_HALF = 480


def second_scheduler() -> str:
    """Return where two schedulers sent one pod, and what the kubelets made of it, as recorded in a run."""
    seen = json.loads(SECOND_SCHEDULER.read_text(encoding="utf-8"))
    asked, nodes, explained = seen["pod"], seen["nodes"], seen["explained"]
    default, second = seen["default-scheduler"], seen[_SECOND]
    left, right = 20, 20 + _HALF + 40
    wanted = f"{asked['cpu']} CPUs, {asked['memory']}, {asked[_GPU]} {_GPU}"
    elements = [
        *Block("plain", 370, 16, 300, 62, "one pod", (wanted, "on one NUMA node, or not at all")).svg(),
        _arrow(f"M460 78L{left + _HALF / 2} 121"),
        _arrow(f"M580 78L{right + _HALF / 2} 121"),
    ]
    sums = {each: sum(int(zone.get(each, 0)) for zone in nodes[default["node"]]) for each in ("cpu", _GPU)}
    counted = (f"{default['node']} has {sums['cpu']} CPUs and {sums[_GPU]} GPUs,", "and is less busy")
    read = (
        "NodeResourceTopologyMatch, with what generate cluster has written:",
        f"no zone of {default['node']} has {asked[_GPU]} GPUs",
    )
    refusal = (default["message"].removeprefix("Pod was rejected: "),)
    given = (f"CPUs {second['cpus']} and GPUs {' and '.join(second['gpus'])},", "all on that NUMA node")
    columns = (
        (left, "default-scheduler", counted, default, "bad", default["reason"], refusal),
        (right, _SECOND, read, second, "good", "Running", given),
    )
    for x, name, why, sent, kind, ending, words in columns:
        middle = x + _HALF / 2
        elements += [
            *Block("forwards", x, 122, _HALF, 62, name, why).svg(),
            _arrow(f"M{middle} 184V227"),
            *_node(x, 228, sent["node"], nodes[sent["node"]], sent.get("numa_node")),
            _arrow(f"M{middle} 330V361"),
            _text("its kubelet", middle + 8, 350),
            *Block(kind, x, 362, _HALF, 66, ending, words).svg(),
        ]
    said = "; ".join(f"{name}: {answer}" for name, answer in sorted(explained.items()))
    gang, releases = seen["gang"], seen["releases"]
    together = f"{gang['placed while a node is cordoned']} pods of it are placed while a node is cordoned"
    second_kubernetes = releases["kubernetes of the second scheduler"]
    built = f"scheduler-plugins {releases['scheduler-plugins'][:8]} on Kubernetes {second_kubernetes}"
    notes = (
        f"cluster explain, before the pod was created: {said}",
        f"A PodGroup of {gang['members']}: {together}, then {len(gang['then'])} at once.",
        f"{built}; API server and kubelets {releases['kubernetes']}",
    )
    elements += [_text(line, left, 456 + number * 18, _SIZE) for number, line in enumerate(notes)]
    return _document("A pod between two schedulers", right + _HALF + 20, 508, elements)


def _node(x: float, y: float, name: str, zones: list[dict[str, Any]], chosen: int | None) -> Iterator[str]:
    """Yield a node with a box for each of its NUMA nodes, one of which may be chosen."""
    yield f'<rect class="plain" x="{x}" y="{y}" width="{_HALF}" height="102" rx="5"/>'
    yield _text(name, x + _HALF / 2, y + 22, _SIZE, "bold", "middle")
    gap = 8
    width = (_HALF - gap) / max(4, len(zones)) - gap
    start = x + (_HALF - len(zones) * (width + gap) + gap) / 2
    for number, zone in enumerate(zones):
        lines = (f"{zone['cpu']} CPUs", f"{zone.get(_GPU, 0)} {'GPU' if zone.get(_GPU) == '1' else 'GPUs'}")
        kind = "good" if number == chosen else "canvas"
        yield from Block(
            kind, start + number * (width + gap), y + 34, width, 60, f"NUMA node {number}", lines
        ).svg()


def diagrams() -> dict[str, str]:
    """Return each diagram by its file's name."""
    return {
        "boot.svg": boot(),
        "path.svg": path(),
        "node-phases.svg": node_phases(),
        "transaction.svg": transaction(),
        "rollout-live.svg": live(),
        "second-scheduler.svg": second_scheduler(),
    }
