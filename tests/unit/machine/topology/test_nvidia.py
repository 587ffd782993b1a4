"""What NVML and nvidia-smi say of GPUs, put together with what sysfs shows."""

from pathlib import Path

import pytest

from numaforge.lib.errors import TopologyError
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.snapshot.redaction import redact_nvidia_smi
from numaforge.machine.topology.gpus import read_driver, read_gpu_answers, read_gpus
from numaforge.machine.topology.model import (
    ComputeInstance,
    Ecc,
    FabricState,
    GpuInstance,
    MigDevice,
    NvidiaDriver,
    PciLink,
    RemappedRows,
)
from numaforge.machine.topology.nvml import sysfs_address
from tests.fixtures.pcie import PCI, function
from tests.fixtures.tables import cases

DOCUMENTS = Path(__file__).parents[3] / "fixtures" / "nvidia_smi"
CLUSTER = "00112233-4455-6677-8899-aabbccddeeff"


@cases(
    "bus_id, address",
    {
        "eight-digits-of-zeros": ("00000000:1B:00.0", "0000:1b:00.0"),
        "legacy-form": ("0000:1b:00.0", "0000:1b:00.0"),
        "a-domain-of-its-own-as-on-grace": ("00000009:01:00.0", "0009:01:00.0"),
        "a-domain-of-five-digits-as-behind-vmd": ("00010000:43:00.0", "10000:43:00.0"),
    },
)
def test_bus_id_becomes_a_sysfs_address(bus_id, address):
    assert sysfs_address(bus_id) == address


def of_nvml(**answers):
    """Return the GPU of an answer as the probe gives it, of which most is left out."""
    (gpu,) = read_gpu_answers(nvml({"pci_address": "00000000:1B:00.0", **answers}))
    return gpu


def nvml(*gpus, **said):
    return Snapshot(files={}, nvml={"gpus": list(gpus), **said})


@cases(
    "answers, field, value",
    {
        "architecture": ({"architecture": 9}, "architecture", "hopper"),
        "an-architecture-to-come": ({"architecture": 99}, "architecture", None),
        "compute-capability": ({"compute_capability": [9, 0]}, "compute_capability", "9.0"),
        "a-guest-of-vgpu": ({"virtualization": 2}, "virtualization", "vgpu"),
        "bare-metal": ({"virtualization": 0}, "virtualization", "none"),
        "addressing-mode": ({"addressing_mode": 2}, "addressing_mode", "ats"),
        "memory-is-a-numa-node": ({"memory_numa_node": 2}, "memory_numa_node", 2),
        "a-numa-node-of-minus-one": ({"memory_numa_node": -1}, "memory_numa_node", None),
        "recovery-action": ({"recovery_action": 4}, "recovery_action", "drain-and-reset"),
        "subsystem": ({"pci_subsystem_id": 0x16C110DE}, "subsystem", "10de:16c1"),
        "no-gsp-firmware": ({"gsp_firmware": ""}, "gsp_firmware", None),
        "persistence": ({"persistence": 0}, "persistence", False),
        "ecc": ({"ecc_mode": [1, 0], "ecc_uncorrected": [None, 3]}, "ecc", Ecc(True, False, None, 3)),
        "rows": ({"remapped_rows": [1, 2, 1, 0]}, "remapped_rows", RemappedRows(1, 2, True, False)),
        "link": (
            {"pcie_generation": 4, "pcie_width": 8, "pcie_max_generation": 5, "pcie_max_width": 16},
            "driver_link",
            PciLink(16.0, 8, 32.0, 16),
        ),
        "peers": (
            {"nvlink_peers": {"00000000:43:00.0": 6, "switch": 12}},
            "nvlink_peers",
            {"0000:43:00.0": 6, "switch": 12},
        ),
    },
)
def test_nvml_numbers_become_names(answers, field, value):
    assert getattr(of_nvml(**answers), field) == value


