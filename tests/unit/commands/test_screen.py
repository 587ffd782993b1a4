"""What every command offers: colours, silence, YAML beside JSON, and completion in a shell."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml

from numaforge.cli import COMMANDS, PLUMBING, numaforge, run
from numaforge.commands.options import OF_EVERY_COMMAND
from numaforge.lib.errors import ExitCode
from tests.fixtures import machines
from tests.fixtures.tables import cases
from tests.ssh import pyinfra_forks

ESCAPE = "\x1b["


@pytest.fixture
def machine(tmp_path: Path) -> str:
    from numaforge.machine.topology.document import to_document

    path = tmp_path / "node.json"
    path.write_text(json.dumps(to_document(machines.lab_node())))
    return str(path)


def commands(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the words of every command that does something."""
    found = []
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        words = (*path, name)
        found += commands(command, words) if isinstance(command, click.Group) else [words]
    return found


@pytest.mark.parametrize("words", commands(numaforge), ids=" ".join)
def test_every_command_accepts_the_common_options(words, capsys):
    assert run([*words, "--help"]) == ExitCode.YES
    shown = capsys.readouterr().out
    first, heading, last = shown.partition(f"{OF_EVERY_COMMAND}:\n")
    assert heading, "after all others"
    assert all(option in last for option in ("--color", "--quiet", "--verbose", "--help"))
    own = re.findall(r"^  --?\w", first.partition("\nOptions:\n")[2].partition("\n\n")[0], re.MULTILINE)
    assert len(own) <= 10, "those that matter come first, others have a heading"


@pytest.mark.parametrize("name", [name for names in COMMANDS.values() for name in names])
def test_command_help_begins_with_one_short_sentence(name, capsys):
    assert run(["--help"]) == ExitCode.YES
    shown = capsys.readouterr().out
    (sentence,) = re.findall(rf"^  {name} +(.*)$", shown, re.MULTILINE)
    assert re.fullmatch(r"[A-Z].{0,53}\w\.", sentence)


def test_plumbing_commands_are_hidden_from_help_but_work(capsys):
    assert run(["--help"]) == ExitCode.YES
    shown = capsys.readouterr().out
    assert [*re.findall(r"^(\w.*):$", shown, re.MULTILINE)] == ["Options", *COMMANDS]
    for name in PLUMBING:
        assert f"  {name} " not in shown
        assert run([name, "--help"]) == ExitCode.YES
    assert run(["rollout", "--help"]) == ExitCode.YES
    assert "unlock" not in capsys.readouterr().out.rpartition("Commands:")[2]


def test_abort_offers_only_options_that_apply(capsys):
    assert run(["rollout", "abort", "--help"]) == ExitCode.YES
    shown = capsys.readouterr().out
    assert "--unreachable-timeout" in shown
    assert not re.search("--(canar|pool|max-|drain|force|soak|failure)", shown)


@cases(
    "arguments, environment, coloured",
    {
        "a pipe has no colours": ([], {}, False),
        "always means in a pipe, too": (["--color", "always"], {}, True),
        "the option is stronger than NO_COLOR": (["--colour=always"], {"NO_COLOR": "1"}, True),
        "and than FORCE_COLOR": (["--color", "never"], {"FORCE_COLOR": "1"}, False),
        "FORCE_COLOR colours a pipe": ([], {"FORCE_COLOR": "1"}, True),
        "unless NO_COLOR is set": ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    },
)
@pytest.mark.parametrize("words", ["topology", "audit --only gpudirect"])
def test_color_follows_option_environment_and_terminal(
    words, arguments, environment, coloured, machine, monkeypatch, capsys
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert run([*words.split(), machine, *arguments]) == ExitCode.YES
    assert (ESCAPE in capsys.readouterr().out) is coloured


def test_quiet_omits_the_names_of_written_files(machine, tmp_path, capsys):
    assert run(["draw", machine, "-q", "--to", str(tmp_path / "node.svg")]) == ExitCode.YES
    assert capsys.readouterr().err == ""
    assert (tmp_path / "node.svg").exists()


def test_quiet_keeps_errors(tmp_path, capsys):
    assert run(["topology", "-q", str(tmp_path / "absent")]) == ExitCode.BAD_INPUT
    assert "absent" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["topology", "plan --profile training"])
def test_yaml_matches_json(words, machine, capsys):
    command, *more = words.split()
    assert run([command, machine, *more, "-o", "json"]) == ExitCode.YES
    as_json = json.loads(capsys.readouterr().out)
    assert run([command, machine, *more, "-o", "yaml"]) == ExitCode.YES
    as_yaml = capsys.readouterr().out
    assert yaml.safe_load(as_yaml) == as_json
    assert not as_yaml.startswith("{")


# ---- completion ----

WORDS = [
    pytest.param(["to"], {"topology"}, id="a command"),
    pytest.param(["rollout", "st"], {"status"}, id="a command below a command"),
    pytest.param(["draw", "--prof"], {"--profile"}, id="an option"),
    pytest.param(["draw", "--profile", "train"], {"training"}, id="a ready profile"),
    pytest.param(["draw", "--profile", "./mine"], {"./mine"}, id="a file, by the shell"),
    pytest.param(["draw", "--color", "al"], {"always"}, id="a choice"),
]


