"""The kubelet's transaction on a host: it changes everything or nothing, whatever happens on the way."""

import json
import re
import shlex
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from numaforge.change.look import NodeQuery, look
from numaforge.change.transaction import (
    CURRENT,
    KEPT_TRANSACTIONS,
    TRANSACTIONS,
    Status,
    Transaction,
    confirm_script,
    read_waiting,
    revert_script,
    settle_script,
    start_script,
    void_script,
)
from numaforge.lib import shell
from numaforge.lib.file_content import FileContent
from numaforge.lib.framing import Answer
from numaforge.node.fence import Fingerprint
from numaforge.node.part import FailedPlan
from tests.fixtures.tables import cases
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import pool
from tests.ssh.parts.kubelet import assert_old
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_kernel import memory_of_both_sizes, pages_in_use
from tests.ssh.standin_systemd import BOOT_ID, DROP_IN, STATE
from tests.ssh.transactions import (
    CUT_POWER,
    END_UNIT,
    GO_DOWN,
    KILL,
    LARGE,
    MEMORY_STATE,
    SMALL,
    UNIT_DROP_IN,
    WAITS,
    confirm,
    deliver,
    ended,
    leftovers,
    node_with_kubelet,
    pages,
    process,
    reboot,
    reverted,
    run,
    said,
    status,
    transaction,
    until,
    when,
)

COMPACTED = "/proc/sys/vm/compact_memory"

SECOND_START = "the kubelet came up with the new configuration, and not a second time: "


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    return node_with_kubelet(start_sandbox, port)


def starts(node: Sandbox) -> int:
    return node.path("/run/systemctl.log").read_text().splitlines().count("start kubelet.service")


def looked_at(node: Sandbox, shell: str = "sh -s", announced: str | None = None) -> Fingerprint:
    """Look at the node as a run does that plans a change of it, and announces it."""
    paths = (DROP_IN, UNIT_DROP_IN, STATE, MEMORY_STATE)
    asked = NodeQuery((), paths, (), (), str(Path(DROP_IN).parent), "kubelet.service")
    found = look(lambda script: Answer.of(node.run(script, shell).stdout), asked, announced).fingerprint
    assert found
    return found


def planned(node: Sandbox, port: int, wish: str = "new", **changes: Any) -> Transaction:
    found = looked_at(node, announced=changes.get("id", "T1"))
    return transaction(port, wish, **{"planned_on": found, **changes})


def pinned(*pods: str) -> str:
    """Return a state file in which each pod has CPUs, or nobody has any."""
    entries = {"entries": {pod: {"main": "2-3"} for pod in pods}} if pods else {}
    return json.dumps({"policyName": "none", "defaultCpuSet": "0-7", "writtenUnder": "old\n", **entries})


def hold_midway(node: Sandbox, change: Transaction) -> None:
    """Start a change, and have it wait before its first file until it may go on."""
    when(node, "apply files", "until [ -e /run/go-on ]; do sleep 0.1; done")
    node.run(start_script(change))
    until(node, "! [ -e '/run/when/apply files' ]")


def go_on(node: Sandbox) -> None:
    node.path("/run/go-on").touch()


def cut_power(node: Sandbox, event: str, change: Transaction) -> None:
    """Start a change, and cut the power at an event of it."""
    when(node, event, CUT_POWER)
    node.run(start_script(change))
    until(node, f"grep -q second {BOOT_ID}")


def assert_untouched(node: Sandbox) -> None:
    log = node.path("/run/systemctl.log").read_text()
    assert "stop" not in log
    assert "start kubelet.service" not in log
    assert leftovers(node) == []


# ---- what becomes of a change ----


def test_kubelet_must_start_twice(node, port):
    assert run(node, transaction(port, "new")).outcome == "applied"
    assert starts(node) == 2


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        pytest.param("crash", "the kubelet ended by itself", id="ends-at-once", marks=pytest.mark.long),
        pytest.param("deaf", "the kubelet was not healthy within 10 s", id="never-healthy"),
        pytest.param("flap", "the kubelet ended by itself", id="healthy-for-a-moment"),
        pytest.param(
            "idle",
            "the kubelet's resource managers did not start within 10 s; does the container runtime answer?",
            id="managers-never-start",
        ),
        pytest.param(
            "late",
            SECOND_START + "the kubelet ended by itself",
            id="ends-after-its-managers-have-started",
            marks=pytest.mark.long,
        ),
        pytest.param("once", SECOND_START + "the kubelet ended by itself", id="cannot-read-its-own-state"),
    ],
)
def test_kubelet_that_fails_to_start_rolls_everything_back(node, port, wish, reason):
    result = run(node, transaction(port, wish, start_seconds=10, stable_seconds=2))
    assert result.outcome == "rolled-back"
    assert result.reason == f"{reason}; the old configuration is back and the kubelet is healthy with it"
    assert_old(node)


@pytest.mark.long
def test_without_previous_managers_the_kubelet_must_stay_up_both_times(node, port):
    node.path(DROP_IN).write_text("idle\n")
    node.run("systemctl stop kubelet.service; systemctl start kubelet.service")
    node.run(f"until curl -fs http://127.0.0.1:{port}/healthz; do sleep 0.05; done")
    begun = time.monotonic()
    assert run(node, transaction(port, "idle again", stable_seconds=2)).outcome == "applied"
    assert time.monotonic() - begun >= 2 * 2


def test_stopped_kubelet_is_configured_and_left_stopped(node, port):
    node.run("systemctl stop kubelet.service; : > /run/systemctl.log")
    assert run(node, transaction(port, "new", restart=False)).outcome == "applied"
    assert node.path(DROP_IN).read_text() == "new\n"
    assert "daemon-reload" in node.path("/run/systemctl.log").read_text()
    assert starts(node) == 0


@pytest.mark.variants(1)
@cases(
    "files, reloads",
    {
        "a-configuration": ((FileContent(DROP_IN, "new\n"),), False),
        "a-drop-in-of-the-unit": ((FileContent(UNIT_DROP_IN, "[Service]\n"),), True),
    },
)
def test_units_are_reloaded_only_when_a_unit_file_changes(node, port, files, reloads):
    assert run(node, transaction(port, "new", files=files)).outcome == "applied"
    reverted(node, "the node is not Ready")
    once_each_way = 2 if reloads else 0
    assert node.path("/run/systemctl.log").read_text().count("daemon-reload") == once_each_way


def test_kubelet_that_keeps_running_has_no_units_reloaded(node, port):
    node.run("mkdir -p /run/active; : > /run/active/kubelet.service")
    assert run(node, transaction(port, "new", restart=False, invalid_state=[])).outcome == "applied"
    assert "daemon-reload" not in node.path("/run/systemctl.log").read_text()


# ---- pools of huge pages ----


