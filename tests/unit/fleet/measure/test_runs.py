"""Programs on a node: each within its time and its bytes, and what is made of their answers."""

import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from numaforge.fleet.measure.asking import Readiness, read_readiness, read_runs, readiness_script, run_script
from numaforge.fleet.measure.record import MEASUREMENT
from numaforge.fleet.measure.tasks import Effort, MeasureTask
from numaforge.lib import shell
from numaforge.lib.errors import HostError
from numaforge.lib.framing import Answer, asking
from numaforge.machine import measure_outputs as outputs
from numaforge.node.pods import Pods
from numaforge.run.hosts.measuring import refuse_in_use
from tests.fixtures.measurements import figure, measured
from tests.fixtures.tables import cases, tables

GOOD = "echo '1.00 MiB transferred (1000.00 MiB/sec)'"
FIXTURES = Path(__file__).parents[3] / "fixtures" / "measure"
ONCE = Effort(seconds=1, runs=1)


@pytest.fixture(params=["dash", "bash", "busybox sh"])
def sh(request: pytest.FixtureRequest) -> list[str]:
    return str(request.param).split()


def task(body: str, *, seconds: int = 5, load: frozenset[int] = frozenset(), **more: object) -> MeasureTask:
    words = ("sh", "-c", body)
    return MeasureTask(
        "memory-bandwidth",
        "NUMA node 0",
        "sysbench",
        words,
        outputs.sysbench_memory,
        seconds,
        load=load,
        **more,
    )


def run(sh: list[str], script: str, path: Path | None = None) -> Answer:
    environment = {**os.environ, **({"PATH": f"{path}:{os.environ['PATH']}"} if path else {})}
    done = subprocess.run(
        [*sh, "-s"],
        input=script.encode(),
        capture_output=True,
        env=environment,
        timeout=60,
        check=False,
    )
    return Answer.of(done.stdout.decode())


def measured_by(sh: list[str], *tasks: MeasureTask, effort: Effort = ONCE) -> tuple[list[float], list[str]]:
    figures, refused = read_runs(run(sh, run_script(tasks, effort)), tasks, effort)
    return [each.median for each in figures], [each.why for each in refused]


def test_a_figure_has_the_median_and_the_spread_of_its_runs(sh, tmp_path):
    body = (
        f'n=$(cat {tmp_path}/n); echo $((n + 1)) > {tmp_path}/n; echo "1.00 MiB transferred ($n.00 MiB/sec)"'
    )
    (tmp_path / "n").write_text("1\n")
    tasks, effort = [task(body)], Effort(seconds=1, runs=3)
    ((found,), refused) = read_runs(run(sh, run_script(tasks, effort)), tasks, effort)
    assert (found.lowest, found.median, found.highest) == (1.0486, 2.0972, 3.1457)
    assert (found.runs, found.unit, refused) == (3, "MB/s", [])


@cases("body, why", tables(__file__)["hostile"])
def test_misbehaving_program_costs_one_line(sh, body, why):
    begun = time.monotonic()
    values, (said,) = measured_by(sh, task(body, seconds=1), task(GOOD))
    assert values == [1048.6]
    assert why in said
    assert time.monotonic() - begun < 30


def test_ib_write_bw_run_that_moved_nothing_gives_no_figure(sh):
    file = FIXTURES / "perftest-4.5-nothing-moved.txt"
    write = replace(
        task(f"cat {file}"), kind="rdma-write", program="ib_write_bw", read=outputs.perftest_write
    )
    assert measured_by(sh, write) == ([], ["ib_write_bw: 0 Gb/s cannot be"])


def test_figure_above_link_speed_is_rejected(sh):
    fast = replace(task(GOOD), limits={"": 500.0})
    assert measured_by(sh, fast) == ([], ["sysbench: 1048.58 MB/s is more than the link carries (500)"])


def test_figure_for_an_unknown_place_is_rejected(sh):
    assert measured_by(sh, replace(task(GOOD), places={"0": "GPU 0"})) == (
        [],
        ["sysbench: it tells of , which the machine does not have"],
    )


