"""Real machines that are not in `tests/machines`: every dump of the corpus is read as its truth says.

`NUMAFORGE_CORPUS` names a folder with `truth.json` and, per dump, NAME.tar.xz or an unpacked folder NAME.
"""

import json
import os
import subprocess
import tarfile
from functools import cache
from pathlib import Path

import pytest

from numaforge.lib.quantity import format_bytes
from numaforge.machine.snapshot import from_root, parse_output, script
from numaforge.machine.topology.document import from_document, to_document
from numaforge.machine.topology.read import read_topology
from tests.machines.files import machine_files

CORPUS = Path(
    os.environ.get("NUMAFORGE_CORPUS") or Path(__file__).parents[2].parent / "shared" / "corpus" / "sysfs"
)


def dumps():
    truth = CORPUS / "truth.json"
    if not truth.is_file():
        reason = f"no corpus: {truth} does not exist (set NUMAFORGE_CORPUS to the folder that holds it)"
        return [pytest.param(None, id="corpus", marks=pytest.mark.skip(reason=reason))]
    here = {file.expected().get("origin", "").rpartition("/")[2] for file in machine_files()}
    return [
        pytest.param(dump, id=dump["name"])
        for dump in json.loads(truth.read_text())["dumps"]
        if Path(dump["source"]["path"]).name not in here
    ]


every_dump = pytest.mark.parametrize("dump", dumps())


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory):
    """Give the folder of a dump, unpacked once, with no member outside it."""
    folder = tmp_path_factory.mktemp("corpus")

    @cache
    def unpack(name):
        if (CORPUS / name).is_dir():
            return CORPUS / name
        with tarfile.open(CORPUS / f"{name}.tar.xz") as archive:
            archive.extractall(folder, filter=inside)  # noqa: S202
        return folder / name

    return unpack


def inside(member, path):
    """Leave out what would lead outside the folder; an absolute link is of no use to a tree either."""
    try:
        return tarfile.data_filter(member, path)
    except tarfile.FilterError:
        return None


@pytest.fixture(scope="session")
def topology_of(unpacked):
    return cache(lambda name: read_topology(from_root(unpacked(name))))


@pytest.fixture
def topology(dump, topology_of):
    return topology_of(dump["name"])


def skip_where_the_truth_does(dump, field):
    if field in ("packages", "cores") and dump[field] is None:
        pytest.skip(f"the dump says nothing of {field}")
    if field in dump["skip"]:
        pytest.skip(f"the truth of {field} is in doubt: {dump['skip'][field]}")


def groups(sets):
    return sorted(sorted(members) for members in sets)


def known_node(number):
    return None if number is None or number < 0 else number


@every_dump
def test_online_and_offline_cpus_match_the_dump(dump, topology):
    skip_where_the_truth_does(dump, "online")
    assert sorted(topology.online) == dump["online"]
    if "offline" not in dump["skip"]:
        assert sorted(topology.offline) == dump["offline"]


@every_dump
def test_packages_match_the_dump(dump, topology):
    skip_where_the_truth_does(dump, "packages")
    assert groups(package.cpus for package in topology.packages) == groups(
        p["cpus"] for p in dump["packages"]
    )


@every_dump
def test_package_ids_match_the_kernel_where_distinct(dump, topology):
    skip_where_the_truth_does(dump, "packages")
    ids = [package["id"] for package in dump["packages"]]
    if None in ids or min(ids) < 0 or len(set(ids)) < len(ids):
        assert [package.id for package in topology.packages] == list(range(len(ids)))
    else:
        truth = {package["id"]: package["cpus"] for package in dump["packages"]}
        assert {package.id: sorted(package.cpus) for package in topology.packages} == truth


@every_dump
def test_cores_and_threads_match_the_dump(dump, topology):
    skip_where_the_truth_does(dump, "cores")
    assert groups(core.cpus for core in topology.cores) == groups(core["cpus"] for core in dump["cores"])
    skip_where_the_truth_does(dump, "threads_per_core")
    threads = {len(core.cpus) for core in topology.cores}
    assert max(threads) == dump["threads_per_core"]
    assert min(threads) == dump["threads_per_core_min"]


@every_dump
def test_last_level_caches_match_the_dump(dump, topology):
    skip_where_the_truth_does(dump, "llc")
    truth = dump["llc"] or {"levels": [], "groups": []}
    assert groups(cache.cpus for cache in topology.l3_caches) == groups(truth["groups"])
    assert sorted({cache.level for cache in topology.l3_caches}) == truth["levels"]


@every_dump
def test_numa_nodes_and_cpus_match_the_dump(dump, topology):
    skip_where_the_truth_does(dump, "numa_nodes")
    read = {node.id: sorted(node.cpus) for node in topology.numa_nodes}
    assert read == {node["id"]: node["cpus"] for node in dump["numa_nodes"]}


