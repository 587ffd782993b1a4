"""NVIDIA's mig-parted ran with these files on these GPUs: we take what it takes, or differ for a reason."""

import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from numaforge.lib.errors import PlanError
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.gpus import read_driver, with_answers
from numaforge.machine.topology.model import Gpu, NodeTopology
from numaforge.planning.convert.forms import convert
from numaforge.planning.profiles import load_profile
from numaforge.roles.mig.machine import MachineMigPlan, plan_machine, plan_profile
from numaforge.roles.mig.section import parse_config
from tests.conformance.record_mig_parted import ADDRESSES, APPLIED, CASES, FILE, TEXTS, file_of
from tests.fixtures.machines import lab_node

RECORD: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
FILES: dict[str, str] = RECORD["files"]
ANSWERS = [
    pytest.param(machine, file, id=f"{machine['machine']}, {file.rpartition('/')[2]}")
    for machine in RECORD["machines"]
    for file in machine["answers"]
]

TAKEN_HERE_ALONE = {
    "a gigabyte more than the GPU's name": "the nearest is meant, and a notice says what mig-parted does",
    "a gigabyte less than the GPU's name": "as above",
    "one name of two that is not the GPU's": "as above",
    "one GPU of two": "it is applied; what `assert` asks of GPUs that no entry names is left to the admin",
}
REFUSED_HERE_ALONE = {
    "an index that is not there": "a mistyped index would leave a GPU as it is, and nothing would say so",
    "an index twice": "one of the two is mistyped",
    "a negative index": "as an index that is not there",
    "a GPU in two entries that agree": "the later entry wins there, and one of the two is a mistake",
    "a filter in decimal": "nothing else writes PCI ids so, and mig-parted's files do not",
    "no filter in the list": "an empty list reads as no GPU, and means every one there",
    "an empty filter": "as no filter in the list",
}


def node(recorded: dict[str, Any]) -> NodeTopology:
    """Return a machine as the record's answers of NVML make it."""
    snapshot = Snapshot({}, nvml=RECORD["nvml"][recorded["machine"]])
    gpus = [
        Gpu(address, "10de", device, 0, driver="nvidia")
        for address, device in zip(ADDRESSES, recorded["gpus"], strict=False)
    ]
    return replace(lab_node(), gpus=with_answers(gpus, snapshot), nvidia=read_driver(snapshot))


@cache
def parsed(text: str) -> dict[str, Any]:
    """Return the configs of a file, which many GPUs are given."""
    return dict(parse_config(text, "config.yaml"))


def planned(machine: NodeTopology, text: str, config: str) -> MachineMigPlan | None:
    """Return the plan of a config; None where the file, the config or a GPU is refused."""
    try:
        plan = plan_machine(machine, config, parsed(text)[config])
    except PlanError:
        return None
    return plan if plan.fits else None


def names_taken_nearly(plan: MachineMigPlan) -> bool:
    return any(notice.id == "mig-parted-name" for notice in plan.notices)


def test_record_names_its_version_and_covers_every_case() -> None:
    assert RECORD["version"].startswith("mig-parted v0.")
    assert [(one["case"], one["machine"]) for one in RECORD["cases"]] == [
        (name, " and ".join(machine)) for name, case in CASES.items() for machine in case.machines
    ]
    assert RECORD["texts"].keys() == TEXTS.keys()
    assert sum(len(said) for each in RECORD["machines"] for said in each["answers"].values()) >= 1500


def names_gpus_beyond(text: str, config: str, machine: NodeTopology) -> bool:
    """Say whether a config names an index that the machine lacks: mig-parted passes over it, we refuse it."""
    entries = parsed(text)[config]
    return any(index >= len(machine.gpus) for entry in entries for index in entry.devices or ())


@pytest.mark.parametrize(("recorded", "file"), ANSWERS)
def test_mig_parted_files_give_each_gpu_the_same_instances(recorded: dict[str, Any], file: str) -> None:
    """A name that it does not find on the GPU is taken for the nearest here, with a notice."""
    machine = node(recorded)
    differ = {}
    for config, answer in recorded["answers"][file].items():
        plan = planned(machine, FILES[file], config)
        exact = plan is not None and not names_taken_nearly(plan) and not plan.untouched
        if exact != (answer == APPLIED and not names_gpus_beyond(FILES[file], config, machine)):
            differ[config] = answer
    assert differ == {}


@pytest.mark.parametrize("recorded", [pytest.param(one, id=one["machine"]) for one in RECORD["machines"]])
def test_mig_parted_file_converts_to_an_equivalent_profile(recorded: dict[str, Any]) -> None:
    machine = node(recorded)
    for file, answers in recorded["answers"].items():
        config = next((name for name, answer in answers.items() if answer == APPLIED), None)
        if config is None or names_gpus_beyond(FILES[file], config, machine):
            continue
        profile = load_profile(convert(FILES[file], file, name=config).profile)
        by_file = planned(machine, FILES[file], config)
        assert [gpu.change for gpu in plan_profile(machine, profile).gpus] == [
            gpu.change for gpu in by_file.gpus
        ]


@pytest.mark.parametrize(
    "recorded", [pytest.param(one, id=f"{one['case']}, {one['machine']}") for one in RECORD["cases"]]
)
def test_our_configs_are_judged_as_mig_parted_does_or_are_known_exceptions(recorded: dict[str, Any]) -> None:
    name, entries = recorded["case"], CASES[recorded["case"]].entries
    taken = planned(node(recorded), file_of(entries), "asked") is not None
    expected = recorded["answer"] == APPLIED
    if taken is not expected:
        assert name in (TAKEN_HERE_ALONE if taken else REFUSED_HERE_ALONE)
    else:
        assert name not in REFUSED_HERE_ALONE


@pytest.mark.parametrize("name", TEXTS)
def test_file_rejected_by_mig_parted_is_rejected(name: str) -> None:
    def reads() -> bool:
        try:
            parse_config(TEXTS[name], "config.yaml")
        except PlanError:
            return False
        return True

    assert reads() is (RECORD["texts"][name] == APPLIED and name not in REFUSED_HERE_ALONE)
