"""What the transaction's scripts are told; what they do is in tests/ssh and tests/lab."""

import json
import re
import subprocess
from dataclasses import replace

import pytest

from numaforge.change.parts import PARTS, look_shell_of, shell_of
from numaforge.change.transaction import (
    CONFIRM_SECONDS,
    Process,
    Result,
    Status,
    Transaction,
    read_process,
    read_result,
    read_status,
    revert_script,
    status_script,
    void_script,
)
from numaforge.lib import shell
from numaforge.lib.errors import HostError, HostUnreachableError
from numaforge.roles.hugepages import part as hugepages
from numaforge.roles.kubelet import part as kubelet
from numaforge.roles.kubelet.part import health_url
from tests.fixtures.answers import FILES, PROCESS, RESULT, answered, status_of
from tests.fixtures.tables import cases

STATUS = Status(None, False, None, "b")
KUBELET = kubelet.part("kubelet.service", start_seconds=100, stable_seconds=10)
POOLS = hugepages.part({"/sys/pool/nr_hugepages": 1}, {"/sys/pool/nr_hugepages": 0})


@pytest.mark.parametrize("of", [shell_of, look_shell_of], ids=["changes", "looks"])
def test_shell_library_of_parts_does_nothing_when_sourced(of, tmp_path):
    library = shell.library(*of([part.name for part in PARTS]))
    done = subprocess.run(
        ["sh", "-c", library, "sh", "rescue", "word", "another"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr, [*tmp_path.iterdir()]) == ("", "", [])


@pytest.mark.parametrize(
    ("config", "url"),
    [
        pytest.param({}, ("127.0.0.1", 10248), id="defaults"),
        pytest.param({"healthzPort": 1234}, ("127.0.0.1", 1234), id="port"),
        pytest.param({"healthzBindAddress": "0.0.0.0"}, ("127.0.0.1", 10248), id="any-address"),  # noqa: S104
        pytest.param({"healthzBindAddress": "::"}, ("[::1]", 10248), id="any-ipv6-address"),
        pytest.param({"healthzBindAddress": "10.1.2.3"}, ("10.1.2.3", 10248), id="address"),
        pytest.param({"healthzPort": 0}, None, id="off"),
    ],
)
def test_health_url_follows_the_configuration(config, url):
    assert health_url(config) == url


@pytest.mark.parametrize("name", ["", "..", "a/b", "a b", "$(reboot)", "a;reboot", "-a", "a\nb"])
def test_invalid_id_never_enters_a_script(name):
    with pytest.raises(HostError, match="is not the id of a transaction"):
        revert_script(name, "why", STATUS)
    with pytest.raises(HostError, match="is not the id of a transaction"):
        status_script(name)
    with pytest.raises(HostError, match="is not the id of a transaction"):
        void_script(name)


def test_change_allows_two_kubelet_starts_and_undo_allows_one():
    change = Transaction("T1", (KUBELET,))
    assert change.change_seconds == 2 * (120 + 100) + 10 + CONFIRM_SECONDS
    assert change.undo_seconds == 120 + 100 + 10


def test_filling_and_restoring_pools_extends_the_time_limits():
    without, change = Transaction("T1", (KUBELET,)), Transaction("T1", (POOLS, KUBELET))
    assert change.change_seconds == without.change_seconds + 600
    assert change.undo_seconds == without.undo_seconds + 600


@cases(
    "parts, drains",
    {
        "files-alone": ((FILES,), False),
        "one-part-needs-it": ((FILES, POOLS), True),
        "the-kubelet-restarts": ((FILES, KUBELET), True),
        "the-kubelet-runs-on": ((kubelet.part("u", restart=False),), False),
    },
)
def test_change_drains_if_any_part_needs_it(parts, drains):
    assert Transaction("T1", parts).drains is drains


def test_multi_line_value_is_refused_as_a_setting():
    odd = replace(FILES, settings={"NAME": "a\nRESTART yes"})
    with pytest.raises(HostError, match="more than one line"):
        _ = Transaction("T1", (odd,)).files


@pytest.mark.parametrize("name", [part.name for part in PARTS])
def test_every_part_can_apply_and_undo(name):
    text = shell.library(*shell_of([name]))
    defined = set(re.findall(rf"^{name}_([a-z_]+)\(\)", text, re.MULTILINE))
    assert {"apply", "undo"} <= defined


def test_transaction_knows_no_part_by_name():
    library = shell.library("node/journal", "node/lock", "node/transaction", "node/fence", "node/main")
    code = "\n".join(line.partition("#")[0] for line in library.splitlines())
    assert not [part.name for part in PARTS if re.search(rf"\b{part.name}_", code)]


@cases(
    "said, status, broken_off",
    {
        "absent": (("not-found", "", ""), Status(None, False, None, "b"), False),
        "running": (("loaded", "starting", ""), Status("starting", True, None, "b"), False),
        "handed-to-systemd-a-moment-ago": (("loaded", "", ""), Status("keeping", True, None, "b"), False),
        "broken-off": (("not-found", "starting", ""), Status("starting", False, None, "b"), True),
        "ended": (
            ("not-found", "prove kubelet", RESULT),
            Status("prove kubelet", False, Result("T", "applied", ""), "b"),
            False,
        ),
    },
)
def test_status_is_parsed(said, status, broken_off):
    assert read_status(status_of(*said)) == status
    assert status.broken_off is broken_off


ENDED = "\n".join(status_of("not-found", "prove kubelet", RESULT))


@pytest.mark.parametrize("cut", [1, 20, 50, 90, len(ENDED) - 2])
def test_truncated_status_counts_as_no_answer(cut):
    with pytest.raises(HostUnreachableError):
        read_status(ENDED[:cut])


@pytest.mark.parametrize("unsaid", ["LoadState", "Boot", "Uptime"])
def test_incomplete_status_counts_as_no_answer(unsaid):
    with pytest.raises(HostUnreachableError):
        read_status([line for line in status_of("loaded", "reboot") if not line.startswith(unsaid)])


def test_process_is_parsed():
    assert read_process(PROCESS) == Process("b", 7, 1, 99)


@pytest.mark.parametrize("cut", [1, 20, 60, 95, 110])
def test_truncated_process_counts_as_no_answer(cut):
    with pytest.raises(HostUnreachableError):
        read_process("\n".join(PROCESS)[:cut])


@pytest.mark.parametrize(
    "unsaid",
    [
        *("MainPID", "NRestarts", "ExecMainStartTimestampMonotonic", "ActiveEnterTimestampMonotonic"),
        *("ActiveState", "ShutdownActiveState", "Boot=", "Booted="),
    ],
)
def test_incomplete_systemd_answer_counts_as_unreachable_node(unsaid):
    with pytest.raises(HostUnreachableError):
        read_process([line for line in PROCESS if not line.startswith(unsaid)])


UP = {"MainPID": 7, "ExecMainStartTimestampMonotonic": 99, "ActiveEnterTimestampMonotonic": 99}
DOWN = {"MainPID": 0, "ExecMainStartTimestampMonotonic": 99, "ActiveEnterTimestampMonotonic": 99}
NEVER = {"MainPID": 0, "ExecMainStartTimestampMonotonic": 0, "ActiveEnterTimestampMonotonic": 0}


@cases(
    "unit, said",
    {
        "it-runs": (UP, {"runs", "started"}),
        "a-job-to-go-down": ({**UP, "ShutdownJob": 41}, {"runs", "started", "going_down"}),
        "the-system-is-down": ({**DOWN, "ShutdownActiveState": "active"}, {"started", "going_down"}),
        "stopped": ({**DOWN, "ActiveState": "inactive"}, {"started"}),
        "it-has-failed": ({**DOWN, "ActiveState": "failed"}, {"started", "failed"}),
        "to-be-restarted": ({**DOWN, "ActiveState": "activating"}, {"started", "failed"}),
        "waits-for-its-turn": ({**NEVER, "ActiveState": "inactive", "Job": 12}, {"queued"}),
        "its-ExecStartPre": ({**NEVER, "ActiveState": "activating", "Job": 12}, {"queued"}),
        "nothing-starts-it": ({**NEVER, "ActiveState": "inactive"}, set()),
        "never-came-up": ({**NEVER, "ActiveState": "activating", "NRestarts": 1}, {"started", "failed"}),
        "no-systemd-to-ask": ({**NEVER, "ActiveState": ""}, {"runs"}),
    },
)
def test_kubelet_state_follows_systemd_properties(unit, said):
    values = {"NRestarts": 0, "ActiveState": "active", "ShutdownActiveState": "inactive", **unit}
    head = [f"{name}={value}" for name, value in values.items()]
    process = read_process(answered(*head, "Boot=b", "Booted=1"))
    found = {name for name in ("runs", "started", "failed", "queued", "going_down") if getattr(process, name)}
    assert found == said


def test_message_quotes_complaints_first():
    journal = ("I1 fine", "E1121 bad", "W1 hm", *[f"F{number} worse" for number in range(5)])
    message = Result("T", "rolled-back", "why", journal).message.splitlines()
    assert message == ["why", "its last output:", *[f"F{number} worse" for number in range(5)]]


def test_result_is_parsed():
    text = json.dumps({"id": "T", "outcome": "applied", "reason": "", "journal": ["a", "b"]})
    assert read_result(text) == Result("T", "applied", "", ("a", "b"))


@cases("text", {"empty": "", "no-fields": "{}", "a-list": "[]", "cut-off": '{"id": "T"'})
def test_malformed_result_is_refused(text):
    with pytest.raises(HostError):
        read_result(text)