def test_cpu_load_runs_only_during_the_measurement(sh, tmp_path, monkeypatch):
    monkeypatch.setenv("MEASURED_IN", str(tmp_path))  # every process of this test has it
    ours = f"$(grep -la MEASURED_IN={tmp_path} /proc/[0-9]*/environ | sed s/environ/cmdline/)"
    busy = f"grep -la '^sh.-c.while . -e ' {ours}"
    # The load begins beside the program.
    begun = f'until [ -n "$({busy} 2> /dev/null)" ]; do :; done'
    loaded = task(f"{begun}; {GOOD}", seconds=30, load=frozenset({0}))
    assert measured_by(sh, loaded) == ([1048.6], [])
    found = subprocess.run(["sh", "-c", f"{busy} 2> /dev/null < /dev/null"], capture_output=True, check=False)
    assert b"cmdline" not in found.stdout.replace(f"/proc/{os.getpid()}/cmdline".encode(), b"")


def test_no_program_starts_after_the_total_time_limit(sh):
    script = run_script([task(GOOD)], ONCE).replace("MOST_SECONDS=1800", "MOST_SECONDS=-1")
    _, (late,) = read_runs(run(sh, script), [task(GOOD)], ONCE)
    assert "the 1800 s for all programs were over" in late.why


def test_measuring_leaves_no_temporary_files(sh, tmp_path):
    script = f"TMPDIR={tmp_path}; export TMPDIR\n{run_script([task(GOOD)], ONCE)}"
    run(sh, script)
    assert [*tmp_path.iterdir()] == []


def test_installed_programs_report_their_versions(sh, tmp_path):
    for name, said in {"mlc": "echo 'Memory Latency Checker - v3.9'", "nvbandwidth": "sleep 60"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{said}\n")
        (tmp_path / name).chmod(0o755)
    found = read_readiness(run(sh, readiness_script(), tmp_path))
    assert found.programs["mlc"] == "Memory Latency Checker - v3.9"
    assert found.programs["nvbandwidth"] == ""
    assert "rocm-bandwidth-test" not in found.programs


def ready(**more: object) -> Readiness:
    return Readiness({"timeout": ""}, Pods(), (), None, None)._replace(**more)


IN_USE = {
    "a process of a pod": (
        ready(pods=Pods(alive=("process 7 (python) in /kubepods/x",))),
        False,
        "process 7",
    ),
    "processes that cannot be read": (ready(pods=Pods(unknown=("no /proc",))), False, "unknown: no /proc"),
    "a GPU that is held": (ready(holders=("process 9 (train) has /dev/nvidia0 open",)), False, "process 9"),
    "a GPU that is held on a drained node": (
        ready(holders=("process 9 (train) has /dev/nvidia0 open",)),
        True,
        "process 9",
    ),
}


@cases("readiness, drained, why", IN_USE)
def test_a_node_in_use_is_not_measured(readiness, drained, why):
    with pytest.raises(HostError, match=r"was not measured, it is in use") as refused:
        refuse_in_use(readiness, drained=drained)
    assert why in str(refused.value)
    assert "--in-use" in str(refused.value)


IDLE = {
    "a host that is no node": (ready(), False),
    "folders that a kubelet has left": (ready(pods=Pods(left=("/var/lib/kubelet/pods/x",))), False),
    "a drained node with pods of DaemonSets": (ready(pods=Pods(alive=("process 7 (cni)",))), True),
}


@cases("readiness, drained", IDLE)
def test_an_idle_node_is_measured(readiness, drained):
    refuse_in_use(readiness, drained=drained)


def test_processes_with_an_open_gpu_are_found(sh, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root makes a device's name below /dev")
    device = Path(f"/dev/nvidia{os.getpid()}")  # one of its own for each worker
    device.touch()
    try:
        with device.open():
            found = read_readiness(run(sh, readiness_script()))
        assert any(f"process {os.getpid()} " in each and str(device) in each for each in found.holders)
    finally:
        device.unlink()


def test_measurement_is_saved_complete(sh, tmp_path):
    path = tmp_path / "state" / "measured.json"
    kept = MEASUREMENT.dumps(measured(figure(950.0)))
    call = shell.call("keep_measurement", [str(path)], data=kept)
    run(sh, asking(shell.library("fleet/measure/measure") + call))
    assert MEASUREMENT.loads(path.read_text()) == measured(figure(950.0))
    assert [each.name for each in path.parent.iterdir()] == ["measured.json"]
    assert path.stat().st_mode & 0o777 == 0o644


def test_failed_save_keeps_the_old_measurement(sh, tmp_path):
    path = tmp_path / "measured.json"
    path.write_text("the old one")
    (tmp_path / "mv").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "mv").chmod(0o755)
    call = shell.call("keep_measurement", [str(path)], data="new\n")
    answer = run(sh, asking(shell.library("fleet/measure/measure") + call), tmp_path)
    assert answer.status != 0
    assert path.read_text() == "the old one"
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(".measured")]
