"""`check` against what real kubelets did: verdict and text, for every recorded case and version.

The vectors are not part of the package: NUMAFORGE_VECTORS names their folder.
"""

import json
from typing import Any

import pytest

from numaforge.kubelet.startup.check import check
from numaforge.lib.cpulist import format_cpulist
from tests.conformance.recordings import cases, recording
from tests.fixtures.kubelet_texts import in_any_order
from tests.oracle import machines

LOADING = (
    "failed to load kubelet config file, path: $CONFIG, error: failed to load Kubelet config file $CONFIG"
)
LENIENT = "strict decoding error: "
RUN_PREFIXES = (
    "failed to run Kubelet: failed to create kubelet: ",
    "failed to run Kubelet: ",
    f"{LOADING}, error ",
)


def bare(error: str | None) -> str | None:
    """Drop what the command adds around an error, which the recordings of single functions lack."""
    for prefix in RUN_PREFIXES:
        if error and error.startswith(prefix):
            return error.removeprefix(prefix)
    return error


@pytest.mark.parametrize("case", cases("kubelet-real/startup.json", "cases"))
def test_real_kubelets_start_or_fail_as_predicted(case, captured_machine):
    versions = recording("kubelet-real/startup.json")["versions"]
    for minor, result in case["results"].items():
        report = check(
            case["yaml"],
            drop_ins=case["dropins"],
            flags=case["flags"],
            state_files=case["state"],
            topology=captured_machine,
            version=versions.get(minor, minor),
            config_path="$CONFIG",
            drop_in_dir="$DROPIN_DIR",
            root_dir="$STATE_DIR",
        )
        assert report.starts == result["starts"], f"{minor}: {report.error}"
        # The recording is one line of a log, so line breaks inside the error became blanks.
        said = (report.error or "").replace("\n", " ")
        assert in_any_order(said) == in_any_order(result["error"]), minor


@pytest.mark.parametrize("case", cases("kubelet/startup.json", "cases", "checkpoint_cases"))
def test_resource_managers_start_or_fail_as_recorded(case):
    vectors = recording("kubelet/startup.json")
    topology = machines.topology(vectors["machines"][case["machine"]], 2)
    names = ("cpu_manager_state", "memory_manager_state")
    report = check(
        json.dumps(case["config"]),
        topology=topology,
        version="1.36.2",
        state_files={name: case[name] for name in names if case.get(name)},
    )
    result = case["result"]
    assert validation_texts(report) == result["validation_errors"]
    assert bare(report.error) == result.get("startup_error")
    assert dict(report.reservation) == result.get("node_allocatable_reservation", {})
    if result.get("exclusively_allocatable_cpus"):
        assert report.reserved_cpus is not None
        assert (
            format_cpulist(topology.online - report.reserved_cpus) == result["exclusively_allocatable_cpus"]
        )


@pytest.mark.parametrize("case", cases("kubelet/validation.json", "cases"))
def test_validation_refuses_what_the_kubelet_refuses(case):
    vectors = recording("kubelet/validation.json")
    config = {**vectors["base_config"], **case["mutation"]}
    config = {name: value for name, value in config.items() if value is not None}
    report = check(
        json.dumps(config),
        topology=machines.topology(ANY_MACHINE, 2),
        version="1.36.2",
        config_path="$CONFIG",
    )
    observed = case["observed_1_36_2"]
    if observed["load_error"] is not None:
        assert bare(report.error) == observed["load_error"]
        return
    assert sorted(validation_texts(report)) == sorted(observed["validation_errors"])
    if observed["load_warning"] is not None:
        texts = [finding.text or "" for finding in report.findings if finding.id == "NF501"]
        # The kubelet has one line for all of them.
        assert LENIENT + ", ".join(text.removeprefix(LENIENT) for text in texts) == observed["load_warning"]


ANY_MACHINE = {
    "numa": [
        {
            "id": 0,
            "memory": 2**34,
            "distances": [10],
            "cores": [{"socket": 0, "threads": [core, core + 4]} for core in range(4)],
        }
    ]
}


def validation_texts(report: Any) -> list[str]:
    refused = "failed to validate kubelet configuration, error: "
    if report.error is None or not report.error.startswith((refused, "initialize logging: ")):
        return []
    later = "what would come next"
    errors = [each for each in report.findings if each.severity == "error"]
    return [each.text for each in errors if not each.evidence.startswith(later)]
