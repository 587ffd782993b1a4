"""The command line: answers on standard output, one message on standard error, and its exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from numaforge.cli import run
from numaforge.errors import ExitCode
from numaforge.planning.document import loads
from numaforge.report.svg import draw
from numaforge.snapshot import Snapshot, from_local
from numaforge.topology import from_document, read_topology, to_document
from tests.fixtures import machines


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    return from_local()


@pytest.fixture
def saved(tmp_path, snapshot) -> str:
    """A snapshot of the machine that runs the tests, as a file."""
    path = tmp_path / "snapshot.json"
    path.write_text(snapshot.to_json())
    return str(path)


@pytest.fixture
def lab_document(tmp_path) -> str:
    """The topology document of a machine with 16 CPUs on 4 NUMA nodes, as a file."""
    path = tmp_path / "topology.json"
    path.write_text(json.dumps(to_document(machines.lab_node())))
    return str(path)


def program(*arguments: str, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "numaforge.cli", *arguments]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that runs the tests in the background has them ignore interrupts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        **options,
    )


# ---- answers ----


def test_capture_writes_a_snapshot_that_topology_reads(tmp_path, capsys):
    path = tmp_path / "node.json"
    assert run(["capture", "-o", str(path)]) == ExitCode.YES
    assert run(["topology", str(path), "-o", "json"]) == ExitCode.YES
    topology = from_document(json.loads(capsys.readouterr().out))
    assert topology.online == read_topology(Snapshot.load(path)).online


def test_capture_without_a_file_prints_the_snapshot(capsys):
    assert run(["capture"]) == ExitCode.YES
    assert Snapshot.from_json(capsys.readouterr().out).files


def test_topology_of_a_captured_root(tmp_path, capsys):
    root = tmp_path / "root"
    for path, text in {
        "sys/devices/system/cpu/online": "0-1",
        "sys/devices/system/cpu/cpu0/topology/thread_siblings_list": "0-1",
        "sys/devices/system/cpu/cpu1/topology/thread_siblings_list": "0-1",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text + "\n")
    assert run(["topology", "--root", str(root), "-o", "json"]) == ExitCode.YES
    assert json.loads(capsys.readouterr().out)["cores"][0]["cpus"] == "0-1"


def test_topology_reads_its_own_document_back(lab_document, capsys):
    assert run(["topology", lab_document, "-o", "json"]) == ExitCode.YES
    assert from_document(json.loads(capsys.readouterr().out)) == machines.lab_node()


def test_topology_is_a_table_for_people(lab_document, capsys):
    assert run(["topology", lab_document]) == ExitCode.YES
    assert "4 NUMA nodes" in capsys.readouterr().out


def test_plan_as_json_is_the_plan_document(lab_document, capsys):
    assert run(["plan", lab_document, "--profile", "best-effort-mixed", "-o", "json"]) == ExitCode.YES
    assert loads(capsys.readouterr().out).profile == "best-effort-mixed"


def test_plan_is_a_table_for_people(lab_document, capsys):
    assert run(["plan", lab_document, "--profile", "best-effort-mixed"]) == ExitCode.YES
    assert "cpus.reserved = " in capsys.readouterr().out


def test_plan_takes_a_profile_file(lab_document, tmp_path, capsys):
    profile = tmp_path / "mine.yaml"
    profile.write_text("name: mine\ncpus:\n  reserved:\n    cpulist: 0-1\n")
    assert run(["plan", lab_document, "--profile", str(profile), "-o", "json"]) == ExitCode.YES
    assert loads(capsys.readouterr().out).cpus.reserved == {0, 1}


def test_plan_for_another_kubelet_version(lab_document, capsys):
    arguments = ["plan", lab_document, "--profile", "best-effort-mixed", "--kubelet-version", "1.34.0"]
    assert run([*arguments, "-o", "json"]) == ExitCode.YES
    assert loads(capsys.readouterr().out).kubelet.version.startswith("1.34")


@pytest.fixture
def saved_plan(lab_document, tmp_path, capsys) -> str:
    path = tmp_path / "plan.json"
    run(["plan", lab_document, "--profile", "best-effort-mixed", "-o", "json"])
    path.write_text(capsys.readouterr().out)
    return str(path)


@pytest.fixture
def provisioned_document(lab_document, saved_plan) -> str:
    """The topology document of a machine that already has a plan."""
    document = json.loads(Path(lab_document).read_text())
    document["previous_plan"] = Path(saved_plan).read_text()
    Path(lab_document).write_text(json.dumps(document))
    return lab_document


def test_plan_shows_the_plan_that_the_host_has(provisioned_document, capsys):
    assert run(["plan", provisioned_document]) == ExitCode.YES
    assert "profile best-effort-mixed" in capsys.readouterr().out


def test_plan_shows_a_saved_plan_unchanged(saved_plan, capsys):
    assert run(["plan", saved_plan, "-o", "json"]) == ExitCode.YES
    assert capsys.readouterr().out == Path(saved_plan).read_text()


def test_draw_writes_the_picture_with_the_profiles_plan(lab_document, tmp_path):
    picture = tmp_path / "node.svg"
    assert run(["draw", lab_document, "--profile", "best-effort-mixed", "-o", str(picture)]) == ExitCode.YES
    assert "cpu-reserved" in picture.read_text().partition("</defs>")[2]


def test_draw_without_a_plan_shows_the_machine(lab_document, capsys):
    assert run(["draw", lab_document]) == ExitCode.YES
    assert capsys.readouterr().out == draw(machines.lab_node())


def test_draw_shows_the_plan_that_the_host_has(provisioned_document, capsys):
    assert run(["draw", provisioned_document]) == ExitCode.YES
    assert "profile best-effort-mixed" in capsys.readouterr().out


def test_draw_shows_a_plan_alone(saved_plan, capsys):
    assert run(["draw", saved_plan]) == ExitCode.YES
    assert capsys.readouterr().out.count("data-cpu=") == 16


@pytest.mark.parametrize("command", ["plan", "draw"])
@pytest.mark.parametrize(
    "option", [["--profile", "training"], ["--root", "/"], ["--kubelet-version", "1.36"]]
)
def test_a_saved_plan_is_not_made_again(saved_plan, capsys, command, option):
    assert "a PLAN is shown as it is" in complaint(capsys, command, saved_plan, *option)


# ---- refusals ----


def complaint(capsys, *arguments: str) -> str:
    """Run what has to be refused as bad input, and return its message, which is all that it may print."""
    assert run(list(arguments)) == ExitCode.BAD_INPUT
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    return err


def written(tmp_path: Path, content: bytes) -> str:
    path = tmp_path / "input"
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "not a complete JSON document", id="empty"),
        pytest.param(b"\xff\xfe\x00binary", "cannot be read", id="not text"),
        pytest.param(
            b'{"kind": "numaforge-snapshot", "files": {', "not a complete JSON document", id="cut off"
        ),
        pytest.param(b"[1, 2]", "not a numaforge snapshot", id="another JSON"),
        pytest.param(b"[" * 100_000, "nested too deeply", id="nested too deeply"),
        pytest.param(b'{"schema": 1, "packages": 7}', "lacks the field", id="half a topology document"),
        pytest.param(b'{"schema": 99, "packages": []}', "schema 99", id="a document of another schema"),
        pytest.param(b'{"cpus": 1, "numa_nodes": 1, "decisions": 1}', "", id="half a plan"),
    ],
)
@pytest.mark.parametrize("command", ["topology", "draw"])
def test_an_unreadable_file_is_refused(tmp_path, capsys, command, content, message):
    path = written(tmp_path, content)
    error = complaint(capsys, command, path)
    assert message in error
    assert path in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["topology", "missing.json"], "missing.json", id="a missing file"),
        pytest.param(["topology", "/"], "/", id="a folder instead of a file"),
        pytest.param(["topology", "--root", "missing"], "missing", id="a missing root"),
        pytest.param(["topology", "a.json", "--root", "b"], "either SNAPSHOT or --root", id="two sources"),
        pytest.param(["capture", "host", "--root", "b"], "either HOST or --root", id="a host and a root"),
        pytest.param(["capture", "--data", "ssh_user=x"], "there is none", id="data without a host"),
        pytest.param(["capture", "host", "--data", "ssh_user"], "not KEY=VALUE", id="data without a value"),
        pytest.param(
            ["capture", "-o", "/missing/folder/x.json"], "/missing/folder/x.json", id="nowhere to write"
        ),
        pytest.param(["plan"], "ready ones: best-effort-mixed", id="no profile"),
        pytest.param(
            ["plan", "--profile", "nonesuch"], "there is no ready profile 'nonesuch'", id="an unknown profile"
        ),
        pytest.param(["plan", "--profile", "training", "--kubelet-version", "new"], "new", id="no version"),
        pytest.param(
            ["topology", "-o", "yaml"], "'yaml' is not one of 'table', 'json'", id="an unknown format"
        ),
        pytest.param(["nonesuch"], "No such command", id="an unknown command"),
    ],
)
def test_bad_arguments_are_refused(capsys, arguments, message):
    assert message in complaint(capsys, *arguments)


@pytest.mark.parametrize(
    ("profile", "field"),
    [
        pytest.param("nmae: x\n", "nmae", id="an unknown key"),
        pytest.param(
            "cpus: {reserved: {cpulist: '0-99'}}\n", "cpus.reserved", id="a CPU that does not exist"
        ),
        pytest.param("cpus: {reserved: {cores: 8}}\n", "cpus.reserved", id="every core"),
        pytest.param("memory: {kube_reserved: 8GB}\n", "memory.kube_reserved", id="a quantity like 8GB"),
        pytest.param(
            "hugepages: [{size: 1Gi, count_per_numa_node: 900}]\n",
            "hugepages",
            id="more huge pages than memory",
        ),
    ],
)
def test_a_profile_that_cannot_be_met_is_refused_naming_its_field(
    tmp_path, lab_document, capsys, profile, field
):
    path = tmp_path / "profile.yaml"
    path.write_text(profile)
    assert field in complaint(capsys, "plan", lab_document, "--profile", str(path))


def test_a_host_that_cannot_be_reached_is_one_message_with_the_reason():
    with program("capture", "nobody@127.0.0.1:1") as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (ExitCode.BAD_INPUT, "")
    assert err.startswith("numaforge: 127.0.0.1: cannot be reached: Could not connect")
    assert err.count("127.0.0.1") == 2


# ---- the process ----


def test_a_reader_that_goes_away_is_no_error(saved):
    command = f"{sys.executable} -m numaforge.cli topology {saved} -o json"
    shell = ["bash", "-c", f"set -o pipefail; {command} | true"]
    answer = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert answer.returncode in (0, 128 + signal.SIGPIPE)
    assert answer.stderr == ""


def test_a_full_disk_is_said(saved):
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "numaforge.cli", "topology", saved]
        answer = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert answer.returncode == ExitCode.BAD_INPUT
    assert answer.stderr == "numaforge: No space left on device\n"


def test_an_interrupt_is_one_line(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with program("topology", str(fifo)) as process:
        descriptor = os.open(fifo, os.O_WRONLY)  # returns once the program has opened the other end
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        os.close(descriptor)
    assert (process.returncode, out, err) == (128 + signal.SIGINT, "", "numaforge: interrupted\n")


def test_a_fault_of_our_own_is_told_from_an_answer(monkeypatch, capsys):
    monkeypatch.setattr("numaforge.topology.read_topology", lambda _snapshot: 1 / 0)
    assert run(["topology"]) == 70
    assert "a fault of numaforge itself: ZeroDivisionError" in capsys.readouterr().err


def test_a_fault_shows_where_it_happened_on_demand(monkeypatch):
    monkeypatch.setattr("numaforge.topology.read_topology", lambda _snapshot: 1 / 0)
    monkeypatch.setenv("NUMAFORGE_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        run(["topology"])


def test_a_pipe_gets_no_colours_and_a_terminal_can_refuse_them(lab_document):
    environment = {**os.environ, "FORCE_COLOR": "", "NO_COLOR": "1"}
    with program("plan", lab_document, "--profile", "best-effort-mixed", env=environment) as process:
        out, _ = process.communicate(timeout=60)
    assert "\x1b[3" not in out
    assert process.returncode == 0


def test_help_imports_nothing_heavy():
    code = (
        "import sys, numaforge.cli; numaforge.cli.run(['--help']); "
        "print(sorted({'rich', 'pydantic', 'pyinfra', 'gevent', 'yaml', 'jinja2'} & set(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "[]"


def test_help_answers_at_once():
    best = min(_seconds_of_help() for _ in range(3))
    assert best < 0.4


def _seconds_of_help() -> float:
    start = time.perf_counter()
    with program("--help") as process:
        process.communicate(timeout=20)
    return time.perf_counter() - start


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        pytest.param("gpu-1", ("gpu-1", {}), id="a name"),
        pytest.param("root@gpu-1", ("gpu-1", {"ssh_user": "root"}), id="with a user"),
        pytest.param("gpu-1:2222", ("gpu-1", {"ssh_port": 2222}), id="with a port"),
        pytest.param("u@10.0.0.1:22", ("10.0.0.1", {"ssh_user": "u", "ssh_port": 22}), id="with both"),
        pytest.param("fd00::1", ("fd00::1", {}), id="an IPv6 address"),
        pytest.param("[fd00::1]:2222", ("fd00::1", {"ssh_port": 2222}), id="an IPv6 address with a port"),
        pytest.param("@docker/debian:12", ("@docker/debian:12", {}), id="another connector"),
    ],
)
def test_a_host_is_named_as_people_name_it(host, expected):
    from numaforge.commands.capture import _address

    assert _address(host) == expected
