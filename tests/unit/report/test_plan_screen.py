"""A plan on one screen of 24 rows and 80 columns, and its reasons."""

from dataclasses import replace

import pytest

from numaforge.cli import run
from numaforge.lib.errors import ExitCode
from numaforge.lib.reasons import Decision, Notice
from numaforge.machine.topology.saved import ready_machine
from numaforge.planning.node import plan_node
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import load_profile
from numaforge.report.plan import plan_screen, reasons
from tests.fixtures.terminal import printed

SCREENS = (
    *(
        (machine, "training")
        for machine in ("dgx-h100", "hgx-a100", "hgx-b200", "gb200", "mi300x", "epyc-nps4")
    ),
    ("dgx-h100", "inference-mig"),
    ("mi300x", "mi300x-cpx"),
    ("epyc-nps4", "cpu-only"),
    ("small-vm", "best-effort-mixed"),
)


def planned(machine: str, profile: str) -> NodePlan:
    return plan_node(ready_machine(machine), load_profile(profile), "1.36.3")


def screen_of(plan: NodePlan, width: int | None = 80) -> list[str]:
    return [line.rstrip() for line in printed(plan_screen(plan, None, width)).splitlines()]


@pytest.mark.parametrize(("machine", "profile"), SCREENS, ids=" ".join)
def test_plan_and_prompt_fit_a_24_row_terminal(machine: str, profile: str) -> None:
    lines = screen_of(planned(machine, profile))
    assert len(lines) < 24
    assert max(map(len, lines)) <= 80


def test_policies_and_their_options_share_a_line() -> None:
    text = " ".join(screen_of(planned("dgx-h100", "training")))
    assert (
        "CPU manager static (full-pcpus-only, strict-cpu-reservation) · topology manager best-effort, pod"
        " · memory manager None" in text
    )


def test_other_changes_are_one_line_per_section() -> None:
    lines = screen_of(planned("dgx-h100", "inference-mig"))
    assert [line.split()[0] for line in lines if line.startswith(("tuning", "mig", "host", "labels"))] == [
        "tuning",
        "mig",
        "host",
        "labels",
    ]
    assert "mig     8 GPUs with 7 x 1g.10gb, strategy mixed, label mig-enabled, 1 more" in lines


def test_pipe_gets_every_setting_and_full_notices() -> None:
    message = " ".join(["word"] * 40)
    plan = replace(planned("dgx-h100", "training"), notices=(Notice("long", message),))
    whole, cut = " ".join(" ".join(screen_of(plan, None)).split()), " ".join(screen_of(plan))
    assert message in whole
    assert message not in cut
    assert "transparent_hugepages.enabled madvise" in whole
    assert "more" not in whole


def test_notices_with_the_same_id_are_merged() -> None:
    plan = replace(
        planned("dgx-h100", "training"), notices=tuple(Notice("same", f"number {n}") for n in range(3))
    )
    assert "notice  same: number 0 (2 more)" in screen_of(plan)


def test_footer_names_the_commands_that_show_the_rest() -> None:
    plan = planned("dgx-h100", "training")
    footer = f"{len(plan.decisions)} decisions: --why · {len(plan.files)} files: numaforge render"
    assert screen_of(plan)[-1] == footer


WHY = ["plan", "--profile", "training"]


def test_reasons_can_be_limited_to_one_section(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*WHY, "dgx-h100", "--why", "rdma"]) == ExitCode.YES
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "rdma.device_plugin.rdma/rail[0-7]"
    assert len([line for line in lines if line.startswith("    rdma/rail")]) == 8
    assert " ".join(lines).count("the profile's choice") == 1


@pytest.mark.parametrize("words", [["dgx-h100", "--why"], ["--why", "dgx-h100"]], ids=" ".join)
def test_reasons_start_with_kubelet_then_cpus(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*WHY, *words]) == ExitCode.YES
    reasons = capsys.readouterr().out.partition("Decisions\n")[2].partition("\n\n")[0].splitlines()
    sections = dict.fromkeys(line.partition(".")[0] for line in reasons if not line.startswith(" "))
    assert [*sections][:3] == ["kubelet", "cpus", "memory"]


def test_section_without_decisions_is_refused_with_the_valid_sections(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run([*WHY, "dgx-h100", "--why", "mig"]) == ExitCode.BAD_INPUT
    assert (
        "nothing is decided in 'mig'; this plan decides in kubelet, cpus, memory" in capsys.readouterr().err
    )


def test_shared_reason_of_a_group_is_printed_once() -> None:
    decisions = (Decision("kernel.a.x", "1", "why"), Decision("kernel.a.y", "2", "why"))
    plan = replace(planned("dgx-h100", "training"), decisions=decisions)
    lines = printed(reasons(plan, "kernel")).splitlines()
    assert lines == ["kernel.a.x,y", "    x = 1", "    y = 2", "    why"]
