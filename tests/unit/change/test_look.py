"""What look.sh prints, under the shells that hosts have."""

import os
import resource
import subprocess
from pathlib import Path

import pytest

from numaforge.change.goal import Goal
from numaforge.change.look import NodeQuery, _unit, question, read_found
from numaforge.lib import shell as scripts
from numaforge.lib.errors import HostUnreachableError
from numaforge.lib.kernel_files import parse_values
from numaforge.lib.programs import CHANGED_WITH
from numaforge.node.part import NodeState
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.roles.role import ROLES
from tests.fixtures.machines import two_cpu_vm
from tests.fixtures.tables import cases


def read(shell: list[str], paths: list[str]) -> list[str]:
    script = scripts.library("lib/kernel_files") + scripts.call("tell_values", paths)
    done = subprocess.run([*shell, "-s"], input=script, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_values_are_the_texts_of_readable_files(shell, tmp_path):
    odd = tmp_path / "two words; echo 'mine'"
    odd.write_text(" first\\n \nsecond\n")
    empty = tmp_path / "empty"
    empty.write_text("")
    sysctl = "/proc/sys/kernel/ostype"
    paths = [str(odd), str(tmp_path / "missing"), str(empty), sysctl, "/proc/sys/missing"]
    assert parse_values(read(shell, paths), paths) == {str(odd): " first\\n \nsecond", sysctl: "Linux"}


def test_values_of_no_paths_are_empty(shell):
    assert parse_values(read(shell, [])) == {}


@pytest.mark.parametrize("paths", [["/a:1"], []], ids=["a-path-with-a-colon", "of-a-pattern"])
def test_value_starts_after_its_path(paths):
    assert parse_values(["/a:1:2:3", "/a:1:4"], paths) == (
        {"/a:1": "2:3\n4"} if paths else {"/a": "1:2:3\n1:4"}
    )


ODD = ("numaforge part look mig", "numaforge ended 0", "back\\nnumaforge part sum", "%s\\c", " unit enabled")
"""Lines of a file that are, or with echo would make, lines that say what follows in an answer."""


def looked(shell: list[str], asked: NodeQuery, programs: Path) -> list[str]:
    done = subprocess.run(
        [*shell, "-s"],
        input=asked.script,
        env={"PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split("\n")[:-1]


def found(asked: NodeQuery, output: list[str]) -> NodeState:
    return read_found(asked, output)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A systemctl that knows irqbalance, its environment file, which ends without a newline, and no slice."""
    folder, variables = tmp_path / "programs", tmp_path / "irqbalance"
    folder.mkdir()
    variables.write_text("\n".join(["BEFORE=", "# begin", *ODD]))
    program(
        folder / "systemctl",
        "printf '%s\\n' LoadState=loaded 'numaforge part look mig' 'numaforge ended 0' "
        f"'EnvironmentFiles=/none (ignore_errors=yes)' 'EnvironmentFiles={variables} (ignore_errors=no)'",
    )
    return folder


@pytest.mark.parametrize("end", ["", "\n"], ids=["no-newline-at-its-end", "whole-lines"])
@pytest.mark.parametrize(
    ("part", "arguments", "word"),
    [
        pytest.param("packages", ("none", "ours"), "ours", id="packages"),
        pytest.param("kernel_cmdline", (), "recorded", id="kernel_cmdline"),
        pytest.param("modules", ("/none",), "recorded", id="modules"),
        pytest.param("nics", ("/none", "/none"), "recorded", id="nics"),
        pytest.param("system", (), "recorded", id="system"),
    ],
)
def test_record_is_reported_line_by_line_whatever_its_content(
    shell, programs, tmp_path, part, arguments, word, end
):
    record = tmp_path / "record"
    record.write_text("# Written by numaforge.\n\n" + "\n".join(ODD) + end)
    calls = ((part, f"look_{part}", str(record), *arguments), ("mig", "look_mig", "/none"))
    asked = NodeQuery((), (), (), calls, "", "")
    said = found(asked, looked(shell, asked, programs)).said
    assert [line for line in said[part] if line.startswith(f"{word} ")] == [f"{word} {line}" for line in ODD]
    assert said["mig"] == ("unit disabled",)


@pytest.mark.parametrize(
    ("unit", "units", "asked"),
    [
        pytest.param("", (), None, id="no unit"),
        pytest.param("kubelet.service", (), "kubelet.service", id="the kubelet's"),
        pytest.param("", ("a.slice",), "a.slice", id="another one"),
        pytest.param("k3s.service", ("a.slice", "k3s.service"), "a.slice k3s.service", id="both, each once"),
    ],
)
def test_systemd_is_queried_once_for_the_known_units(shell, programs, tmp_path, unit, units, asked):
    """Of a kubelet that is down, and that a distribution runs its own way, no unit is known."""
    program(programs / "systemctl", f'echo "$*" >> {tmp_path}/asked')
    query = NodeQuery((), (), (), (), "", unit, units=units, properties=("ActiveState", "AllowedCPUs"))
    found(query, looked(shell, query, programs))
    log = tmp_path / "asked"
    questions = log.read_text().splitlines() if log.exists() else []
    expected = [f"show -p ActiveState,SubState,AllowedCPUs {asked}"] if asked else []
    assert questions == expected


def test_systemd_without_a_kubelet_state_counts_as_no_answer():
    assert _unit(["asker=curl", "systemd=runs", "ActiveState=active", "SubState=running"]).runs
    assert _unit(["asker=curl"]).active_state is None
    with pytest.raises(HostUnreachableError, match="systemd does not report"):
        _unit(["asker=curl", "systemd=runs", "ActiveState=", "SubState="])


def test_irqbalance_settings_of_systemd_and_files_are_reported(shell, programs, tmp_path):
    lines = ("mask cpu_mask:a f /none", "mask rps:b 3 /none")
    calls = (
        ("interrupts", "look_interrupts", "/none", "# begin", "# end", *lines),
        ("mig", "look_mig", "/none"),
    )
    asked = NodeQuery((), (), (), calls, "", "", units=("irqbalance.service",))
    answer = found(asked, looked(shell, asked, programs))
    said = answer.said["interrupts"]
    assert answer.answers("interrupts")["EnvironmentFile"] == f"{tmp_path}/irqbalance"
    assert answer.answers("interrupts")["LoadState"] == "loaded"
    blocks = [line.removeprefix("block ") for line in said if line.startswith("block ")]
    assert blocks == ["# begin", *ODD]
    assert [line for line in said if line.startswith("lacks ")] == ["lacks cpu_mask:a", "lacks rps:b"]
    assert answer.said["mig"] == ("unit disabled",)


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@cases(
    "said, limits",
    {
        "runs": (f"LimitMEMLOCK=8388608\nMainPID={os.getpid()}\nLoadState=loaded", "loaded 8388608 OWN"),
        "does-not-run": ("LimitMEMLOCK=infinity\nMainPID=0\nLoadState=loaded", "loaded infinity -"),
        "not-there": ("MainPID=\nLimitMEMLOCK=\nLoadState=not-found", "not-found - -"),
        "no-systemd": ("", "- - -"),
    },
)
def test_limits_of_a_unit_and_its_process_are_reported(shell, programs, tmp_path, said, limits):
    own, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    program(programs / "systemctl", f"echo '{said}'")
    asked = NodeQuery(
        (), (), (), (("memlock", "look_memlock", "a\\x2db.service", "/none", "planned"),), "", ""
    )
    expected = limits.replace("OWN", "infinity" if own == resource.RLIM_INFINITY else str(own))
    assert found(asked, looked(shell, asked, programs)).said["memlock"] == (f"a\\x2db.service {expected}",)


@pytest.mark.parametrize(
    ("wish", "asks"),
    [
        pytest.param(("load:none",), False, id="a-module-to-load"),
        pytest.param(("option:none:a",), False, id="an-option"),
        pytest.param(("load:none", "option:none:a"), True, id="an-option-that-is-taken-now"),
        pytest.param(("blocked:none",), True, id="a-module-to-keep-out"),
    ],
)
def test_connection_is_looked_up_only_if_a_module_may_be_unloaded(shell, programs, tmp_path, wish, asks):
    program(programs / "ip", f": > {tmp_path}/asked")
    asked = NodeQuery((), (), (), (("modules", "look_modules", "/none", "/none", *wish),), "", "")
    found(asked, looked(shell, asked, programs))
    assert (tmp_path / "asked").exists() is asks


def test_truncated_answer_is_refused_at_any_line(tmp_path):
    file = tmp_path / "a"
    file.write_text("text\n")
    asked = NodeQuery((), (str(file), "/none"), (), (("mig", "look_mig", "/none"),), "", "")
    output = looked(["sh"], asked, tmp_path)
    assert found(asked, output).text(str(file)) == "text\n"
    for lines in range(1, len(output)):
        with pytest.raises(HostUnreachableError, match="cut off"):
            found(asked, output[:lines])


@pytest.mark.skipif(Path("/etc/numaforge").exists(), reason="this machine has a plan, and has more to tell")
def test_host_with_nothing_to_report_starts_few_programs(shell, tmp_path):
    programs, started = tmp_path / "programs", tmp_path / "started"
    programs.mkdir()
    tools = {name for names in CHANGED_WITH.values() for name in names}
    for name in {*tools, "dpkg-query", "python3", "ip", "rdma", "modprobe"}:
        program(programs / name, f'echo {name} >> {started}\nPATH={os.environ["PATH"]} exec {name} "$@"')
    program(programs / "systemctl", f"echo systemctl >> {started}")
    machine = two_cpu_vm()
    goal = Goal(plan_node(machine, load_profile({})), machine, frozenset(role.called for role in ROLES))
    asked = question(goal)
    done = subprocess.run(
        [*shell, "-s"],
        input=asked.script,
        env={"PATH": str(programs)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found(asked, done.stdout.split("\n")[:-1]).files == {}
    assert started.read_text().split() == [
        "grep",
        "grep",
        "stat",
        "sha256sum",
        "stat",
        "grep",
        "grep",
        "systemctl",
    ]