@every_dump
def test_numa_memory_matches_the_dump(dump, topology):
    skip_where_the_truth_does(dump, "mem")
    skip_where_the_truth_does(dump, "numa_nodes")
    read = {node.id: node.memory_bytes for node in topology.numa_nodes}
    assert read == {node["id"]: node["mem_bytes"] for node in dump["numa_nodes"]}
    assert topology.memory_bytes == dump["mem_total_bytes"]


@every_dump
def test_numa_distances_match_the_dump(dump, topology):
    skip_where_the_truth_does(dump, "distances")
    truth = dump["distances"]
    matrix = (
        {
            node: dict(zip(truth["nodes"], row, strict=True))
            for node, row in zip(truth["nodes"], truth["matrix"], strict=True)
        }
        if truth
        else {}
    )
    assert {node.id: dict(node.distances) for node in topology.numa_nodes if node.distances} == matrix


@every_dump
def test_hugepage_pools_match_the_dump(dump, topology):
    skip_where_the_truth_does(dump, "hugepages")

    def pools(truth):
        return {
            format_bytes(int(size) * 1024): (pool["nr"], pool["free"]) for size, pool in (truth or {}).items()
        }

    def read(held):
        return {size: (pool.total, pool.free) for size, pool in held.items()}

    assert read(topology.hugepages) == pools((dump["hugepages"] or {}).get("pools"))
    if "numa_nodes" not in dump["skip"]:
        assert {node.id: read(node.hugepages) for node in topology.numa_nodes} == {
            node["id"]: pools(node["hugepages"]) for node in dump["numa_nodes"]
        }


@every_dump
def test_display_controllers_except_consoles_are_gpus(dump, topology):
    skip_where_the_truth_does(dump, "gpus")
    assert [(gpu.pci_address, gpu.vendor, gpu.device, gpu.numa_node) for gpu in topology.gpus] == [
        (gpu["bdf"], gpu["vendor"][2:], gpu["device"][2:], known_node(gpu["numa_node"]))
        for gpu in dump["gpus"]
        if not gpu.get("console_vga")
    ]


@every_dump
def test_accelerators_match_the_dump(dump, topology):
    skip_where_the_truth_does(dump, "accelerators")
    read = {found.pci_address: (found.driver, found.numa_node) for found in topology.accelerators}
    assert read == {a["bdf"]: (a["driver"], known_node(a["numa_node"])) for a in dump["accelerators"]}


@every_dump
def test_network_functions_and_interfaces_match_the_dump(dump, topology):
    skip_where_the_truth_does(dump, "nics")
    nodes = {nic.pci_address: nic.numa_node for nic in topology.nics}
    for nic in dump["nic_pci"]:
        assert nodes[nic["bdf"]] == known_node(nic["numa_node"])
    interfaces = {nic.interface: nic.pci_address for nic in topology.nics if nic.interface}
    assert interfaces == {nic["if"]: nic["bdf"] for nic in dump["nics"] if nic.get("bdf")}


@every_dump
def test_rdma_devices_match_the_dump(dump, topology):
    skip_where_the_truth_does(dump, "ib")
    read = {nic.rdma_device: nic for nic in topology.nics if nic.rdma_device}
    assert set(read) == {device["dev"] for device in dump["ib"] if device.get("bdf")}
    for device in dump["ib"]:
        if device.get("bdf"):
            nic, port = read[device["dev"]], next(iter((device["ports"] or {}).values()), {})
            assert (nic.pci_address, nic.numa_node) == (device["bdf"], known_node(device["numa_node"]))
            assert (nic.link_layer, nic.rate) == (port.get("link_layer"), port.get("rate"))


@every_dump
def test_architecture_matches_the_dump_or_is_unknown(dump, topology):
    assert topology.architecture in (dump["arch"], None)


@every_dump
def test_every_core_lies_in_one_package_and_one_numa_node(dump, topology):
    packages = {package.id: package.cpus for package in topology.packages}
    nodes = {node.id: node.cpus for node in topology.numa_nodes}
    for core in topology.cores:
        assert min(core.cpus) in packages[core.package]
        assert core.numa_node is None or min(core.cpus) in nodes[core.numa_node]


@every_dump
def test_document_round_trip_keeps_the_topology(dump, topology):
    assert from_document(json.loads(json.dumps(to_document(topology)))) == topology


@every_dump
def test_script_captures_what_the_folder_reader_reads(dump, unpacked):
    root = unpacked(dump["name"])
    finished = subprocess.run(
        ["sh", "-s"], input=script(str(root)), capture_output=True, text=True, check=True
    )
    assert parse_output(finished.stdout) == from_root(root)
