"""What is written for schedulers, at a real API server that has the systems' own schemas and is strict."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lab.kwok import Fleet
from numaforge.schedulers.systems import SYSTEMS, generate
from tests.unit.schedulers.served import served
from tests.unit.schedulers.test_schemas import SCHEMAS

pytestmark = pytest.mark.lab
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NEEDED = (
    "noderesourcetopologies",
    "volcano-numatopologies",
    "volcano-hypernodes",
    "volcano-queues",
    "volcano-jobs",
    "coscheduling-podgroups",
    "crane-noderesourcetopologies",
    "koordinator-clusternetworktopologies",
    "openshift-machineconfigpools",
    "openshift-machineconfigs",
    "openshift-kubeletconfigs",
    "kueue-topologies",
)
WITHOUT_SCHEMA = "ResourceFlavor"
FLEET = ("dgx-h100", "epyc-nps4", "gb200")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    if not SCHEMAS.is_dir():
        pytest.skip("the systems' schemas are not here")
    with Fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        for name in NEEDED:
            [definition] = yaml.safe_load_all((SCHEMAS / f"{name}.yaml").read_text())
            definition["metadata"].setdefault("annotations", {})["api-approved.kubernetes.io"] = (
                "unapproved, for a test"
            )
            fleet.send("POST", DEFINITIONS, definition)
            path = f"{DEFINITIONS}/{definition['metadata']['name']}"
            fleet.wait_until(lambda path=path: is_served(fleet, path), f"{name} is not served")  # type: ignore[misc]
        yield fleet


def is_served(fleet: Fleet, path: str) -> bool:
    conditions = (fleet.control_plane.get(path).get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def kubectl(fleet: Fleet, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(fleet.control_plane.kubectl()), f"--kubeconfig={fleet.kubeconfig}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_strict_api_server_takes_the_folder_of(system: str, fleet: Fleet, tmp_path: Path) -> None:
    [folder] = generate([served(name) for name in FLEET], [system])
    for name, text in folder.texts():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        known = [each for each in text.split("---\n") if f"kind: {WITHOUT_SCHEMA}\n" not in each]
        file.write_text("---\n".join(known))
    applied = kubectl(fleet, "apply", "--server-side", "--validate=strict", "-k", str(tmp_path))
    assert applied.returncode == 0, applied.stderr
    again = kubectl(fleet, "apply", "--server-side", "--validate=strict", "-k", str(tmp_path))
    assert again.returncode == 0, again.stderr


def test_a_strict_api_server_refuses_a_field_that_there_is_not(fleet: Fleet, tmp_path: Path) -> None:
    [folder] = generate([served("dgx-h100")], ["volcano"])
    text = dict(folder.texts())["numatopologies.yaml"].replace("numares:", "numaRes:")
    (tmp_path / "wrong.yaml").write_text(text)
    refused = kubectl(
        fleet, "apply", "--server-side", "--validate=strict", "-f", str(tmp_path / "wrong.yaml")
    )
    assert refused.returncode != 0
    assert "numaRes" in refused.stderr