@cases(
    "state, mask, expected",
    {
        "no-fabric": (0, 0, None),
        "nothing-is-told-of-its-health": (2, 0, FabricState("in-progress", "Success", None)),
        "a-driver-without-health": (3, None, FabricState("completed", "Success", None)),
        "sound": (3, 0x1AA, FabricState("completed", "Success", ())),
        "degraded": (3, 0x1A9, FabricState("completed", "Success", ("degraded bandwidth",))),
        "two-faults": (
            3,
            0x5A6,
            FabricState(
                "completed",
                "Success",
                ("route recovery in progress", "incorrect configuration: insufficient nvlinks"),
            ),
        ),
    },
)
def test_fabric_health_mask_is_read(state, mask, expected):
    found = of_nvml(fabric_state=state, fabric_status="Success", fabric_health_mask=mask)
    assert found.fabric_state == expected


def test_instances_have_their_devices_and_processes():
    gpu = of_nvml(
        gpu_instances=[
            {"id": 1, "profile": 9, "start": 4, "size": 4},
            {"id": 11, "profile": 19, "start": 0, "size": 1},
        ],
        mig_devices=[
            {"gpu_instance": 1, "compute_instance": 0, "uuid": "MIG-a", "slices": 2},
            {"gpu_instance": 1, "compute_instance": 1, "uuid": "MIG-b", "slices": 1},
        ],
        processes=[[7, 1, 0], [8, 1, 1], [9, 2**32 - 1, 2**32 - 1]],
    )
    assert gpu.gpu_instances == (
        GpuInstance(1, 9, 4, 4, (ComputeInstance(0, 2, "MIG-a"), ComputeInstance(1, 1, "MIG-b")), (7, 8)),
        GpuInstance(11, 19, 0, 1),
    )
    assert gpu.mig_devices == (MigDevice(1, 0, "MIG-a"), MigDevice(1, 1, "MIG-b"))
    assert gpu.pids == (7, 8, 9)


def test_only_mig_devices_are_known_without_permission_to_list_instances():
    device = {"gpu_instance": 1, "compute_instance": 0, "uuid": "MIG-a", "slices": 2}
    gpu = of_nvml(gpu_instances=None, mig_devices=[device])
    assert (gpu.gpu_instances, gpu.mig_devices) == (None, (MigDevice(1, 0, "MIG-a"),))


def test_gpus_with_the_same_profiles_share_them():
    profile = {"id": 19, "name": "MIG 1g.10gb", "slices": 1, "limit": 7, "memory_mib": 9984}
    offers = [{**profile, "starts": [0, 1], "size": 1}]
    first, second = read_gpu_answers(
        nvml(*({"pci_address": f"00000000:{bus}:00.0", "mig_profiles": offers} for bus in ("1B", "43")))
    )
    assert first.mig_profiles is second.mig_profiles
    (offer,) = first.mig_profiles
    assert (offer.name, offer.memory_bytes, offer.starts) == ("1g.10gb", 9984 * 2**20, (0, 1))


@pytest.mark.parametrize(
    ("state", "word"),
    [([0, 0, 0], "off"), ([2, 1, 0], "on"), ([2, 1, 1], "devtools"), (None, None)],
    ids=["off", "on", "for-developers", "not-told"],
)
def test_confidential_computing_state_is_read(state, word):
    assert read_driver(nvml(confidential_computing=state)).confidential_computing == word


def test_driver_nvml_and_cuda_versions_are_kept_apart():
    said = {"driver_version": "580.95.05", "nvml_version": "13.580.82.07", "cuda_version": 13010}
    assert read_driver(nvml(**said)) == NvidiaDriver("580.95.05", "13.580.82.07", "13.1")


FIRST, SECOND, THIRD = "0000:1b:00.0", "0000:43:00.0", "0000:52:00.0"


def machine(answers, *addresses, drivers=(), **files):
    """Return what is read of a machine with NVIDIA's GPUs at these addresses, and NVML's answers."""
    held = {path: text for address in addresses for path, text in function(address, "0x030200").items()}
    links = {f"{PCI}/{address}/driver": f"/sys/bus/pci/drivers/{name}" for address, name in drivers}
    return {gpu.pci_address: gpu for gpu in read_gpus(Snapshot(held | files, links, nvml=answers))}


