"""The table of links: readable at its width, complete, and the same as data."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from numaforge.machine.topology.links import link_matrix
from numaforge.report.matrix import MatrixTable, matrix_document
from tests.fixtures import machines

MACHINES = {
    "8 GPUs and 10 NICs": machines.hgx_a100(),
    "DGX H100": machines.dgx_h100(),
    "GPU memory as NUMA nodes": machines.gb200_nvl72_tray(),
    "AMD": machines.mi300x(),
    "accelerators": machines.gaudi2(),
    "management functions": machines.hgx_b200(),
    "one GPU": machines.one_gpu(),
}


def printed(topology, width):
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(MatrixTable(link_matrix(topology)))
    return out.getvalue()


def blocks(text):
    """Return the cells of the table's blocks, each by the name of its row."""
    table = text.partition("\nDevices\n")[0]
    rows = [
        [line.split() for line in block.splitlines() if line[:1].strip()] for block in table.split("\n\n")
    ]
    return [{row[0]: row[1:] for row in block} for block in rows]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("topology", MACHINES.values(), ids=MACHINES)
def test_every_link_is_shown_uncut_at_every_width(topology, width):
    text = printed(topology, width)
    assert max(len(line) for line in text.splitlines()) <= width
    matrix = link_matrix(topology)
    for device, links in zip(matrix.devices, matrix.links, strict=True):
        row = [cell for block in blocks(text) for cell in block[device.name]]
        assert row[: len(links)] == [link or "?" for link in links]


def test_8_gpus_and_10_nics_fit_side_by_side_at_120_columns():
    assert len(blocks(printed(machines.hgx_a100(), 120))) == 1


def test_matrix_too_wide_is_divided_by_device_kind():
    first, second = printed(machines.dgx_h100(), 80).partition("\nDevices\n")[0].split("\n\n")
    assert first.splitlines()[0].split() == [f"GPU{place}" for place in range(8)]
    assert second.splitlines()[0].split() == [*(f"NIC{place}" for place in range(8)), "CPU", "NUMA", "GPU"]


def test_gpu_shows_its_cpus_numa_node_and_memory_numa_node():
    (rows,) = blocks(printed(machines.gb200_nvl72_tray(), 80))
    assert rows["GPU2"][-3:] == ["72-143", "1", "18"]
    assert rows["NIC2"][-2:] == ["72-143", "1"]
    (rows,) = blocks(printed(machines.gb200_cdmm(), 80))
    assert rows["GPU2"][-3:] == ["72-143", "1", "N/A"]


def test_legend_explains_only_the_symbols_shown():
    legend = printed(machines.nvlink_bridges(), 80).partition("\nLegend\n")[2]
    assert [line.split()[0] for line in legend.splitlines()] == ["X", "NV#", "PHB", "SYS"]


def test_devices_are_listed_by_address_and_common_name():
    devices = printed(machines.dgx_h100(), 80).partition("\nDevices\n")[2].partition("\n\n")[0]
    assert "  GPU0 0000:1b:00.0 NVIDIA H100 80GB HBM3" in devices.splitlines()
    assert "  NIC7 0000:dc:00.0 mlx5_7" in devices.splitlines()


def test_nvswitch_management_nics_are_marked_and_explained():
    text = printed(machines.hgx_b200(), 120)
    marked = [line.split()[0] for line in text.splitlines() if line.endswith(" (management)")]
    assert marked == ["NIC8", "NIC9", "NIC10", "NIC11"]
    assert "(management) manages NVSwitches" in text
    data = matrix_document(link_matrix(machines.hgx_b200()))
    assert [device["name"] for device in data["devices"] if device["management"]] == marked
    assert "management" not in printed(machines.hgx_a100(), 120)


def without_numa_nodes(topology):
    """Return the machine as firmware without _PXM leaves it."""
    gpus, nics = (
        tuple(replace(device, numa_node=None) for device in devices)
        for devices in (topology.gpus, topology.nics)
    )
    return replace(topology, gpus=gpus, nics=nics)


def test_unknown_distance_is_a_question_mark_and_null_as_data():
    machine = without_numa_nodes(machines.dgx_h100())
    text = printed(machine, 120)
    rows = blocks(text)[0]
    assert rows["GPU0"][8:11] == ["PIX", "?", "?"]
    assert rows["GPU0"][-3:] == ["?", "?", "N/A"]
    assert "? unknown" in " ".join(text.split())
    document = matrix_document(link_matrix(machine))
    assert document["links"]["GPU0"]["NIC1"] is None
    assert document["devices"][0]["cpu_affinity"] is None


@pytest.mark.parametrize(
    ("topology", "noted"),
    [
        pytest.param(machines.one_gpu(), True, id="nvidia-without-an-answer"),
        pytest.param(machines.nvlink_bridges(), False, id="nvidia-with-an-answer"),
        pytest.param(machines.mi300x(), False, id="amd-has-no-nvlink"),
    ],
)
def test_nvlinks_without_a_driver_answer_are_noted(topology, noted):
    assert ("NVLinks are not known of GPU0" in printed(topology, 80)) == noted


def test_machine_without_devices_is_reported():
    assert printed(machines.two_cpu_vm(), 80) == "no GPU, accelerator or NIC\n"


def test_matrix_is_available_as_data():
    document = json.loads(json.dumps(matrix_document(link_matrix(machines.gb200_nvl72_tray()))))
    assert document["links"]["GPU0"] == {
        "GPU0": "X",
        **dict.fromkeys(("GPU1", "GPU2", "GPU3"), "NV18"),
        **dict.fromkeys(("NIC0", "NIC1"), "NODE"),
        **dict.fromkeys(("NIC2", "NIC3"), "SYS"),
    }
    assert document["devices"][0] == {
        "name": "GPU0",
        "pci_address": "0008:01:00.0",
        "label": "NVIDIA GB200",
        "cpu_affinity": "0-71",
        "numa_node": 0,
        "memory_numa_node": 2,
        "management": False,
    }
    (domain,) = document["nvlink_domains"]
    assert domain["gpus"] == ["0008:01:00.0", "0009:01:00.0", "0018:01:00.0", "0019:01:00.0"]
