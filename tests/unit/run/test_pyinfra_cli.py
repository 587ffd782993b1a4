"""Plain pyinfra, started in this repository: what config.py has it do differently."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from numaforge.rollout.shards import SHARD, shard_of
from tests.fixtures.tables import cases
from tests.ssh import pyinfra_forks

REPOSITORY = Path(__file__).parents[3]
HERE = "@local"
DEPLOY = """
from pathlib import Path
from pyinfra import host

Path(host.data.get("seen")).write_text(host.name)
"""


def pyinfra(folder: Path, shard: str, **data: object) -> tuple[subprocess.CompletedProcess[str], bool]:
    """Run a deploy on this machine as that shard of an inventory; say whether it was deployed, too."""
    seen = folder / "seen"
    (folder / "inventory.py").write_text(f"nodes = [({HERE!r}, {dict(data, seen=str(seen))!r})]\n")
    (folder / "deploy.py").write_text(DEPLOY)
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("pyinfra")),
            "-y",
            str(folder / "inventory.py"),
            str(folder / "deploy.py"),
        ],
        cwd=REPOSITORY,
        env={**os.environ, SHARD: shard, "PYINFRA_PROGRESS": "off"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done, seen.exists()


@pytest.mark.parametrize("index", [0, 1])
def test_shard_selects_only_its_hosts(index, tmp_path):
    done, deployed = pyinfra(tmp_path, f"{index}/2")
    assert (done.returncode, deployed) == (0, index == shard_of(HERE, 2))


def test_a_bad_shard_is_one_message(tmp_path):
    done, deployed = pyinfra(tmp_path, "2/2")
    assert (done.returncode, deployed) == (2, False)
    assert f"{SHARD}: '2/2' is not a shard: there is no shard 2 of 2" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def listed(folder: Path, inventory: str) -> str:
    """Have pyinfra list an inventory, and return what it says of it."""
    (folder / "inventory.py").write_text(inventory)
    environment = {**os.environ, "PYINFRA_PROGRESS": "off"}
    return pyinfra_forks.run([str(folder / "inventory.py"), "debug-inventory"], environment, 120).stdout


def test_host_list_reports_invalid_host_data(tmp_path):
    said = listed(tmp_path, 'nodes = [("odd", {"kubelet_start_seconds": "soon"}), "gpu-1"]\n')
    assert "host data kubelet_start_seconds: 'soon' is not accepted; write a whole number" in said


def test_host_list_reports_unknown_host_data(tmp_path):
    said = listed(tmp_path, 'nodes = [("gpu-1", {"ssh_prt": 2222}), ("gpu-2", {"ssh_prt": 2222})]\n')
    assert said.count("gpu-[1-2]: host data ssh_prt: neither numaforge nor pyinfra reads it; ") == 1
    assert "did you mean ssh_port?" in said


def test_deploy_reports_unread_data_once(tmp_path):
    done, deployed = pyinfra(tmp_path, "0/1", _sdo=False)
    assert (done.returncode, deployed) == (0, True)
    assert done.stderr.count(f"{HERE}: host data _sdo: neither numaforge nor pyinfra reads it") == 1


@cases(
    "inventory, message",
    {
        "not-python": ("nodes = [\n", "line 1: '[' was never closed"),
        "an-exception": ("\nimport nothing\n", "line 2: ModuleNotFoundError: No module"),
    },
)
def test_inventory_error_names_its_line_without_traceback(inventory, message, tmp_path):
    said = listed(tmp_path, inventory)
    assert f"{tmp_path}/inventory.py, {message}" in said
    assert "Traceback" not in said
    assert not (REPOSITORY / "pyinfra-debug.log").exists()