def answer(address, **more):
    return {"pci_address": f"0000{address.upper()}", "name": "NVIDIA H100", **more}


def test_gpu_without_an_address_gets_the_only_remaining_address():
    lost = {"index": 1, "unanswered": "GPU is lost"}
    answers = {"gpus": [answer(FIRST, index=0), lost, answer(THIRD, index=2)]}
    found = machine(answers, FIRST, SECOND, THIRD)
    assert [(gpu.index, gpu.unanswered) for gpu in found.values()] == [
        (0, None),
        (1, "GPU is lost"),
        (2, None),
    ]


def test_indistinguishable_gpus_are_not_guessed():
    answers = {"gpus": [answer(FIRST, index=0), {"index": 1, "unanswered": "GPU is lost"}]}
    found = machine(answers, FIRST, SECOND, THIRD)
    assert [(found[address].index, found[address].unanswered) for address in (SECOND, THIRD)] == [
        (None, "the driver does not list it")
    ] * 2


def test_driver_start_failure_is_reported_on_each_of_its_gpus():
    answers = {"error": "Driver Not Loaded", "gpus": []}
    found = machine(answers, FIRST, SECOND, drivers=[(FIRST, "nvidia"), (SECOND, "vfio-pci")])
    assert [(gpu.driver, gpu.unanswered) for gpu in found.values()] == [
        ("nvidia", "Driver Not Loaded"),
        ("vfio-pci", None),
    ]


def test_gpus_of_an_unqueried_host_have_no_error():
    assert [gpu.unanswered for gpu in machine(None, FIRST).values()] == [None]


def test_place_and_link_come_from_sysfs():
    answers = {"gpus": [answer(FIRST, pci_device_id=0x233010DE, pcie_generation=5, pcie_width=16)]}
    (gpu,) = machine(answers, FIRST, **{f"{PCI}/{FIRST}/current_link_width": "8"}).values()
    assert (gpu.numa_node, gpu.link.width, gpu.driver_link.width) == (0, 8, 16)


def test_nvml_link_is_used_where_sysfs_has_none():
    answers = {"gpus": [answer(FIRST, pcie_generation=5, pcie_width=16)]}
    assert machine(answers, FIRST)[FIRST].link == PciLink(32.0, 16, None, None)


def test_nvswitch_address_counts_as_a_switch():
    switch = "0000:c4:00.0"
    peers = {f"0000{SECOND}": 2, f"0000{switch}": 4, "switch": 6}
    answers = {"gpus": [answer(FIRST, nvlink_peers=peers), answer(SECOND)]}
    found = machine(answers, FIRST, SECOND, **{f"{PCI}/{switch}/class": "0x068000"})
    assert found[FIRST].nvlink_peers == {SECOND: 2, "switch": 10}


def smi(name):
    """Return the GPUs and the driver of a document, which was redacted as on every way into a snapshot."""
    text = redact_nvidia_smi((DOCUMENTS / name).read_text())
    snapshot = Snapshot(files={}, nvidia_smi=text)
    return list(read_gpu_answers(snapshot)), read_driver(snapshot)


def test_gpu_in_mig_mode_is_read_from_nvidia_smi():
    (gpu, _), driver = smi("h100-v12.xml")
    assert driver == NvidiaDriver("550.127.05", cuda_version="12.4")
    assert (gpu.pci_address, gpu.device, gpu.subsystem) == ("0000:1b:00.0", "2330", "10de:16c1")
    # Minor and index are two things.
    assert (gpu.index, gpu.minor, gpu.name) == (0, 1, "NVIDIA H100 80GB HBM3")
    assert (gpu.mig_capable, gpu.mig_mode, gpu.mig_pending) == (True, "enabled", "enabled")
    # The document does not say where instances lie, nor their UUIDs.
    assert (gpu.gpu_instances, gpu.mig_devices) == (None, (MigDevice(1, 0, None), MigDevice(5, 0, None)))
    assert (gpu.architecture, gpu.persistence, gpu.addressing_mode) == ("hopper", True, "none")
    assert (gpu.virtualization, gpu.gsp_firmware, gpu.pids) == ("none", "550.127.05", (4242,))
    assert gpu.vbios == "96.00.99.00.01"
    assert gpu.memory_bytes == 81559 * 2**20
    assert (gpu.ecc, gpu.remapped_rows) == (Ecc(True, True, 0, 1), None)
    assert (gpu.fabric, gpu.fabric_state) == (f"{CLUSTER}.7", FabricState("completed", "Success", ()))
    assert gpu.driver_link == PciLink(32.0, 16, 32.0, 16)
    assert (gpu.recovery_action, gpu.nvlinks, gpu.unanswered) == ("none", None, None)


