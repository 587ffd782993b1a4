"""The kubelet's transaction under a real systemd: what the kubelet refuses is taken back."""

from dataclasses import replace

import pytest

from lab.cluster import Lab
from lab.node import Node
from numaforge.lib.file_content import FileContent
from tests.lab import rollouts
from tests.lab.transactions import (
    CPU_STATE,
    MEMORY_STATE,
    STATIC,
    UNIT,
    UNIT_DROP_IN,
    begin,
    change,
    ended,
    process,
    put_back,
    revert,
    run,
    seen,
    status,
    until,
)


@pytest.fixture
def fresh(lab: Lab) -> Node:
    return put_back(lab)


def test_settings_refused_by_kubelet_are_undone(fresh: Node) -> None:
    before = seen(fresh)
    result = run(fresh, change(fresh, "cpuManagerPolicy: no-such-policy\n"))
    assert result.outcome == "rolled-back", result
    assert any("no-such-policy" in line for line in result.journal)
    assert seen(fresh) == before


@pytest.mark.long
def test_change_is_undone_when_kubelet_fails_on_its_state(fresh: Node) -> None:
    before = seen(fresh)
    result = run(fresh, change(fresh, STATIC, invalid_state=(), kept_state=(CPU_STATE, MEMORY_STATE)))
    assert result.outcome == "rolled-back", result
    assert 'differs from state checkpoint policy \\"none\\"' in "\n".join(result.journal)
    assert seen(fresh) == before


@pytest.mark.long
def test_change_is_undone_when_kubelet_starts_only_once(fresh: Node) -> None:
    before = seen(fresh)
    spoil = f"until grep -q static {CPU_STATE}; do sleep 0.1; done; sed -i s/0-15/0-14/g {CPU_STATE}"
    drop_in = FileContent(UNIT_DROP_IN, f"[Service]\nExecStartPost=/bin/sh -c '{spoil}'\n")
    result = run(fresh, change(fresh, STATIC, drop_in))
    assert result.outcome == "rolled-back", result
    assert "came up with the new configuration, and not a second time" in result.reason
    assert "checkpoint is corrupted" in "\n".join(result.journal)
    assert seen(fresh) == before


@pytest.mark.long
def test_policy_change_removes_the_state_file_and_can_be_undone(fresh: Node) -> None:
    before, memory = seen(fresh), fresh.run(f"cat {MEMORY_STATE}")
    result = run(fresh, change(fresh, STATIC))
    assert result.outcome == "applied", result
    assert '"policyName":"static"' in fresh.run(f"cat {CPU_STATE}")
    assert fresh.run(f"cat {MEMORY_STATE}") == memory
    ran = process(fresh)
    assert process(fresh) == ran

    revert(fresh, "Allocatable cpu: predicted 14, found 8")
    until(fresh, "[ -e /var/lib/numaforge/txn/T1/applied.json ]")
    result = ended(fresh)
    assert (result.outcome, result.reason.split(";")[0]) == (
        "rolled-back",
        "Allocatable cpu: predicted 14, found 8",
    )
    assert seen(fresh) == before
    assert process(fresh) != ran


@pytest.mark.long
def test_transaction_is_undone_when_its_unit_is_killed(fresh: Node) -> None:
    before = seen(fresh)
    transaction = change(fresh, STATIC)
    begin(fresh, transaction)
    until(fresh, f"grep -qx 'prove kubelet again' {transaction.folder}/state")
    fresh.run(f"systemctl kill -s KILL numaforge-{transaction.id}.service")
    result = ended(fresh)
    assert result.outcome == "rolled-back", result
    assert result.reason.startswith('the transaction was broken off during "prove kubelet again"; ')
    assert seen(fresh) == before


def pods_on(lab: Lab, node: Node) -> set[str]:
    pods = lab.get("pods", "--all-namespaces")["items"]
    return {pod["metadata"]["uid"] for pod in pods if pod["spec"].get("nodeName") == node.name}


