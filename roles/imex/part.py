"""IMEX on a tray: its unit masked or running, its keys in the package's config.cfg, its list of nodes.

A daemon that restarts takes the memory that other trays have imported, so the node is drained for it, and
refused while a ComputeDomain is alive on it: by its daemon and by who holds a channel, whatever a unit says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from numaforge.lib.errors import HostError
from numaforge.lib.shell import line
from numaforge.node.part import Look, NodeState, Part, lines

if TYPE_CHECKING:
    from numaforge.change.goal import Goal
    from numaforge.roles.imex.plan import ImexPlan

NAME = "imex"
UNIT = "nvidia-imex.service"
CONFIG = "/etc/nvidia-imex/config.cfg"
NODES = "/etc/nvidia-imex/nodes_config.cfg"
RECORD = "/etc/numaforge/imex-before"
_READY_SECONDS = 60  # a daemon that waits for its peers is READY itself
_ONCE_SECONDS = 90 + _READY_SECONDS  # systemd gives a unit 90 s to stop
_OURS = ("IMEX_NODE_CONFIG_FILE", "IMEX_CMD_ENABLED", "IMEX_CMD_UNIX_DOMAIN_PATH")


def keys_of(plan: ImexPlan) -> dict[str, str]:
    """Return the keys of config.cfg that a plan sets; the package's others stay."""
    if plan.mode in (None, "driver-managed"):
        return {}
    keys = {"IMEX_NODE_CONFIG_FILE": NODES}
    if plan.socket:
        keys |= {"IMEX_CMD_ENABLED": "1", "IMEX_CMD_UNIX_DOMAIN_PATH": plan.socket}
    return keys


def look(goal: Goal) -> Look:
    """Ask for the unit, the daemons, the present keys and nodes, and the state before numaforge."""
    planned = "" if goal.plan.imex.mode is None else "planned"
    return Look(
        units=(UNIT,), properties=("ActiveState",), call=("look_imex", planned, CONFIG, NODES, RECORD, *_OURS)
    )


def need(goal: Goal, state: NodeState, below: Sequence[Part]) -> Part | None:
    """Return the part that changes IMEX, which no ComputeDomain may use; None where nothing changes."""
    plan, answers = goal.plan.imex, state.answers(NAME)
    recorded = state.every(NAME, "recorded")
    if plan.mode is None:
        if not recorded:
            return None
        _refuse_alive(answers)
        return part(plan, answers)
    if answers.get("program") != "yes":
        raise HostError(
            f"imex.mode is {plan.mode}, and there is no nvidia-imex",
            where="nvidia-imex",
            remedy="install nvidia-imex of exactly the driver's version",
        )
    _refuse_stranger(plan, state.every(NAME, "address"))
    if _is_so(plan, answers, state):
        return None
    _refuse_alive(answers)
    return part(plan, answers)


def part(plan: ImexPlan, answers: Mapping[str, str]) -> Part:
    """Return the part that makes IMEX as planned; a plan without a mode puts back what was recorded.

    `answers` is the look by first word: `unit` masked, enabled or disabled, `active` yes where it runs.
    """
    mode = plan.mode or "as before numaforge"
    by_host = plan.mode in ("host-managed", "bare")
    return Part(
        NAME,
        moves=(f"IMEX: {answers.get('unit', 'unknown')} unit -> {mode}",),
        sentences=(f"{UNIT} {'restarts' if by_host else 'stops'}: memory that trays share is gone",)
        if by_host or answers.get("active") == "yes"
        else (),
        data={
            "keys": lines(*(line(f"{key}={value}") for key, value in keys_of(plan).items())),
            "nodes": lines(*map(line, plan.nodes)),
        },
        settings={
            "IMEX_MODE": plan.mode or "",
            "IMEX_UNIT": UNIT,
            "IMEX_CONFIG": CONFIG,
            "IMEX_NODES": NODES,
            "IMEX_RECORD": RECORD,
            "IMEX_SOCKET": plan.socket or "",
            "IMEX_SECONDS": str(_READY_SECONDS),
        },
        drains=True,
        apply_seconds=_ONCE_SECONDS,
        undo_seconds=_ONCE_SECONDS,
        boot_seconds=_ONCE_SECONDS,
    )


def _is_so(plan: ImexPlan, answers: Mapping[str, str], state: NodeState) -> bool:
    if plan.mode == "driver-managed":
        return (
            answers.get("unit") == "masked"
            and answers.get("active") != "yes"
            and answers.get("host-daemon") != "yes"
        )
    keys = dict(text.partition("=")[::2] for text in state.every(NAME, "key"))
    return (
        answers.get("unit") == "enabled"
        and answers.get("active") == "yes"
        and keys.items() >= keys_of(plan).items()
        and tuple(state.every(NAME, "node")) == plan.nodes
    )


def _refuse_alive(answers: Mapping[str, str]) -> None:
    if answers.get("pod-daemon") == "yes":
        raise HostError(
            "a ComputeDomain is alive here: the DRA driver's daemon runs in a pod, and who runs IMEX cannot "
            "change under it",
            where="nvidia-imex",
            remedy="delete the ComputeDomains of this node (`kubectl get computedomains -A`), then run again",
        )


def _refuse_stranger(plan: ImexPlan, addresses: Sequence[str]) -> None:
    if plan.nodes and addresses and not {*plan.nodes} & {*addresses}:
        raise HostError(
            f"none of its addresses ({', '.join(addresses)}) is in imex.nodes ({', '.join(plan.nodes)})",
            where="imex.nodes",
            remedy="name the trays of this host's clique, by addresses that they have themselves",
        )
