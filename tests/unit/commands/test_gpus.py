"""`numaforge gpus check`: what it prints, and with which code it exits."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from numaforge.cli import run
from numaforge.gpus.check import RULES
from numaforge.topology import to_document
from tests.fixtures.gpu_machines import KINDS


@pytest.fixture
def saved(tmp_path):
    """Save a machine as a topology, and give the file."""

    def save(machine):
        file = tmp_path / "machine.json"
        file.write_text(json.dumps(to_document(machine)))
        return str(file)

    return save


def changed(kind, **fields):
    machine = KINDS[kind]()
    return replace(machine, gpus=(replace(machine.gpus[0], **fields), *machine.gpus[1:]))


@pytest.mark.parametrize(
    ("machine", "code"),
    [
        pytest.param(KINDS["hgx-b200"](), 0, id="nothing"),
        pytest.param(changed("l40s-pcie", persistence=False), 0, id="a warning"),
        pytest.param(changed("l40s-pcie", unanswered="GPU is lost"), 1, id="an error"),
    ],
)
def test_only_an_error_is_a_no(saved, capsys, machine, code):
    assert run(["gpus", "check", saved(machine)]) == code
    capsys.readouterr()
    assert run(["gpus", "check", saved(machine), "-o", "json"]) == code
    assert json.loads(capsys.readouterr().out)["sound"] is (code == 0)


def test_a_file_that_is_no_machine_is_bad_input(tmp_path, capsys):
    file = tmp_path / "notes.json"
    file.write_text("[]")
    assert run(["gpus", "check", str(file)]) == 2
    assert str(file) in capsys.readouterr().err


def test_json_has_every_rule_and_every_finding(saved, capsys):
    machine = changed("a100-pcie", unanswered="GPU is lost")
    run(["gpus", "check", saved(machine), "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    assert [each["id"] for each in document["rules"]] == [rule.id for rule in RULES]
    (finding,) = document["findings"]
    assert finding["remedy"].startswith("drain the node")
    assert {name: finding[name] for name in ("id", "severity", "where", "evidence", "source")} == {
        "id": "NG102",
        "severity": "error",
        "where": "0000:10:00.0",
        "evidence": "GPU is lost",
        "source": "NVML",
    }


def test_errors_come_before_warnings(saved, capsys):
    machine = changed("a100-pcie", recovery_action="reset", persistence=False)
    run(["gpus", "check", saved(machine)])
    shown = capsys.readouterr().out
    assert 0 <= shown.index("NG405") < shown.index("NG108")


def test_verbose_says_what_does_not_apply_and_why(saved, capsys):
    run(["gpus", "check", saved(KINDS["gb200-nvl72-tray"]()), "-v"])
    shown = capsys.readouterr().out
    _, _, left_out = shown.partition("Does not apply")
    assert "NG301  the fabric manager does not run: the NVSwitches of the rack have" in left_out


def test_words_of_a_driver_move_no_cursor(saved, capsys):
    run(["gpus", "check", saved(changed("a100-pcie", unanswered="lost\x1b[2J"))])
    assert "\x1b[2J" not in capsys.readouterr().out
