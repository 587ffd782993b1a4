"""What the configuration space of PCIe functions tells, and what of it stays on the host."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.machine.snapshot.capture import from_root
from numaforge.machine.snapshot.pci_functions import as_text, cards, extended_capabilities, from_text, of_dump
from numaforge.machine.topology.model import AccessControl
from numaforge.machine.topology.pcie import access_control, device_control
from numaforge.machine.topology.read import read_topology
from tests.fixtures.pcie import GPU, ISOLATED, Function, gb300, hgx_h100, machine_of, write_functions
from tests.fixtures.tables import cases

PORT = Function(("pci0000:00", "0000:00:01.0"), "060400", "8086", "352a", ISOLATED)
SPACE = PORT.space


def chained(*headers: tuple[int, int, int]) -> bytes:
    """Return a space with extended capabilities: offset, id and next one of each."""
    space = bytearray(4096)
    for offset, capability, after in headers:
        space[offset : offset + 4] = (capability | 1 << 16 | after << 20).to_bytes(4, "little")
        space[offset + 4 : offset + 8] = b"\x5f\x00\x1d\x00"
    return bytes(space)


@cases(
    "space, expected",
    {
        "access-control-behind-others": (SPACE, AccessControl(0x5F, ISOLATED)),
        "first-in-the-chain": (chained((0x100, 0x0D, 0)), AccessControl(0x5F, 0x1D)),
        "none-in-the-chain": (chained((0x100, 1, 0x148)), AccessControl(None, None)),
        "no-chain": (bytes(4096), AccessControl(None, None)),
        "a-chain-that-loops": (chained((0x100, 1, 0x140), (0x140, 2, 0x100)), AccessControl(None, None)),
        "a-chain-that-leads-astray": (chained((0x100, 1, 0x40), (0x40, 0x0D, 0)), AccessControl(None, None)),
        "not-read": (None, None),
    },
)
def test_access_control_is_found_in_the_capability_list(space, expected):
    assert access_control(space) == expected


def conventional(*links: tuple[int, int, int], register: int = 0x2936) -> bytes:
    """Return a space whose capabilities are (offset, id, offset of the next one), the first at 0x40."""
    space = bytearray(4096)
    space[0x34] = 0x40
    for offset, capability, after in links:
        space[offset : offset + 2] = bytes([capability, after])
        space[offset + 8 : offset + 10] = register.to_bytes(2, "little")
    return bytes(space)


@cases(
    "space, expected",
    {
        "the-first": (conventional((0x40, 0x10, 0)), 0x2936),
        "behind-another": (conventional((0x40, 0x01, 0x60), (0x60, 0x10, 0)), 0x2936),
        "conventional-PCI": (conventional((0x40, 0x01, 0)), None),
        "a-chain-that-loops": (conventional((0x40, 0x01, 0x60), (0x60, 0x05, 0x40)), None),
        "a-chain-that-leads-astray": (conventional((0x40, 0x01, 0x10)), None),
        "cut-off": (conventional((0x40, 0x10, 0))[:0x49], None),
        "nothing": (b"", None),
        "not-read": (None, None),
    },
)
def test_device_control_register_is_found(space, expected):
    assert device_control(space) == expected


@pytest.mark.parametrize(
    ("register", "read", "payload"), [(0x2936, 512, 256), (0x5000, 4096, 128), (0, 128, 128)]
)
def test_packet_sizes_are_read(tmp_path, register, read, payload):
    root = write_functions(tmp_path, hgx_h100())
    for file in root.glob("sys/devices/pci*/**/config"):
        file.write_bytes(conventional((0x40, 0x10, 0), register=register))
    functions = read_topology(from_root(root)).pci_functions
    assert {(each.max_read_request, each.max_payload) for each in functions} == {(read, payload)}


@pytest.mark.parametrize("size", [0, 64, 256])
def test_truncated_config_space_gives_no_access_control(tmp_path, size):
    root = write_functions(tmp_path, hgx_h100())
    for file in root.glob("sys/devices/pci*/**/config"):
        file.write_bytes(file.read_bytes()[:size])
    machine = read_topology(from_root(root))
    assert {each.access_control for each in machine.pci_functions} <= {None}


def test_function_gone_from_the_bus_gives_no_access_control(tmp_path):
    root = write_functions(tmp_path, hgx_h100())
    (root / "sys/bus/pci/devices/0000:15:01.0/config").write_bytes(b"\xff" * 4096)
    held = {each.pci_address: each.access_control for each in read_topology(from_root(root)).pci_functions}
    assert held["0000:15:01.0"] is None
    assert held["0000:97:01.0"] == AccessControl(0x5F, ISOLATED)


@given(st.binary(max_size=4096))
def test_any_configuration_space_is_read_without_error(space):
    assert len(list(extended_capabilities(space))) <= 1024
    access_control(space)
    clean = from_text(as_text(space))
    assert len(clean) == len(space)
    assert from_text(as_text(clean)) == clean


@given(st.text(max_size=200), st.dictionaries(st.text(max_size=3), st.integers(0, 5000), max_size=3))
def test_any_dump_text_is_read_without_error(text, sizes):
    from_text(text)
    of_dump(sizes, text.splitlines())


@given(st.dictionaries(st.text(max_size=3), st.binary(max_size=600), max_size=4))
def test_any_vpd_is_read_without_error(vpds):
    assert set(cards(vpds)) <= set(vpds)


def test_serial_number_stays_on_the_host():
    assert bytes.fromhex("b8cef60300d1a2b3") in SPACE
    assert "b8cef60300d1a2b3" not in as_text(SPACE)
    assert access_control(from_text(as_text(SPACE))) == access_control(SPACE)


def test_gpu_bar_size_and_iommu_are_read(tmp_path):
    machine = machine_of(tmp_path, gb300(), domain="DMA-FQ")
    assert {gpu.bar1_bytes for gpu in machine.gpus} == {128 * 2**30}
    gpus = {each.pci_address: each for each in machine.pci_functions if each.pci_class == GPU}
    assert (gpus["0002:06:00.0"].iommu_group, gpus["0002:06:00.0"].iommu_domain) == (2, "DMA-FQ")
    assert machine.peer_memory.config_acs is True
    assert machine.peer_memory.topology_check_off is False
