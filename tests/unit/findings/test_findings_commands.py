"""The commands that judge a machine by rules: what they print, and with which code they exit."""

import json
from dataclasses import replace

import pytest

from numaforge.cli import run
from numaforge.findings.gpudirect import rules as gpudirect
from numaforge.findings.gpus import rules as gpus
from numaforge.fleet.audit import host_rules as userland
from numaforge.machine.topology.model import NvidiaInstall
from tests.fixtures.gpu_machines import KINDS
from tests.fixtures.machines import dgx_h100
from tests.fixtures.workers import worker

COMMANDS = {"gpus check": gpus.RULES, "host check": userland.RULES, "gpudirect": gpudirect.RULES}


def changed(kind, **fields):
    machine = KINDS[kind]()
    return replace(machine, gpus=(replace(machine.gpus[0], **fields), *machine.gpus[1:]))


def without_dma_buf():
    install = NvidiaInstall(open_module=False, kernel_modules=("nvidia",))
    return replace(dgx_h100(), kernel="6.14.0", nvidia_install=install)


@pytest.mark.parametrize(
    ("command", "machine", "code"),
    [
        pytest.param("gpus check", KINDS["hgx-b200"](), 0, id="gpus: nothing"),
        pytest.param("gpus check", changed("l40s-pcie", persistence=False), 0, id="gpus: a warning"),
        pytest.param("gpus check", changed("l40s-pcie", unanswered="lost"), 1, id="gpus: an error"),
        pytest.param("host check", worker(), 0, id="host: nothing"),
        pytest.param("host check", worker(clock_synchronised=False), 0, id="host: a warning"),
        pytest.param("host check", worker(swaps=("/dev/sda2",)), 1, id="host: an error"),
        pytest.param("gpudirect", dgx_h100(), 0, id="gpudirect: nothing"),
        pytest.param("gpudirect", without_dma_buf(), 1, id="gpudirect: an error"),
    ],
)
def test_only_an_error_is_a_no(save_machine, capsys, command, machine, code):
    assert run([*command.split(), save_machine(machine)]) == code
    capsys.readouterr()
    assert run([*command.split(), save_machine(machine), "-o", "json"]) == code
    assert json.loads(capsys.readouterr().out)["sound"] is (code == 0)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_is_no_machine_is_bad_input(tmp_path, capsys, command):
    file = tmp_path / "notes.json"
    file.write_text("[]")
    assert run([*command.split(), str(file)]) == 2
    assert str(file) in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_rule_is_in_the_table_and_in_json(save_machine, capsys, command):
    file = save_machine(replace(worker(), userland=None))
    run([*command.split(), file, "-v"])
    shown = capsys.readouterr().out
    run([*command.split(), file, "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    ids = [rule.id for rule in COMMANDS[command]]
    assert [each for each in ids if each not in shown] == []
    assert [each["id"] for each in document["rules"]] == ids


def test_json_has_every_field_of_a_finding(save_machine, capsys):
    run(["gpus", "check", save_machine(changed("a100-pcie", unanswered="GPU is lost")), "-o", "json"])
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding.pop("remedy").startswith("drain the node")
    assert finding == {
        "id": "NG102",
        "severity": "error",
        "where": "0000:10:00.0",
        "evidence": "GPU is lost",
        "source": "NVML",
    }


def test_errors_come_before_warnings(save_machine, capsys):
    machine = changed("a100-pcie", recovery_action="reset", persistence=False)
    run(["gpus", "check", save_machine(machine)])
    shown = capsys.readouterr().out
    assert 0 <= shown.index("NG405") < shown.index("NG108")


def test_verbose_says_what_does_not_apply_and_why(save_machine, capsys):
    run(["gpus", "check", save_machine(KINDS["gb200-nvl72-tray"]()), "-v"])
    shown = capsys.readouterr().out
    _, _, left_out = shown.partition("Does not apply")
    assert "NG301  the fabric manager does not run: the NVSwitches of the rack have" in left_out


def test_words_of_a_driver_move_no_cursor(save_machine, capsys):
    run(["gpus", "check", save_machine(changed("a100-pcie", unanswered="lost\x1b[2J"))])
    assert "\x1b[2J" not in capsys.readouterr().out


# ---- several machines at once ----


def test_machines_with_the_same_findings_share_a_row(save_fleet, capsys):
    lost = changed("l40s-pcie", unanswered="lost")
    assert run(["gpus", "check", save_fleet(KINDS["hgx-b200"](), lost, lost)]) == 1
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["Machine", "Unknown", "Found"]
    assert rows[1] == ["gpu-1", "none", "nothing"]
    assert rows[2][0] == "gpu-[2-3]"
    assert "error NG102: a GPU does not answer" in " ".join(rows[2])


@pytest.mark.parametrize(
    ("command", "machines", "code"),
    [
        pytest.param("gpus check", [KINDS["hgx-b200"](), KINDS["a100-pcie"]()], 0, id="gpus: nothing"),
        pytest.param(
            "gpus check", [KINDS["hgx-b200"](), changed("l40s-pcie", unanswered="lost")], 1, id="gpus: one"
        ),
        pytest.param("host check", [worker(), worker(clock_synchronised=False)], 0, id="host: a warning"),
        pytest.param("host check", [worker(), worker(swaps=("/dev/sda2",))], 1, id="host: one"),
        pytest.param("gpudirect", [dgx_h100(), without_dma_buf()], 1, id="gpudirect: one"),
    ],
)
def test_the_worst_of_several_is_the_answer(save_fleet, capsys, command, machines, code):
    fleet = save_fleet(*machines)
    assert run([*command.split(), fleet]) == code
    assert "gpu-" in capsys.readouterr().out
    assert run([*command.split(), fleet, "-o", "json"]) == code
    answer = json.loads(capsys.readouterr().out)
    assert [each["hostname"] for each in answer["machines"]] == ["gpu-1", "gpu-2"]
    assert all(each["sound"] for each in answer["machines"]) is (code == 0)
    assert answer["failed"] == {}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_machine_of_several_that_cannot_be_read_is_named(command, save_fleet, tmp_path, capsys):
    (tmp_path / "none.json").write_text("[]")
    assert run([*command.split(), save_fleet(worker()), str(tmp_path / "none.json")]) == 1
    assert "1 machine left out" in capsys.readouterr().out


def test_gpudirect_counts_the_rails_of_each_machine(save_fleet, capsys):
    run(["gpudirect", save_fleet(dgx_h100(), without_dma_buf(), replace(worker(), rdma_devices=()))])
    rows = [line.split("  ")[:3] for line in capsys.readouterr().out.splitlines()]
    assert {tuple(filter(None, map(str.strip, row)))[:2] for row in rows if row[0].startswith("gpu-")} == {
        ("gpu-1", "8 unknown"),
        ("gpu-2", "8 do not"),
        ("gpu-3", "none"),
    }


def test_verbose_shows_each_machine_before_the_table(save_fleet, capsys):
    run(["host", "check", save_fleet(worker(), worker(swaps=("/dev/sda2",))), "-v"])
    shown = capsys.readouterr().out
    assert [shown.index(f"\n{name}: ") for name in ("gpu-1", "gpu-2")] == sorted(
        shown.index(f"\n{name}: ") for name in ("gpu-1", "gpu-2")
    )
    assert shown.rindex("Machine") > shown.rindex("gpu-2: ")
