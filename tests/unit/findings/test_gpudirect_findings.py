"""Each rule about GPUDirect applies to the machines it is made for, fires there, and is silent elsewhere."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from numaforge.findings.engine import Verdict
from numaforge.findings.gpudirect.pairs import Works, gpu_nic_pairs
from numaforge.findings.gpudirect.rules import RULES
from numaforge.machine.topology.model import Gpu, NodeTopology, NvidiaInstall, PciLink
from numaforge.report.gpudirect import pair_lines
from tests.fixtures import judged as by
from tests.fixtures.gpu_machines import KINDS
from tests.fixtures.machines import dgx_h100
from tests.fixtures.pcie import (
    MACHINES,
    OTHER,
    connectx_switches,
    gb200,
    gb300,
    hgx_h100,
    machine_of,
    without_vpd,
)

Change = Callable[[NodeTopology], NodeTopology]

SOUND = {
    "hgx-h100": (lambda: hgx_h100(0), "GD201"),
    "connectx": (lambda: connectx_switches(0), "GD202"),
    "gb300": (MACHINES["gb300-correct"], "GD104 GD105 GD203 GD301"),
    "gb200": (gb200, "GD205 GD303 GD304"),
}
EVERYWHERE = "GD101 GD102 GD103 GD302 GD401 GD402 GD501 GD502"


def found(machine: NodeTopology) -> dict[str, list[str | None]]:
    return by.found(RULES, machine)


def each(kind: str, **fields: object) -> Change:
    """Change fields of all devices of a kind: `gpus`, `rdma_devices`."""
    return lambda machine: replace(
        machine, **{kind: tuple(replace(device, **fields) for device in getattr(machine, kind))}
    )


gpus, nics = partial(each, "gpus"), partial(each, "rdma_devices")


def known(machine: NodeTopology) -> NodeTopology:
    """Complete what only NVML and real links tell."""
    links = PciLink(32.0, 16, 32.0, 16)
    machine = gpus(memory_bytes=80 * 2**30, virtualization="none")(machine)
    functions = tuple(replace(each, link=links) for each in machine.pci_functions)
    install = machine.nvidia_install or NvidiaInstall()
    return replace(machine, pci_functions=functions, nvidia_install=install)


@pytest.mark.parametrize("name", sorted(SOUND))
def test_sound_machine_of_each_kind_has_no_finding(tmp_path, name):
    build, own = SOUND[name]
    machine = known(machine_of(tmp_path, build()))
    assert found(machine) == {}
    assert by.with_verdict(RULES, machine, Verdict.PASSED) == {*EVERYWHERE.split(), *own.split()}
    assert by.with_verdict(RULES, machine, Verdict.UNKNOWN) == set()


@pytest.mark.parametrize("name", sorted({*KINDS}))
def test_nothing_is_found_on_machines_without_rdma_devices(name):
    assert by.with_verdict(RULES, KINDS[name](), Verdict.NOT_APPLICABLE) == {rule.id for rule in RULES}


def test_facts_missing_from_an_older_snapshot_raise_no_alarm():
    assert found(dgx_h100()) == {}
    assert "GD201" in by.with_verdict(RULES, dgx_h100(), Verdict.UNKNOWN)


def functions(pick: Callable[[str, str], bool], **fields: object) -> Change:
    """Change the functions that are picked by class and address."""

    def change(machine: NodeTopology) -> NodeTopology:
        changed = [
            replace(one, **fields) if pick(one.pci_class, one.pci_address) else one
            for one in machine.pci_functions
        ]
        return replace(machine, pci_functions=tuple(changed))

    return change


def moved(machine: NodeTopology) -> NodeTopology:
    """Move both NICs to a root port of their own on the first NUMA node."""
    addresses = [nic.pci_address or "" for nic in machine.rdma_devices]
    paths = {address: ("pci0000:30", "0000:30:01.0", address) for address in addresses}
    return nics(numa_node=0)(replace(machine, pci_paths={**machine.pci_paths, **paths}))


def peer_memory(**fields: object) -> Change:
    return lambda machine: replace(machine, peer_memory=replace(machine.peer_memory, **fields))


IN_A_GUEST = peer_memory(virtual_machine=True)


def closed(machine: NodeTopology) -> NodeTopology:
    proprietary = replace(machine.nvidia_install, open_module=False, kernel_modules=("nvidia",))
    return replace(machine, nvidia_install=proprietary)


NO_DATA_DIRECT = "NCCL_DEBUG=INFO\n NCCL_IB_DATA_DIRECT = 0\n"
BOTH_NICS = ["mlx5_0 0003:01:00.0", "mlx5_1 0013:01:00.0"]
BOTH_GPUS = ["GPU0 0000:1b:00.0", "GPU1 0000:9d:00.0"]


def nic_functions(**fields: object) -> Change:
    return functions(lambda kind, _: kind == "020700", **fields)


def at(address: str, **fields: object) -> Change:
    return functions(lambda _, place: place == address, **fields)


BROKEN: list[tuple[str, Change, dict[str, list[str | None]]]] = [
    ("hgx-h100", moved, {"GD101": BOTH_GPUS[:1], "GD102": BOTH_GPUS[1:]}),
    ("hgx-h100", lambda machine: IN_A_GUEST(moved(machine)), {"GD106": [None]}),
    ("hgx-h100", nics(numa_node=None), {"GD103": ["mlx5_0", "mlx5_1"]}),
    ("gb300", nics(data_direct=None), {"GD104": ["0002:03:00.0", "0012:03:00.0"]}),
    ("gb300", lambda machine: replace(machine, nccl_conf=NO_DATA_DIRECT), {"GD105": ["/etc/nccl.conf"]}),
    ("gb300", at("0002:06:00.0", iommu_group=77), {"GD301": ["0002:03:00.0"]}),
    (
        "gb300",
        functions(lambda kind, _: kind == "030200", iommu_domain="DMA"),
        {"GD302": ["0002:06:00.0", "0012:06:00.0"]},
    ),
    ("gb200", nic_functions(address_translation=True), {"GD303": [*BOTH_NICS]}),
    ("gb200", nic_functions(iommu_group=7), {"GD304": ["0003:01:00.0, 0013:01:00.0"]}),
    ("gb200", nic_functions(iommu_group=None), {"GD304": ["0003:01:00.0", "0013:01:00.0"]}),
    ("hgx-h100", closed, {"GD401": [None]}),
    ("hgx-h100", lambda machine: replace(machine, kernel="5.4.0"), {"GD401": [None]}),
    ("hgx-h100", lambda machine: peer_memory(clients=("nv_mem",))(closed(machine)), {"GD402": [None]}),
    ("hgx-h100", gpus(bar1_bytes=256 * 2**20), {"GD501": [*BOTH_GPUS]}),
    ("hgx-h100", at("0000:18:00.0", link=PciLink(32.0, 8, 32.0, 16)), {"GD502": ["mlx5_0 0000:18:00.0"]}),
]


@pytest.mark.parametrize(("name", "change", "expected"), BROKEN, ids=[",".join(each[2]) for each in BROKEN])
def test_each_rule_fires_only_on_its_fault(tmp_path, name, change, expected):
    machine = change(known(machine_of(tmp_path, SOUND[name][0]())))
    assert found(machine) == expected


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("hgx-h100-as-shipped", "GD201"),
        ("connectx-switches-as-the-kernel-has-them", "GD202"),
        ("gb300-as-the-kernel-has-it", "GD203"),
        ("connectx-switches-for-guests", "GD204"),
        ("gb200-without-access-control", "GD205"),
    ],
)
def test_wrong_acs_is_found_by_the_rule_of_its_layout(tmp_path, name, rule):
    assert set(found(machine_of(tmp_path, MACHINES[name]()))) & {f"GD20{n}" for n in range(1, 6)} == {rule}


def test_every_rule_fires_in_some_test():
    fired = {rule for _, _, expected in BROKEN for rule in expected} | {f"GD20{n}" for n in range(1, 6)}
    assert fired == {rule.id for rule in RULES}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(gpus(virtualization="passthrough"), id="the-driver-says-it-is-passed-through"),
        pytest.param(IN_A_GUEST, id="the-processor-tells-of-a-hypervisor"),
    ],
)
def test_pcie_is_not_judged_in_a_guest(tmp_path, change):
    machine = change(machine_of(tmp_path, hgx_h100()))
    assert {rule for rule in found(machine) if not rule.startswith(("GD103", "GD4"))} == set()


def test_guest_with_a_topology_file_hides_nothing_from_nccl(tmp_path):
    guest = IN_A_GUEST(moved(machine_of(tmp_path, hgx_h100())))
    assert "GD106" in found(guest)
    assert "GD106" not in found(replace(guest, nccl_conf="NCCL_TOPO_FILE=/opt/topo.xml\n"))


def test_management_functions_do_not_count_as_nics(tmp_path):
    machine = nics(management=True)(machine_of(tmp_path, hgx_h100()))
    assert gpu_nic_pairs(machine) == ()
    assert by.with_verdict(RULES, machine, Verdict.NOT_APPLICABLE) == {rule.id for rule in RULES}


def test_driver_option_to_skip_the_check_makes_groups_harmless(tmp_path):
    apart = machine_of(tmp_path, gb300())
    assert "GD301" in found(apart)
    assert "GD301" not in found(peer_memory(topology_check_off=True)(apart))


def works(machine: NodeTopology) -> dict[tuple[str, str], Works]:
    return {(pair.gpu, pair.nic): pair.works for pair in gpu_nic_pairs(machine)}


YES, NO = Works.YES, Works.NO


@pytest.mark.parametrize(
    ("name", "own", "other"),
    [
        ("hgx-h100-as-shipped", NO, NO),
        ("hgx-h100-without-redirects", YES, NO),
        ("connectx-switches-open", YES, NO),
        ("gb300-as-the-kernel-has-it", NO, NO),
        ("gb300-correct", YES, NO),
        ("gb200", YES, NO),
    ],
)
def test_gpu_pairs_only_with_the_nic_of_its_rail(tmp_path, name, own, other):
    machine = machine_of(tmp_path, MACHINES[name]())
    told = works(machine)
    assert {told["GPU0", "mlx5_0"], told["GPU1", "mlx5_1"]} == {own}
    assert {told["GPU0", "mlx5_1"], told["GPU1", "mlx5_0"]} == {other}
    assert [pair.nic for pair in gpu_nic_pairs(machine) if pair.rail] == ["mlx5_0", "mlx5_1"]


ONE_SOCKET = tuple(replace(each, numa_node=0) for each in MACHINES["gb300-correct"]())
CROSSED = tuple(
    replace(each, v3={"card-0": "card-1", "card-1": "card-0"}[each.v3 or ""]) if each.rdma else each
    for each in ONE_SOCKET
)


DISTANCES = {
    "each-its-own": (
        ONE_SOCKET,
        {("GPU0", "mlx5_0"): ("PXB", "0002:03:00.0"), ("GPU1", "mlx5_1"): ("PXB", "0012:03:00.0")},
    ),
    "whatever-the-addresses-of-the-nics-are": (
        CROSSED,
        {("GPU0", "mlx5_1"): ("PXB", "0002:03:00.0"), ("GPU1", "mlx5_0"): ("PXB", "0012:03:00.0")},
    ),
    "all-are-equally-near-where-no-vpd-tells": (
        without_vpd(ONE_SOCKET, OTHER),
        {(gpu, nic): ("NODE", None) for gpu in ("GPU0", "GPU1") for nic in ("mlx5_0", "mlx5_1")},
    ),
}


@pytest.mark.parametrize(("built", "expected"), DISTANCES.values(), ids=DISTANCES)
def test_direct_nic_distance_is_measured_from_its_second_function(tmp_path, built, expected):
    pairs = gpu_nic_pairs(machine_of(tmp_path, built))
    assert {(each.gpu, each.nic): (each.distance, each.direct) for each in pairs if each.rail} == expected


def test_both_functions_of_a_card_share_its_data_direct_path(tmp_path):
    machine = machine_of(tmp_path, MACHINES["gb300-two-functions-of-a-card"]())
    assert {each.name: each.data_direct for each in machine.rdma_devices} == {
        "mlx5_0": "0002:03:00.0",
        "mlx5_0_second": "0002:03:00.0",
        "mlx5_1": "0012:03:00.0",
        "mlx5_1_second": "0012:03:00.0",
    }


def test_direct_function_is_shown_beside_its_nic(tmp_path):
    lines = pair_lines(gpu_nic_pairs(machine_of(tmp_path, ONE_SOCKET)))
    assert "0000:01:00.0 by 0002:03:00.0" in lines[1]


def test_no_pair_works_without_a_path_to_memory(tmp_path):
    machine = closed(machine_of(tmp_path, hgx_h100(0)))
    assert set(works(machine).values()) == {NO}


def test_gpudirect_of_another_gpu_vendor_is_unknown(tmp_path):
    machine = machine_of(tmp_path, hgx_h100(0))
    amd: tuple[Gpu, ...] = tuple(replace(gpu, vendor="1002") for gpu in machine.gpus)
    assert works(replace(machine, gpus=amd))["GPU0", "mlx5_0"] is Works.UNKNOWN


def test_pair_with_unread_bridges_names_a_bridge_on_its_path():
    unread = replace(dgx_h100(), pci_functions=())
    for pair in gpu_nic_pairs(unread):
        if pair.rail:
            assert pair.works is Works.UNKNOWN
            own = unread.pci_paths[pair.gpu_address][2:-1]
            assert any(bridge in (pair.reason or "") for bridge in own), pair
