"""`numaforge render`: the files of a plan, or how they differ from those of a node."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from numaforge.commands.init import write_folder
from numaforge.commands.machine import (
    Planning,
    answers_of,
    each_named,
    machines_or_plans_argument,
    plan_of,
    planned_machine,
    planning_options,
    root_option,
)
from numaforge.commands.one_host import asked_of
from numaforge.commands.options import data_option, output_option, path_option
from numaforge.lib.errors import ExitCode, HostError, NumaforgeError
from numaforge.lib.quantity import counted
from numaforge.report.terminal import print_data, remark, show_answer, show_json

if TYPE_CHECKING:
    from numaforge.lib.file_content import FileContent
    from numaforge.machine.topology.model import NodeTopology
    from numaforge.node.bundle import FileState
    from numaforge.planning.os_settings.kinds import System
    from numaforge.planning.plan import NodePlan


SYSTEMS = ("talos", "talos-documents", "bottlerocket")


@click.command()
@machines_or_plans_argument
@root_option
@planning_options
@path_option("--to", "folder", metavar="DIR", help="Write the files below this folder.")
@data_option
@click.option("--diff", "compared", is_flag=True, help="Show the differences from the existing files.")
@click.option(
    "--for",
    "system",
    type=click.Choice(SYSTEMS),
    help="Write the settings of a system without a shell, for each kind of machine. talos: a patch of the "
    "machine configuration. talos-documents: of the documents of Talos 1.14. bottlerocket: TOML.",
)
@output_option("text", "json")
def render(
    sources: tuple[str, ...],
    planning: Planning,
    folder: str | None,
    data: tuple[str, ...],
    compared: bool,
    system: System | None,
    output: str,
) -> int:
    """Print, write or compare the files of a plan.

    With --diff, compares them with those of HOST, of the folder of --root, or of this machine, like `kubectl
    diff`; writes nothing. With --for, takes several machines; comments name what the system cannot express.

    Exit codes: 0 no difference, 1 a difference, or with --for a machine that cannot be planned.

    \b
    Examples:
      numaforge render dgx-h100 --profile training --to out
      numaforge render gpu-01 --profile training --diff
      numaforge render --root /mnt --profile training --diff
      numaforge render fleet/ --profile training --for talos --to patches
    """
    if data and not compared:
        raise click.UsageError("--data says how to connect to the HOST of --diff")
    if folder is not None and compared:
        raise click.UsageError("give --to or --diff, not both")
    if system is not None:
        if compared:
            raise click.UsageError("give --for or --diff, not both")
        return write_os_settings(system, sources, planning, folder, output)
    if len(sources) > 1:
        raise click.UsageError("name one machine; --for takes several")
    source = next(iter(sources), None)
    if compared:
        return _show_changes(source, planning, data, output)
    files, templates = _files(source, planning)
    if folder is not None:
        _write_below(Path(folder), files)
        remark(f"wrote {counted(len(files), 'file')} below {folder}")
    elif output == "json":
        show_json(
            {"schema": 1, "files": [{**vars(file), "template": templates.get(file.path)} for file in files]}
        )
    else:
        origins = {path: f"  from {template}" for path, template in templates.items()}
        print_data(
            "\n".join(
                f"==> {one.path}  {one.mode} {one.owner}:{one.group}{origins.get(one.path, '')}\n{one.text}"
                for one in files
            )
        )
    return ExitCode.YES


def _files(source: str | None, planning: Planning) -> tuple[tuple[FileContent, ...], dict[str, str]]:
    """Return every file of a plan, and by path the templates of those that have one."""
    from numaforge.planning.render import plan_files, template_path

    machine, plan = planned_machine(source, planning)
    files = plan_files(plan, machine.edited_kubelet_text)
    return files, {file.path: str(path) for file in plan.files if (path := template_path(file))}


def _write_below(folder: Path, files: tuple[FileContent, ...]) -> None:
    """Write files with their modes below a new or empty folder."""
    for file in files:
        if ".." in file.path.split("/") or not re.fullmatch("[0-7]{3,4}", file.mode):
            remedy = "its path is absolute, and its mode has three or four digits from 0 to 7"
            raise NumaforgeError(
                f"{file.path!r} with the mode {file.mode!r} is not a file of a plan", remedy=remedy
            )
    write_folder(folder, {file.path.lstrip("/"): file.text for file in files})
    for file in files:
        (folder / file.path.lstrip("/")).chmod(int(file.mode, 8))


def _show_changes(source: str | None, planning: Planning, data: tuple[str, ...], output: str) -> int:
    from numaforge.machine.topology.saved import ready_machines
    from numaforge.node.bundle import changes, diff

    if source is not None and (Path(source).exists() or source in ready_machines()):
        raise click.UsageError("--diff compares files, and a snapshot has none: name HOST or --root")
    if source is None:
        files, _ = _files(None, planning)
        live = _of_root(Path(planning.root or "/"), files)
    else:
        files, live = _of_host(source, planning, data)
    different = changes(files, (), live)
    show_answer(
        output,
        lambda: {"schema": 1, "differences": [{"path": one.path, "diff": diff(one)} for one in different]},
        lambda: [line for change in different for line in diff(change)],
    )
    return ExitCode.NO if different else ExitCode.YES


def _of_host(
    host: str, planning: Planning, data: tuple[str, ...]
) -> tuple[tuple[FileContent, ...], dict[str, FileState]]:
    """Return the files that a plan writes on a host, and those present, over one connection."""
    from numaforge.machine.topology.read import read_topology
    from numaforge.node.bundle import parse_states, read_script
    from numaforge.planning.render import plan_files
    from numaforge.run.hosts.capture import answer_of
    from numaforge.run.hosts.facts import as_root, detect

    def ask(connected: Any) -> tuple[tuple[FileContent, ...], dict[str, FileState]]:
        machine = read_topology(detect(connected))
        plan = plan_of(machine, planning)
        if plan is None:
            raise NumaforgeError("has no plan", remedy="give --profile NAME")
        files = plan_files(plan, machine.edited_kubelet_text)
        answer = as_root(connected, read_script([file.path for file in files]))
        return files, parse_states(answer)

    return asked_of(host, data, lambda name, connection: answer_of(name, connection, ask), f"asking {host}")


def _of_root(root: Path, files: tuple[FileContent, ...]) -> dict[str, FileState]:
    """Return the files present below a root directory, by their paths on the node."""
    from numaforge.machine.snapshot.root_folder import LinkLoopError, RootFolder
    from numaforge.node.bundle import FileState

    folder = RootFolder(root)
    users, groups = (_names_by_number(folder.find(file)) for file in ("/etc/passwd", "/etc/group"))
    states = {}
    for file in files:
        try:
            copy = folder.find(file.path)
        except LinkLoopError as error:
            raise HostError("is a loop of links", where=f"{root}{file.path}") from error
        if copy is None:
            continue
        path = Path(copy)
        try:
            status = path.stat()
            text = path.read_bytes().decode("utf-8", "surrogateescape")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise HostError(
                f"cannot be read: {error.strerror}", where=str(path), remedy="run this as root"
            ) from error
        mode = f"{status.st_mode & 0o7777:04o}"
        owner, group = (
            names.get(number, str(number))
            for names, number in ((users, status.st_uid), (groups, status.st_gid))
        )
        states[file.path] = FileState(text, mode, owner, group)
    return states


def _names_by_number(file: str | None) -> dict[int, str]:
    """Return the names of users or groups by number from a passwd or group file, if there is one."""
    lines = Path(file).read_text("utf-8", "replace").splitlines() if file and Path(file).is_file() else []
    entries = [line.split(":") for line in reversed(lines)]
    return {0: "root"} | {
        int(fields[2]): fields[0] for fields in entries if len(fields) > 2 and fields[2].isdigit()
    }


class _Planned(NamedTuple):
    """A machine and its plan."""

    hostname: str
    machine: NodeTopology
    plan: NodePlan


def write_os_settings(
    system: System, sources: Sequence[str], planning: Planning, folder: str | None, output: str
) -> int:
    """Print or write the settings of each kind of machine; a machine that cannot be planned is named."""
    from numaforge.planning.os_settings.content import kubelet_of
    from numaforge.planning.os_settings.kinds import kinds_of

    def planned(source: str | None) -> _Planned:
        machine, plan = planned_machine(source, planning)
        kubelet_of(plan)
        return _Planned(plan.hostname, machine, plan)

    names = each_named(sources)
    code = ExitCode.YES
    if len(names) < 2:
        nodes = [planned(next(iter(names), None))]
    else:
        answers = answers_of(names, planned)
        nodes, code = [node for _, node in answers.read], answers.code
        for name, why in answers.failed.items():
            remark(f"{name}: {why}")
    kinds = kinds_of(system, [(node.hostname, node.machine, node.plan) for node in nodes])
    if folder is not None and kinds:
        write_folder(Path(folder), {name: text for kind in kinds for name, text in kind.files.items()})
        for kind in kinds:
            parts = counted(len(kind.left_out), "part")
            hosts = counted(len(kind.machines), "machine")
            remark(f"wrote {', '.join(kind.files)} for {hosts}: {parts} of the plan not expressed")
    elif output == "json":
        documents = [
            {
                "machines": kind.machines,
                "files": [{"name": name, "text": text} for name, text in kind.files.items()],
                "left_out": [row._asdict() for row in kind.left_out],
            }
            for kind in kinds
        ]
        show_json({"schema": 1, "for": system, "kinds": documents})
    else:
        files = {name: text for kind in kinds for name, text in kind.files.items()}
        only = len(files) == 1
        print_data("\n".join(text if only else f"==> {name}\n{text}" for name, text in files.items()))
    return code
