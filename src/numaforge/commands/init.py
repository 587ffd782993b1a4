"""`numaforge init`: the folder from which a fleet is provisioned."""

import json
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from numaforge.commands.one_host import address
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.ordering import first_of
from numaforge.report.hostnames import MOST_NAMES, unfolded
from numaforge.report.terminal import remark

EXAMPLE_HOST = "gpu-01.example.net"
DEFAULT_PROFILE = "best-effort-mixed"
"""Refuses no pod, whatever the nodes are for."""
_SUFFIX = ".j2"
_CONNECTOR = re.compile(r"@[\w./:-]+")
_USER = re.compile(r"[^\s:/-][^\s:/]*")
_NAMED_AT_MOST = 8


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="[USER@]NAME[:PORT]",
    help="Host as ssh names it, or a range such as gpu-[01-30]; repeatable.",
)
@click.option("--user", default="root", show_default=True, metavar="NAME", help="Login user of the hosts.")
@click.option(
    "--profile",
    default=DEFAULT_PROFILE,
    show_default=True,
    metavar="NAME",
    help="Ready profile to start from.",
)
def init(folder: Path, hosts: tuple[str, ...], user: str, profile: str) -> None:
    """Write the starting folder of a fleet.

    It has an inventory, data, a profile, deploys, and a README.md with the next commands. DIR must be new or
    empty.
    """
    texts = starting_files(hosts, user, profile)
    write_folder(folder, texts)
    for path in texts:
        remark(f"wrote {folder / path}")
    remark(f"{folder / 'README.md'} lists the next steps")


def starting_files(hosts: tuple[str, ...], user: str, profile: str) -> dict[str, str]:
    """Return the text of each file by its path; refuses invalid names and unknown profiles."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from numaforge.lib.resources import deploy_dir, template_dir
    from numaforge.planning.profiles import load_profile, machine_profiles, named_profiles, ready_profiles

    if not _USER.fullmatch(user):
        raise NumaforgeError(f"{user!r} is not a user name", where="--user", remedy="write one such as root")
    connections = _connections_of(hosts, user)
    if profile not in (*ready_profiles(), *machine_profiles()):
        remedy = f"name one of {named_profiles()}"
        raise NumaforgeError(f"there is no ready profile {profile!r}", where="--profile", remedy=remedy)
    templates = template_dir() / "init"
    environment = Environment(  # noqa: S701 (the output is Python, YAML and Markdown, not HTML)
        loader=FileSystemLoader(templates),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
    )
    environment.filters["quoted"] = json.dumps  # JSON's texts and whole numbers are valid Python
    values = {
        "hosts": list(connections.items()),
        "host": next(iter(connections), EXAMPLE_HOST),
        "example": EXAMPLE_HOST,
        "user": user,
        "profile": profile,
        "description": load_profile(profile).description,
    }
    paths = sorted(str(path.relative_to(templates)) for path in templates.rglob(f"*{_SUFFIX}"))
    texts = {path.removesuffix(_SUFFIX): environment.get_template(path).render(values) for path in paths}
    deploys = sorted(path for path in deploy_dir().glob("*.py") if path.stem != "__init__")
    return texts | {f"deploys/{path.name}": path.read_text(encoding="utf-8") for path in deploys}


def _connections_of(hosts: Sequence[str], user: str) -> dict[str, dict[str, str | int]]:
    """Return each host's ssh_user and ssh_port, where given."""
    connections: dict[str, dict[str, str | int]] = {}
    for pattern in hosts:
        try:
            names = unfolded(pattern)
        except ValueError as error:
            raise NumaforgeError(str(error), where=f"--host {pattern}") from error
        for name in names:
            if _CONNECTOR.fullmatch(name):
                connections[name] = {}
                continue
            try:
                host, data = address(name)
                if not _USER.fullmatch(str(data.get("ssh_user", user))):
                    raise click.BadParameter("no user")
            except click.BadParameter as error:
                raise NumaforgeError(
                    f"{name!r} is not a host name",
                    where="--host",
                    remedy="write it as ssh calls it, with a user or a port: ubuntu@gpu-01:2222; many are "
                    "gpu-[01-30], or one --host each",
                ) from error
            connections[host] = data
    if len(connections) > MOST_NAMES:
        raise NumaforgeError(f"{len(connections)} hosts are more than {MOST_NAMES}", where="--host")
    return connections


def write_folder(folder: Path, texts: Mapping[str, str]) -> None:
    """Write a new folder, or an empty one, with these files, all or none."""
    _refuse_what_is_there(folder)
    target = folder.resolve()
    staged = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            file = staged / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        staged.rename(target)  # replaces an empty folder only
    except OSError as error:
        raise NumaforgeError(f"cannot be written: {error.strerror}", where=str(folder)) from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _refuse_what_is_there(folder: Path) -> None:
    new = "name a folder that does not exist yet"
    if not folder.exists():
        return
    if not folder.is_dir():
        raise NumaforgeError("is a file", where=str(folder), remedy=new)
    if names := sorted(path.name for path in folder.iterdir()):
        problem = f"the folder is not empty: {first_of(names, _NAMED_AT_MOST)}"
        remedy = f"nothing is overwritten: {new}, or an empty one"
        raise NumaforgeError(problem, where=str(folder), remedy=remedy)
    if folder.samefile(Path.cwd()):
        raise NumaforgeError("is the folder that you are in", where=str(folder), remedy=new)
