"""The machines that an image names, with the plans that its profile makes for them."""

from collections.abc import Mapping
from pathlib import Path

from numaforge.image.wish import KEY, Image
from numaforge.lib.errors import NumaforgeError, PlanError
from numaforge.lib.given import NotJsonError, parse_json, read_text
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.saved import ready_machine, ready_machines, saved_machine
from numaforge.planning.node import plan_node
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import load_profile

CMDLINE = "/etc/numaforge/image/cmdline"
"""The kernel parameters that the image's machines need, which its root is compared with."""
_CMDLINE_HEADER = (
    "# Written by numaforge: who gives or needs a kernel parameter, and whether a reboot may add it."
)


def profile_files(wish: Image) -> dict[str, Path]:
    """Return the files of the image's own profiles by name; raises NumaforgeError for one that is wrong."""
    files = {Path(file).stem: Path(file) for file in wish.profiles}
    for file in files.values():
        load_profile(file, images=files)
    return files


def machines_of(wish: Image) -> dict[str, NodeTopology]:
    return {Path(name_or_file).stem: _machine(name_or_file) for name_or_file in wish.machines}


def plans_of(wish: Image) -> dict[str, NodePlan]:
    """Return the plan of each machine by name; none where the image names no profile.

    Raises PlanError where the profile cannot be planned for one, so that this shows before a node boots.
    """
    if wish.boot.profile is None:
        return {}
    profile = load_profile(wish.boot.profile, where=f"{KEY}: boot.profile", images=profile_files(wish))
    plans = {}
    for name, machine in machines_of(wish).items():
        try:
            plans[name] = plan_node(machine, profile)
        except PlanError as error:
            raise PlanError(
                f"the profile {profile.name} cannot be planned for {name}: {error.message}",
                where=error.where,
                remedy=error.remedy,
            ) from error
    return plans


def shared_parameters(plans: Mapping[str, NodePlan]) -> tuple[str, ...]:
    """Return the kernel parameters that every machine needs."""
    lines = [plan.kernel.cmdline for plan in plans.values()]
    return tuple(word for word in lines[0] if all(word in line for line in lines)) if lines else ()


def cmdline_text(plans: Mapping[str, NodePlan], given: str) -> str:
    """Return the text of CMDLINE; `given` is the line that the builder gives the kernel."""
    rows = [f"given - {word}" for word in given.split()]
    rows += [
        f"{name} {plan.kernel.reboot} {word}" for name, plan in plans.items() for word in plan.kernel.cmdline
    ]
    return "".join(f"{row}\n" for row in (_CMDLINE_HEADER, *rows))


def _machine(name_or_file: str) -> NodeTopology:
    if name_or_file in ready_machines():
        return ready_machine(name_or_file)
    try:
        return saved_machine(parse_json(read_text(name_or_file)))
    except NotJsonError as error:
        raise NumaforgeError(f"is not valid JSON: {error}", where=name_or_file) from error
    except NumaforgeError as error:
        raise error.at(name_or_file) from error
