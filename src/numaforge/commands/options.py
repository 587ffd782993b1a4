"""Options shared by commands."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import click

from numaforge.lib.errors import NumaforgeError
from numaforge.report import terminal

if TYPE_CHECKING:
    from pathlib import Path

Command = TypeVar("Command", bound=Callable[..., Any])

COMPLETE = "_NUMAFORGE_COMPLETE"
"""The variable with the request of the shell's script: `bash_complete`, `zsh_source` and so on."""

WITHIN_SECONDS = 120
"""Time limit for a host of an INVENTORY to answer a read."""

OF_EVERY_COMMAND = "Options of every command"
_VERBOSE = "Show steps and timings on standard error; -vv: also the output of pyinfra."


def offered(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Offer several options, in the order in which `--help` shows them."""

    def offer(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return offer


def path_option(*names: str, metavar: str = "FILE", **settings: Any) -> Callable[[Command], Command]:
    """Offer an option that takes a path."""
    return click.option(*names, metavar=metavar, type=click.Path(), **settings)


def output_option(*formats: str, more: str = "", lines: bool = False) -> Callable[[Command], Command]:
    """Offer `-o`, the first format by default, and `yaml` where the JSON is one document, as `json`."""
    twin = "json" in formats and "yaml" not in formats and not lines
    return click.option(
        "-o",
        "--output",
        type=click.Choice((*formats, "yaml") if twin else formats),
        default=formats[0],
        show_default=True,
        callback=_documents_as if twin else None,
        help=f"Output format{more}.",
    )


login_options = offered(
    click.option("--kubeconfig", metavar="FILE", help="Path to a kubeconfig [default: kubectl's]."),
    click.option("--context", metavar="NAME", help="Context of the kubeconfig."),
    click.option("--kubectl", metavar="FILE", help="Path to kubectl."),
)
"""For commands that look at a cluster."""


def _documents_as(context: click.Context, _: click.Parameter, value: str) -> str:
    if value != "yaml":
        return value
    context.meta[terminal.AS_YAML] = True
    return "json"


class GroupedOption(click.Option):
    """An option that `--help` shows under its own heading, after the main options."""

    def __init__(self, *declarations: Any, heading: str, **settings: Any) -> None:
        super().__init__(*declarations, **settings)
        self.heading = heading


deploy_option = path_option("--deploy", help="Deploy to apply [default: deploys/site.py].")
limit_option = click.option(
    "--limit", "limits", multiple=True, metavar="HOST|GROUP", help="Limit to these hosts or groups."
)
data_option = click.option(
    "--data",
    metavar="KEY=VALUE",
    multiple=True,
    help="Connection data of HOST for pyinfra, e.g. ssh_user=ubuntu, ssh_port=2222 or ssh_key=PATH.",
)


def deploy_file(path: str | None) -> "Path":
    """Return the named deploy, else deploys/site.py of this folder, else the package's; it has to exist."""
    from pathlib import Path  # costs `--version` half of its time

    from numaforge.lib.resources import deploy_dir

    local = Path("deploys/site.py")
    file = Path(path) if path else local if local.exists() else deploy_dir() / "site.py"
    if file.suffix != ".py" or not file.is_file():
        raise NumaforgeError(
            "the deploy does not exist", where=str(file), remedy="name a file, such as deploys/site.py"
        )
    return file


def require_kubeconfig(path: str | None) -> None:
    """Raise NumaforgeError for a kubeconfig that does not exist."""
    from pathlib import Path

    if path and not Path(path).expanduser().is_file():
        raise NumaforgeError("the kubeconfig does not exist", where=path)


def screen_options(command: click.Command) -> click.Command:
    """Offer `--color`, `-q` and `-v` on a command and its subcommands; its own `verbose` stays."""
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            screen_options(subcommand)
    elif all(parameter.name != "quiet" for parameter in command.params):
        own_verbose = next((parameter for parameter in command.params if parameter.name == "verbose"), None)
        command.params = [parameter for parameter in command.params if parameter is not own_verbose]
        more = own_verbose.help if isinstance(own_verbose, click.Option) else None
        command.params += [
            _of_every_command(
                ["-v", "--verbose"],
                count=True,
                help=" ".join(filter(None, (more, _VERBOSE))),
                expose_value=own_verbose is not None,
                callback=partial(_keep, terminal.VERBOSE),
            ),
            _of_every_command(
                ["-q", "--quiet"],
                is_flag=True,
                help="Print only answers and errors.",
                expose_value=False,
                callback=partial(_keep, terminal.QUIET),
            ),
            _of_every_command(
                ["--color", "--colour"],
                type=click.Choice(("auto", "always", "never")),
                default="auto",
                help="Use colours; auto: on a terminal, unless NO_COLOR is set.",
                expose_value=False,
                callback=partial(_keep, terminal.COLOUR),
            ),
        ]
        command.format_options = partial(_format_options, command)  # type: ignore[method-assign]
    return command


_of_every_command = partial(GroupedOption, heading=OF_EVERY_COMMAND)


def _format_options(command: click.Command, context: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the main options, then others under their headings."""
    groups: dict[str, list[tuple[str, str]]] = {"Options": []}
    for parameter in command.get_params(context):
        default = OF_EVERY_COMMAND if "--help" in parameter.opts else "Options"
        if isinstance(parameter, click.Option) and (row := parameter.get_help_record(context)) is not None:
            groups.setdefault(getattr(parameter, "heading", default), []).append(row)
    last = groups.pop(OF_EVERY_COMMAND)
    for heading, rows in (*groups.items(), (OF_EVERY_COMMAND, last)):
        if rows:
            with formatter.section(heading):
                formatter.write_dl(rows)


def _keep(name: str, context: click.Context, _: click.Parameter, value: Any) -> bool:
    context.meta[name] = value
    if context.meta.get(terminal.QUIET) and context.meta.get(terminal.VERBOSE):
        raise click.UsageError("-q prints less, and -v more: give one of them")
    return bool(value)


class LazyGroup(click.Group):
    """A group that imports a command of `package` when it is used; `groups` are by heading in `--help`."""

    def __init__(
        self,
        *declarations: Any,
        package: str,
        groups: Mapping[str, Sequence[str]],
        hidden_names: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        super().__init__(*declarations, **settings)
        self.package = package
        self.groups = groups
        self.names = [*(name for names in groups.values() for name in names), *hidden_names]

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        return [*self.names]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(len(name) for names in self.groups.values() for name in names)
        for heading, names in self.groups.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            rows = [
                (f"{name:{width}}", command.get_short_help_str(55)) for name, command in commands if command
            ]
            with formatter.section(heading):
                formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name in self.names or name.startswith("-"):
            return super().resolve_command(ctx, args)
        from difflib import get_close_matches  # for a mistake alone

        options = [option for parameter in self.get_params(ctx) for option in parameter.opts]
        near = [f"--{name}"] if f"--{name}" in options else get_close_matches(name, self.names, n=1)
        if near:  # click knows only the commands that are imported already
            raise click.UsageError(f"No such command {name!r}. Did you mean {near[0]!r}?", ctx)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.names and cmd_name not in self.commands:
            name = cmd_name.replace("-", "_")
            command = getattr(import_module(f"{self.package}.{name}"), name)
            self.add_command(screen_options(command), cmd_name)
        return super().get_command(ctx, cmd_name)
