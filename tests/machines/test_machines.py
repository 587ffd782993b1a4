"""Real machines: every snapshot of this folder is read, seen and planned as its expectations say."""

import json
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
import yaml

from numaforge.kubelet.startup.check import check
from numaforge.kubelet_minors.versions import LATEST_MINOR
from numaforge.lib.cpulist import format_cpulist, parse_cpulist
from numaforge.lib.errors import PlanError
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.document import from_document, to_document
from numaforge.machine.topology.read import read_topology
from numaforge.planning.document import dumps, loads
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile, ready_profiles
from tests.fixtures.machines import KUBEADM_CONFIG
from tests.machines import files
from tests.machines.record import RECORDED, SECTIONS

MACHINES = files.machine_files()
MINORS = (LATEST_MINOR, 33, 31)
CONFIG = yaml.safe_load(KUBEADM_CONFIG)

every_machine = pytest.mark.parametrize("file", [pytest.param(file, id=file.name) for file in MACHINES])
every_recorded_machine = pytest.mark.parametrize(
    "file", [pytest.param(file, id=file.name) for file in MACHINES if file.expected()]
)


@cache
def snapshot_of(file):
    return file.snapshot()


@cache
def topology_of(file):
    return read_topology(snapshot_of(file))


@every_machine
def test_machine_records_its_kind_origin_and_licence(file):
    expected = file.expected()
    if not expected:
        pytest.fail(
            f"nothing is expected of {file.name} yet. Record it, then read what was written:\n"
            f"    python -m tests.machines.record {file.snapshot_file.relative_to(files.FOLDER.parents[1])} "
            "--machine 'MAKER MODEL: CPUS' --origin 'WHERE IT COMES FROM'",
            pytrace=False,
        )
    assert expected["kind"] in files.KINDS
    assert all(expected[name] for name in ("machine", "origin", "licence"))
    assert file.snapshot_file.suffix == ".xz", "record it again: it is stored compressed"


@pytest.mark.parametrize("section", SECTIONS)
@every_recorded_machine
def test_recorded_machine_reads_as_expected(file, section):
    expected = file.expected()
    held = {name: fact for name, fact in expected[section].items() if name != "source"}
    ours = SECTIONS[section](topology_of(file))
    for name, difference in expected.get("differs", {}).items():
        of, _, fact = name.partition(".")
        if of == section:
            assert ours[fact] != held[fact], f"{name} no longer differs: record the machine again"
            held[fact] = difference["ours"]
    assert ours == held


@every_recorded_machine
def test_difference_from_other_sources_has_a_reason(file):
    expected = file.expected()
    for name, difference in expected.get("differs", {}).items():
        assert difference["why"], name
        assert expected[name.partition(".")[0]]["source"] != RECORDED


@every_machine
def test_cpus_cores_packages_caches_and_memory_are_consistent(file):
    topology = topology_of(file)
    for sets in (topology.cores, topology.packages):
        assert Counter(cpu for held in sets for cpu in held.cpus) == Counter(topology.online)
    cached = Counter(cpu for held in topology.l3_caches for cpu in held.cpus)
    assert max(cached.values(), default=1) == 1
    assert not topology.online & topology.offline
    packages = {package.id: package.cpus for package in topology.packages}
    nodes = {node.id: node.cpus for node in topology.numa_nodes}
    for core in topology.cores:
        assert core.cpus <= packages[core.package]
        assert core.numa_node is None or core.cpus <= nodes[core.numa_node]
    memory = sum(node.memory_bytes or 0 for node in topology.numa_nodes)
    assert topology.memory_bytes is None or memory <= topology.memory_bytes * 1.05  # firmware's share differs


@every_machine
def test_cpulists_snapshot_and_topology_survive_a_round_trip(file):
    snapshot, topology = snapshot_of(file), topology_of(file)
    for held in (*topology.cores, *topology.packages, *topology.numa_nodes, *topology.l3_caches):
        assert parse_cpulist(format_cpulist(held.cpus)) == held.cpus
    assert Snapshot.from_json(snapshot.to_json()) == snapshot
    assert from_document(json.loads(json.dumps(to_document(topology)))) == topology


@pytest.mark.variants(len(MACHINES) * len(ready_profiles()))  # those of the latest kubelet
@every_machine
@pytest.mark.parametrize("profile", ready_profiles())
@pytest.mark.parametrize("minor", MINORS)
def test_plan_reserves_whole_cores_and_the_kubelet_starts_with_the_plan(file, profile, minor):
    topology = topology_of(file)
    # Swap and cgroup v1, which a kubelet may refuse, are the host's matter and not the configuration's.
    prepared = replace(topology, swap_bytes=0, cgroup_version=2)
    # The kubelet finds CPUs below their NUMA nodes, where the kernel shows any.
    found = frozenset().union(*(node.cpus for node in topology.numa_nodes)) or topology.online
    plan = planned(topology, load_profile(profile), f"1.{minor}.0")
    if plan is None:
        return
    assert loads(dumps(plan)) == plan
    assert plan.cpus.reserved | plan.cpus.allocatable == found
    for core in topology.cores:
        assert core.cpus <= plan.cpus.reserved or not core.cpus & plan.cpus.reserved
    for cpus in reserved_on(topology, load_profile(profile)):
        assert cpus & plan.cpus.reserved or not cpus & found
    settings = CONFIG | plan.kubelet.settings
    judged = check(yaml.safe_dump(settings), topology=prepared, version=plan.kubelet.version)
    assert judged.starts, judged.error


def planned(topology, profile, version):
    """Return the plan, or None where it is refused: the expectations hold the refusal's message."""
    try:
        return plan_node(topology, profile, version)
    except PlanError:
        return None


def reserved_on(topology, profile):
    """Return the sets of CPUs of which each is to have a reserved core."""
    wish = profile.cpus.reserved
    if wish is None or len(topology.cores) == 1:
        return []
    if wish.cores_per_package:
        return [package.cpus for package in topology.packages]
    return [node.cpus for node in topology.numa_nodes if node.cpus]


def test_readme_names_every_machine():
    page = files.README.read_text()
    assert page.partition(files.BEGIN)[2].partition(files.END)[0] == files.table()


def test_every_expectation_has_its_machine():
    expected = {path.name.removesuffix(files.EXPECTED) for path in files.FOLDER.glob(f"*{files.EXPECTED}")}
    assert expected <= {file.name for file in MACHINES}