def test_gpu_with_a_pending_mig_mode_is_read_from_nvidia_smi():
    (_, gpu), _ = smi("h100-v12.xml")
    assert (gpu.mig_mode, gpu.mig_pending, gpu.gpu_instances) == ("disabled", "enabled", ())
    assert (gpu.fabric, gpu.fabric_state) == (None, FabricState("in-progress"))
    assert gpu.remapped_rows == RemappedRows(0, 1, True, False)
    assert (gpu.ecc, gpu.recovery_action) == (Ecc(True, True, 2, 3), "drain-and-reset")
    # A single value that failed, the power draw here, is no GPU that does not answer.
    assert (gpu.index, gpu.pids, gpu.unanswered) == (1, (4343,), None)


def test_gpu_passed_through_to_a_vm_is_read_from_nvidia_smi():
    (gpu,), _ = smi("a10g-v11.xml")
    assert (gpu.virtualization, gpu.mig_capable, gpu.mig_mode) == ("passthrough", False, None)
    assert (gpu.ecc, gpu.persistence) == (Ecc(True, False, 7, 7), False)
    assert gpu.driver_link == PciLink(2.5, 16, 16.0, 16)
    assert (gpu.fabric_state, gpu.recovery_action, gpu.addressing_mode, gpu.gsp_firmware) == (None,) * 4


def test_newest_nvidia_smi_document_is_read():
    (gpu, *_), _ = smi("b200-v13.xml")
    assert (gpu.mig_mode, gpu.mig_pending) == ("enabled", "disabled")
    assert gpu.mig_devices == (MigDevice(0, 0, "MIG-44444444-0000-5000-8000-000000000000"),)
    assert (gpu.recovery_action, gpu.ecc) == ("drain-and-reset", Ecc(True, True, 7, 70))
    assert gpu.remapped_rows == RemappedRows(0, 0, False, True)
    assert gpu.fabric_state.faults == (
        "degraded bandwidth",
        "route unhealthy",
        "incorrect configuration: insufficient nvlinks",
    )


def test_unanswering_gpus_keep_the_reason_and_no_values():
    (_, lost, unknown), _ = smi("b200-v13.xml")
    assert (lost.unanswered, unknown.unanswered) == ("GPU is lost", "Unknown Error")
    for gpu in (lost, unknown):
        known = (gpu.name, gpu.uuid, gpu.memory_bytes, gpu.mig_capable, gpu.minor, gpu.persistence)
        assert known == (None,) * 6
    # One of four is not in the document: what comes after it has another index than place.
    assert lost.index is None


@pytest.mark.parametrize("name", ["a10g-v11.xml", "h100-v12.xml", "b200-v13.xml"])
def test_board_identifiers_are_not_captured(name):
    text = redact_nvidia_smi((DOCUMENTS / name).read_text())
    leaks = ("<serial>", "16500", "train.py", "secret", "<pdi>", "chassis_serial", "fabric_guid")
    assert [leak for leak in leaks if leak in text] == []
    assert "<uuid>GPU-" in text


def test_nvml_overrides_nvidia_smi():
    text = (DOCUMENTS / "h100-v12.xml").read_text()
    (gpu,) = read_gpu_answers(Snapshot({}, nvml={"gpus": [answer(THIRD)]}, nvidia_smi=text))
    assert gpu.pci_address == THIRD


def test_broken_xml_is_refused():
    with pytest.raises(TopologyError, match="the XML of nvidia-smi is broken"):
        list(read_gpu_answers(Snapshot({}, nvidia_smi="<nvidia_smi_log><gpu>")))
