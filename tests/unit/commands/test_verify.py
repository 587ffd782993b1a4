"""`numaforge verify`: the hosts of an inventory, and the answer as an exit code and as a document."""

import json
import os
from pathlib import Path

import pytest

from numaforge.cli import run
from numaforge.lib.errors import ExitCode
from tests.fixtures.tables import cases

PLAN = Path("/etc/numaforge/plan.json")


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    file = tmp_path / "inventory.py"
    file.write_text('nodes = ["@local"]\nothers = ["gpu-1"]\n')
    return file


@pytest.mark.skipif(PLAN.exists(), reason="this machine has a plan")
@pytest.mark.skipif(os.getuid() != 0, reason="reads this machine as root")
def test_deviating_host_fails_and_the_document_names_the_test(inventory, monkeypatch, capfd):
    monkeypatch.chdir(inventory.parent)
    assert run(["verify", ".", "--limit", "@local", "-o", "json"]) == ExitCode.NO
    document = json.loads(capfd.readouterr().out)
    assert document["failed"] == 1
    (failed,) = [test for test in document["tests"] if test["outcome"] == "failed"]
    assert failed["name"] == "test_the_host_has_a_plan_that_promises_something[local]"
    assert f"has no {PLAN}" in failed["reason"]


@pytest.mark.variants(1)
@cases(
    "arguments, message",
    {
        "no-inventory": (["no/such/inventory.py"], "the inventory does not exist"),
        "no-such-host": (["INVENTORY", "--limit", "gpu-7"], "contains no host that --limit gpu-7 chooses"),
        "no-such-option": (["@local", "--", "--no-such-option"], "the verification suite could not run"),
        "another-connector": (["@docker/node"], "does not know how to reach a host over DockerConnector"),
    },
)
def test_invalid_verify_target_is_bad_input(inventory, capfd, arguments, message):
    given = [str(inventory) if argument == "INVENTORY" else argument for argument in arguments]
    assert run(["verify", *given]) == ExitCode.BAD_INPUT
    assert message in capfd.readouterr().err


def test_unreachable_hosts_get_one_line_and_a_distinct_exit_code(tmp_path, capfd):
    inventory = tmp_path / "inventory.py"
    inventory.write_text(
        'nodes = [(f"gone-{n:02}", {"ssh_hostname": "127.0.0.1", "ssh_port": 1}) for n in range(1, 31)]\n'
    )
    assert run(["verify", str(inventory)]) == ExitCode.UNREACHABLE == 6
    said = capfd.readouterr().out
    assert "30 hosts unreachable: gone-[01-30]\n" in said
    assert len(said.splitlines()) == 4, said
    assert "cannot connect to 127.0.0.1 port 1: Connection refused" in said


@pytest.mark.skipif(PLAN.exists(), reason="this machine has a plan")
def test_refused_host_is_named_without_a_connection(tmp_path, capfd):
    inventory = tmp_path / "inventory.py"
    inventory.write_text('nodes = [("odd", {"ssh_port": "x"})]\n')
    assert run(["verify", str(inventory)]) == ExitCode.BAD_INPUT
    said = capfd.readouterr()
    assert "odd: host data ssh_port: 'x' is not accepted; write a whole number from 1 to 65535" in said.err
    assert "no host is left to be verified" in said.err
    assert "ssh://odd" not in said.out
