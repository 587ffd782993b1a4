"""The command line: answers on standard output, one message on standard error, and its exit codes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from numaforge.cli import run
from numaforge.lib.errors import ExitCode
from tests.fixtures.processes import opens


def program(*arguments: str, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "numaforge", *arguments]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that runs the tests in the background has them ignore interrupts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        **options,
    )


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
        pytest.param(b"\xff\xfe\x00binary", "is not UTF-8 text", id="not text"),
        pytest.param(
            b'{"kind": "numaforge-snapshot", "files": {', "not a complete JSON document", id="cut off"
        ),
        pytest.param(b"[1, 2]", "not a numaforge snapshot", id="another JSON"),
        pytest.param(b"[" * 100_000, "nested too deeply", id="nested too deeply"),
        pytest.param(
            b'{"schema": 1, "packages": 7}', "hostname: must be given", id="half a topology document"
        ),
        pytest.param(b'{"schema": 99, "packages": []}', "schema 99", id="a document of another schema"),
        pytest.param(b'{"cpus": 1, "memory": 1, "decisions": 1}', "", id="half a plan"),
    ],
)
@pytest.mark.parametrize("command", ["topology", "draw"])
def test_an_unreadable_file_is_refused(tmp_path, capsys, command, content, message):
    path = written(tmp_path, content)
    error = complaint(capsys, command, path)
    assert message in error
    assert path in error


@pytest.mark.parametrize("command", ["plan", "draw"])
@pytest.mark.parametrize(
    "option", [["--profile", "training"], ["--root", "/"], ["--kubelet-version", "1.36"]]
)
def test_saved_plan_refuses_planning_options(saved_plan, capsys, command, option):
    assert "a PLAN is shown as it is" in complaint(capsys, command, saved_plan, *option)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["topology", "missing.json"], "missing.json", id="a missing file"),
        pytest.param(["topology", "--root", "missing"], "missing", id="a missing root"),
        pytest.param(["topology", "a.json", "--root", "b"], "either MACHINE or --root", id="two sources"),
        pytest.param(["capture", "host", "--root", "b"], "either HOST or --root", id="a host and a root"),
        pytest.param(
            ["capture", "--data", "ssh_user=x"], "--data is for connecting", id="data without a host"
        ),
        pytest.param(["capture", "host", "--data", "ssh_user"], "not KEY=VALUE", id="data without a value"),
        pytest.param(
            ["capture", "--to", "/proc/missing/x.json"], "/proc/missing/x.json", id="nowhere to write"
        ),
        pytest.param(["plan"], "ready ones: best-effort-mixed", id="no profile"),
        pytest.param(
            ["plan", "--profile", "nonesuch"], "there is no ready profile 'nonesuch'", id="an unknown profile"
        ),
        pytest.param(["plan", "--profile", "training", "--kubelet-version", "new"], "new", id="no version"),
        pytest.param(
            ["topology", "-o", "toml"], "'toml' is not one of 'table', 'json', 'yaml'", id="an unknown format"
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
def test_unsatisfiable_profile_is_refused_naming_the_field(tmp_path, lab_document, capsys, profile, field):
    path = tmp_path / "profile.yaml"
    path.write_text(profile)
    assert field in complaint(capsys, "plan", lab_document, "--profile", str(path))


def test_unreachable_host_is_one_message_with_the_reason():
    with program("capture", "nobody@127.0.0.1:1") as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (ExitCode.UNREACHABLE, "")
    assert err.startswith("numaforge: 127.0.0.1: cannot connect")
    assert "\n  see what `ssh -o BatchMode=yes 127.0.0.1 true` says" in err


@pytest.mark.parametrize("mode", [None, 0o644], ids=["a new file", "a file that others may read"])
def test_snapshot_is_readable_only_by_its_owner(tmp_path, mode):
    """Root reads files for it that others may not."""
    online = tmp_path / "root/sys/devices/system/cpu/online"
    online.parent.mkdir(parents=True)
    online.write_text("0\n")
    file = tmp_path / "a.snapshot.json"
    if mode:
        file.touch(mode)
    assert run(["capture", "--root", str(tmp_path / "root"), "--to", str(file)]) == ExitCode.YES
    assert file.stat().st_mode & 0o777 == 0o600


# ---- the process ----


def test_closed_pipe_does_not_count_as_error(saved):
    command = f"{sys.executable} -m numaforge topology {saved} -o json"
    shell = ["bash", "-c", f"set -o pipefail; {command} | true"]
    answer = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert answer.returncode in (0, 128 + signal.SIGPIPE)
    assert answer.stderr == ""


def test_full_disk_is_reported(saved):
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "numaforge", "topology", saved]
        answer = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert answer.returncode == ExitCode.BAD_INPUT
    assert answer.stderr == "numaforge: standard output: No space left on device\n"


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_truncated_output_fails(saved, tmp_path, unbuffered):
    with (tmp_path / "answer").open("w") as file:
        answer = subprocess.run(
            ["sh", "-c", 'ulimit -f 8; exec "$@"', "sh", sys.executable, "-m", "numaforge", "draw", saved],
            stdout=file,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            text=True,
            check=False,
        )
    assert (answer.returncode, answer.stderr) == (
        ExitCode.BAD_INPUT,
        "numaforge: standard output: File too large\n",
    )


def test_an_interrupt_is_one_line(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = os.open(fifo, os.O_RDWR)
    with program("topology", str(fifo)) as process:
        try:
            assert opens(process, fifo)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            os.close(writer)
            process.kill()
    assert (process.returncode, out, err) == (128 + signal.SIGINT, "", "numaforge: interrupted\n")


def test_internal_error_has_its_own_exit_code(monkeypatch, capsys):
    monkeypatch.setattr("numaforge.machine.topology.read.read_topology", lambda _snapshot: 1 / 0)
    assert run(["topology"]) == 70
    assert "internal error: ZeroDivisionError" in capsys.readouterr().err


def test_interrupt_wrapped_in_another_error_counts_as_interrupt(monkeypatch, capsys):
    """Python makes a RuntimeError of one that comes in the middle of a class."""

    def interrupted(_: object) -> None:
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()

    monkeypatch.setattr("numaforge.machine.topology.read.read_topology", interrupted)
    assert run(["topology"]) == 128 + signal.SIGINT
    assert capsys.readouterr().err == "numaforge: interrupted\n"


INTERRUPTED_IMPORT = """
import sys
from numaforge.__main__ import main

class Interrupt:
    def find_spec(self, name, *_):
        if name == "numaforge.cli":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
main()
"""


def test_interrupt_during_import_is_one_line():
    command = [sys.executable, "-c", INTERRUPTED_IMPORT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (128 + signal.SIGINT, "numaforge: interrupted\n")


def test_internal_error_shows_traceback_on_demand(monkeypatch):
    monkeypatch.setattr("numaforge.machine.topology.read.read_topology", lambda _snapshot: 1 / 0)
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
