"""The commands that plan MIG geometries, without touching a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from numaforge.commands.config_maps import Handed, handed_machines, handing_options, say_manifests
from numaforge.commands.machine import machine_of, machine_option, root_option, snapshot_argument
from numaforge.commands.options import output_option
from numaforge.commands.wrapped import key_option, read_wrapped, remark_repeated
from numaforge.lib.errors import ExitCode, PlanError
from numaforge.report.terminal import show_answer

if TYPE_CHECKING:
    from numaforge.roles.mig.machine import MachineMigPlan
    from numaforge.roles.mig.section import MigConfigEntry


_HANDED = Handed(
    lambda plan: plan.mig.managed_by == "gpu-operator" and bool(plan.mig.gpus),
    "no host leaves the cutting of its GPUs to the operator",
    "set mig.managed_by: gpu-operator in the profiles of such hosts",
)


_file_argument = click.argument("file", metavar="FILE", type=click.Path())
_config_option = click.option("--config", metavar="NAME", help="Config to use, of a file with several.")


@click.group()
def mig() -> None:
    """Plan and check MIG instances without touching a GPU.

    FILE is a configuration of mig-parted.
    """


@mig.command("operator-config")
@handing_options("numaforge-mig-parted")
def operator_config(name: str, namespace: str, output: str, **machines: Any) -> int:
    """Write the ConfigMap for the GPU operator's MIG manager, which cuts GPUs as planned.

    One config per distinct geometry. The Node label nvidia.com/mig.config chooses it; the roll-out sets it on
    a drained node, where the profile says mig.managed_by: gpu-operator.

    Of an INVENTORY (NAME.py, or a folder with an inventory.py), asks and plans every host by its own profile;
    writes nothing while a host is silent.

    \b
    Example:
      numaforge mig operator-config inventories/prod | kubectl apply -f -
      numaforge mig operator-config dgx-h100 hgx-b200 --profile inference.yaml | kubectl apply -f -
    """
    from numaforge.roles.device_plugin.manifests import operator_config_map

    manifest, labels = operator_config_map(handed_machines(_HANDED, **machines), name, namespace)
    say_manifests([manifest], labels, output, config_map=manifest)
    return ExitCode.YES


@mig.command()
@click.argument("model", metavar="MODEL|PCI-ID")
@click.argument("profiles", metavar="[PROFILE[=COUNT] ...]", nargs=-1)
@output_option("table", "json")
def explain(model: str, profiles: tuple[str, ...], output: str) -> int:
    """Show the profiles of a GPU model, or the placement of some of them.

    Exit codes: 1 they do not fit; names collisions and alternatives.

    \b
    Example:
      numaforge mig explain h100-80gb
      numaforge mig explain 10de:2330 3g.40gb 1g.10gb=4
    """
    from numaforge.report import mig as report
    from numaforge.roles.mig.geometry import explain as reasons
    from numaforge.roles.mig.geometry import place
    from numaforge.roles.mig.models import model_named
    from numaforge.roles.mig.request import parse_counts, wanted_instances

    chosen = model_named(model)
    if not profiles:
        show_answer(output, lambda: report.model_document(chosen), lambda: report.profile_table(chosen))
        return ExitCode.YES
    profiles_wanted = [one.profile for one in wanted_instances(chosen, parse_counts(profiles))]
    placed = place(chosen, profiles_wanted)
    collision = reasons(chosen, profiles_wanted) if placed is None else None
    show_answer(
        output,
        lambda: report.geometry_document(chosen, placed, collision),
        lambda: report.geometry_text(chosen, placed, collision),
    )
    return ExitCode.NO if placed is None else ExitCode.YES


@mig.command()
@_file_argument
@snapshot_argument
@root_option
@_config_option
@key_option
@output_option("table", "json")
def check(
    file: str, source: str | None, root: str | None, config: str | None, key: str | None, output: str
) -> int:
    """Check a mig-parted file against the GPUs of a machine.

    FILE may be a ConfigMap or Helm values with the file.

    Exit codes: 1 mig-parted would not make a config (or the one of --config), 2 the file is invalid.

    \b
    Example:
      numaforge mig check config.yaml dgx-h100 --config all-balanced
    """
    from numaforge.report import mig as report
    from numaforge.roles.mig.machine import MachineMigPlan, plan_machine

    configs = _configs(file, config, key)
    machine = machine_of(source, root)
    answers: dict[str, MachineMigPlan | PlanError] = {}
    for name, entries in configs.items():
        try:
            answers[name] = plan_machine(machine, name, entries)
        except PlanError as error:
            answers[name] = error
    show_answer(output, lambda: report.check_document(answers), lambda: report.check_table(answers))
    fits = all(
        isinstance(answer, MachineMigPlan) and answer.is_made_by_mig_parted for answer in answers.values()
    )
    return ExitCode.YES if fits else ExitCode.NO


@mig.command()
@click.argument("sources", metavar="[FILE] [MACHINE]", nargs=-1, type=click.Path())
@machine_option(help="Same as MACHINE.")
@click.option("--profile", metavar="NAME|FILE", help="Use the mig section of this profile instead of FILE.")
@root_option
@_config_option
@output_option("table", "json")
def plan(
    sources: tuple[str, ...],
    machine: str | None,
    profile: str | None,
    root: str | None,
    config: str | None,
    output: str,
) -> int:
    """Show what each GPU of a machine gets: mode, kept, destroyed and created instances.

    A FILE with one config needs no --config.

    Exit codes: 1 a GPU cannot have its instances, or an instance to destroy is in use.

    \b
    Example:
      numaforge mig plan config.yaml dgx-h100 --config all-balanced
      numaforge mig plan --profile inference-mig dgx-h100
    """
    from numaforge.planning.profiles import load_profile
    from numaforge.report import mig as report
    from numaforge.roles.mig.machine import plan_machine, plan_profile

    names = [*(sources if profile else sources[1:]), *([machine] if machine else [])]
    if not (profile or sources) or len(names) > 1:
        raise click.UsageError("give a FILE or --profile, and at most one MACHINE")
    looked_at = machine_of(names[0] if names else None, root)
    if profile:
        if config:
            raise click.UsageError("--config is for a FILE; a profile names it with mig.config")
        loaded = load_profile(profile)
        if not loaded.mig.gpus and loaded.mig.mig_parted is None:
            raise PlanError("has no MIG settings", where=profile, remedy="give it a section mig with gpus")
        plan_it = partial(plan_profile, looked_at, loaded)
    else:
        configs = _configs(sources[0], config)
        if len(configs) > 1:
            raise click.UsageError(f"--config names one of {', '.join(configs)}")
        plan_it = partial(plan_machine, looked_at, *next(iter(configs.items())))
    try:
        planned = plan_it()
    except PlanError as error:
        raise error.at(profile or sources[0]) from error
    host = looked_at.hostname
    show_answer(output, lambda: report.plan_document(host, planned), lambda: report.plan_text(host, planned))
    return ExitCode.YES if planned.fits else ExitCode.NO


def _configs(
    file: str, config: str | None, key: str | None = None
) -> Mapping[str, tuple[MigConfigEntry, ...]]:
    from numaforge.roles.mig.section import parse_config

    text, where = read_wrapped(file, key, lambda document: "mig-configs" in document)
    configs = parse_config(text, where, config)
    remark_repeated(text, where)
    return configs
