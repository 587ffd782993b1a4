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

COMMANDS = {
    "audit --only gpus": gpus.RULES,
    "audit --only host": userland.RULES,
    "audit --only gpudirect": gpudirect.RULES,
}


def changed(kind, **fields):
    machine = KINDS[kind]()
    return replace(machine, gpus=(replace(machine.gpus[0], **fields), *machine.gpus[1:]))


def without_dma_buf():
    install = NvidiaInstall(open_module=False, kernel_modules=("nvidia",))
    return replace(dgx_h100(), kernel="6.14.0", nvidia_install=install)


AUDITS = {
    "gpus: nothing": ("gpus", KINDS["hgx-b200"](), 0),
    "gpus: a warning": ("gpus", changed("l40s-pcie", persistence=False), 0),
    "gpus: an error": ("gpus", changed("l40s-pcie", unanswered="lost"), 1),
    "host: nothing": ("host", worker(), 0),
    "host: a warning": ("host", worker(clock_synchronised=False), 0),
    "host: an error": ("host", worker(swaps=("/dev/sda2",)), 1),
    "gpudirect: nothing": ("gpudirect", dgx_h100(), 0),
    "gpudirect: an error": ("gpudirect", without_dma_buf(), 1),
}


@pytest.mark.parametrize(("subject", "machine", "code"), AUDITS.values(), ids=AUDITS)
def test_only_errors_fail_the_audit_of_one_machine_or_two(
    save_machine, save_fleet, capsys, subject, machine, code
):
    only = ["audit", "--only", subject]
    assert run([*only, save_machine(machine)]) == code
    capsys.readouterr()
    assert run([*only, save_machine(machine), "-o", "json"]) == code
    assert json.loads(capsys.readouterr().out)["sound"] is (code == 0)
    fleet = save_fleet(KINDS["hgx-b200"](), machine)
    assert run([*only, fleet]) == code
    assert "2 machines" in capsys.readouterr().out
    assert run([*only, fleet, "-o", "json"]) == code
    audited = json.loads(capsys.readouterr().out)["machines"]
    rules = {finding["id"] for each in audited for finding in each["findings"]}
    assert rules <= {rule.id for rule in COMMANDS[f"audit --only {subject}"]}
    assert rules or code == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_file_that_is_not_a_machine_is_bad_input(tmp_path, capsys, command):
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
    lost = save_machine(changed("a100-pcie", unanswered="GPU is lost"))
    run(["audit", "--only", "gpus", lost, "-o", "json"])
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
    run(["audit", "--only", "gpus", save_machine(machine)])
    shown = capsys.readouterr().out
    assert 0 <= shown.index("NG405") < shown.index("NG108")


def test_verbose_lists_inapplicable_rules_with_reasons(save_machine, capsys):
    run(["audit", "--only", "gpus", save_machine(KINDS["gb200-nvl72-tray"]()), "-v"])
    shown = capsys.readouterr().out
    _, _, left_out = shown.partition("Does not apply")
    assert "NG301  the fabric manager does not run: the NVSwitches of the rack have" in left_out


def test_driver_text_cannot_move_the_cursor(save_machine, capsys):
    run(["audit", "--only", "gpus", save_machine(changed("a100-pcie", unanswered="lost\x1b[2J"))])
    assert "\x1b[2J" not in capsys.readouterr().out


# ---- several machines at once: an audit of one subject ----


def test_single_subject_audit_includes_unreadable_machines(save_fleet, tmp_path, capsys):
    unreadable = tmp_path / "none.json"
    unreadable.write_text("[]")
    assert run(["audit", "--only", "gpus", save_fleet(worker()), str(unreadable), "-o", "json"]) == 1
    audited = {machine["name"]: machine for machine in json.loads(capsys.readouterr().out)["machines"]}
    assert [finding["id"] for finding in audited["none"]["findings"]] == ["NA002"]


@pytest.mark.parametrize(
    ("options", "code"),
    [("--fail-on warning", 1), ("--fail-on warning -o sarif", 1), ("-o sarif", 0)],
)
def test_single_machine_accepts_the_audit_options(save_machine, capsys, options, code):
    warned = save_machine(changed("l40s-pcie", persistence=False))
    assert run(["audit", "--only", "gpus", warned, *options.split()]) == code
    assert "NG108" in capsys.readouterr().out
