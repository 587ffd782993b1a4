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
from .facts import KubeletFiles, KubeletQuestion, KubeletUnit, kubelet_unit
from .facts import kubelet_files as read_files

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
    question = question_about(plan, kubelet, machine)
    found = read_files(host, question)
    if found.unfinished:
        announce(host, [f"the transaction {found.unfinished} of an earlier run has not ended: ending it"])
        yield StringCommand("sh", "-s", _stdin=settle_script())
        found = read_files(host, question)

    wanted = kubelet_files(plan, found.text(kubelet.config_file))
    changed = bundle.changes(wanted, (), found.files)
    expected = _outlook(plan, machine, kubelet, found, wanted)
    if not changed and not expected.removals:
        host.noop("the kubelet is already configured as planned")
        return
    check(expected)
    unit = kubelet_unit(host, kubelet.unit)
    if not changed and not unit.runs:
        host.noop("the kubelet is already configured as planned, and does not run")
        return
    show_changes(host, changed)
    if unit.active_state is None:
        announce(host, ["no systemd here: the kubelet's files are written, nothing is restarted"])
        yield StringCommand("sh", "-s", _stdin=bundle.write_script(changed))
        return
    yield from _transaction(
        _planned_transaction(kubelet, unit, expected, changed, start_seconds, stable_seconds)
    )


def question_about(plan: NodePlan, kubelet: KubeletPlan, machine: NodeTopology) -> KubeletQuestion:
    """Return which files matter; what the detection saw a moment ago is not sent again."""
    install = machine.kubelet
    planned = [file.path for file in plan.files if file.role == "kubelet"]
    state_files = [f"{kubelet.root_dir}/{name}" for name in _STATE_FILES]
    known = [file.text for file in kubelet_files(plan, install.config_text if install else None)]
    if install:
        known += [*install.drop_ins.values(), *install.state_files.values(), install.config_text or ""]
    return KubeletQuestion(
        tuple(dict.fromkeys([kubelet.config_file, *planned, *state_files])),
        kubelet.config_dir or (install.config_dir if install else None),
        tuple(known),
    )


def _outlook(
    plan: NodePlan,
    machine: NodeTopology,
    kubelet: KubeletPlan,
    found: KubeletFiles,
    wanted: Sequence[FileContent],
) -> Outlook:
    drop_ins = {path: found.files[path].text for path in found.drop_ins}
    state_files = {
        name: text for name in _STATE_FILES if (text := found.text(f"{kubelet.root_dir}/{name}")) is not None
    }
    return outlook(plan, machine, wanted, found.text(kubelet.config_file), drop_ins, state_files)


def _planned_transaction(
    kubelet: KubeletPlan,
    unit: KubeletUnit,
    expected: Outlook,
    changed: Sequence[Change],
    start_seconds: int,
    stable_seconds: int,
) -> Transaction:
    """Decide what the transaction does, and say it.

    Raises HostError for a host that has nothing to ask the kubelet's health with.
    """
    restart = unit.runs and expected.needs_restart
    url = health_url(expected.after.effective)
    if restart and url and not unit.askers:
        raise HostError(
            "has none of curl, python3, wget and bash, so nobody could tell whether the kubelet comes up",
            remedy="install one of them",
        )
    removals = dict(expected.removals)
    announce(host, [f"{path} is removed: {reason}" for path, reason in removals.items()])
    if restart:
        settings = ", ".join(expected.changed_settings) or "its state files"
        announce(host, [f"the kubelet restarts, because this changes: {settings}"])
    elif unit.runs:
        announce(host, ["the kubelet's effective settings stay the same: it is not restarted"])
    else:
        announce(host, [f"the kubelet is {unit.active_state}, not running: configured, and not started"])
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
