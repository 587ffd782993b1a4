"""Remove what remains of numaforge on a host where all its settings have been taken back."""

from pathlib import PurePosixPath

from pyinfra import host

from numaforge.change.look import GUARD
from numaforge.change.transaction import TRANSACTIONS
from numaforge.lib import shell
from numaforge.lib.file_content import PLAN_PATH, PROGRAMS
from numaforge.lib.framing import asking
from numaforge.lib.kubelet_paths import DROP_IN_DIR
from numaforge.roles.modules.files import MODPROBE_PATH
from numaforge.run.hosts.display import show_beside
from numaforge.run.hosts.operations import Commands, host_operation, script_command
from numaforge.run.hosts.overview import FORGET
from numaforge.run.hosts.roles import planned, role
from numaforge.run.hosts.scripts import reached

__all__ = ["forget"]

_RUN = "/run/numaforge"  # state that units and parts keep until the next boot
_EDITS = "/var/lib/numaforge-edits"
"""What an admin wrote into files while changes of them were undone, by transaction: it stays on the host."""


@role("Forget")
def forget() -> None:
    """Remove the saved plan, and the backups of earlier changes; what an admin edited meanwhile is kept."""
    kubelet = planned(host).kubelet
    _forget(
        name=FORGET,
        flag_stays=bool(kubelet and (kubelet.adds_config_dir or kubelet.argument)),
        config_dir=(kubelet and kubelet.arguments_file and kubelet.config_dir) or DROP_IN_DIR,
    )


@host_operation
def _forget(flag_stays: bool, config_dir: str) -> Commands:
    """Remove the saved plan and the backups, and say where an admin's edits are kept.

    + flag_stays: whether the kubelet still reads the folder of drop-ins that was added for it
    + config_dir: that folder
    """
    values = {
        "ROOT": TRANSACTIONS,
        "GUARD": GUARD,
        "STATE": str(PurePosixPath(TRANSACTIONS).parent),
        "PROGRAMS": PROGRAMS,
        "RUN": _RUN,
        "EDITS": _EDITS,
        "PLAN": PLAN_PATH,
        "CONFIG_DIR": config_dir,
        "MODPROBE": MODPROBE_PATH,
    }
    library = shell.assignments(values) + shell.library("node/paths", "run/forget")
    look = shell.call("tell_part", ["kept", "kept"]) + shell.call("tell_part", ["edits", "edits"])
    answer = reached(host, asking(library + look))
    edits = [path for path in answer.part("edits") if path]
    if "yes" not in answer.part("kept"):
        host.noop("nothing of numaforge is left")
        return
    kept_edits = f"; what was edited during earlier changes is kept in {', '.join(edits)}" if edits else ""
    removed = f"{PLAN_PATH} and {values['STATE']}, with the backups of earlier changes, are removed"
    show_beside(host, f"{removed}{kept_edits}")
    yield script_command(library + shell.call("forget", ("yes" if flag_stays else "",)))