@pytest.mark.parametrize(("words", "expected"), WORDS)
def test_commands_options_and_values_are_completed(words, expected, monkeypatch, capsys):
    monkeypatch.setenv("_NUMAFORGE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(["numaforge", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    assert run([]) == ExitCode.YES
    answers = {line.split(",", 1)[1] for line in capsys.readouterr().out.splitlines()}
    assert expected <= answers


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_calls_the_program(shell, capsys):
    assert run(["completion", shell]) == ExitCode.YES
    assert f"_NUMAFORGE_COMPLETE={shell}_complete" in capsys.readouterr().out


def test_bash_completes_with_the_completion_script(tmp_path):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash here")
    program = tmp_path / "numaforge"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m numaforge "$@"\n')
    program.chmod(0o755)
    script = tmp_path / "completion"
    script.write_text(
        subprocess.run([program, "completion", "bash"], stdout=subprocess.PIPE, text=True, check=True).stdout
    )
    asked = (
        f". {script}; COMP_WORDS=(numaforge draw --profile train); COMP_CWORD=3; "
        '_numaforge_completion numaforge; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    answered = subprocess.run(
        [bash, "-c", asked], env=environment, capture_output=True, text=True, check=True
    )
    assert answered.stdout.split() == ["training"]


def test_verbose_prints_steps_and_times_beside_the_answer(machine, capsys):
    assert run(["plan", machine, "--profile", "training"]) == ExitCode.YES
    plain = capsys.readouterr()
    assert run(["plan", machine, "--profile", "training", "-v"]) == ExitCode.YES
    told = capsys.readouterr()
    assert told.out == plain.out
    assert plain.err == ""
    steps = [re.sub(r"\d+\.\d+ s$", "N s", line) for line in told.err.splitlines()]
    assert steps == [
        f"reading {machine}: N s",
        f"interpreting {machine}: N s",
        "planning node1 with training: N s",
    ]


def test_verbose_and_quiet_are_mutually_exclusive(machine, capsys):
    assert run(["topology", machine, "-q", "-v"]) == ExitCode.BAD_INPUT
    assert "-q prints less, and -v more: give one of them" in capsys.readouterr().err


def test_verbose_names_the_command_run_and_the_time_of_each_host(tmp_path, monkeypatch, capfd):
    (tmp_path / "inventory.py").write_text('nodes = ["@local"]\n')
    monkeypatch.chdir(tmp_path)
    assert run(["capture", ".", "--to", "out", "-vv"]) == ExitCode.YES
    told = capfd.readouterr().err
    assert "ran: pyinfra -v --dry --data 'out=" in told
    assert re.search(r"^@local: answered after \d+\.\d s$", told, re.MULTILINE)
    assert "Loading inventory" in told, "pyinfra's own words"


def test_unread_host_data_is_reported_beside_the_answer(tmp_path, monkeypatch, capfd):
    (tmp_path / "inventory.py").write_text('nodes = [("@local", {"ssh_usr": "ubuntu"})]\n')
    monkeypatch.chdir(tmp_path)
    notice = "@local: host data ssh_usr: neither numaforge nor pyinfra reads it; did you mean ssh_user?\n"
    assert run(["capture", ".", "--to", "out"]) == ExitCode.YES
    assert capfd.readouterr().err.count(notice) == 1
    assert run(["capture", ".", "--to", "out", "-q"]) == ExitCode.YES
    assert capfd.readouterr().err == ""


KUBECONFIG = """\
{apiVersion: v1, kind: Config, current-context: c, users: [{name: u, user: {}}],
 contexts: [{name: c, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]}
"""


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    "words",
    [
        "rollout abort --kubeconfig kubeconfig .",
        "rollout plan --kubeconfig kubeconfig .",
        "measure .",
        "rollout run --kubeconfig kubeconfig .",
        "apply . --dry",
        "audit .",
        "capture . --to out",
        "doctor .",
        "generate amd-config-manager .",
        "measure --last .",
        "verify .",
    ],
)
def test_command_that_reads_an_inventory_reports_oddities_once(words, tmp_path):
    there = {"ssh_hostname": "127.0.0.1", "ssh_port": 1}
    hosts = [("gpu-1", {**there, "ssh_usr": "ubuntu"}), ("gpu-2", there)]
    (tmp_path / "inventory.py").write_text(f"nodes = {hosts!r}\n")
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    done = pyinfra_forks.numaforge(*words.split(), folder=tmp_path, environment=environment)
    assert done.returncode, "no host answers"
    assert done.stderr.count("gpu-1: host data ssh_usr: neither numaforge nor pyinfra reads it") == 1
    assert done.stderr.count("gpu-[1-2]: all have the address 127.0.0.1") == 1
    assert "ssh_usr" not in done.stdout


def test_table_on_a_narrow_terminal_is_complete(machine, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["plan", machine, "--profile", "training"]) == ExitCode.YES
    wide = capsys.readouterr().out
    for columns in ("40", "0"):
        monkeypatch.setenv("COLUMNS", columns)
        assert run(["plan", machine, "--profile", "training"]) == ExitCode.YES
        assert capsys.readouterr().out == wide
