"""`numaforge audit`: its exit codes, its formats, what is known already, machines that cannot be read."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from numaforge.cli import run
from numaforge.commands import many_machines
from numaforge.lib.errors import ExitCode
from numaforge.machine.topology.document import to_document
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.saved import ready_machine
from tests.fixtures.tables import cases

DGX = ready_machine("dgx-h100")
Output = Callable[..., str]


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of five equal machines, of which gpu-5 has another kernel."""
    monkeypatch.chdir(tmp_path)
    for number in range(1, 6):
        write(f"fleet/gpu-{number}.json", replace(DGX, hostname=f"gpu-{number}"))
    write("fleet/gpu-5.json", replace(DGX, hostname="gpu-5", kernel="7.0.0"))
    return tmp_path / "fleet"


def write(name: str, machine: NodeTopology) -> None:
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(to_document(machine)))


@pytest.fixture
def said(fleet: Path, capsys: pytest.CaptureFixture[str]) -> Output:
    def ask(*words: str, code: int = ExitCode.YES) -> str:
        assert run(["audit", *words, "-q"]) == code
        return capsys.readouterr().out

    return ask


def lost(name: str) -> None:
    """Have a machine of the fleet lose a GPU, which is an error."""
    machine = replace(DGX, hostname=name, gpus=DGX.gpus[1:])
    write(f"fleet/{name}.json", machine)


# ---- exit codes ----


@pytest.mark.parametrize(
    ("words", "code"),
    [
        pytest.param((), ExitCode.YES, id="a-warning-is-not-wrong"),
        pytest.param(("--fail-on", "warning"), ExitCode.NO, id="unless-it-is-said"),
    ],
)
def test_fail_on_sets_the_failing_severity(words, code, said):
    said("fleet", *words, code=code)


def test_error_fails_the_audit(said):
    lost("gpu-3")
    assert "gpu-3 differs from 4 siblings: GPUs: 7 x NVIDIA H100 80GB HBM3, not 8" in said(
        "fleet", code=ExitCode.NO
    )


def test_unreachable_hosts_have_their_own_exit_code(fleet):
    """In another process: this one must not import pyinfra."""
    words = [sys.executable, "-m", "numaforge", "audit", "fleet", "no-such-host.invalid", "-q"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.UNREACHABLE, done.stderr
    assert re.search(r"^NA001 no-such-host\.invalid: ", done.stdout, re.MULTILINE)
    assert done.stdout.startswith("6 machines: 4 sound, 1 with warnings, 1 not read")


@cases(
    "text, told",
    {
        "cut-short": ("{", "not a complete JSON document"),
        "no-snapshot": ("[]", "not a numaforge snapshot"),
        "too-deep": ('{"a": ' * 200 + "1" + "}" * 200, "not a complete JSON document"),
        "lies": ('{"kind": "numaforge-snapshot", "schema": 1, "files": {"/a": 1}}', "is not a text"),
        "zeros": ("\x00" * 4096, "not a complete JSON document"),
    },
)
def test_malformed_snapshot_costs_one_line(text, told, fleet, said):
    (fleet / "gpu-9.json").write_text(text)
    lines = said("fleet", code=ExitCode.NO).splitlines()
    assert lines[0] == "6 machines: 4 sound, 1 with warnings, 1 not read"
    assert [line for line in lines if told in line and line.startswith("NA002 gpu-9: ")]


def test_oversized_snapshot_costs_one_line_and_is_not_read(fleet, said):
    with (fleet / "gpu-9.json").open("wb") as file:
        file.truncate(2**30)
    assert f"is larger than {many_machines.MOST_MIB} MiB" in said("fleet", code=ExitCode.NO)


def test_machine_that_kills_its_worker_process_costs_one_line(fleet, said, monkeypatch):
    for number in range(10, 20):
        write(f"fleet/gpu-{number}.json", replace(DGX, hostname=f"gpu-{number}"))
    read = many_machines.audited

    def deadly(machine: NodeTopology) -> object:
        return os._exit(9) if machine.hostname == "gpu-14" else read(machine)

    monkeypatch.setattr(many_machines, "audited", deadly)
    monkeypatch.setattr(many_machines, "every_core", lambda: 2)
    told = said("fleet", code=ExitCode.NO)
    assert told.startswith("15 machines: 13 sound, 1 with warnings, 1 not read")
    assert "NA002 gpu-14: the process that read it was ended" in told


def test_internal_error_on_one_machine_costs_one_line(said, monkeypatch):
    read = many_machines.audited

    def faulty(machine: NodeTopology) -> object:
        return 1 / 0 if machine.hostname == "gpu-2" else read(machine)

    monkeypatch.delenv("NUMAFORGE_TRACEBACK", raising=False)
    monkeypatch.setattr(many_machines, "audited", faulty)
    assert "NA002 gpu-2: internal error: ZeroDivisionError" in said("fleet", code=ExitCode.NO)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        pytest.param(("fleet", "--limit", "gpu-1"), "--limit needs an INVENTORY", id="limit-of-files"),
        pytest.param(("fleet", "--to", "a.txt"), "has no known suffix", id="a-file-without-a-format"),
        pytest.param(("empty",), "does not hold a machine's files", id="a-folder-with-nothing"),
        pytest.param(("none.json",), "the file does not exist", id="a-file-that-is-not-there"),
        pytest.param(("fleet", "--baseline", "none.json"), "cannot be read", id="no-baseline"),
    ],
)
def test_invalid_audit_arguments_are_refused(words, told, fleet, capsys):
    Path("empty").mkdir()
    assert run(["audit", *words]) == ExitCode.BAD_INPUT
    assert told in capsys.readouterr().err


