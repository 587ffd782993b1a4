"""`numaforge host`: what runs on a host beside the kubelet."""

from __future__ import annotations

import click

from numaforge.commands.machine import (
    machine_and_plan,
    planning_options,
    root_option,
    snapshot_or_plan_argument,
)
from numaforge.commands.options import output_option
from numaforge.commands.rules import judging_options, say_judgements
from numaforge.lib.errors import ExitCode
from numaforge.report.terminal import save, show_json


@click.group()
def host() -> None:
    """Check what runs on a host beside the kubelet."""


@host.command()
@judging_options("Also show the verdicts of the other rules, with reasons.")
def check(sources: tuple[str, ...], root: str | None, verbose: bool, output: str) -> int:
    """Check containerd, packages, swap, clock and limits, and find other tuning tools.

    Each rule names the machines that it applies to; unknown facts raise no alarm. Several machines, or a
    folder of snapshots, make one table.

    Exit codes: 1 an error keeps pods from their work; warnings and notes: 0.

    \b
    Examples:
      numaforge host check dgx-h100
      numaforge host check -v
      numaforge host check fleet/
    """
    from numaforge.fleet.audit.host_rules import RULES

    return say_judgements(sources, root, RULES, verbose=verbose, output=output)


@host.command("runtime-class")
@snapshot_or_plan_argument
@root_option
@planning_options
@output_option("yaml", "json")
def runtime_class(
    source: str | None, root: str | None, profile: str | None, kubelet_version: str | None, output: str
) -> int:
    """Write the RuntimeClass for what pods may ask of CRI-O (pod_tuning), with an example pod as a comment.

    \b
    Example:
      numaforge host runtime-class dgx-h100 --profile inference.yaml | kubectl apply -f -
    """
    from numaforge.lib.kubernetes_objects import as_yaml
    from numaforge.roles.crio.plan import pod_lines
    from numaforge.roles.crio.plan import runtime_class as manifest

    _, planned = machine_and_plan(source, root, profile, kubelet_version)
    if planned is None:
        raise click.UsageError("no plan: give --profile")
    document, pod = manifest(planned), pod_lines(planned.pod_tuning)
    if output == "json":
        show_json({"schema": 1, "manifests": [document], "pod": pod})
    else:
        comment = "".join(f"# {line}\n" for line in as_yaml(pod).splitlines())
        save(
            f"{as_yaml(document)}# A Guaranteed pod with whole CPUs that asks for all of it says:\n{comment}",
            None,
        )
    return ExitCode.YES
