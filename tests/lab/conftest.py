"""The lab, and a node of it that `deploys/site.py` has provisioned."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from lab import requirements
from lab.cluster import Lab
from lab.kwok import Fleet
from lab.node import Node
from tests.fixtures.processes import writing_below
from tests.lab import rollouts

INVENTORY = "inventories/lab/inventory.py"
PROVISIONED = ("test_site.py", "test_verify.py", "test_pods.py", "test_watch.py")
"""The files whose tests leave the provisioned node as they found it; one worker takes them in a row."""


class Scheduling(LoadFileScheduling):  # type: ignore[misc]
    """A file at a time for each worker, and those that share the provisioned node like one."""

    def _split_scope(self, nodeid: str) -> str:
        path = str(super()._split_scope(nodeid))
        return PROVISIONED[0] if Path(path).name in PROVISIONED else path


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    switched_off = pytest.mark.skip(reason="NUMAFORGE_LAB=0 switches the virtual node off")
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.lab)
            if "lab" in item.fixturenames:  # type: ignore[attr-defined]
                item.add_marker(pytest.mark.vm)
            if os.environ.get("NUMAFORGE_LAB") == "0":
                item.add_marker(switched_off)


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """The running lab; one that the tests had to bring up is taken down at the end."""
    lab = Lab()
    if lab.running():
        yield lab
        return
    requirements.ensure()
    lab.up(1)
    yield lab
    lab.down()


@pytest.fixture(autouse=True)
def _no_roll_out_outlives_its_test(tmp_path: Path) -> Iterator[None]:
    yield
    for started in rollouts.STARTED:
        if started.process.poll() is None:
            started.kill()
    rollouts.STARTED.clear()
    for run in writing_below(tmp_path):  # a run of one host continues when its roll-out has ended
        with suppress(ProcessLookupError):
            os.kill(run, signal.SIGKILL)


@pytest.fixture
def node(lab: Lab) -> Node:
    """The large node, in whatever state the tests before have left it."""
    return lab.nodes[0]


@pytest.fixture
def pristine(lab: Lab) -> Lab:
    """The lab with its nodes and its cluster as they were when first Ready."""
    lab.reset()
    return lab


@pytest.fixture
def joined(lab: Lab) -> Node:
    """The node as it was when it was first Ready: joined, its kubelet without a static policy."""
    lab.reset()
    node = lab.nodes[0]
    node.run(rollouts.HEALTHY)
    return node


@pytest.fixture(scope="session")
def as_provisioned() -> list[int | None]:
    """The process of the machine that is provisioned, as long as nothing else can have changed it."""
    return []


@pytest.fixture(autouse=True)
def _others_change_the_node(request: pytest.FixtureRequest, as_provisioned: list[int | None]) -> None:
    if request.path.name not in PROVISIONED:
        as_provisioned.clear()


@pytest.fixture(scope="session")
def provision(lab: Lab, as_provisioned: list[int | None]) -> Callable[[], Node]:
    """Puts the first node back as it was when first Ready, and provisions it, unless it is so."""

    def provision() -> Node:
        node = lab.nodes[0]
        if node.daemon.pid() not in as_provisioned:
            lab.reset()
            rollouts.in_repository("pyinfra", "-y", "--limit", node.name, INVENTORY, "deploys/site.py")
            as_provisioned[:] = [node.daemon.pid()]
        return node

    return provision


@pytest.fixture(scope="module")
def provisioned(provision: Callable[[], Node]) -> Node:
    """The provisioned node; once for the whole group."""
    return provision()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A control plane with kwok, without nodes; it needs no virtual machine."""
    with Fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        yield fleet
