"""The suite's options and fixtures, as a plugin of pytest: `pytest -p numaforge.verification.plugin ...`."""

import gc
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import testinfra
from _pytest.mark import ParameterSet
from testinfra.backend.base import BaseBackend, CommandResult
from testinfra.host import Host

from numaforge.lib import bounded
from numaforge.lib.errors import ExitCode, NumaforgeError
from numaforge.verification import suite
from numaforge.verification.cluster import ApiServer
from numaforge.verification.live import VerifiedNode
from numaforge.verification.reach import read_hosts
from numaforge.verification.table import entries

ACTIVE = ("loopback", "bandwidth")  # each includes those before it
_ASKED_AT_ONCE = 32
_NODES = pytest.StashKey[list[VerifiedNode]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("numaforge")
    group.addoption(
        "--reach", metavar="FILE", help="the hosts, as numaforge writes them; testinfra's --hosts, otherwise"
    )
    group.addoption(
        "--kubeconfig",
        metavar="FILE",
        help="also compare the running kubelet's /configz and the node's Allocatable, through this cluster",
    )
    group.addoption(
        "--roles",
        metavar="NAMES",
        help="check only the promises of these roles, such as topology,kubelet after deploys/kubelet.py",
    )
    group.addoption(
        "--active",
        choices=ACTIVE,
        help="also put traffic on RDMA ports: loopback sends each port's messages to itself; bandwidth "
        "measures, on drained nodes only",
    )
    group.addoption(
        "--drained",
        action="store_true",
        help="confirm that no workload runs on these hosts; otherwise --kubeconfig checks",
    )


def pytest_configure(config: pytest.Config) -> None:
    BaseBackend.run_local = _run_within_the_limit
    config.addinivalue_line(
        "markers", "expects(name): one test for each entry that roles promise by this name"
    )
    if config.getoption("hosts") is None and config.getoption("reach") is None:
        raise pytest.UsageError("numaforge.verification checks real hosts: name them with --hosts=ssh://NAME")


def pytest_unconfigure() -> None:
    gc.freeze()  # as numaforge itself does before it ends


def _run_within_the_limit(backend: Any, command: str, *arguments: str) -> CommandResult:
    """Run a backend's program, such as ssh, in place of testinfra's call, which has no limit on output."""
    words = backend.encode(backend.quote(command, *arguments))
    done = bounded.run(words)
    return backend.result(done.returncode, words, done.stdout, done.stderr)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    nodes = _nodes(metafunc.config)
    marker = metafunc.definition.get_closest_marker("expects")
    if marker is None:
        metafunc.parametrize("node", nodes, ids=[node.id for node in nodes])
        return
    name = marker.kwargs["name"]
    names = metafunc.config.getoption("roles")
    roles = names.split(",") if names else None
    entries = [entry for node in nodes for entry in _entries(node, name, roles)]
    metafunc.parametrize(
        ("node", "name", "expected"), entries or [_skipped_case("no host has a plan", "no-plan")]
    )


def _entries(node: VerifiedNode, test: str, roles: Sequence[str] | None) -> Sequence[ParameterSet]:
    """Return a parameter set per promise to a host; none without a plan, which has a test of its own."""
    plan = node.plan_or_reason
    if isinstance(plan, NumaforgeError):
        return []
    promised = entries(plan, test, roles)
    if not promised:
        return [_skipped_case(f"the plan does not cover it: {test}", node.id)]
    return [pytest.param(node, name, expected, id=f"{node.id}-{name}") for name, expected in promised.items()]


def _skipped_case(reason: str, name: str) -> ParameterSet:
    return pytest.param(None, None, None, marks=pytest.mark.skip(reason=reason), id=name)


@pytest.hookimpl(trylast=True)  # after -k has deselected tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse a run that would not report a missing plan, because the test for it was not selected."""
    mentioned = {
        item.callspec.params.get("node")
        for item in items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
    }
    for node in config.stash.get(_NODES, []):
        if isinstance(node.plan_or_reason, NumaforgeError) and node not in mentioned:
            raise pytest.UsageError(str(node.plan_or_reason.at(node.id)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write into the XML report which host a test is about, and whether that host has answered."""
    report = yield
    node = item.callspec.params.get("node") if hasattr(item, "callspec") else None
    if isinstance(node, VerifiedNode) and report.when == "call":
        item.user_properties.append((suite.HOST, node.id))
        if node.unreachable:
            item.user_properties.append((suite.UNREACHABLE, "yes"))
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Distinguish a host that did not answer from one that is not as planned, by the exit code."""
    if any(node.unreachable for node in session.config.stash.get(_NODES, [])):
        session.exitstatus = ExitCode.UNREACHABLE


def _nodes(config: pytest.Config) -> list[VerifiedNode]:
    """Return the hosts of --hosts, the same objects for every test, so that each is read once."""
    if _NODES not in config.stash:
        nodes = sorted((VerifiedNode(host) for host in _hosts(config)), key=lambda node: node.id)
        with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
            list(pool.map(VerifiedNode.read, nodes))
        config.stash[_NODES] = nodes
    return config.stash[_NODES]


def _hosts(config: pytest.Config) -> list[Host]:
    if file := config.getoption("reach"):
        return read_hosts(Path(file))
    return testinfra.get_hosts(  # type: ignore[no-any-return]
        config.getoption("hosts").split(","),
        connection=config.getoption("connection"),
        ssh_config=config.getoption("ssh_config"),
        ssh_identity_file=config.getoption("ssh_identity_file"),
        sudo=config.getoption("sudo"),
        sudo_user=config.getoption("sudo_user"),
        ansible_inventory=config.getoption("ansible_inventory"),
        force_ansible=config.getoption("force_ansible"),
    )


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> ApiServer:
    """The cluster of --kubeconfig; without it the test is skipped."""
    kubeconfig = request.config.getoption("kubeconfig", None)
    if not kubeconfig:
        pytest.skip("asks the cluster: give --kubeconfig FILE")
    return ApiServer(kubeconfig)


class Active:
    """Which proofs by traffic were requested, and whether they may disturb a node."""

    def __init__(self, requested: str | None, drained: bool, cluster: ApiServer | None) -> None:
        self.asked, self.drained, self.cluster = requested, drained, cluster

    def need(self, proof: str, node: VerifiedNode) -> None:
        """Skip a test that was not requested, or that would disturb the node's pods."""
        if self.asked is None or ACTIVE.index(self.asked) < ACTIVE.index(proof):
            pytest.skip(f"puts traffic on the node: ask for it with --active {proof}")
        if proof == "bandwidth" and not self._is_drained(node):
            pytest.skip("needs a drained node: cordon it and give --kubeconfig, or confirm with --drained")

    def _is_drained(self, node: VerifiedNode) -> bool:
        return self.drained or (self.cluster is not None and self.cluster.unschedulable(node.live.node_name))


@pytest.fixture(scope="session")
def active(request: pytest.FixtureRequest) -> Active:
    """Return the proofs by traffic that --active and --drained select."""
    config = request.config
    kubeconfig = config.getoption("kubeconfig", None)
    cluster = ApiServer(kubeconfig) if kubeconfig else None
    return Active(config.getoption("active"), config.getoption("drained"), cluster)
