"""Change the kubelet's configuration: one transaction on the node."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime

from pyinfra import host
from pyinfra.api import StringCommand

from numaforge import bundle
from numaforge.bundle import Change, FileContent
from numaforge.errors import HostError
from numaforge.hosts import Commands, announce, host_operation, script_output, show_changes
from numaforge.kubelet.checkpoints import CPU_STATE_FILE, MEMORY_STATE_FILE
from numaforge.planning.model import KubeletPlan, NodePlan
from numaforge.render import kubelet_files
from numaforge.rollout.transaction import (
    Transaction,
    health_url,
    read_result,
    settle_script,
    start_script,
    wait_script,
)
from numaforge.topology.model import NodeTopology

from .change import Outlook, check, outlook
from .facts import KubeletState, kubelet_state

_STATE_FILES = (CPU_STATE_FILE, MEMORY_STATE_FILE)


@host_operation
def kubelet_configuration(
    plan: NodePlan, machine: NodeTopology, start_seconds: int, stable_seconds: int
) -> Commands:
    """Write the kubelet's files, and restart it as one transaction where its effective settings change.

    + plan: what the kubelet is to run with
    + machine: the host as it was detected
    + start_seconds: how long it may take to become healthy
    + stable_seconds: how long it then has to stay so with the same process
    """
    kubelet = plan.kubelet
    if kubelet is None:
        return
    state = _state(plan, kubelet, machine)
    if state.unfinished:
        announce(
            host, [f"the transaction {state.unfinished} of an earlier run has not ended: ending it first"]
        )
        yield StringCommand("sh", "-s", _stdin=settle_script())
        state = _state(plan, kubelet, machine)

    config_text = state.text(kubelet.config_file)
    wanted = kubelet_files(plan, config_text)
    changed = bundle.changes(wanted, (), state.files)
    expected = _outlook(plan, machine, kubelet, state, wanted)
    if not changed and not (state.runs and expected.removals):
        host.noop("the kubelet is already configured as planned")
        return
    check(expected)
    show_changes(host, changed)
    if not state.unit:
        announce(host, ["no systemd here: the kubelet's files are written, nothing is restarted"])
        yield StringCommand("sh", "-s", _stdin=bundle.write_script(changed))
        return
    yield from _transaction(
        _planned_transaction(kubelet, state, expected, changed, start_seconds, stable_seconds)
    )


def _state(plan: NodePlan, kubelet: KubeletPlan, machine: NodeTopology) -> KubeletState:
    folder = kubelet.config_dir or (machine.kubelet.config_dir if machine.kubelet else None)
    planned = [file.path for file in plan.files if file.role == "kubelet"]
    state_files = [f"{kubelet.root_dir}/{name}" for name in _STATE_FILES]
    paths = dict.fromkeys([kubelet.config_file, *planned, *state_files])
    return kubelet_state(host, kubelet.unit, list(paths), folder)


def _outlook(
    plan: NodePlan,
    machine: NodeTopology,
    kubelet: KubeletPlan,
    state: KubeletState,
    wanted: Sequence[FileContent],
) -> Outlook:
    drop_ins = {path: state.files[path].text for path in state.drop_ins}
    state_files = {
        name: text for name in _STATE_FILES if (text := state.text(f"{kubelet.root_dir}/{name}")) is not None
    }
    return outlook(plan, machine, wanted, state.text(kubelet.config_file), drop_ins, state_files)


def _planned_transaction(
    kubelet: KubeletPlan,
    state: KubeletState,
    expected: Outlook,
    changed: Sequence[Change],
    start_seconds: int,
    stable_seconds: int,
) -> Transaction:
    """Decide what the transaction does, and say it.

    Raises HostError for a host that has nothing to ask the kubelet's health with.
    """
    restart = state.runs and expected.needs_restart
    url = health_url(expected.after.effective)
    if restart and url and not state.askers:
        raise HostError(
            "has none of curl, python3, wget and bash, so nobody could tell whether the kubelet comes up",
            remedy="install one of them",
        )
    removals = dict(expected.removals)
    announce(host, [f"{path} is removed: {reason}" for path, reason in removals.items()])
    if restart:
        settings = ", ".join(expected.changed_settings) or "its state files"
        announce(host, [f"the kubelet restarts, because this changes: {settings}"])
    elif state.runs:
        announce(host, ["the kubelet's effective settings stay the same: it is not restarted"])
    else:
        how = state.unit.get("ActiveState", "unknown")
        announce(host, [f"the kubelet is not running ({how}): it is configured, and not started"])
    return Transaction(
        id=f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}",
        unit=kubelet.unit,
        files=tuple(change.new for change in changed if change.new),
        invalid_state=removals,
        kept_state=tuple(
            path for name in _STATE_FILES if (path := f"{kubelet.root_dir}/{name}") not in removals
        ),
        health_url=url,
        restart=restart,
        start_seconds=start_seconds,
        stable_seconds=stable_seconds,
    )


def _transaction(transaction: Transaction) -> Commands:
    # What a roll-out does to the cluster before a node changes (cordon, drain) goes before the first of these
    # commands, what it does afterwards (uncordon) behind the last.
    yield StringCommand("sh", "-s", _stdin=start_script(transaction))
    yield StringCommand("sh", "-s", _stdin=wait_script(transaction))
    result = read_result("\n".join(script_output(host, f"cat {transaction.folder}/result.json\n")))
    host.log(f"{result.outcome}: {result.reason or 'the files are written'}")
