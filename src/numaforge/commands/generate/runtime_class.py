"""`numaforge generate runtime-class`: the RuntimeClass for pods on CRI-O."""

import click

from numaforge.commands.machine import (
    Planning,
    planned_machine,
    planning_options,
    root_option,
    snapshot_or_plan_argument,
)
from numaforge.commands.options import output_option
from numaforge.lib.errors import ExitCode
from numaforge.report.terminal import save, show_json


@click.command("runtime-class")
@snapshot_or_plan_argument
@root_option
@planning_options
@output_option("yaml", "json")
def runtime_class(source: str | None, planning: Planning, output: str) -> int:
    """Write the RuntimeClass for what pods may ask of CRI-O (pod_tuning), with an example pod as a comment.

    \b
    Example:
      numaforge generate runtime-class dgx-h100 --profile inference.yaml | kubectl apply -f -
    """
    from numaforge.lib.kubernetes_objects import as_yaml
    from numaforge.roles.crio.plan import pod_lines
    from numaforge.roles.crio.plan import runtime_class as manifest

    _, planned = planned_machine(source, planning)
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