def test_pools_are_filled_while_the_kubelet_is_stopped(node, port):
    when(node, "apply hugepages", f"cat {LARGE} /run/kubelet.pid > /run/before 2>&1")
    when(node, "start kubelet", f"cat {LARGE} {SMALL} /run/kubelet.pid > /run/after 2>&1")
    assert run(node, transaction(port, "new")).outcome == "applied"
    assert node.path("/run/before").read_text().split("\n")[0] == "1"
    assert node.path("/run/after").read_text().split("\n")[:2] == ["2", "16"]
    assert "No such file" in node.path("/run/before").read_text()
    assert "No such file" in node.path("/run/after").read_text()


@pytest.mark.long
def test_shrinking_pools_come_first_and_free_memory_for_the_others(node, port):
    memory_of_both_sizes(node, gibibytes=2)
    assert run(node, transaction(port, "new", pools={LARGE: 2, SMALL: 0})).outcome == "applied"
    assert pages(node) == {LARGE: 2, SMALL: 0}
    assert node.path(COMPACTED).read_text().strip() == ""


@pytest.mark.long
def test_pools_are_filled_after_memory_compaction(node, port):
    memory_of_both_sizes(node, gibibytes=4, fragmented=True)
    assert run(node, transaction(port, "new")).outcome == "applied"
    assert pages(node) == {LARGE: 2, SMALL: 16}
    assert node.path(COMPACTED).read_text().strip() == "1"


def test_unfillable_pool_rolls_everything_back_and_names_the_numbers(node, port):
    memory_of_both_sizes(node, gibibytes=4)
    result = run(node, transaction(port, "new", pools={LARGE: 4, SMALL: 16}))
    assert result.outcome == "rolled-back"
    assert result.reason == (
        f"{LARGE}: wanted 4, got 3 (0 of them free), 4096000 kB of memory free on node0; "
        "memory is too fragmented, or pages are in use: reboot the host and run again at once, "
        "or ask for fewer pages; the old configuration is back and the kubelet is healthy with it"
    )
    assert_old(node)


@pytest.mark.long
def test_pages_in_use_stay_reserved_when_their_pool_cannot_shrink(node, port):
    promised = pages_in_use(node, SMALL)
    result = run(node, transaction(port, "new"))
    assert result.outcome == "rolled-back"
    assert f"{SMALL}: wanted 16, got 512 (" in result.reason
    assert promised() == 512
    assert_old(node)


def test_pool_missing_from_the_kernel_is_refused_before_the_kubelet_stops(node, port):
    absent = pool(7, 2048)
    result = run(node, transaction(port, "new", pools={SMALL: 16, absent: 1}))
    assert result.outcome == "refused"
    assert f"{absent}: this kernel has no such pool; choose a hugepage size that " in result.reason
    assert "stop" not in node.path("/run/systemctl.log").read_text()
    assert_old(node)


@pytest.mark.long
def test_pool_path_is_data(node, port):
    odd = "/sys/$(touch owned) `touch owned` node/hugepages/small/nr_hugepages"
    node.path(odd).parent.mkdir(parents=True)
    node.path(odd).write_text("3\n")
    assert run(node, transaction(port, "new", pools={odd: 5})).outcome == "applied"
    assert node.path(odd).read_text() == "5\n"
    reverted(node, "why not")
    assert node.path(odd).read_text() == "3\n"
    assert node.run("ls owned root/owned run/owned").stdout == ""


@pytest.mark.long
def test_unrestorable_pools_are_reported_with_repair_commands(node, port):
    run(node, transaction(port, "new", pools={LARGE: 0, SMALL: 1024}))
    frozen = "".join(
        f"mount --bind {path} {path}; mount -o remount,ro,bind {path}\n" for path in (LARGE, SMALL)
    )
    node.run(frozen)
    result = reverted(node, "the node is not Ready")
    assert result.outcome == "failed"
    back = "the old configuration is back and the kubelet is healthy with it"
    assert f"the node is not Ready; {back}; not every pool of huge pages has what it had: " in result.reason
    assert f"{LARGE}: wanted 1, got 0 (" in result.reason
    commands = f"echo 512 > '{SMALL}'; echo 1 > '{LARGE}'; "
    assert result.reason.endswith(f" (a reboot fills them, too). By hand: {commands}")
    node.run(f"umount {LARGE} {SMALL}")
    by_hand = node.run(f"set -e; {commands}")
    assert by_hand.returncode == 0, by_hand.stderr
    assert_old(node)


@pytest.mark.variants(1)
@cases(
    "wish, event, script",
    {
        "of-a-plan-that-fails": ("crash", "", ""),
        "after-a-power-cut": ("new", "apply kubelet", CUT_POWER),
        "of-a-killed-run": ("new", "apply kubelet", KILL),
    },
)
def test_folder_made_by_a_change_is_removed_by_its_undo(node, port, wish, event, script):
    folder = node.path(DROP_IN).parent
    shutil.rmtree(folder)
    if event:
        when(node, event, script)
    node.run(start_script(transaction(port, wish)))
    if script == CUT_POWER:
        until(node, f"grep -q second {BOOT_ID}")
        reboot(node)
    assert ended(node).outcome == "rolled-back"
    assert not folder.exists()
    assert leftovers(node) == []


# ---- the disk ----


def test_unwritable_file_is_refused_before_the_kubelet_stops(node, port):
    node.path(UNIT_DROP_IN).mkdir(parents=True)
    result = run(node, transaction(port, "new"))
    assert result.outcome == "refused"
    assert "not a regular file" in result.reason
    assert "stop" not in node.path("/run/systemctl.log").read_text()
    assert node.path(DROP_IN).read_text() == "old\n"
    assert leftovers(node) == []


@pytest.mark.variants(1)
@cases(
    "spoil, complaint",
    {
        "full": ("cat /dev/zero > fill", "No space left on device"),
        "read-only": ("mount -o remount,ro,size=64k .", "Read-only file system"),
    },
)
def test_unwritable_disk_is_refused_before_kubelet_stops(node, port, spoil, complaint):
    node.run(
        f"folder={Path(DROP_IN).parent}; mount -t tmpfs -o size=64k,mode=0755 tmpfs $folder;"
        f" cd $folder; {spoil}"
    )
    result = run(node, transaction(port, "new"))
    assert result.outcome == "refused"
    assert complaint in result.reason
    assert "stop" not in node.path("/run/systemctl.log").read_text()
    assert not node.path(UNIT_DROP_IN).exists()


def test_full_disk_below_var_begins_nothing(node, port):
    folder = Path(TRANSACTIONS).parent
    node.run(f"mkdir -p {folder}; mount -t tmpfs -o size=64k tmpfs {folder}; cat /dev/zero > {folder}/fill")
    started = node.run(start_script(transaction(port, "new")))
    assert started.returncode == 1
    assert "No space left on device" in started.stderr
    assert_old(node)


def test_disk_filling_up_during_a_change_leaves_room_for_the_undo(node, port):
    folder = Path(TRANSACTIONS).parent
    node.run(f"mkdir -p {folder}; mount -t tmpfs -o size=2m tmpfs {folder}")
    when(node, "stop kubelet", f"cat /dev/zero > {folder}/fill")
    result = run(node, transaction(port, "new"))
    assert result.outcome == "rolled-back"
    assert result.reason.startswith("the kubelet's state could not be copied; ")
    assert_old(node)


