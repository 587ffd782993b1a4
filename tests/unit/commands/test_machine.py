"""The commands that look at a machine: capture, topology, plan, draw."""

import json
import sys
from pathlib import Path

import pytest

from numaforge.cli import run
from numaforge.commands.one_host import address
from numaforge.lib.errors import ExitCode
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.document import from_document
from numaforge.machine.topology.read import read_topology
from numaforge.planning.document import loads
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.report.svg import draw
from numaforge.roles.cpus.offline import without
from tests.fixtures import machines
from tests.fixtures.tables import cases


def test_capture_writes_a_snapshot_that_topology_reads(tmp_path, capsys):
    path = tmp_path / "node.json"
    assert run(["capture", "--to", str(path)]) == ExitCode.YES
    assert run(["topology", str(path), "-o", "json"]) == ExitCode.YES
    topology = from_document(json.loads(capsys.readouterr().out))
    assert topology.online == read_topology(Snapshot.load(path)).online


def test_capture_without_a_file_prints_the_snapshot(capsys):
    assert run(["capture"]) == ExitCode.YES
    assert Snapshot.from_json(capsys.readouterr().out).files


def test_topology_reads_a_captured_root(tmp_path, capsys):
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


def test_plan_as_json_is_the_plan_document(lab_document, capsys):
    assert run(["plan", lab_document, "--profile", "best-effort-mixed", "-o", "json"]) == ExitCode.YES
    assert loads(capsys.readouterr().out).profile == "best-effort-mixed"


def test_plan_accepts_a_profile_file(lab_document, tmp_path, capsys):
    profile = tmp_path / "mine.yaml"
    profile.write_text("name: mine\ncpus:\n  reserved:\n    cpulist: 0-1\n")
    assert run(["plan", lab_document, "--profile", str(profile), "-o", "json"]) == ExitCode.YES
    assert loads(capsys.readouterr().out).cpus.reserved == {0, 1}


def test_plan_accepts_another_kubelet_version(lab_document, capsys):
    arguments = ["plan", lab_document, "--profile", "best-effort-mixed", "--kubelet-version", "1.34.0"]
    assert run([*arguments, "-o", "json"]) == ExitCode.YES
    assert loads(capsys.readouterr().out).kubelet.version.startswith("1.34")


@pytest.fixture
def provisioned_document(lab_document, saved_plan) -> str:
    """The topology document of a machine that already has a plan."""
    document = json.loads(Path(lab_document).read_text())
    document["previous_plan"] = Path(saved_plan).read_text()
    Path(lab_document).write_text(json.dumps(document))
    return lab_document


def test_plan_shows_the_installed_plan(provisioned_document, capsys):
    assert run(["plan", provisioned_document]) == ExitCode.YES
    assert "profile best-effort-mixed" in capsys.readouterr().out


def test_plan_shows_a_saved_plan_unchanged(saved_plan, capsys):
    assert run(["plan", saved_plan, "-o", "json"]) == ExitCode.YES
    assert capsys.readouterr().out == Path(saved_plan).read_text()


def test_draw_writes_the_picture_with_the_profiles_plan(lab_document, tmp_path):
    picture = tmp_path / "node.svg"
    assert run(["draw", lab_document, "--profile", "best-effort-mixed", "--to", str(picture)]) == ExitCode.YES
    assert "cpu-reserved" in picture.read_text().partition("</defs>")[2]


@pytest.mark.parametrize(("name", "magic"), [("node.png", b"\x89PNG"), ("node.PDF", b"%PDF")])
def test_draw_saves_by_file_suffix_and_reproducibly(name, magic, lab_document, tmp_path):
    written = []
    for _ in range(2):
        assert run(["draw", lab_document, "--to", str(tmp_path / name)]) == ExitCode.YES
        written.append((tmp_path / name).read_bytes())
    assert written[0].startswith(magic)
    assert written[0] == written[1]


def test_draw_refuses_unknown_format_before_reading_anything(tmp_path, capsys):
    assert (
        run(["draw", str(tmp_path / "absent.json"), "--to", str(tmp_path / "node.jpg")]) == ExitCode.BAD_INPUT
    )
    assert "choose a name that ends in .svg, .png or .pdf" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_draw_names_the_extra_that_png_needs(lab_document, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "typst", None)
    assert run(["draw", lab_document, "--to", str(tmp_path / "node.png")]) == ExitCode.BAD_INPUT
    assert "pip install 'numaforge[pictures]'" in capsys.readouterr().err


def test_draw_shows_the_current_machine_with_the_plan(lab_document, tmp_path):
    profile, picture = tmp_path / "quiet.yaml", tmp_path / "node.svg"
    profile.write_text('cpus: {smt: "off"}\n')
    assert run(["draw", lab_document, "--profile", str(profile), "--to", str(picture)]) == ExitCode.YES
    plan = plan_node(machines.lab_node(), load_profile(str(profile)))
    assert picture.read_text() == draw(without(machines.lab_node(), plan.tuning.offline), plan)


def test_draw_without_a_plan_shows_the_machine(lab_document, capsys):
    assert run(["draw", lab_document]) == ExitCode.YES
    assert capsys.readouterr().out == draw(machines.lab_node())


def test_draw_shows_the_installed_plan(provisioned_document, capsys):
    assert run(["draw", provisioned_document]) == ExitCode.YES
    assert "profile best-effort-mixed" in capsys.readouterr().out


def test_draw_shows_a_plan_without_a_machine(saved_plan, capsys):
    assert run(["draw", saved_plan]) == ExitCode.YES
    assert capsys.readouterr().out.count("data-cpu=") == 16


@cases(
    "host, expected",
    {
        "a name": ("gpu-1", ("gpu-1", {})),
        "with a user": ("root@gpu-1", ("gpu-1", {"ssh_user": "root"})),
        "with a port": ("gpu-1:2222", ("gpu-1", {"ssh_port": 2222})),
        "with both": ("u@10.0.0.1:22", ("10.0.0.1", {"ssh_user": "u", "ssh_port": 22})),
        "an IPv6 address": ("fd00::1", ("fd00::1", {})),
        "an IPv6 address with a port": ("[fd00::1]:2222", ("fd00::1", {"ssh_port": 2222})),
        "another connector": ("@docker/debian:12", ("@docker/debian:12", {})),
    },
)
def test_host_accepts_the_usual_address_forms(host, expected):
    assert address(host) == expected