@pytest.mark.long
def test_undo_waits_for_a_late_pod_beyond_its_unit_timeout(lab: Lab, fresh: Node) -> None:
    before = seen(fresh)
    planned = change(fresh, STATIC)
    quick = tuple(replace(part, apply_seconds=40, undo_seconds=20) for part in planned.parts)
    drained = pods_on(lab, fresh)
    transaction = replace(planned, parts=quick, confirm_seconds=30, allowed=tuple(drained))
    assert run(fresh, transaction).outcome == "applied"
    rollouts.kubectl(lab, "create", "-f", "-", manifest=rollouts.deployment("web", 1))
    rollouts.await_deployment(lab, "web")  # the node was uncordoned
    (uid,) = pods_on(lab, fresh) - drained
    kubelet = process(fresh)
    revert(fresh, "the node is not Ready")
    until(fresh, f"grep -qx 'parked stop kubelet' {transaction.folder}/state")
    unit, limit = f"numaforge-{transaction.id}.service", transaction.change_seconds + transaction.undo_seconds
    begun = fresh.run(f"systemctl show -p ActiveEnterTimestampMonotonic --value {unit}").strip()
    until(fresh, f"[ $(cut -d. -f1 /proc/uptime) -gt $(({begun} / 1000000 + {limit} + 10)) ]")
    now = status(fresh)
    assert (now.phase, now.running) == ("parked stop kubelet", True)
    assert "of the pod default/web-" in now.parked
    assert uid.replace("-", "_") in now.parked or uid in now.parked
    assert process(fresh) == kubelet
    rollouts.kubectl(lab, "delete", "deployment", "web")
    result = ended(fresh)
    assert (result.outcome, result.reason.split(";")[0]) == ("rolled-back", "the node is not Ready"), result
    assert seen(fresh) == before


@pytest.mark.long
def test_node_reset_between_two_files_starts_its_kubelet_with_the_old_files(fresh: Node) -> None:
    before = seen(fresh)
    drop_in = FileContent(UNIT_DROP_IN, "[Service]\nEnvironment=HALF=written\n")
    fresh.run(  # the shell's `mv` finds this one first; it stays in the way once
        "cat > /usr/local/bin/mv; chmod +x /usr/local/bin/mv",
        input_text='#!/bin/sh\n/bin/mv "$@"\ncase $2 in\n'
        "*/.numaforge-0) rm /usr/local/bin/mv; sync; : > /run/reset; sleep 1000 ;;\nesac\n",
    )
    begin(fresh, change(fresh, STATIC, drop_in))
    until(fresh, "[ -e /run/reset ]")
    assert status(fresh).phase == "apply files"
    assert fresh.run(f"cat {UNIT_DROP_IN}") == drop_in.text
    with fresh.monitor() as monitor:
        monitor.execute("system_reset")
    result = ended(fresh)
    assert result.outcome == "rolled-back", result
    assert result.reason.startswith('the node rebooted during "apply files"; ')
    assert seen(fresh) == before
    pid = process(fresh).pid
    assert "HALF" not in fresh.run(f"tr '\\0' '\\n' < /proc/{pid}/environ")
    started = fresh.run(f"journalctl -b -u {UNIT} -o cat").count("Started kubelet.service")
    assert started == 1


@pytest.mark.long
def test_node_rebooted_during_a_change_proves_the_old_kubelet_after_the_boot(fresh: Node) -> None:
    before = seen(fresh)
    transaction = change(fresh, STATIC)
    begin(fresh, transaction)
    until(fresh, f"grep -qx 'prove kubelet' {transaction.folder}/state")
    boot = status(fresh).boot_id
    fresh.try_run(": > /run/reset; systemctl reboot")  # it may not live to answer
    result = ended(fresh)
    assert status(fresh).boot_id != boot
    assert result.outcome == "rolled-back", result
    assert result.reason.startswith('the node rebooted during "prove kubelet"; ')
    assert seen(fresh) == before


@pytest.mark.long
def test_units_that_are_bound_to_the_kubelet_are_active_again(fresh: Node) -> None:
    names = ("needs-kubelet", "part-of-kubelet", "needs-part")
    for name, binding in zip(
        names, (f"Requires={UNIT}", f"PartOf={UNIT}", "BindsTo=part-of-kubelet.service"), strict=True
    ):
        fresh.run(
            f"cat > /etc/systemd/system/{name}.service",
            input_text=f"[Unit]\n{binding}\n[Service]\nExecStart=/bin/sleep infinity\n",
        )
    units = " ".join(f"{name}.service" for name in reversed(names))
    fresh.run(f"systemctl daemon-reload; systemctl start {units}")
    try:
        assert run(fresh, change(fresh, STATIC)).outcome == "applied"
        assert fresh.run(f"systemctl is-active {units}").split() == ["active"] * len(names)
        bound = fresh.run("cat /var/lib/numaforge/txn/T1/kubelet/bound").split()
        assert {*bound} == {f"{name}.service" for name in names}
        revert(fresh, "why not")
        assert ended(fresh).outcome == "rolled-back"
        assert fresh.run(f"systemctl is-active {units}").split() == ["active"] * len(names)
    finally:
        fresh.run(f"systemctl stop {units}")
