"""The kubelet's transaction under a real systemd: what the kubelet refuses is taken back."""

from __future__ import annotations

import pytest

from lab.cluster import Lab
from lab.node import Node
from numaforge.bundle import FileContent
from numaforge.rollout.transaction import Result, Transaction, read_result, start_script, wait_script

CONFIG = "/var/lib/kubelet/config.yaml"
CPU_STATE = "/var/lib/kubelet/cpu_manager_state"
MEMORY_STATE = "/var/lib/kubelet/memory_manager_state"
HEALTH = "for _ in $(seq 240); do curl -fs http://127.0.0.1:10248/healthz && break; sleep 0.5; done"


@pytest.fixture
def fresh(lab: Lab) -> Node:
    lab.reset()
    node = lab.nodes[0]
    node.run(HEALTH)
    return node


def changed(node: Node, name: str, addition: str, stop: str = "") -> Result:
    """Change the main file past every check of ours, and wait for the end."""
    change = Transaction(
        id=name,
        unit="kubelet.service",
        files=(FileContent(CONFIG, node.run(f"cat {CONFIG}") + addition),),
        invalid_state={CPU_STATE: "the policy changes"},
        kept_state=(MEMORY_STATE,),
        start_seconds=90,
        stable_seconds=5,
    )
    node.run("sh -s", input_text=start_script(change))
    if stop:
        node.run(stop.replace("FOLDER", change.folder).replace("UNIT", change.systemd_unit))
    node.try_run("sh -s", input_text=wait_script(change), timeout_s=400)
    return read_result(node.run(f"cat {change.folder}/result.json"))


def test_settings_that_the_kubelet_refuses_are_taken_back(fresh: Node) -> None:
    config, state = fresh.run(f"cat {CONFIG}"), fresh.run(f"cat {CPU_STATE}; stat -c %a {CPU_STATE}")
    result = changed(fresh, "refused", "cpuManagerPolicy: no-such-policy\n")
    assert result.outcome == "rolled-back", result
    assert any("no-such-policy" in line for line in result.journal)
    assert fresh.run(f"cat {CONFIG}") == config
    assert fresh.run(f"cat {CPU_STATE}; stat -c %a {CPU_STATE}") == state
    assert fresh.run("curl -fs http://127.0.0.1:10248/healthz").strip() == "ok"


def test_a_policy_change_comes_up_once_its_state_file_is_gone(fresh: Node) -> None:
    memory = fresh.run(f"cat {MEMORY_STATE}")
    result = changed(fresh, "static", "cpuManagerPolicy: static\nreservedSystemCPUs: 0-1\n")
    assert result.outcome == "applied", result
    assert '"policyName":"static"' in fresh.run(f"cat {CPU_STATE}")
    assert fresh.run(f"cat {MEMORY_STATE}") == memory


def test_a_transaction_whose_unit_is_killed_undoes_itself(fresh: Node) -> None:
    config = fresh.run(f"cat {CONFIG}")
    result = changed(
        fresh,
        "killed",
        "cpuManagerPolicy: static\nreservedSystemCPUs: 0-1\n",
        stop="until grep -q starting FOLDER/state; do sleep 0.1; done; systemctl kill -s KILL UNIT",
    )
    assert result.outcome == "rolled-back", result
    assert result.reason.startswith("the transaction was broken off while starting")
    assert fresh.run(f"cat {CONFIG}") == config
    assert fresh.run("curl -fs http://127.0.0.1:10248/healthz").strip() == "ok"
