"""The lines below the table of GPUs: one for each thing that is so, GPUs of which the same is so together."""

from dataclasses import replace

import pytest

from numaforge.machine.topology.model import (
    DeviceHolder,
    Ecc,
    FabricState,
    GpuInstance,
    GpuProcess,
    MigDevice,
    MigProfileOffer,
    NvidiaDriver,
    RemappedRows,
)
from numaforge.report.gpus import driver_words, gpu_names, gpu_notes
from numaforge.report.tables import topology_tables
from tests.fixtures.machines import dgx_h100
from tests.fixtures.terminal import printed

OFFERS = (MigProfileOffer(19, "1g.10gb", 1, 7, None, 1), MigProfileOffer(9, "3g.40gb", 3, 2, None, 4))
SLICED = {
    "mig_mode": "enabled",
    "mig_pending": "enabled",
    "mig_profiles": OFFERS,
    "gpu_instances": (GpuInstance(2, 9, 4, 4), GpuInstance(7, 19, 0, 1), GpuInstance(8, 19, 1, 1)),
    "mig_devices": (MigDevice(7, 0, "MIG-a"),),
}


def dgx(**changes):
    """Return a DGX whose first two GPUs are changed, indexes and minors as they may be."""
    machine = dgx_h100()
    gpus = [replace(gpu, index=index, minor=7 - index) for index, gpu in enumerate(machine.gpus)]
    return replace(machine, gpus=(*(replace(gpu, **changes) for gpu in gpus[:2]), *gpus[2:]))


NOTES = {
    "what-lies-in-them": (SLICED, "MIG instances: GPU 0-1: 2 x 1g.10gb, 1 x 3g.40gb"),
    "profiles-without-names": (
        SLICED | {"mig_profiles": ()},
        "MIG instances: GPU 0-1: 2 x profile 19, 1 x profile 9",
    ),
    "devices-alone": (
        SLICED | {"gpu_instances": None},
        "MIG instances: GPU 0-1: 1 MIG device, placement not known",
    ),
    "not-cut": (SLICED | {"gpu_instances": ()}, "MIG instances: GPU 0-1: none"),
    "mode": ({"mig_pending": "enabled"}, "Waiting for a reset or a reboot: GPU 0-1: MIG enabled"),
    "memory": (
        {"ecc": Ecc(True, False), "remapped_rows": RemappedRows(0, 1, True, False)},
        "Waiting for a reset or a reboot: GPU 0-1: ECC off, rows to remap",
    ),
    "fabric": (
        {"fabric_state": FabricState("completed", "Success", ("route unhealthy",))},
        "NVLink fabric: GPU 0-1: completed, route unhealthy",
    ),
    "fabric in another spelling": (
        {"fabric_state": FabricState("completed", "SUCCESS", ("route unhealthy",))},
        "NVLink fabric: GPU 0-1: completed, route unhealthy",
    ),
    "faults": (
        {"remapped_rows": RemappedRows(0, 9, False, True), "recovery_action": "reset"},
        "Faults: GPU 0-1: row remapping failed, the driver asks for reset",
    ),
    "lost": ({"unanswered": "GPU is lost"}, "No answer: GPU 0-1: GPU is lost"),
}


@pytest.mark.parametrize(("changes", "line"), NOTES.values(), ids=NOTES)
def test_note_names_the_affected_gpus(changes, line):
    assert [note.plain for note in gpu_notes(dgx(**changes))] == [line]


def test_healthy_gpus_have_no_notes():
    rows = RemappedRows(0, 0, False, False)
    sound = {"mig_pending": "disabled", "ecc": Ecc(True, True, 0, 0), "recovery_action": "none"}
    assert gpu_notes(dgx(**sound, remapped_rows=rows)) == []


@pytest.mark.parametrize(
    ("doubt", "pods"),
    [
        pytest.param(None, "b/train-0, c/web", id="the-kubelet-said-so"),
        pytest.param("it was not asked", "b/train-0, c/web (may have ended)", id="its-checkpoint-says-so"),
    ],
)
def test_gpu_users_are_listed_as_pods_then_units_then_processes(doubt, pods):
    holders = (("b/train-0", True), ("c/web", True), ("a/gone", False))
    machine = replace(
        dgx(**SLICED, pids=(7, 8, 9)),
        gpu_processes={
            7: GpuProcess("python3", pod="b/train-0"),
            8: GpuProcess("dcgmi", unit="dcgm.service"),
        },
        device_holders=tuple(
            DeviceHolder("MIG-a", "nvidia.com/mig-1g.10gb", pod, "main", there) for pod, there in holders
        ),
        holders_doubt=doubt,
    )
    (line,) = [note.plain for note in gpu_notes(machine) if note.plain.startswith("In use")]
    assert line == f"In use: GPU 0-1: {pods}, dcgm.service and 1 other"


def test_gpus_without_an_index_are_named_by_address():
    assert gpu_names(dgx_h100().gpus[:2]) == "0000:1b:00.0, 0000:43:00.0"


DRIVERS = {
    "none": (None, ""),
    "versions": (NvidiaDriver("580.95.05", cuda_version="13.0"), "580.95.05, CUDA 13.0"),
    "cc": (NvidiaDriver("580.95.05", confidential_computing="on"), "580.95.05, confidential computing on"),
    "without-cc": (NvidiaDriver("580.95.05", confidential_computing="off"), "580.95.05"),
    "it-did-not-start": (NvidiaDriver(None, error="Driver Not Loaded"), "Driver Not Loaded"),
}


@pytest.mark.parametrize(("driver", "words"), DRIVERS.values(), ids=DRIVERS)
def test_driver_is_one_line(driver, words):
    assert driver_words(driver) == words


def test_table_shows_known_indexes_and_fits_80_columns():
    text = printed(topology_tables(dgx(**SLICED, unanswered="GPU is lost")))
    assert "\n  1  0000:43:00.0     0  H100 80GB HBM3" in text
    assert max(len(line) for line in text.splitlines()) <= 80
