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
from numaforge.machine.snapshot.capture import from_root, parse_output, script
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


def distances(truth):
    rows = zip(truth["nodes"], truth["matrix"], strict=True) if truth else ()
    return {node: dict(zip(truth["nodes"], row, strict=True)) for node, row in rows}


FIELDS = {
    "online": (lambda t: sorted(t.online), lambda d: d["online"]),
    "offline": (lambda t: sorted(t.offline), lambda d: d["offline"]),
    "packages": (
        lambda t: groups(package.cpus for package in t.packages),
        lambda d: groups(package["cpus"] for package in d["packages"]),
    ),
    "cores": (
        lambda t: groups(core.cpus for core in t.cores),
        lambda d: groups(core["cpus"] for core in d["cores"]),
    ),
    "threads_per_core": (
        lambda t: [choose(len(core.cpus) for core in t.cores) for choose in (max, min)],
        lambda d: [d["threads_per_core"], d["threads_per_core_min"]],
    ),
    "llc": (
        lambda t: (groups(each.cpus for each in t.l3_caches), sorted({each.level for each in t.l3_caches})),
        lambda d: (groups(d["llc"]["groups"]), d["llc"]["levels"]) if d["llc"] else ([], []),
    ),
    "numa_nodes": (
        lambda t: {node.id: sorted(node.cpus) for node in t.numa_nodes},
        lambda d: {node["id"]: node["cpus"] for node in d["numa_nodes"]},
    ),
    "mem": (
        lambda t: (t.memory_bytes, {node.id: node.memory_bytes for node in t.numa_nodes}),
        lambda d: (d["mem_total_bytes"], {node["id"]: node["mem_bytes"] for node in d["numa_nodes"]}),
    ),
    "distances": (
        lambda t: {node.id: dict(node.distances) for node in t.numa_nodes if node.distances},
        lambda d: distances(d["distances"]),
    ),
    "gpus": (
        lambda t: [(gpu.pci_address, gpu.vendor, gpu.device, gpu.numa_node) for gpu in t.gpus],
        lambda d: [
            (gpu["bdf"], gpu["vendor"][2:], gpu["device"][2:], known_node(gpu["numa_node"]))
            for gpu in d["gpus"]
            if not gpu.get("console_vga")
        ],
    ),
    "accelerators": (
        lambda t: {each.pci_address: (each.driver, each.numa_node) for each in t.accelerators},
        lambda d: {
            each["bdf"]: (each["driver"], known_node(each["numa_node"])) for each in d["accelerators"]
        },
    ),
    "nics": (
        lambda t: {nic.interface: nic.pci_address for nic in t.nics if nic.interface},
        lambda d: {nic["if"]: nic["bdf"] for nic in d["nics"] if nic.get("bdf")},
    ),
}
NEEDS = {"threads_per_core": ("cores",), "mem": ("numa_nodes",)}
"""What has to be known for a field beside it."""


@pytest.mark.parametrize("field", FIELDS)
@every_dump
def test_field_matches_the_dump(dump, topology, field):
    for needed in (field, *NEEDS.get(field, ())):
        skip_where_the_truth_does(dump, needed)
    read, truth = FIELDS[field]
    assert read(topology) == truth(dump)


@every_dump
def test_numa_node_of_each_network_function_matches_the_dump(dump, topology):
    skip_where_the_truth_does(dump, "nics")
    nodes = {nic.pci_address: nic.numa_node for nic in topology.nics}
    truth = {nic["bdf"]: known_node(nic["numa_node"]) for nic in dump["nic_pci"]}
    assert {address: nodes[address] for address in truth} == truth


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
