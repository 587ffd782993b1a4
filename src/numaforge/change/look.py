"""The look at a node: all input of a change's decision, in one round trip."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from numaforge.change import parts
from numaforge.change.goal import Goal
from numaforge.lib import shell
from numaforge.lib.errors import HostUnreachableError
from numaforge.lib.framing import Answer, Output, asking
from numaforge.lib.kernel_files import parse_values
from numaforge.lib.unfinished import LIBRARY, TRANSACTIONS, read_unfinished
from numaforge.node.bundle import known_sums, parse_checksums, parse_states
from numaforge.node.fence import read_fingerprint
from numaforge.node.part import FailedPlan, NodeState, Unit
from numaforge.node.pods import read_pods, root_dirs
from numaforge.node.work import read_work

_LOOK = (
    "lib/kernel_files",
    "lib/units",
    "node/boot",
    "node/fence",
    "node/trace",
    "node/pods",
    "node/work",
    "node/bundle_read",
    "node/paths",
    "node/holders",
    LIBRARY,
    "node/look",
)
GUARD = "/etc/systemd/system/kubelet.service.d/05-numaforge-boot.conf"
"""The kubelet's drop-in that has a node plan itself before each start of its kubelet: an image has it."""
_KUBELET_PROPERTIES = ("ActiveState", "SubState")
Ask = Callable[[str], Answer]
"""Runs a script on a node, and returns its answer."""


@dataclass(frozen=True)
class NodeQuery:
    """What the parts of a goal have to know of a node.

    Systemd is asked for `properties` of `units`, and how `unit` is, the kubelet's, "" where there is none.
    `pod_roots` are folders below which kubelets keep pods.
    """

    values: tuple[str, ...]
    files: tuple[str, ...]
    known: tuple[str, ...]
    calls: tuple[tuple[str, ...], ...]
    drop_in_folder: str
    unit: str
    pod_roots: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()

    @property
    def script(self) -> str:
        """The script whose answer `read_found` reads."""
        return self.script_of(None)

    def script_of(self, announced: str | None) -> str:
        """Return the script, which first has the node see a transaction announced that may follow."""
        names = parts.look_shell_of(part for part, *_ in self.calls)
        units = dict.fromkeys(filter(None, (*self.units, self.unit)))
        properties = dict.fromkeys((*_KUBELET_PROPERTIES, *self.properties))
        return asking(
            shell.assignments({"ROOT": TRANSACTIONS, "GUARD": GUARD})
            + shell.library(*_LOOK, *names)
            + (shell.call("see", ["announced", announced]) if announced else "")
            + shell.call("tell_part", ["values", "tell_values", *self.values])
            + shell.call("tell_part", ["transactions", "tell_transactions"])
            + shell.call(
                "read_files_and_drop_ins", [self.drop_in_folder, known_sums(self.known), *self.files]
            )
            + shell.call("tell_part", ["redirectable", "tell_redirectable", *self.files])
            + shell.call("tell_part", ["pods", "tell_pods", *self.pod_roots])
            + shell.call("tell_part", ["work", "tell_work"])
            + (shell.call("ask_units", [",".join(properties), *units]) if units else "")
            + (shell.call("tell_part", ["unit", "tell_unit", self.unit]) if self.unit else "")
            + "".join(shell.call("tell_part", [_look(part), *call]) for part, *call in self.calls)
        )


def question(goal: Goal) -> NodeQuery:
    """Return the query for what the parts need to know, without what the detection has just read."""
    looks = {part.name: part.look(goal) for part in parts.called(goal.roles)}
    kubelet, install = goal.plan.kubelet, goal.machine.kubelet
    folder = (kubelet and kubelet.config_dir) or (install and install.config_dir)
    return NodeQuery(
        values=tuple(dict.fromkeys(path for look in looks.values() for path in look.values)),
        files=tuple(dict.fromkeys(path for look in looks.values() for path in look.files)),
        known=tuple(dict.fromkeys(text for look in looks.values() for text in look.known)),
        calls=tuple((name, *look.call) for name, look in looks.items() if look.call),
        drop_in_folder=folder if folder and "kubelet" in goal.roles else "",
        unit=kubelet.unit if kubelet else "",
        units=tuple(unit for look in looks.values() for unit in look.units),
        properties=tuple(name for look in looks.values() for name in look.properties),
        pod_roots=root_dirs(install, kubelet.root_dir if kubelet else None),
    )


def look(ask: Ask, query: NodeQuery, announced: str | None = None) -> NodeState:
    """Look at a node, in one round trip; `announced` is the id of a transaction that may be handed to it."""
    return read_found(query, ask(query.script_of(announced)))


def read_found(query: NodeQuery, output: Output) -> NodeState:
    """Read the script's answer; raises HostUnreachableError if it is cut off, as on the way down."""
    answer = Answer.of(output)
    words = [line.partition(" ")[::2] for line in answer.part("transactions")]
    drop_ins = sorted(answer.part("drop-ins"))
    redirectable = dict(line.partition(" ")[::2] for line in answer.part("redirectable"))  # by number of file
    return NodeState(
        files=parse_states(answer, query.known),
        drop_ins=tuple(drop_ins),
        unfinished=read_unfinished(answer.part("transactions")),
        failure=_failure(dict(words)),
        unproved=next((name for kind, name in words if kind == "unproved"), None),
        plans_itself="plans-itself" in dict(words),
        values=parse_values(answer.part("values"), query.values),
        redirectable={path: why for n, path in enumerate(query.files) if (why := redirectable.get(str(n)))},
        pods=read_pods(answer.part("pods")),
        work=read_work(answer.part("work")),
        said={part: tuple(filter(None, answer.part(_look(part)))) for part, *_ in query.calls},
        fingerprint=read_fingerprint(
            dict(words),
            contents=parse_checksums(answer, [*query.files, *drop_ins]),
            drop_in_folder=query.drop_in_folder or None,
        ),
        unit=partial(_unit, answer.part("unit") if query.unit else ()),
    )


def _look(part: str) -> str:
    return f"look {part}"


def _failure(words: Mapping[str, str]) -> FailedPlan | None:
    names = ("failed-plan", "failed-boot", "failed-when", "failed-why")
    if not all(name in words for name in names):
        return None
    return FailedPlan(*(words[name] for name in names))


def _unit(lines: Sequence[str]) -> Unit:
    """Read what `tell_unit` in look.sh printed; raises HostUnreachableError where systemd does not answer."""
    pairs = [line.partition("=") for line in lines]
    values = {name: value for name, _, value in pairs}
    if "systemd" in values and not values.get("ActiveState"):
        raise HostUnreachableError(
            "systemd does not report the state of the kubelet's unit", remedy="run again"
        )
    return Unit(
        active_state=values.get("ActiveState"),
        sub_state=values.get("SubState"),
        askers=tuple(value for name, _, value in pairs if name == "asker"),
    )
