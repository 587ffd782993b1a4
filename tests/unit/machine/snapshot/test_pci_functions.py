"""What the script takes of PCI functions, and what it leaves on the host."""

import pytest

from numaforge.machine.snapshot.capture import from_root, parse_output, script
from tests.fixtures.pcie import MACHINES, gb300, hgx_h100, write_functions


@pytest.mark.parametrize("name", ["hgx-h100-as-shipped", "gb300-correct", "gb200"])
def test_script_and_folder_reader_agree(shell, tmp_path, name):
    write_functions(tmp_path, MACHINES[name]())
    finished = shell(script(str(tmp_path)))
    assert finished.stderr == ""
    captured = parse_output(finished.stdout)
    assert captured == from_root(tmp_path)
    assert sum(path.endswith("/config") for path in captured.files) == len(MACHINES[name]())
    assert captured.commands["config_acs"] == "yes"


def test_card_identifiers_are_redacted_but_shared_cards_stay_recognisable(shell, tmp_path):
    write_functions(tmp_path, gb300())
    snapshot = parse_output(shell(script(str(tmp_path))).stdout)
    assert "card-0" not in snapshot.to_json()
    assert "MT2" not in snapshot.to_json()
    told = {path.split("/")[5]: text for path, text in snapshot.files.items() if path.endswith("/vpd")}
    assert told["0002:03:00.0"] == told["0000:01:00.0"] != told["0012:03:00.0"] == told["0010:01:00.0"]


def test_configuration_spaces_are_not_captured_without_rdma_devices(shell, tmp_path):
    write_functions(tmp_path, tuple(each for each in hgx_h100() if each.rdma is None))
    snapshot = parse_output(shell(script(str(tmp_path))).stdout)
    assert snapshot == from_root(tmp_path)
    assert not [path for path in snapshot.files if path.endswith("/config")]


def test_virtual_functions_are_skipped(shell, tmp_path):
    root = write_functions(tmp_path, hgx_h100())
    (root / "sys/bus/pci/devices/0000:18:00.0/physfn").symlink_to("..")
    snapshot = parse_output(shell(script(str(tmp_path))).stdout)
    assert snapshot == from_root(tmp_path)
    assert "/sys/bus/pci/devices/0000:18:00.0/config" not in snapshot.files


def test_partly_read_configuration_spaces_are_discarded(shell, tmp_path):
    """Who is not root reads 64 bytes of each: the sizes say that it is not all."""
    root = write_functions(tmp_path, hgx_h100())
    output = shell(script(str(root))).stdout
    start = output.index("\nP\n")
    cut = "\n".join(output[start:].split("\n")[:8])
    rest = output[output.index("\n", start + 3) :]
    after = next(line for line in rest.splitlines() if line and not line.startswith(" "))
    snapshot = parse_output(f"{output[:start]}{cut}\n{rest[rest.index(after) :]}")
    assert not [path for path in snapshot.files if path.endswith("/config")]
    assert from_root(root).links == snapshot.links