def read_only(folder: Path) -> str:
    return f"mount --bind {folder} {folder}; mount -o remount,ro,bind {folder}\n"


@pytest.mark.long
def test_disk_turning_read_only_before_the_first_file_changes_nothing(node, port):
    when(node, "apply files", read_only(Path(DROP_IN).parent))
    result = run(node, transaction(port, "new"))
    assert result.outcome == "rolled-back"
    assert re.match(rf"{DROP_IN} could not be replaced: .*mv: .*{DROP_IN}.*: .+", result.reason.split(";")[0])
    node.run(f"umount {Path(DROP_IN).parent}; rm {Path(DROP_IN).parent}/.numaforge-0")
    assert_old(node)


def test_unrestorable_files_are_reported_with_repair_commands(node, port):
    node.run(f"mkdir -p {Path(UNIT_DROP_IN).parent}")
    when(node, ".numaforge-0", read_only(Path(DROP_IN).parent) + read_only(Path(UNIT_DROP_IN).parent))
    result = run(node, transaction(port, "new"))
    assert result.outcome == "failed"
    failed, stuck = result.reason.split(". By hand: mkdir -p ")[0].split("; ")
    assert re.match(rf"{UNIT_DROP_IN} could not be replaced: .*Read-only file system", failed)
    assert stuck.startswith(f"these files could not be put back: {DROP_IN} ")
    assert stuck.endswith("Read-only file system)")
    assert node.path(DROP_IN).read_text() == "new\n"
    node.run(f"umount {Path(DROP_IN).parent} {Path(UNIT_DROP_IN).parent}")
    by_hand = node.run(f"set -e; {result.reason.split('By hand: ')[1]}")
    assert by_hand.returncode == 0, by_hand.stderr
    folder = Path(UNIT_DROP_IN).parent  # of this test's own
    node.run(f"rm -f {folder}/.numaforge-*; rmdir {folder}")
    assert_old(node)


def test_failed_old_kubelet_is_reported_with_repair_commands(node, port):
    when(node, "start kubelet", ": > /run/refuse-start")
    result = run(node, transaction(port, "new"))
    assert result.outcome == "failed"
    assert "the old configuration is back, but systemctl start kubelet.service failed" in result.reason
    node.run("rm /run/refuse-start")
    node.run(f"cat() {{ :; }}; {result.reason.split('By hand: ')[1]}")
    assert_old(node)


# ---- broken off ----


def test_boot_unit_leaves_a_change_of_the_same_boot_alone(node, port):
    hold_midway(node, transaction(port, "new"))
    node.run(f"sh {CURRENT}/run.sh boot")
    go_on(node)
    assert ended(node).outcome == "applied"


def test_transaction_without_its_lock_keeps_the_original_backup(node, port):
    cut_power(node, ".numaforge-0", transaction(port, "new"))
    node.path(CURRENT).unlink()
    again = node.run(start_script(transaction(port, "new")))
    assert again.returncode == 1
    assert "its lock or its records are gone" in again.stderr
    assert node.path(f"{TRANSACTIONS}/T1/backup{DROP_IN}").read_text() == "old\n"


def test_interrupted_change_is_undone_before_a_new_change(node, port):
    cut_power(node, "start kubelet", transaction(port, "lost"))
    result = run(node, transaction(port, "new", id="T2"))
    assert (result.id, result.outcome) == ("T2", "applied")
    broken = ended(node, "T1")
    assert broken.outcome == "rolled-back"
    assert broken.reason.startswith('the node rebooted during "start kubelet"; ')
    assert node.path(DROP_IN).read_text() == "new\n"


def test_lost_connection_changes_nothing(node, port):
    data = node.data()
    login = ["ssh", "-p", str(node.port), "-i", str(data["ssh_key"]), "-o", "IdentitiesOnly=yes"]
    login += ["-o", f"UserKnownHostsFile={data['ssh_known_hosts_file']}", "root@127.0.0.1", "sh -s"]
    connection = subprocess.Popen(login, stdin=subprocess.PIPE, text=True)
    connection.stdin.write(start_script(transaction(port, "new")) + "exec sleep 1000\n")
    connection.stdin.close()
    until(node, f"[ -e {TRANSACTIONS}/T1/state ]")
    connection.kill()
    connection.wait()
    assert ended(node).outcome == "applied"


