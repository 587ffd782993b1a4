"""The machine of the live kubelet whose decisions are recorded."""

import tarfile

import pytest

from numaforge.machine.snapshot.capture import from_root
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.read import read_topology
from tests.conformance.recordings import VECTORS


@pytest.fixture(scope="session")
def captured_machine(tmp_path_factory: pytest.TempPathFactory) -> NodeTopology:
    archive = VECTORS / "kubelet-real/machine.tar.xz"
    if not archive.is_file():
        pytest.skip(f"no captured machine at {archive}: set NUMAFORGE_VECTORS to the folder that holds it")
    root = tmp_path_factory.mktemp("machine")
    with tarfile.open(archive) as captured:
        captured.extractall(root, filter="data")
    return read_topology(from_root(root))
