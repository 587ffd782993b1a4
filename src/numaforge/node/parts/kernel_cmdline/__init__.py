"""Parameters of the kernel's command line: true after a boot, and undone by a second one."""

from __future__ import annotations

from collections.abc import Sequence

from numaforge.errors import HostError
from numaforge.node.part import Found, Goal, Look, Part, lines

NAME = "kernel_cmdline"
RECORD = "/etc/numaforge/kernel-cmdline"
DROP_IN = "/etc/default/grub.d/90-numaforge.cfg"
_WRITTEN = ("grub", "grubby")  # the boot loaders that part.sh writes
_WRITE_SECONDS = 120  # update-grub asks about every disk


def look(goal: Goal) -> Look:
    """Return the question about the boot loader, the command line, and what an earlier plan has added."""
    return Look(call=("look_kernel_cmdline", RECORD)) if _concerned(goal) else Look()


def need(goal: Goal, found: Found, below: Sequence[Part]) -> Part | None:  # noqa: ARG001 (the contract's)
    """Return the parameters that have to come and to go; None as well where a reboot is not allowed.

    Raises HostError for a boot loader that numaforge does not know.
    """
    if not _concerned(goal):
        return None
    planned = goal.plan.kernel.cmdline
    missing, removed = _differences(goal, found)
    if not (missing or removed) or goal.plan.kernel.reboot != "allowed":
        return None
    loader = found.answers(NAME).get("loader", "none")
    if loader not in _WRITTEN:
        raise _unsupported(loader, missing)
    return part(planned, missing, removed, loader)


def _unsupported(loader: str, missing: Sequence[str]) -> HostError:
    """Return the refusal; what the kernel has is no difference, so parameters set by hand end it."""
    wish = " ".join(missing)
    message, remedy = {
        "kernelstub": (
            "kernelstub keeps the kernel's command line here, and numaforge does not write through it",
            f"run `kernelstub --add-options '{wish}'`, reboot, and run again",
        ),
        "systemd-boot": (
            "systemd-boot starts this node, and numaforge writes the kernel's command line for GRUB only",
            f"add {wish} to /etc/kernel/cmdline, run `kernel-install add-all`, reboot, and run again",
        ),
    }.get(
        loader,
        (
            "neither update-grub nor grubby is there to change the kernel's command line",
            "set the parameters in the boot loader by other means, or leave them out of the profile",
        ),
    )
    return HostError(message, where=f"kernel.cmdline: {wish}", remedy=remedy)


def pending(goal: Goal, found: Found) -> str | None:
    """Say what waits for a reboot that is not allowed; None where nothing does."""
    if not _concerned(goal) or goal.plan.kernel.reboot == "allowed":
        return None
    missing, removed = _differences(goal, found)
    if not (missing or removed):
        return None
    wishes = [f"{parameter} to come" for parameter in missing] + [f"{each} to go" for each in removed]
    leave = goal.plan.kernel.reboot
    return f"pending: the kernel's command line ({', '.join(wishes)}); maintenance.reboot is {leave}"


def part(planned: Sequence[str], missing: Sequence[str], removed: Sequence[str], loader: str) -> Part:
    """Return the part that has the boot loader pass the planned parameters; `loader` is grub or grubby."""
    moves = [f"kernel command line: + {parameter}" for parameter in missing]
    moves += [f"kernel command line: - {parameter}" for parameter in removed]
    return Part(
        NAME,
        moves=tuple(moves),
        data={"planned": lines(*planned), "removed": lines(*removed), "restored": lines(*_restored(removed))},
        settings={"CMDLINE_RECORD": RECORD, "CMDLINE_DROP_IN": DROP_IN, "CMDLINE_LOADER": loader},
        drains=True,
        reboots=True,
        apply_seconds=_WRITE_SECONDS,
        undo_seconds=_WRITE_SECONDS,
    )


def _restored(removed: Sequence[str]) -> list[str]:
    """Return the host's own options of `pci=` that a parameter of ours said again: see planning.kernel."""
    return [rest for each in removed if (rest := each.rpartition(",config_acs=")[0])]


def _concerned(goal: Goal) -> bool:
    return "tuning" in goal.roles


def _differences(goal: Goal, found: Found) -> tuple[list[str], list[str]]:
    """Return the planned parameters that the kernel lacks, and the earlier plan's that this one has not."""
    said = found.said.get(NAME, ())
    recorded = [text.removeprefix("recorded ") for text in said if text.startswith("recorded ")]
    running = found.answers(NAME).get("cmdline", "").split()
    planned = goal.plan.kernel.cmdline
    missing = [parameter for parameter in planned if parameter not in running]
    return missing, [parameter for parameter in recorded if parameter not in planned]
