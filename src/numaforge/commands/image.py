"""`numaforge image`: what the builder of an image is told."""

import json
import re
from collections.abc import Sequence

import click

from numaforge.commands.options import output_option
from numaforge.lib.errors import ExitCode, NumaforgeError
from numaforge.report.terminal import print_data, remark, show_json

BUILDERS = ("line", "mkosi", "grub", "bootc")
_NEVER = "nothing adds them: maintenance.reboot is never"


@click.group()
def image() -> None:
    """Write what the builder of a node image needs."""


@image.command()
@click.argument("file", metavar="IMAGE.YAML", type=click.Path())
@click.option(
    "--for",
    "builder",
    type=click.Choice(BUILDERS),
    default="line",
    show_default=True,
    help="line: the words alone. mkosi: KernelCommandLine=. grub: a file of /etc/default/grub.d. bootc: a "
    "file of /usr/lib/bootc/kargs.d.",
)
@output_option("table", "json")
def cmdline(file: str, builder: str, output: str) -> int:
    """Print the kernel parameters that all machines of an image need, so that a node boots once.

    IMAGE.YAML is the image that deploys/bake.py makes, with machines and a profile. Parameters of one kind of
    machine alone are named on standard error.

    \b
    Examples:
      numaforge image cmdline image.yaml
      numaforge image cmdline --for mkosi image.yaml
    """
    from numaforge.image.wish import plans_of, read_image, shared_parameters

    plans = plans_of(read_image(file))
    if not plans:
        raise NumaforgeError(
            "names no machine, or no profile", where=file, remedy="write machines, and boot: {profile: NAME}"
        )
    shared = shared_parameters(plans)
    own = {name: [word for word in plan.kernel.cmdline if word not in shared] for name, plan in plans.items()}
    if output == "json":
        machines = {name: {"only": own[name], "reboot": plan.kernel.reboot} for name, plan in plans.items()}
        show_json({"shared": shared, "machines": machines})
        return ExitCode.YES
    print_data(f"{for_builder(shared, builder)}\n")
    for name, words in own.items():
        reboots = plans[name].kernel.reboot == "allowed"
        how = "its first boot adds them, and reboots once" if reboots else _NEVER
        if words:
            remark(f"{name} alone needs {' '.join(words)}: {how}")
    return ExitCode.YES


def for_builder(parameters: Sequence[str], builder: str) -> str:
    """Return kernel parameters in a builder's form."""
    if builder == "mkosi":
        return f"[Content]\nKernelCommandLine={' '.join(parameters)}"
    if builder == "grub":  # which ends a command at an unquoted ";"
        quoted = " ".join(re.sub(r"=(.*;.*)", r'=\\"\1\\"', parameter) for parameter in parameters)
        return f'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {quoted}"'
    if builder == "bootc":
        return f"kargs = {json.dumps(list(parameters))}"
    return " ".join(parameters)
