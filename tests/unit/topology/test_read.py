"""A tree written for a machine is read back as that machine."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from numaforge.errors import TopologyError
from numaforge.snapshot import Snapshot, from_root
from numaforge.topology import from_document, read_topology, to_document
from tests.fixtures.machines import MACHINES, lab_node
from tests.fixtures.trees import write_tree


@pytest.fixture(params=[name for name in MACHINES if name != "big-512"])
def machine(request):
    """Give each machine as far as files can tell of it: no program runs in a tree."""
    built = MACHINES[request.param]()
    return replace(
        built,
        architecture="x86_64",
        gpus=tuple(
            replace(
                gpu, uuid=None, name=None, memory_bytes=None, mig_capable=None, mig_mode=None, nvlinks=None
            )
            for gpu in built.gpus
        ),
        pci_paths=built.pci_paths
        or {gpu.pci_address: (f"pci{gpu.pci_address[:7]}", gpu.pci_address) for gpu in built.gpus},
        kubelet=replace(built.kubelet, version=None) if built.kubelet else None,
        sysctls={**built.sysctls, "kernel.hostname": built.hostname, "kernel.osrelease": built.kernel},
    )


def test_a_tree_is_read_as_the_machine_it_was_written_for(machine, tmp_path):
    assert read_topology(from_root(write_tree(tmp_path, machine))) == machine


def test_the_document_holds_everything(machine):
    assert from_document(json.loads(json.dumps(to_document(machine)))) == machine


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(lambda d: d.pop("schema"), "no schema number", id="no-schema"),
        pytest.param(
            lambda d: d.update(schema=2), "schema 2; this numaforge reads schema 1", id="another-schema"
        ),
        pytest.param(lambda d: d.pop("numa_nodes"), "lacks the field 'numa_nodes'", id="a-field-is-missing"),
        pytest.param(lambda d: d.update(cpus="0-3"), "wrong shape", id="a-field-of-another-type"),
        pytest.param(lambda d: d["cpus"].update(online="4-1"), "wrong shape", id="a-broken-cpulist"),
        pytest.param(
            lambda d: d["nics"].append({"mac": "x"}), "wrong shape", id="an-unknown-key-of-a-device"
        ),
    ],
)
def test_a_document_that_is_not_ours_is_refused(change, message):
    document = to_document(lab_node())
    change(document)
    with pytest.raises(TopologyError, match=message):
        from_document(document)


def test_the_document_groups_cpus_by_governor():
    governors = {cpu: "performance" if cpu < 8 else "ondemand" for cpu in range(16)}
    node = lab_node()
    document = to_document(replace(node, cpufreq=replace(node.cpufreq, governors=governors)))
    assert document["cpufreq"]["governors"] == {"0-7": "performance", "8-15": "ondemand"}


def test_a_snapshot_without_cpus_is_no_machine():
    with pytest.raises(TopologyError, match="names no online CPU"):
        read_topology(Snapshot(files={"/proc/meminfo": "MemTotal: 1 kB"}))


@pytest.mark.parametrize(
    ("mounts", "version"),
    [
        pytest.param("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", 2, id="unified"),
        pytest.param(
            "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
            "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n",
            1,
            id="hybrid-counts-as-1",
        ),
        pytest.param("/dev/sda / ext4 rw 0 0\n", None, id="not-mounted-is-unknown"),
    ],
)
def test_cgroup_version(mounts, version):
    files = {"/sys/devices/system/cpu/online": "0", "/proc/mounts": mounts}
    assert read_topology(Snapshot(files=files)).cgroup_version == version
