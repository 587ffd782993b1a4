"""Parameters of the kernel's command line: in effect after a reboot, rolled back by a second one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from numaforge.lib.errors import HostError
from numaforge.node.part import Look, NodeState, Part, lines
from numaforge.roles.kernel_cmdline.parameters import parameter_name

if TYPE_CHECKING:
    from numaforge.change.goal import Goal

NAME = "kernel_cmdline"
RECORD = "/etc/numaforge/kernel-cmdline"
DROP_IN = "/etc/default/grub.d/90-numaforge.cfg"
TRIAL = "/etc/grub.d/45_numaforge"  # after all other entries, so that their numbers stay
_INSTEAD = " instead-of "
_WRITTEN = ("grub", "grubby")  # the boot loaders that part.sh writes
_WRITE_SECONDS = 120  # update-grub probes every disk


def look(goal: Goal) -> Look:
    """Return what to read: the boot loader, the command line, and what an earlier plan added."""
    asks = goal.plan.kernel.cmdline if goal.plan.kernel.reboot == "allowed" else ()
    return Look(call=("look_kernel_cmdline", RECORD, *asks))


def need(goal: Goal, state: NodeState, below: Sequence[Part]) -> Part | None:
    """Return the part that adds and removes parameters; None also where a reboot is not allowed.

    Raises HostError for a boot loader that numaforge does not write.
    """
    planned = goal.plan.kernel.cmdline
    missing, removed = _differences(goal, state)
    if not (missing or removed) or goal.plan.kernel.reboot != "allowed":
        return None
    answers = state.answers(NAME)
    loader = answers.get("loader", "none")
    if loader not in _WRITTEN:
        raise _unsupported(loader, missing)
    not_once = None if "once" in answers else answers.get("not-once", "it was not looked at")
    return part(planned, missing, removed, loader, not_once=not_once, replaced=_recorded(state))


def _unsupported(loader: str, missing: Sequence[str]) -> HostError:
    """Return the error for this boot loader; setting the parameters by hand, as it advises, resolves it."""
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


def pending(goal: Goal, state: NodeState) -> str | None:
    """Return what waits for a reboot that is not allowed; None where nothing does."""
    if goal.plan.kernel.reboot == "allowed":
        return None
    missing, removed = _differences(goal, state)
    if not (missing or removed):
        return None
    wishes = [f"{parameter} to come" for parameter in missing] + [
        f"{parameter_removed} to go" for parameter_removed in removed
    ]
    leave = goal.plan.kernel.reboot
    return f"pending: the kernel's command line ({', '.join(wishes)}); maintenance.reboot is {leave}"


def part(
    planned: Sequence[str],
    missing: Sequence[str],
    removed: Sequence[str],
    loader: str,
    *,
    not_once: str | None = None,
    replaced: Mapping[str, str] | None = None,
) -> Part:
    """Return the part that makes the boot loader pass the planned parameters; `loader` is grub or grubby.

    `not_once` is why the boot loader cannot boot an entry once: its default is then changed before the
    reboot. `replaced` maps our parameters to the host's own that they replaced.
    """
    replaced = replaced or {}
    moves = [f"kernel command line: + {parameter}" for parameter in missing]
    moves += [f"kernel command line: - {parameter}" for parameter in removed]
    lasting = f"the boot loader starts it from now on, not once on trial: {not_once}"
    replaced_lines = [
        f"{added}{_INSTEAD}{original}"
        for added, original in replaced.items()
        if original and added in planned
    ]
    return Part(
        NAME,
        sentences=() if not_once is None else (lasting,),
        moves=tuple(moves),
        data={
            "planned": lines(*planned),
            "removed": lines(*removed),
            "restored": lines(*(_restored(removed, planned, replaced) if loader == "grubby" else ())),
            "replaced": lines(*replaced_lines),
        },
        settings={
            "CMDLINE_RECORD": RECORD,
            "CMDLINE_DROP_IN": DROP_IN,
            "CMDLINE_TRIAL": TRIAL,
            "CMDLINE_LOADER": loader,
            "CMDLINE_ONCE": "yes" if not_once is None else "no",
        },
        drains=True,
        reboots=True,
        apply_seconds=_WRITE_SECONDS,
        commit_seconds=_WRITE_SECONDS,
        undo_seconds=_WRITE_SECONDS,
    )


def _restored(removed: Sequence[str], planned: Sequence[str], replaced: Mapping[str, str]) -> list[str]:
    """Return the host's parameters that our removed ones replaced, unless another of ours replaces them.

    GRUB's drop-in only adds ours, so it has replaced none. The record does not name what a changed parameter
    of ours replaced: there only the host's `pci=` is known, see `_with_pci_option` in plan.py.
    """
    originals = [
        replaced.get(ours_removed) or ours_removed.rpartition(",config_acs=")[0] for ours_removed in removed
    ]
    planned_names = {parameter_name(parameter) for parameter in planned}
    return [original for original in originals if original and parameter_name(original) not in planned_names]


def _differences(goal: Goal, state: NodeState) -> tuple[list[str], list[str]]:
    """Return the planned parameters that the kernel lacks, and an earlier plan's that this one lacks."""
    recorded = _recorded(state)
    running = state.answers(NAME).get("cmdline", "").split()
    planned = goal.plan.kernel.cmdline
    missing = [parameter for parameter in planned if parameter not in running]
    return missing, [parameter for parameter in recorded if parameter not in planned]


def _recorded(state: NodeState) -> dict[str, str]:
    """Return the parameters that an earlier plan added, each with the host's own that it replaced, or ""."""
    texts = (text.partition(_INSTEAD) for text in state.every(NAME, "recorded"))
    return {added: original for added, _, original in texts}