def test_machines_with_the_same_name_are_distinguished_by_file(fleet, said):
    write("fleet/spare.json", replace(DGX, hostname="gpu-1"))
    names = [each["name"] for each in json.loads(said("fleet", "-o", "json"))["machines"]]
    assert names == ["gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5", "spare"]


# ---- what is known already ----


def test_baseline_accepts_only_its_own_findings(said):
    lost("gpu-3")
    said("fleet", "--to", "known.json", code=ExitCode.NO)
    assert "2 findings accepted by the baseline; " in said("fleet", "--baseline", "known.json")
    lost("gpu-2")
    assert "gpu-2 differs" in said("fleet", "--baseline", "known.json", code=ExitCode.NO)


def test_value_that_differs_from_the_baseline_is_reported(said):
    said("fleet", "--to", "known.json")
    write("fleet/gpu-5.json", replace(DGX, hostname="gpu-5", kernel="7.1.0"))
    assert "kernel: 7.1.0" in said("fleet", "--baseline", "known.json")


def test_baseline_accepts_a_whole_rule_for_a_range_of_machines(said):
    known = {"schema": 1, "machines": [{"name": "gpu-[4-5]", "findings": [{"id": "NA101"}]}]}
    Path("known.json").write_text(json.dumps(known))
    told = said("fleet", "--baseline", "known.json", "--fail-on", "note")
    assert "1 finding accepted by the baseline" in told


@cases(
    "text, told",
    {
        "no-JSON": ("{", "not a complete JSON document"),
        "a-list": ("[]", "is not an audit"),
        "a-later-schema": ('{"schema": 2, "machines": []}', "an audit of schema 2"),
        "no-machine": ('{"schema": 1, "machines": [1]}', "machines[0]: 1 is not a machine"),
        "no-finding": ('{"schema": 1, "machines": [{"name": "a", "findings": [{}]}]}', "findings[0]: {}"),
        "no-range": ('{"schema": 1, "machines": [{"name": "a[9-1]"}]}', "runs backwards"),
        "no-facts": ('{"schema": 1, "machines": [{"name": "a", "facts": {"NA101": 1}}]}', "are not facts"),
    },
)
@pytest.mark.parametrize("option", ["--baseline", "--since"])
def test_invalid_audit_file_is_refused(option, text, told, fleet, capsys):
    Path("known.json").write_text(text)
    assert run(["audit", "fleet", option, "known.json"]) == ExitCode.BAD_INPUT
    shown = capsys.readouterr().err
    assert "known.json: " in shown
    assert told in shown


def test_changes_since_an_audit_are_reported(fleet, said):
    said("fleet", "--to", "before.json")
    lost("gpu-2")
    write("fleet/gpu-5.json", replace(DGX, hostname="gpu-5"))
    (fleet / "gpu-1.json").unlink()
    write("fleet/gpu-6.json", replace(DGX, hostname="gpu-6"))
    changes = json.loads(said("fleet", "--since", "before.json", "-o", "json", code=ExitCode.NO))["changes"]
    assert changes["findings_new"] == [{"machine": "gpu-2", "key": "NA120 =7 x NVIDIA H100 80GB HBM3"}]
    assert changes["findings_gone"] == [{"machine": "gpu-5", "key": "NA101 =7.0.0"}]
    assert {"machine": "gpu-5", "fact": "kernel", "before": "7.0.0", "after": DGX.kernel} in changes["facts"]
    assert (changes["machines_new"], changes["machines_gone"]) == (["gpu-6"], ["gpu-1"])
    told = said("fleet", "--since", "before.json", code=ExitCode.NO)
    assert "  gpu-2: new: NA120 not as its siblings: GPUs" in told
    assert "  gpu-1: is not audited any more" in told


def test_unchanged_fleet_reports_no_change(said):
    said("fleet", "--to", "before.json")
    assert "Since" not in said("fleet", "--since", "before.json")


# ---- formats ----


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)  # noqa: S314 (ours)


