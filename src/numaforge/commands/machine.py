"""The machine that a command looks at: the named one, else this one.

A name means the same everywhere: `-` and a file are a snapshot, a topology or a plan; a folder is a captured
root; then come the package's ready machines; everything else is a host, as for `numaforge capture`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import click
from click.shell_completion import CompletionItem

from numaforge.commands.one_host import captured
from numaforge.commands.options import Command, offered, path_option
from numaforge.lib.errors import ExitCode, HostError, NumaforgeError
from numaforge.lib.given import MOST_MIB, read_json
from numaforge.lib.ordering import natural
from numaforge.report.terminal import step

if TYPE_CHECKING:
    from numaforge.machine.snapshot.model import Snapshot
    from numaforge.machine.topology.model import NodeTopology
    from numaforge.planning.plan import NodePlan


_NAMED = "numaforge.machine"  # where the context keeps --machine for the argument
_HELP = "A snapshot, a topology, a folder, a ready machine such as dgx-h100, or a host."


def _completed(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """Return the names that start with `incomplete`; without one, the shell completes files."""
    items = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return items or [CompletionItem(incomplete, type="file")]


def _machines(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from numaforge.machine.topology.saved import ready_machines

    return _completed(ready_machines(), incomplete)


def machine_option(*names: str, help: str = _HELP, **settings: Any) -> Callable[[Command], Command]:  # noqa: A002 (click's word)
    """Offer `--machine`, with click's `names`, to a command whose arguments are not machines."""
    defaults = {"metavar": "MACHINE", "type": click.Path(), "shell_complete": _machines, "help": help}
    return click.option("--machine", *names, **{**defaults, **settings})


def machine_argument(metavar: str, *, nargs: int = 1, required: bool = False) -> Callable[[Command], Command]:
    """Take a machine, or several, as an argument (`source`, `sources`) or with `--machine`."""

    def offer(command: Command) -> Command:
        decorate = click.argument(
            "source" if nargs == 1 else "sources",
            metavar=metavar,
            nargs=nargs,
            required=False,
            type=click.Path(),
            shell_complete=_machines,
            callback=partial(_argument_or_option, required=required),
        )(command)
        return machine_option(
            multiple=True,
            expose_value=False,
            is_eager=True,
            callback=lambda context, _, value: context.meta.update({_NAMED: value}),
            help="Same as MACHINE.",
        )(decorate)

    return offer


def _argument_or_option(
    context: click.Context, parameter: click.Parameter, value: Any, *, required: bool
) -> Any:
    arguments: tuple[str, ...] = context.meta.get(_NAMED, ())
    if arguments and value:
        raise click.UsageError("name a machine once: as an argument, or with --machine")
    if required and not arguments and not value:
        raise click.MissingParameter(ctx=context, param=parameter)
    if parameter.nargs != 1:
        return arguments or value
    if len(arguments) > 1:
        raise click.UsageError("this command looks at one machine: give --machine once")
    return arguments[0] if arguments else value


def each_named(sources: Sequence[str]) -> list[str]:
    """Return the names of machines; a folder of saved snapshots counts as each file in it."""
    names: list[str] = []
    for source in sources:
        folder = Path(source)
        is_root = any((folder / name).is_dir() for name in ("proc", "sys"))
        saved = () if is_root else [*folder.glob("*.snapshot.json")] or folder.glob("*.json")
        names += sorted(map(str, saved), key=natural) or [source]
    return names


class _OfHost(Protocol):
    @property
    def hostname(self) -> str | None: ...


T = TypeVar("T", bound=_OfHost)


@dataclass(frozen=True)
class OfMachines(Generic[T]):
    """Several machines' answers by the name to show, why the others gave none, and their exit code."""

    read: list[tuple[str, T]]
    failed: dict[str, str]
    code: ExitCode


def answers_of(names: Sequence[str], ask: Callable[[str], T]) -> OfMachines[T]:
    """Return each machine's answer, under its hostname where that is unique."""
    answers: dict[str, T] = {}
    failed: dict[str, NumaforgeError] = {}
    for name in names:
        try:
            answers[name] = ask(name)
        except NumaforgeError as error:
            failed[name] = error
    hosts = Counter(one.hostname for one in answers.values())
    shown = [
        (one.hostname if one.hostname and hosts[one.hostname] == 1 else name, one)
        for name, one in answers.items()
    ]
    silent = all(error.exit_code == ExitCode.UNREACHABLE for error in failed.values())
    code = ExitCode.YES if not failed else ExitCode.UNREACHABLE if silent else ExitCode.NO
    return OfMachines(shown, {name: str(error) for name, error in failed.items()}, code)


