"""The options of every roll-out command, and the run of pyinfra that they describe."""

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, get_args

import click

from numaforge.commands.options import (
    Command,
    GroupedOption,
    deploy_file,
    deploy_option,
    limit_option,
    offered,
    output_option,
    require_kubeconfig,
)
from numaforge.report.terminal import verbosity
from numaforge.rollout.launch import Pyinfra
from numaforge.rollout.names import DEFAULT_NAME
from numaforge.rollout.options import RolloutOptions, RunRole, read_options
from numaforge.rollout.program import inventory_file
from numaforge.rollout.shards import SHARD, Shard

LOGIN = ("kubeconfig", "context", "namespace", "kubectl")
NOT_HERE = ("without_drain",)  # a roll-out always asks the cluster
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_LONGEST_NAME = 200  # a Lease's name has at most 253 characters, and numaforge adds some
ORDER = "Order and budget"
WAITING = "Waiting and proof"
_HEADINGS = {
    "The cluster": ("context", "kubectl", "namespace"),
    ORDER: (
        "pool",
        "failure_domain",
        "domains_at_once",
        "max_unavailable_per_domain",
        "ends_compute_domains",
        "control_plane_outage",
        "canary_hosts",
        "max_blocked",
        "slot_timeout",
    ),
    "The drain": ("delete_empty_dir_data", "force", "wait_for", "include_cordoned", "ends_work"),
    WAITING: (
        "maintenance_timeout",
        "unreachable_timeout",
        "ready_timeout",
        "settle_seconds",
        "verify",
        "retry_failed",
    ),
}
"""The headings under which `--help` shows options that most roll-outs do not change."""
_PAIRS = {"wait_for": "KEY=VALUE", "ends_work": "KIND=REASON"}
"""The options that are given once for each pair of a mapping."""
_HEADING_OF = {name: heading for heading, names in _HEADINGS.items() for name in names}
_OF_A_FLEET = tuple(name for name in RolloutOptions.model_fields if name not in NOT_HERE)


def rollout_options(names: Iterable[str]) -> Callable[[Command], Command]:
    """Offer fields of RolloutOptions as options, with their descriptions."""
    return offered(*map(_option_of, names))


def _option_of(name: str) -> Callable[[Command], Command]:
    """Return a field as an option with its default in the help, which is left to the inventory."""
    field = RolloutOptions.model_fields[name]
    flag = "--" + ("canary" if name == "canary_hosts" else name.replace("_", "-"))
    default, words = field.default, str(field.description)
    if isinstance(default, int | str) and not isinstance(default, bool) and default != "":
        words = f"{words}  [default: {default}]"
    settings: dict[str, Any] = {"help": words, "default": None}
    if field.annotation is bool:
        settings["is_flag"] = True
        flag = f"{flag}/--no-{flag[2:]}" if default else flag
    elif name in ("canary_hosts", *_PAIRS):
        settings |= {"multiple": True, "metavar": _PAIRS.get(name, "HOST")}
    else:
        number = "N" if int in (field.annotation, *get_args(field.annotation)) else "TEXT"
        settings["metavar"] = "SECONDS" if name.endswith(("_seconds", "_timeout")) else number
    if name in _HEADING_OF:
        settings |= {"cls": GroupedOption, "heading": _HEADING_OF[name]}
    return click.option(flag, name, **settings)


def fleet_command(names: Collection[str] = _OF_A_FLEET) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Give a command these options of a roll-out; it gets `program`, `output` and `verbose`."""

    def offer(command: Callable[..., int]) -> Callable[..., int]:
        @wraps(command)
        def called(*, name: str, shard: str | None, **options: Any) -> int:
            own_shard = Shard.parse(shard) if shard else None
            role = RunRole(own_shard.name_of(name) if own_shard else name)
            where = {key: options.pop(key) for key in ("inventory", "deploy", "limits")}
            program = _program(**where, role=role, options={key: options.pop(key) for key in names})
            return command(program=replace(program, shard=own_shard), **options)

        return fleet_options(called)

    fleet_options = offered(
        click.argument("inventory", type=click.Path()),
        output_option("table", "json", more="; json is one object a line while it runs", lines=True),
        click.option("--verbose", is_flag=True, help="Print every host; no grouping."),
        deploy_option,
        limit_option,
        click.option(
            "--shard",
            cls=GroupedOption,
            heading=ORDER,
            envvar=SHARD,
            metavar="I/N",
            help="Take part I of N, from 0: 0/4 to 3/4, or $JOB_COMPLETION_INDEX/4. The parts share budget, "
            "canaries and limits of failures.",
        ),
        click.option("--name", default=DEFAULT_NAME, show_default=True, help="Name of the roll-out."),
        rollout_options(names),
    )
    return offer


def options_of(options: Mapping[str, Any]) -> RolloutOptions:
    """Return the options of the command line alone."""
    return read_options(_chosen(options))


def _program(
    inventory: str, deploy: str | None, limits: tuple[str, ...], role: RunRole, options: Mapping[str, Any]
) -> Pyinfra:
    """Return how to run pyinfra here; refuses invalid options and missing files."""
    chosen = _chosen(options)
    read_options(chosen, where="the command line")
    if len(role.name) > _LONGEST_NAME or not _NAME.fullmatch(role.name):
        raise click.BadParameter(
            f"{role.name!r} is not a valid Lease name; write lower-case letters, digits and -",
            param_hint="--name",
        )
    require_kubeconfig(chosen.get("kubeconfig"))
    inventory_path = inventory_file(inventory)
    carried_out = str(deploy_file(deploy))
    state = Path(os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser())
    stem = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{role.name.replace('/', '_')}-{os.getpid()}"
    folder = state / "numaforge" / "rollouts" / stem
    return Pyinfra(inventory_path, carried_out, limits, chosen, folder, role, verbose=verbosity() > 1)


def _chosen(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options given on the command line as fields of RolloutOptions."""
    chosen = {name: value for name, value in options.items() if value not in (None, ())}
    for name in _PAIRS.keys() & chosen.keys():
        wrong = next((pair for pair in chosen[name] if "=" not in pair), None)
        if wrong is not None:
            hint = f"--{name.replace('_', '-')}"
            raise click.BadParameter(f"{wrong!r} is not {_PAIRS[name]}", param_hint=hint)
        chosen[name] = dict(pair.split("=", 1) for pair in chosen[name])
    return chosen
