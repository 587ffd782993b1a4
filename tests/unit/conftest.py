"""Machines as files, and the shells that hosts have."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator

import pytest

from numaforge.cli import run
from numaforge.machine.snapshot.capture import from_local
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.document import to_document
from numaforge.machine.topology.model import NodeTopology
from tests.fixtures import machines


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    return from_local()


@pytest.fixture
def saved(tmp_path, snapshot) -> str:
    """A snapshot of the machine that runs the tests, as a file."""
    path = tmp_path / "snapshot.json"
    path.write_text(snapshot.to_json())
    return str(path)


@pytest.fixture
def save_machine(tmp_path) -> Callable[[NodeTopology], str]:
    """What saves a machine as a topology document, and returns the file."""

    def save(machine: NodeTopology) -> str:
        path = tmp_path / "topology.json"
        path.write_text(json.dumps(to_document(machine)))
        return str(path)

    return save


@pytest.fixture
def save_fleet(tmp_path) -> Callable[..., str]:
    """What saves machines as gpu-1, gpu-2, ... in one folder, and returns the folder."""

    def save(*fleet: NodeTopology) -> str:
        folder = tmp_path / "fleet"
        folder.mkdir()
        for number, machine in enumerate(fleet, 1):
            document = {**to_document(machine), "hostname": f"gpu-{number}"}
            (folder / f"gpu-{number}.json").write_text(json.dumps(document))
        return str(folder)

    return save


@pytest.fixture
def lab_document(save_machine) -> str:
    """The topology document of a machine with 16 CPUs on 4 NUMA nodes, as a file."""
    return save_machine(machines.lab_node())


@pytest.fixture
def saved_plan(lab_document, tmp_path, capsys) -> str:
    path = tmp_path / "plan.json"
    run(["plan", lab_document, "--profile", "best-effort-mixed", "-o", "json"])
    path.write_text(capsys.readouterr().out)
    return str(path)


@pytest.fixture(params=["dash", "bash --posix", "busybox sh"])
def shell(request: pytest.FixtureRequest) -> list[str]:
    """The command of a shell that a host may have as sh."""
    name, *options = request.param.split()
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed")
    return [program, *options]


@pytest.fixture(autouse=True)
def _no_test_patches_its_worker() -> Iterator[None]:
    """Hold tests to leave threads alone: a worker of xdist that gevent has patched ends at its next wait."""
    yield
    monkey = sys.modules.get("gevent.monkey")
    assert monkey is None or not monkey.is_module_patched("threading"), "run what asks a host in a process"