snapshot_argument = machine_argument("[MACHINE]")
machines_argument = machine_argument("[MACHINE...]", nargs=-1)
machines_or_plans_argument = machine_argument("[MACHINE|PLAN...]", nargs=-1)
snapshot_or_plan_argument = machine_argument("[MACHINE|PLAN]")
root_option = path_option("--root", metavar="DIR", help="Path to a captured root directory.")


class Planning(NamedTuple):
    """How the options plan a machine: `--profile`, `--kubelet-version`, and the folder of `--root`."""

    profile: str | None = None
    kubelet_version: str | None = None
    root: str | None = None


def _profiles(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from numaforge.planning.profiles import ready_profiles

    return _completed(ready_profiles(), incomplete)


profile_option = click.option(
    "--profile",
    metavar="NAME|FILE|IMAGE",
    shell_complete=_profiles,
    help="Name of a ready profile, path of a YAML file, or the root of an image.",
)


def planning_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Offer `--profile` and `--kubelet-version`; the command gets `planning`, with its `--root` in it."""

    @wraps(command)
    def called(
        *, profile: str | None, kubelet_version: str | None, root: str | None = None, **others: Any
    ) -> Any:
        return command(planning=Planning(profile, kubelet_version, root), **others)

    version = click.option(
        "--kubelet-version",
        metavar="VERSION",
        help="Kubelet version to plan for, e.g. 1.36.3 [default: the installed one].",
    )
    return offered(profile_option, version)(called)


def machine_and_plan(source: str | None, planning: Planning) -> tuple[NodeTopology, NodePlan | None]:
    """Return the machine with its plan's offline CPUs and GPU memory mode, and the plan, if any."""
    from numaforge.machine.topology.model import NodeTopology
    from numaforge.planning.as_planned import earlier_offline
    from numaforge.roles.cpus.offline import taken_offline
    from numaforge.roles.modules.gpu_memory import in_mode

    if source is None:
        machine = machine_of(None, planning.root)
    elif isinstance(saved := plan_or_machine(source), NodeTopology):
        machine = machine_of(source, planning.root) if planning.root is not None else saved
    elif any(planning):
        raise click.UsageError("a PLAN is shown as it is: leave out --root, --profile and --kubelet-version")
    else:
        from numaforge.report.layout import topology_of

        return topology_of(saved), saved
    planned = plan_of(machine, planning)
    if planned is None:
        return machine, None
    machine = taken_offline(machine, planned.tuning.offline, earlier_offline(machine))
    return in_mode(machine, planned.gpu_memory), planned


def plan_or_machine(source: str) -> NodePlan | NodeTopology:
    """Return the machine of this name, or the plan in a file."""
    if not is_file(source):
        return _machine_called(source)
    from numaforge.machine.topology.saved import is_plan  # a ready machine needs none of its readers
    from numaforge.planning.document import from_document

    document = _document(source)
    if not is_plan(document):
        return _machine_in(document, source)
    with _located(source):
        return from_document(document)


def plan_of(machine: NodeTopology, planning: Planning) -> NodePlan | None:
    """Return the plan that a profile gives to a machine, else the one saved on it."""
    from numaforge.machine.snapshot import catalogue
    from numaforge.planning.document import saved_plan

    if planning.profile is not None:
        return plan_with(machine, planning.profile, planning.kubelet_version)
    if planning.kubelet_version is not None:
        raise click.UsageError("--kubelet-version needs --profile")
    with _located(catalogue.PLAN):
        return saved_plan(machine)


def planned_machine(source: str | None, planning: Planning) -> tuple[NodeTopology, NodePlan]:
    """Return a machine and its plan: the file itself, the one saved in it, or the profile's."""
    machine, planned = machine_and_plan(source, planning)
    if planned is None:
        raise click.UsageError(f"{source or 'this machine'} has no plan: give --profile")
    return machine, planned


def machine_of(source: str | None, root: str | None, *, most_mib: int = MOST_MIB) -> NodeTopology:
    """Return the machine `source`, of up to `most_mib` MiB, or in the folder `root`, else this one."""
    from numaforge.machine.topology.read import read_topology

    if source is not None and root is None:
        if is_file(source):
            return _machine_in(_document(source, most_mib), source)
        return _machine_called(source)
    source_name = root or "this machine"
    with step(f"reading {source_name}"):
        snapshot = snapshot_of(source, root)
    with _located(source_name), step(f"interpreting {source_name}"):
        return read_topology(snapshot)


def is_file(source: str) -> bool:
    """Whether `source` is a file or `-`. Raises NumaforgeError for a missing file."""
    if source == "-" or (os.path.lexists(source) and not Path(source).is_dir()):
        return True
    # a name without a file that looks like one, not like a host
    named = source.endswith((".json", ".xz")) or (os.sep in source and not source.startswith("@"))
    if named and not Path(source).is_dir():
        raise NumaforgeError(
            "the file does not exist",
            where=source,
            remedy=f"`numaforge capture HOST --to FILE` saves one; or name {_or_ready(source)}",
        )
    return False


def _machine_called(name: str) -> NodeTopology:
    """Return the machine in a folder, the ready machine of this name, else the host."""
    from numaforge.machine.topology.saved import ready_machine, ready_machines

    if Path(name).is_dir():
        return machine_of(None, name)
    if name in ready_machines():
        return ready_machine(name)
    try:
        snapshot = captured(name, ())
    except HostError as error:
        remedy = " ".join(filter(None, (error.remedy and f"{error.remedy};", f"or name {_or_ready(name)}")))
        raise type(error)(error.message, where=error.where, remedy=remedy) from error
    from numaforge.machine.topology.read import read_topology

    with _located(name), step(f"interpreting {name}"):
        return read_topology(snapshot)


def _or_ready(name: str) -> str:
    """Return a hint at a ready machine with a similar name, else at all of them."""
    from difflib import get_close_matches

    from numaforge.machine.topology.saved import ready_machines

    ready = ready_machines()
    near = get_close_matches(Path(name).name.partition(".")[0], ready, n=1)
    return f"the ready machine {near[0]}" if near else "a ready machine, such as dgx-h100"


def snapshot_of(source: str | None, root: str | None) -> Snapshot:
    """Return the snapshot of the folder `root`, else of this machine; raises UsageError for a `source`."""
    from numaforge.machine.snapshot.capture import from_local, from_root

    if source is not None:
        raise click.UsageError("give either MACHINE or --root, not both")
    return from_root(Path(root)) if root is not None else from_local()


def _document(source: str, most_mib: int = MOST_MIB) -> object:
    """Return the content of a JSON file."""
    remedy = "give what `numaforge capture`, or `topology` or `plan` with -o json, has written"
    with step(f"reading {source}"):
        return read_json(source, most_mib=most_mib, remedy=remedy)


def _machine_in(document: object, source: str) -> NodeTopology:
    """Return the machine in a snapshot or in a topology document; `source` is its file."""
    from numaforge.machine.topology.saved import saved_machine

    with _located(source), step(f"interpreting {source}"):
        return saved_machine(document)


@contextmanager
def _located(where: str) -> Iterator[None]:
    try:
        yield
    except NumaforgeError as error:
        raise error.at(where) from error


def plan_with(machine: NodeTopology, profile: str, kubelet_version: str | None) -> NodePlan:
    """Return the plan that a profile, or an image's own, gives to a machine."""
    from numaforge.planning.node import plan_node
    from numaforge.planning.profiles import load_profile

    with step(f"planning {machine.hostname or 'the machine'} with {profile}"):
        if is_image_root(profile):
            from numaforge.image.first_boot.chosen import image_kubelet, image_profile

            root = Path(profile)
            return plan_node(machine, image_profile(root).profile, kubelet_version or image_kubelet(root))
        return plan_node(machine, load_profile(profile), kubelet_version)


def is_image_root(root: str) -> bool:
    """Whether `named` is the root of an image whose nodes plan themselves."""
    if not Path(root).is_dir():
        return False
    from numaforge.image.first_boot.chosen import is_image

    return is_image(Path(root))