def test_truncated_script_does_nothing(node, port):
    whole = start_script(transaction(port, "new"))
    node.run(whole[: len(whole) * 2 // 3])
    assert_old(node)


# ---- two at once ----


@pytest.mark.long
def test_status_query_waits_for_the_next_phase_or_times_out(node, port):
    hold_midway(node, transaction(port, "new"))
    seen, phases = status(node), []
    while seen.result is None:
        begun = time.monotonic()
        now = status(node, seen=seen)
        if (now.phase, now.result) == (seen.phase, seen.result):
            assert time.monotonic() - begun >= 4, "a second answer that says what the first has said"
        phases.append(now.phase)
        seen = now
        go_on(node)
        if now.waits:
            confirm(node)
    assert phases[0] == "apply files"
    assert seen.result.outcome == "applied"
    again = status(node, seen=seen)
    assert (again.phase, again.result) == (seen.phase, seen.result)


def test_concurrent_begins_run_one_transaction(node, port):
    changes = [transaction(port, f"new {number}", id=f"T{number}") for number in range(4)]
    with ThreadPoolExecutor() as pool:
        begun = list(pool.map(lambda change: node.run(start_script(change)).returncode, changes))
    assert sorted(begun) == [0, 1, 1, 1]
    winner = changes[begun.index(0)]
    assert ended(node, winner.id).outcome == "applied"
    assert node.path(DROP_IN).read_text() == f"new {winner.id[1:]}\n"
    assert starts(node) == 2


def test_same_transaction_begins_once(node, port):
    change = transaction(port, "new")
    for _ in range(2):
        assert node.run(start_script(change)).returncode == 0
    ended(node)
    assert node.run(start_script(change)).returncode == 0
    assert ended(node).outcome == "applied"
    assert starts(node) == 2


# ---- undoing what was applied ----

NASTY = "got \"7\", not '8' of nvidia.com/gpu;\n$(touch /run/owned) `touch /run/owned` \\ %s\tEND_OF_FILE é"


def test_applied_change_is_reverted_with_its_state_files(node, port):
    run(node, transaction(port, "new"))
    node.path(MEMORY_STATE).write_text("memory under the new configuration\n")
    result = reverted(node, "the node is not Ready")
    assert result.outcome == "rolled-back"
    assert result.reason.startswith("the node is not Ready; the old configuration is back and the kubelet is")
    assert_old(node)


@pytest.mark.long
def test_reason_is_data(node, port):
    run(node, transaction(port, "new"))
    result = reverted(node, NASTY)
    assert result.reason.startswith(NASTY.replace("\n", " "))
    assert not node.path("/run/owned").exists()


@pytest.mark.long
def test_reverted_change_is_not_reverted_again(node, port):
    run(node, transaction(port, "new"))
    first = reverted(node, "the first reason")
    begun = starts(node)
    assert reverted(node, "the second reason") == first
    assert starts(node) == begun


def test_revert_that_lost_power_before_its_first_step_is_resumed(node, port):
    run(node, transaction(port, "new"))
    when(node, "applied.json", CUT_POWER)
    when(node, "result.json", CUT_POWER)
    node.run(revert_script("T1", "the node is not Ready", status(node)))
    until(node, f"grep -q second {BOOT_ID}")
    reboot(node)
    assert node.path(DROP_IN).read_text() == "old\n"
    assert ended(node).reason.startswith("the node is not Ready; ")
    assert_old(node)


@cases(
    "name, message",
    {
        "unknown": ("T9", "this node knows no transaction T9"),
        "running": ("T1", "the transaction T1 is changing this node"),
    },
)
def test_unapplied_change_cannot_be_reverted(node, port, name, message):
    node.run(start_script(transaction(port, "deaf", start_seconds=100)))
    refused = node.run(revert_script(name, "why", status(node, name)))
    assert refused.returncode == 1
    assert message in refused.stderr


# ---- what comes late ----


def late_request(node: Sandbox, **changes: Any) -> str:
    """Return a request to undo T1 as it was sent a moment ago, or with these fields of what was seen."""
    return revert_script("T1", "the node is not Ready", replace(status(node), **changes))


def test_late_undo_request_leaves_a_newer_change_and_the_kubelet_alone(node, port):
    run(node, transaction(port, "new"))
    late = late_request(node)
    run(node, transaction(port, "newer", id="T2"))
    begun = starts(node)
    done = node.run(late)
    assert (done.returncode, done.stderr.strip()) == (
        1,
        "nothing is undone: another transaction has ended since (T2 applied)",
    )
    assert (node.path(DROP_IN).read_text(), starts(node)) == ("newer\n", begun)
    assert (ended(node).outcome, leftovers(node)) == ("applied", [])


@pytest.mark.variants(1)
@cases(
    "event, why",
    {
        "after-a-withdrawal": ("void", "the request is older than the last withdrawal"),
        "after-a-boot": ("boot", "the node was rebooted after it was asked for"),
        "after-two-minutes": ("age", "it was asked for 12"),
        "with-another-token": ("forged", "the request is older than the last withdrawal"),
    },
)
def test_late_undo_request_does_nothing(node, port, event, why):
    run(node, transaction(port, "new"))
    now = status(node).uptime_seconds
    fields = {"age": {"uptime_seconds": now - 121}, "forged": {"token": "forged"}}
    late = late_request(node, **fields.get(event, {}))
    if event == "void":
        node.run(void_script("T1"))
    if event == "boot":
        node.path(BOOT_ID).write_text("the second boot\n")
    begun = starts(node)
    done = node.run(late)
    assert (done.returncode, said(done.stdout).startswith(f"nothing is undone: {why}")) == (0, True), done
    assert (node.path(DROP_IN).read_text(), starts(node), leftovers(node)) == ("new\n", begun, [])
    assert list(node.path(f"{TRANSACTIONS}/T1").glob("request*")) == []
    assert reverted(node, "asked for now").outcome == "rolled-back"


@pytest.mark.long
def test_repeated_revert_request_runs_once(node, port):
    run(node, transaction(port, "new"))
    request = late_request(node)
    with ThreadPoolExecutor() as pool:
        codes = [each.returncode for each in pool.map(lambda _: node.run(request), range(3))]
    assert codes == [0, 0, 0]
    assert ended(node).outcome == "rolled-back"
    assert_old(node)


# ---- a change is kept only once it is confirmed ----


def reach_confirming(node: Sandbox, change: Transaction) -> Status:
    started = node.run(start_script(change))
    assert started.returncode == 0, started.stderr
    until(node, WAITS)
    return status(node)


def test_change_not_confirmed_in_time_is_undone(node, port):
    reach_confirming(node, replace(transaction(port, "new"), confirm_seconds=1))
    until(node, "idle")
    result = ended(node)
    assert (result.outcome, result.reason.split(";")[0]) == (
        "rolled-back",
        "the change was not confirmed over a new connection within 1 s",
    )
    assert_old(node)
    assert confirm(node) == "not confirmed: the transaction T1 ended as rolled-back"
    assert_old(node)


def test_confirmation_needs_the_attempts_token(node, port):
    found = reach_confirming(node, transaction(port, "new"))
    assert (found.phase, found.running, found.waits, found.result) == ("confirming", True, True, None)
    forged = node.run(confirm_script("T1", "forged"))
    assert (forged.returncode, said(forged.stdout)) == (0, "not confirmed: another attempt is meant")
    assert status(node).waits
    assert confirm(node) == "confirmed"
    assert ended(node).outcome == "applied"


def test_confirmation_before_the_node_waits_does_nothing(node, port):
    hold_midway(node, transaction(port, "new"))
    assert confirm(node) == "not confirmed: the transaction T1 does not wait for it (apply files)"
    go_on(node)
    until(node, WAITS)
    assert status(node).waits
    assert ended(node).outcome == "applied"


def test_confirming_unknown_transaction_does_nothing(node):
    done = node.run(confirm_script("T9", "token"))
    assert (done.returncode, said(done.stdout)) == (0, "not confirmed: this node knows no transaction T9")
    assert not node.path(f"{TRANSACTIONS}/T9").exists()


@pytest.mark.long
def test_confirmation_may_be_repeated(node, port):
    found = reach_confirming(node, transaction(port, "new"))
    script = confirm_script("T1", found.token)
    with ThreadPoolExecutor() as pool:
        answers = {said(each.stdout) for each in pool.map(lambda _: node.run(script), range(3))}
    assert answers <= {"confirmed", "not confirmed: the transaction T1 ended as applied"}
    assert ended(node).outcome == "applied"
    assert starts(node) == 2


def test_reboot_while_confirming_undoes_before_the_kubelet_starts(node, port):
    late = confirm_script("T1", reach_confirming(node, transaction(port, "new")).token)
    node.run(f"set -- /run/units/*; {CUT_POWER.replace('kill -KILL $PPID', 'kill -KILL')}")
    until(node, f"grep -q second {BOOT_ID}")
    assert said(node.run(late).stdout) == "not confirmed: the node was rebooted"
    node.path("/run/systemctl.log").write_text("")
    reboot(node)
    assert node.path(DROP_IN).read_text() == "old\n"
    assert "stop" not in node.path("/run/systemctl.log").read_text()
    assert ended(node).reason.startswith('the node rebooted during "confirming"; ')
    assert_old(node)


def test_confirmed_change_survives_a_killed_unit(node, port):
    when(node, "confirmed", "kill -KILL $(cat /run/units/*)")
    reach_confirming(node, transaction(port, "new"))
    confirm(node)
    assert ended(node).outcome == "applied"
    assert (node.path(DROP_IN).read_text(), starts(node)) == ("new\n", 2)


@pytest.mark.long
def test_node_without_systemd_waits_too_and_the_begin_connection_ends(node, port):
    node.run("rmdir /run/systemd/system")
    change = transaction(port, "new")
    assert node.run(start_script(change)).returncode == 0
    assert status(node).waits
    assert confirm(node) == "confirmed"
    until(node, f"[ -e {change.folder}/result.json ] && ! [ -L {CURRENT} ]")
    assert ended(node).outcome == "applied"


def test_settle_lists_waiting_changes_and_others_are_refused(node, port):
    reach_confirming(node, transaction(port, "new"))
    settled = node.run(settle_script())
    assert (settled.returncode, read_waiting(settled.stdout.splitlines())) == (0, ("T1",))
    second = node.run(start_script(transaction(port, "other", id="T2")))
    assert (second.returncode, "T1 is changing this node (confirming)" in second.stderr) == (1, True)
    confirm(node)
    assert read_waiting(node.run(settle_script()).stdout.splitlines()) == ()
    assert ended(node).outcome == "applied"


# ---- making lasting ----

COMMIT = """
files_commit() { echo commit >> /run/committed; cat /run/committed-fails 2> /dev/null && return 1; return 0; }
"""


def with_commit(change: Transaction, node: Sandbox) -> str:
    """Return the script that hands over a change whose files have to be made lasting."""
    whole = {
        **change.files,
        "run.sh": change.files["run.sh"].replace("\nFOLDER=$(cd", f"{COMMIT}\nFOLDER=$(cd"),
    }
    for name, text in whole.items():
        file = node.path(f"{change.folder}/{name}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return f"sh {change.folder}/run.sh begin apply"


def committed(node: Sandbox) -> int:
    path = node.path("/run/committed")
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_change_is_committed_only_once_confirmed(node, port):
    node.run(with_commit(transaction(port, "new"), node))
    until(node, WAITS)
    assert committed(node) == 0
    assert ended(node).outcome == "applied"
    assert committed(node) == 1


def test_failed_commit_undoes_the_change(node, port):
    node.path("/run/committed-fails").touch()
    node.run(with_commit(transaction(port, "new"), node))
    result = ended(node)
    assert (result.outcome, result.reason.split(";")[0]) == ("rolled-back", 'the step "commit files" failed')
    assert_old(node)


@pytest.mark.long
@pytest.mark.parametrize("how", [KILL, CUT_POWER], ids=["killed", "power-cut"])
def test_interrupted_commit_is_repeated(node, port, how):
    when(node, "commit files", how)
    node.run(with_commit(transaction(port, "new"), node))
    until(node, WAITS)
    confirm(node)
    if how == CUT_POWER:
        until(node, f"grep -q second {BOOT_ID}")
        reboot(node)
    assert ended(node).outcome == "applied"
    assert (committed(node), node.path(DROP_IN).read_text(), leftovers(node)) == (1, "new\n", [])


# ---- how often systemd is asked ----

COUNTED = """
cd /usr/local/bin
mv systemctl systemctl.real
printf '#!/bin/sh\necho "$*" >> /run/asked\nexec systemctl.real "$@"\n' > systemctl
chmod 755 systemctl
"""


@pytest.mark.long
def test_systemd_is_not_queried_about_a_running_process(node, port):
    node.run(COUNTED)
    assert run(node, transaction(port, "new", stable_seconds=4)).outcome == "applied"
    asked = node.path("/run/asked").read_text().splitlines()
    # Two proofs, each at its first round and its last, and where another process took the first one's place.
    assert 4 <= asked.count("show -p MainPID -p NRestarts -p SubState kubelet.service") <= 6, asked


@pytest.mark.long
def test_status_query_during_a_change_does_not_query_systemd(node, port):
    node.run(COUNTED)
    hold_midway(node, transaction(port, "new"))
    node.run("rm /run/asked")
    assert status(node).running
    assert not node.path("/run/asked").exists(), node.path("/run/asked").read_text()
    go_on(node)
    assert ended(node).outcome == "applied"


# ---- a systemd that does not answer, and signals ----

SILENT = """
cd /usr/local/bin
mv systemctl systemctl.real
printf '#!/bin/sh\n[ ! -e /run/silent ] || exit 1\nexec systemctl.real "$@"\n' > systemctl
chmod 755 systemctl
"""


@pytest.mark.long
def test_silent_systemd_does_not_end_a_running_transaction(node, port):
    node.run(SILENT)
    hold_midway(node, transaction(port, "new"))
    node.run(": > /run/silent")
    second = node.run(start_script(transaction(port, "other", id="T2")))
    assert (second.returncode, "the transaction T1 is changing this node" in second.stderr) == (1, True)
    node.run("rm /run/silent")
    go_on(node)
    assert ended(node).outcome == "applied"
    assert status(node, "T2").phase is None


def test_silent_systemd_leaves_transaction_state_unknown(node, port):
    node.run(SILENT)
    cut_power(node, "start kubelet", transaction(port, "new"))
    node.run(": > /run/silent")
    settled = node.run(settle_script())
    assert settled.returncode == 1
    assert "systemd does not answer: it is unknown whether the transaction T1 still runs" in settled.stderr
    assert node.path(DROP_IN).read_text() == "new\n"
    node.run("rm /run/silent")
    assert node.run(settle_script()).returncode == 0
    assert ended(node).outcome == "rolled-back"


@pytest.mark.long
@pytest.mark.parametrize("event", ["apply files", "start kubelet", "prove kubelet"])
def test_a_hangup_of_its_processes_is_none_of_a_change(node, port, event):
    when(node, event, "kill -HUP $PPID $(cat /run/units/*)")
    assert run(node, transaction(port, "new")).outcome == "applied"
    assert leftovers(node) == []


# ---- a plan that failed is remembered ----


def failure(node: Sandbox) -> FailedPlan | None:
    return look(lambda script: Answer.of(node.run(script).stdout), NodeQuery((), (), (), (), "", "")).failure


def remembered(port: int, wish: str, **changes: Any) -> Transaction:
    return replace(transaction(port, wish, **changes), plan="digest")


@pytest.mark.long
def test_failed_plan_is_remembered_until_a_plan_is_applied(node, port):
    run(node, remembered(port, "crash"))
    found = failure(node)
    assert (found.plan, found.boot_id) == ("digest", "the first boot:1")
    assert found.why.startswith("the kubelet ended by itself; ")
    run(node, remembered(port, "new", id="T2"))
    assert failure(node) is None


def test_unconfirmed_plan_is_remembered(node, port):
    run_unconfirmed = replace(remembered(port, "new"), confirm_seconds=1)
    reach_confirming(node, run_unconfirmed)
    until(node, "idle")
    assert ended(node).outcome == "rolled-back"
    assert failure(node)


@pytest.mark.long
@pytest.mark.parametrize("blames", [True, False], ids=["failed-in-the-cluster", "aborted"])
def test_undo_request_decides_whether_plan_counts_as_failed(node, port, blames):
    run(node, remembered(port, "new"))
    node.run(revert_script("T1", "why", status(node), blames_plan=blames))
    assert ended(node).outcome == "rolled-back"
    assert (failure(node) is not None) is blames


def test_killed_change_does_not_count_as_a_failed_plan(node, port):
    when(node, "start kubelet", KILL)
    assert run(node, remembered(port, "new")).outcome == "rolled-back"
    assert failure(node) is None


# ---- what a poller is told ----


@pytest.mark.variants(3)
@cases(
    "event, said",
    {
        "nothing": (":", {"runs", "started"}),
        "a-reboot-was-asked-for": (": > /run/stopping", {"runs", "started", "going_down"}),
        "it-was-stopped-for-a-reboot": (
            "systemctl stop kubelet.service; : > /run/stopping",
            {"started", "going_down"},
        ),
        "it-was-stopped": ("systemctl stop kubelet.service", {"started"}),
        "it-ended-by-itself": ("kill -KILL $(cat /run/kubelet.pid)", {"started", "failed"}),
        "a-boot-in-which-it-was-not-started-yet": (
            f"kill -KILL $(cat /run/kubelet.pid); rm /run/kubelet.pid; echo another > {BOOT_ID}",
            set(),
        ),
    },
)
def test_ended_kubelet_differs_from_node_shutdown_or_boot(node, event, said):
    node.run(event)
    found = process(node)
    assert {
        name for name in ("runs", "started", "failed", "queued", "going_down") if getattr(found, name)
    } == said


# ---- what is kept ----


@pytest.mark.long
def test_last_and_failed_transactions_are_kept(node, port):
    outcomes = ["applied", "failed", *["applied"] * KEPT_TRANSACTIONS]
    for age, outcome in enumerate(outcomes):
        folder = node.path(f"{TRANSACTIONS}/old-{age}")
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(
            f'{{"id": "old-{age}", "outcome": "{outcome}", "reason": "failed", "journal": []}}\n'
        )
        node.run(f"touch -d 2020-01-{28 - age:02} {TRANSACTIONS}/old-{age}")
    run(node, transaction(port, "new"))
    kept = {path.name for path in node.path(TRANSACTIONS).iterdir() if path.is_dir()}
    assert kept == {"T1", "old-0", "old-1", "old-2", "old-3"}
    node.run(f"touch -d 2020-01-01 {TRANSACTIONS}/old-1")
    for number in range(2, 2 + KEPT_TRANSACTIONS):
        run(node, transaction(port, f"new {number}", id=f"T{number}", restart=False))
    kept = {path.name for path in node.path(TRANSACTIONS).iterdir() if path.is_dir()}
    assert kept == {"old-1", *(f"T{number}" for number in range(2, 2 + KEPT_TRANSACTIONS))}


@pytest.mark.variants(2)
@cases(
    "missing",
    {"curl": [], "python3": ["curl"], "wget": ["curl", "python3"], "bash": ["curl", "python3", "wget"]},
)
def test_health_check_uses_tools_that_the_host_has(node, port, missing):
    pattern = "|".join(missing or ["none"])
    hidden = f"command() {{ case $2 in {pattern}) return 1 ;; *) unset -f command ;; esac; }}"
    settings = shell.assignments({"HEALTH_HOST": "127.0.0.1", "HEALTH_PORT": str(port)})
    check = settings + shell.library("roles/kubelet/part") + f"{hidden}\nhealth"
    assert node.run(check).returncode == 0
    node.run("systemctl stop kubelet.service")
    assert node.run(check).returncode != 0


# ---- a node that is not what the change was planned on ----


def test_late_begin_is_void_by_the_nodes_own_clock(node, port):
    now = looked_at(node)
    result = run(node, planned(node, port, planned_on=replace(now, uptime_seconds=now.uptime_seconds - 121)))
    assert result.outcome == "void"
    assert result.reason.startswith("nothing was changed: the node was looked at 12")
    assert result.reason.endswith(" s ago, and that is good for 120 s")
    assert_untouched(node)


def test_begin_on_another_boot_is_void(node, port):
    change = planned(node, port)
    node.path(BOOT_ID).write_text("the second boot\n")
    result = run(node, change)
    assert result.outcome == "void"
    assert result.reason == "nothing was changed: the node was rebooted after it was looked at"
    assert_untouched(node)


@pytest.mark.long
def test_begin_after_another_transaction_is_void_even_with_unchanged_files(node, port):
    change = planned(node, port)
    run(node, planned(node, port, "other", id="T0"))
    reverted(node, "why not", "T0")
    node.run(": > /run/systemctl.log")
    result = run(node, change)
    assert result.outcome == "void"
    assert result.reason == (
        "nothing was changed: another transaction has ended after the node was looked at (T0 rolled-back)"
    )
    assert_untouched(node)


OTHER_DROP_IN = str(Path(DROP_IN).with_name("50-else.conf"))
ODD_DROP_IN = str(Path(DROP_IN).with_name("$(touch owned) 'a\" \\b.conf"))


@pytest.mark.variants(4)
@cases(
    "path, text",
    {
        "a-drop-in-is-edited": (DROP_IN, "edited\n"),
        "a-drop-in-goes": (DROP_IN, None),
        "a-drop-in-comes": (OTHER_DROP_IN, "maxPods: 3\n"),
        "a-path-is-data": (ODD_DROP_IN, "maxPods: 3\n"),
        "the-units-drop-in-comes": (UNIT_DROP_IN, "[Service]\n"),
        "a-pod-is-pinned": (STATE, pinned("a")),
        "a-pod-is-pinned-in-state-that-is-kept": (MEMORY_STATE, pinned("a")),
        "a-state-file-goes": (STATE, None),
    },
)
def test_file_edited_after_the_look_is_not_overwritten(node, port, path, text):
    change = planned(node, port)
    node.path(path).unlink(missing_ok=True)
    if text is not None:
        node.path(path).parent.mkdir(parents=True, exist_ok=True)
        node.path(path).write_text(text)
    result = run(node, change)
    assert result.outcome == "void"
    assert result.reason == f"nothing was changed: {path} was changed after it was looked at"
    assert (node.path(path).read_text() if node.path(path).exists() else None) == text
    assert node.run("ls owned root/owned run/owned").stdout == ""
    if path == DROP_IN and text is None:
        node.path(path).parent.rmdir()  # which this test has emptied
    assert_untouched(node)


@pytest.mark.long
def test_unchanged_odd_drop_ins_do_not_block_a_change(node, port):
    node.path(ODD_DROP_IN).write_text("maxPods: 3\n")
    assert run(node, planned(node, port)).outcome == "applied"


@pytest.mark.long
def test_state_without_remaining_pods_does_not_block_a_change(node, port):
    node.path(STATE).write_text(pinned("a", "b"))
    change = planned(node, port)
    node.path(STATE).write_text(pinned())
    assert run(node, change).outcome == "applied"


def test_pod_pinned_after_the_look_keeps_its_cpus(node, port):
    change = planned(node, port)
    when(node, "stop kubelet", f"printf '%s\\n' {shlex.quote(pinned('a'))} > {STATE}")
    result = run(node, change)
    assert result.outcome == "rolled-back"
    assert result.reason == (
        f"{STATE} was changed after it was looked at; "
        "nothing was replaced, what was edited stays and the kubelet is healthy with it"
    )
    assert node.path(STATE).read_text() == pinned("a") + "\n"
    assert_old(node)


def test_file_edited_after_the_begin_is_not_overwritten(node, port):
    when(node, "stop kubelet", f"echo edited > {DROP_IN}")
    result = run(node, planned(node, port))
    assert result.outcome == "rolled-back"
    assert result.reason == (
        f"{DROP_IN} was changed after it was looked at; nothing was replaced, what was edited stays "
        "and the kubelet is healthy with it"
    )
    assert node.path(DROP_IN).read_text() == "edited\n"
    node.path(DROP_IN).write_text("old\n")
    assert_old(node)


def test_edit_before_the_first_replacement_survives_a_power_cut(node, port):
    when(node, "stop kubelet", f"echo edited > {DROP_IN}\n{CUT_POWER}")
    node.run(start_script(planned(node, port)))
    until(node, f"grep -q second {BOOT_ID}")
    reboot(node)
    assert ended(node).outcome == "rolled-back"
    assert node.path(DROP_IN).read_text() == "edited\n"


def test_kept_state_may_change_until_the_kubelet_has_stopped(node, port):
    when(node, "stop kubelet", f"printf '%s\\n' {shlex.quote(pinned('a'))} > {MEMORY_STATE}")
    assert run(node, planned(node, port)).outcome == "applied"
    assert node.path(MEMORY_STATE).read_text() == pinned("a") + "\n"


@pytest.mark.variants(1)
@pytest.mark.parametrize("shell", ["busybox sh", "dash", "bash --posix"])
def test_every_posix_shell_sees_the_same_node_and_its_differences(node, port, shell):
    assert {**vars(looked_at(node, f"{shell} -s")), "uptime_seconds": 0} == {
        **vars(looked_at(node)),
        "uptime_seconds": 0,
    }
    change = planned(node, port)
    node.path(DROP_IN).write_text("edited\n")
    deliver(node, change)
    done = node.run(f"{shell} {change.folder}/run.sh begin apply")
    assert (done.returncode, done.stderr) == (0, "")
    assert ended(node).outcome == "void"


@pytest.mark.variants(1)
@pytest.mark.parametrize("shell", ["busybox sh -s", "dash -s", "bash --posix -s"])
def test_voided_transaction_never_begins(node, port, shell):
    change = planned(node, port)
    done = node.run(void_script("T1"), shell)
    assert (done.returncode, done.stderr) == (0, "")
    result = run(node, change)
    assert (result.id, result.outcome) == ("T1", "void")
    assert result.reason == "nothing was changed: the transaction was withdrawn before it began"
    assert_untouched(node)
    assert node.path(DROP_IN).read_text() == "old\n"


def test_voided_transaction_without_a_look_is_unknown(node, port):
    assert node.run(void_script("T1")).returncode == 0
    assert run(node, transaction(port, "new")).outcome == "unknown"
    assert_untouched(node)


@pytest.mark.long
@pytest.mark.parametrize(
    "gone", [f"rm -rf {TRANSACTIONS}/T1", f"rm -rf {TRANSACTIONS}"], ids=["its-folder", "all-records"]
)
def test_change_with_removed_records_is_not_void(node, port, gone):
    change = planned(node, port)
    run(node, change)
    node.run(gone)
    node.run(void_script("T1"))
    result = ended(node)
    assert (result.outcome, result.reason) == (
        "unknown",
        "the node's records of the transaction are gone, so it is unknown whether it has begun",
    )
    begun = starts(node)
    node.run(start_script(change))
    assert (ended(node).outcome, starts(node)) == ("unknown", begun)


@pytest.mark.long
def test_repeated_begin_after_removed_records_is_refused(node, port):
    change = transaction(port, "new")
    run(node, change)
    node.run(f"rm -rf {TRANSACTIONS}/T1")
    again = node.run(start_script(change))
    assert (again.returncode, "has begun before" in again.stderr, starts(node)) == (1, True, 2)


def test_concurrent_void_and_begin_have_one_winner(node, port):
    for number in range(4):
        change = planned(node, port, f"new {number}", id=f"T{number}", restart=False)
        with ThreadPoolExecutor() as pool:
            begin = pool.submit(node.run, start_script(change))
            void = pool.submit(node.run, void_script(change.id))
        assert (begin.result().returncode, void.result().returncode) == (0, 0)
        outcome = ended(node, change.id).outcome
        assert outcome in ("applied", "void")
        assert (node.path(DROP_IN).read_text() == f"new {change.id[1:]}\n") is (outcome == "applied")


def test_begun_transaction_is_not_voided(node, port):
    hold_midway(node, planned(node, port))
    assert node.run(void_script("T1")).returncode == 0
    assert status(node).result is None
    go_on(node)
    assert ended(node).outcome == "applied"
    assert node.run(void_script("T1")).returncode == 0
    assert ended(node).outcome == "applied"


@pytest.mark.long
def test_plan_made_before_a_void_transaction_remains_valid(node, port):
    change = planned(node, port, id="T2")
    node.run(void_script("T1"))
    assert run(node, change).outcome == "applied"


@pytest.mark.long
def test_void_transactions_evict_no_backup(node, port):
    run(node, planned(node, port))
    for number in range(2 * KEPT_TRANSACTIONS):
        node.run(void_script(f"V{number}"))
    run(node, planned(node, port, "newer", id="T2"))
    kept = {path.name for path in node.path(TRANSACTIONS).iterdir() if path.is_dir() and path.name[0] == "T"}
    assert kept == {"T1", "T2"}


@pytest.mark.long
def test_folders_of_void_transactions_are_pruned_by_the_next_change(node, port):
    for number in range(2 * KEPT_TRANSACTIONS):
        node.run(void_script(f"V{number}"))
    assert len(list(node.path(TRANSACTIONS).glob("V*"))) == 2 * KEPT_TRANSACTIONS
    run(node, planned(node, port))
    assert len(list(node.path(TRANSACTIONS).glob("V*"))) == KEPT_TRANSACTIONS


# ---- an edit during the change ----


def test_edit_during_the_proof_is_kept_and_named(node, port):
    run(node, planned(node, port))
    node.run(f"echo edited > {DROP_IN}; chmod 600 {DROP_IN}; chown 4001:4002 {DROP_IN}")
    result = reverted(node, "the node is not Ready")
    edit = f"{TRANSACTIONS}/T1/edited{DROP_IN}"
    assert result.outcome == "rolled-back"
    assert result.reason == (
        f"the node is not Ready; {DROP_IN} was edited during the change: its text is kept in {edit}; "
        "the old configuration is back and the kubelet is healthy with it"
    )
    assert node.path(edit).read_text() == "edited\n"
    found = node.path(edit).stat()
    assert (found.st_mode & 0o777, found.st_uid, found.st_gid) == (0o600, 4001, 4002)
    assert_old(node)


def test_edit_is_kept_before_a_boot_restores_the_old_file(node, port):
    when(node, "start kubelet", f"echo edited > {DROP_IN}\n{CUT_POWER}")
    node.run(start_script(planned(node, port)))
    until(node, f"grep -q second {BOOT_ID}")
    reboot(node)
    assert node.path(DROP_IN).read_text() == "old\n"
    assert f"{DROP_IN} was edited during the change: " in ended(node).reason
    assert node.path(f"{TRANSACTIONS}/T1/edited{DROP_IN}").read_text() == "edited\n"
    assert_old(node)


@pytest.mark.long
def test_file_created_during_change_is_kept_as_edit(node, port):
    change = planned(node, port, files=(FileContent(DROP_IN, "new\n"),), absent=(UNIT_DROP_IN,))
    run(node, change)
    node.path(UNIT_DROP_IN).parent.mkdir(parents=True, exist_ok=True)
    node.path(UNIT_DROP_IN).write_text("[Service]\n# mine\n")
    assert f"{UNIT_DROP_IN} was edited during the change: " in reverted(node, "why").reason
    assert node.path(f"{TRANSACTIONS}/T1/edited{UNIT_DROP_IN}").read_text() == "[Service]\n# mine\n"
    assert_old(node)


@pytest.mark.long
def test_file_restored_by_hand_does_not_count_as_edit(node, port):
    run(node, planned(node, port))
    node.path(DROP_IN).write_text("old\n")
    assert "edited" not in reverted(node, "why").reason
    assert_old(node)


@pytest.mark.long
def test_transaction_with_an_edit_is_not_pruned(node, port):
    run(node, planned(node, port))
    node.path(DROP_IN).write_text("edited\n")
    reverted(node, "why")
    for number in range(2, 3 + KEPT_TRANSACTIONS):
        run(node, planned(node, port, f"new {number}", id=f"T{number}", restart=False))
    kept = {path.name for path in node.path(TRANSACTIONS).iterdir() if path.is_dir()}
    assert kept == {"T1", *(f"T{number}" for number in range(4, 3 + KEPT_TRANSACTIONS))} | {"T3"}


# ---- units that are bound to the kubelet ----

BOUND = {
    "requires.service": "RequiredBy kubelet.service",
    "binds.service": "BoundBy kubelet.service",
    "part.service": "ConsistsOf kubelet.service",
    r"far\x2daway.service": "RequiredBy part.service",
}


@pytest.fixture
def bound(node: Sandbox) -> Sandbox:
    """The node with units that systemd stops with the kubelet; one more such unit was stopped already."""
    for folder in ("bound", "active", "broken"):
        node.path(f"/run/{folder}").mkdir()
    for name, binding in {**BOUND, "stopped.service": "RequiredBy kubelet.service"}.items():
        node.path(f"/run/bound/{name}").write_text(f"{binding}\n")
    for name in BOUND:
        node.path(f"/run/active/{name}").touch()
    return node


def active(node: Sandbox) -> set[str]:
    return {path.name for path in node.path("/run/active").iterdir()}


@pytest.mark.long
@pytest.mark.parametrize(("wish", "outcome"), [("new", "applied"), ("crash", "rolled-back")])
def test_units_that_are_bound_to_the_kubelet_are_active_again(bound, port, wish, outcome):
    assert run(bound, planned(bound, port, wish)).outcome == outcome
    assert active(bound) == {*BOUND}


def test_units_are_active_again_after_a_revert(bound, port):
    run(bound, planned(bound, port))
    bound.run("systemctl start stopped.service")
    reverted(bound, "why")
    assert active(bound) == {*BOUND, "stopped.service"}


@pytest.mark.long
def test_units_are_active_again_after_a_boot(bound, port):
    cut_power(bound, "start kubelet", planned(bound, port))
    bound.run("rm -f /run/active/*")
    reboot(bound)
    assert ended(bound).outcome == "rolled-back"
    assert active(bound) == {*BOUND}


def test_failed_unit_restart_is_named_and_everything_is_rolled_back(bound, port):
    when(bound, "start kubelet", ": > /run/broken/part.service")
    when(bound, "undo kubelet", "rm /run/broken/part.service")
    result = run(bound, planned(bound, port))
    assert result.outcome == "rolled-back"
    assert result.reason.startswith(
        "part.service, which was active and which systemd stops with the kubelet, was not active again within"
    )
    assert active(bound) == {*BOUND}
    assert_old(bound)


@pytest.mark.long
def test_unit_that_also_fails_with_the_old_kubelet_needs_a_person(bound, port):
    when(bound, "start kubelet", ": > /run/broken/part.service")
    result = run(bound, planned(bound, port))
    assert result.outcome == "failed"
    bound.run("rm /run/broken/part.service")
    bound.run(f"journalctl() {{ :; }}; {result.reason.split('By hand: ')[1]}")
    assert active(bound) == {*BOUND}


# ---- a reboot in good order ----


def reboot_in_order(node: Sandbox) -> None:
    until(node, "idle")
    found = status(node)
    assert (found.result, found.broken_off) == (None, True)
    node.run(settle_script())
    assert status(node).result is None
    assert node.path(CURRENT).is_symlink()
    node.run(f"rm /run/stopping; echo the second boot > {BOOT_ID}; : > /run/systemctl.log")
    reboot(node)


def test_clean_reboot_leaves_a_revert_to_the_next_boot(node, port):
    run(node, planned(node, port))
    when(node, "reverting", GO_DOWN + END_UNIT)
    node.run(revert_script("T1", "the node is not Ready", status(node)))
    until(node, "[ -e /run/stopping ]")
    reboot_in_order(node)
    assert ended(node).reason.startswith("the node is not Ready; the old configuration is back")
    assert_old(node)


@pytest.mark.long
def test_second_reboot_before_the_proof_does_not_restore_the_state_again(node, port):
    cut_power(node, "apply files", planned(node, port))
    when(node, "start kubelet", GO_DOWN + END_UNIT)
    reboot(node)
    until(node, "[ -e /run/stopping ] && idle")
    node.path(MEMORY_STATE).write_text("written by the old kubelet\n")
    node.run(f"rm /run/stopping; echo the third boot > {BOOT_ID}")
    reboot(node)
    assert ended(node).outcome == "rolled-back"
    assert node.path(MEMORY_STATE).read_text() == "written by the old kubelet\n"


def test_nothing_begins_on_a_node_that_is_shutting_down(node, port):
    change = planned(node, port)
    node.run(": > /run/stopping")
    assert node.run(start_script(change)).returncode == 1
    assert status(node).phase is None
    assert leftovers(node) == []


# ---- what the kubelet says ----

BYTES = b'E1121 "caf\xe9" \xff\xfe "caf\xc3\xa9"\n'


@pytest.mark.variants(1)
@pytest.mark.parametrize("without_iconv", [False, True], ids=["iconv", "no-iconv"])
def test_non_utf8_kubelet_log_leaves_the_result_readable(node, port, without_iconv):
    if without_iconv:
        node.run("rm $(command -v iconv)")
    node.path("/run/kubelet.log").write_bytes(BYTES)
    result = run(node, transaction(port, "crash"))
    assert result.outcome == "rolled-back"
    assert result.journal[0] == ('E1121 "caf?" ?? "caf??"' if without_iconv else 'E1121 "caf"  "caf\u00e9"')