def test_junit_has_one_suite_per_machine(said):
    lost("gpu-3")
    said("fleet", "--to", "known.json", code=ExitCode.NO)
    Path("no-such.json").unlink(missing_ok=True)
    suites = parsed(said("fleet", "-o", "junit", code=ExitCode.NO))
    assert suites.attrib == {"name": "numaforge audit", "tests": "5", "failures": "1", "skipped": "0"}
    (failure,) = suites.findall(".//failure")
    assert failure.attrib["message"].startswith("GPUs: 7 x NVIDIA H100 80GB HBM3; 4 siblings have 8 x")
    strict = parsed(said("fleet", "-o", "junit", "--fail-on", "warning", code=ExitCode.NO))
    assert strict.attrib["failures"] == "2"
    known = parsed(said("fleet", "-o", "junit", "--baseline", "known.json"))
    assert (known.attrib["failures"], known.attrib["skipped"]) == ("0", "2")


def test_sarif_marks_new_and_suppressed_findings(said):
    said("fleet", "--to", "known.json")
    lost("gpu-3")
    words = ("fleet", "-o", "sarif", "--baseline", "known.json", "--since", "known.json")
    (log,) = json.loads(said(*words, code=ExitCode.NO))["runs"]
    rules = [rule["id"] for rule in log["tool"]["driver"]["rules"]]
    told = {
        result["locations"][0]["logicalLocations"][0]["name"]: (
            rules[result["ruleIndex"]],
            result["level"],
            result["baselineState"],
            "suppressions" in result,
        )
        for result in log["results"]
    }
    assert told == {
        "gpu-3": ("NA120", "error", "new", False),
        "gpu-5": ("NA101", "warning", "unchanged", True),
    }


def test_prometheus_text_has_one_sample_per_line(said):
    lines = said("fleet", "-o", "prometheus").splitlines()
    sample = re.compile(r'[a-z_]+\{[a-z]+="(?:[^"\\]|\\.)*"(?:,[a-z]+="(?:[^"\\]|\\.)*")*\} [0-9]+')
    assert all(line.startswith("# ") or sample.fullmatch(line) for line in lines)
    assert 'numaforge_audit_machines{state="warning"} 1' in lines
    assert (
        'numaforge_audit_findings{machine="gpu-5",rule="NA101",severity="warning",accepted="false"} 1'
        in lines
    )
    assert 'numaforge_audit_machine_read{machine="gpu-1"} 1' in lines


class Page(HTMLParser):
    """The elements of a page: their ids, links and sources, and the text outside of scripts."""

    VOID = frozenset({"meta", "input", "img", "br", "link"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.labels: list[str] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = dict(attrs)
        self.ids += [held["id"] or ""] if "id" in held else []
        self.links += [held["href"] or ""] if tag == "a" else []
        self.labels += [held["for"] or ""] if tag == "label" else []
        self.fetched += [value or "" for name, value in attrs if name in ("src", "srcset") or (tag == "link")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)


@pytest.fixture
def page(said: Output) -> Page:
    lost("gpu-3")
    found = Page(said("fleet", "-o", "html", code=ExitCode.NO))
    assert found.open == []
    return found


def test_page_loads_nothing_external_and_like_machines_share_a_picture(page):
    assert len(page.fetched) == 2  # four of them, and the one with a GPU less
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.fetched)


def test_every_page_link_has_a_target_on_the_page(page):
    assert len(page.ids) == len({*page.ids})
    assert {link.removeprefix("#") for link in page.links} <= {*page.ids}
    assert {*page.labels} <= {*page.ids}


@pytest.mark.parametrize(
    "told",
    [
        *("gpu-[2,4-5]", "kernel: 7.0.0", "What helps"),
        "GPUs: 7 x NVIDIA H100 80GB HBM3; 4 siblings have 8 x",
    ],
)
def test_page_is_complete_without_its_script(told, page):
    assert told in " ".join(" ".join(page.words).split())


HOSTILE = "</script><script>alert(1)</script>'\"&\x1b[2J"


@pytest.mark.parametrize("output", ["table", "json", "html", "sarif", "junit", "prometheus"])
def test_host_text_stays_plain_text_in_every_format(output, fleet, said):
    for number in range(1, 6):
        write(f"fleet/gpu-{number}.json", replace(DGX, hostname=f"{HOSTILE}{number}", kernel="a"))
    write("fleet/gpu-5.json", replace(DGX, hostname=f"{HOSTILE}5", kernel=HOSTILE))
    told = said("fleet", "-o", output)
    assert "\x1b[2J" not in told
    if output == "html":
        assert "<script>alert" not in told
        assert Page(told).open == []
    if output == "junit":
        parsed(told)


def test_json_and_yaml_hold_the_same_document(said):
    import yaml

    assert yaml.safe_load(said("fleet", "-o", "yaml")) == json.loads(said("fleet", "-o", "json"))


def test_document_lists_the_differences(said):
    document: dict[str, Any] = json.loads(said("fleet", "-o", "json"))
    assert document["sound"] is True
    assert document["counts"] == {"not read": 0, "error": 0, "warning": 1, "note": 0, "sound": 4}
    (finding,) = document["machines"][4]["findings"]
    assert finding["unusual"] == [
        {"place": "", "value": "7.0.0", "usual": DGX.kernel, "siblings": 4, "devices": []}
    ]
    assert document["machines"][4]["facts"]["NA101"] == {"": "7.0.0"}
