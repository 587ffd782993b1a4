"""What is refused before the first node is taken out of service, in few lines for many hosts."""

from pathlib import Path

import pytest

from numaforge.commands.rollout.preflight import agreed, common_options
from numaforge.lib.errors import NumaforgeError
from numaforge.rollout.launch import Survey

LOG = Path("/logs/survey.log")


def complaint(survey: Survey) -> list[str]:
    with pytest.raises(NumaforgeError) as refused:
        common_options(survey)
    return str(refused.value).splitlines()


def names(count: int) -> list[str]:
    return [f"gpu-{number:03}" for number in range(1, count + 1)]


def test_hosts_refused_for_the_same_reason_share_a_line():
    refused = {name: f"{name}: there is no ready profile 'trainig'" for name in names(300)}
    assert complaint(Survey((), (), refused, {}, LOG)) == [
        "/logs/survey.log: no host can be changed:",
        "  gpu-[001-300]: HOST: there is no ready profile 'trainig'",
        "  nothing was begun",
    ]


def test_single_refused_host_keeps_its_message():
    refused = {"gpu-001": "gpu-001: no such profile"}
    assert complaint(Survey((), (), refused, {}, LOG))[1] == "  gpu-001: gpu-001: no such profile"


def test_long_list_of_reasons_is_shortened():
    refused = {name: f"reason {number}" for number, name in enumerate(names(300))}
    lines = complaint(Survey((), (), refused, {}, LOG))
    assert len(lines) == 13
    assert lines[-2] == "  and 290 more reasons: see /logs/survey.log"


def test_silent_hosts_and_hosts_without_a_kubelet_are_listed_separately():
    survey = Survey((), ("cpu-1", "cpu-2"), {}, dict.fromkeys(names(30), "no route"), LOG)
    lines = complaint(survey)
    assert "  gpu-[001-030] did not answer: no route" in lines
    assert "  cpu-[1-2] without a kubelet" in lines


def test_options_that_hosts_agree_on_apply():
    assert agreed({"a": {"pool": "x"}, "b": {"pool": "x", "context": "y"}}, ["pool", "context"]) == {
        "pool": "x",
        "context": "y",
    }


def test_conflicting_host_options_name_hosts_and_option():
    with pytest.raises(NumaforgeError, match=r"numaforge_rollout\.pool: b says 'y', a says 'x'"):
        agreed({"a": {"pool": "x"}, "b": {"pool": "y"}}, ["pool"])
