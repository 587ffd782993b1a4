"""Ask rdma-core's `rdma_topo` about the machines of tests/fixtures/pcie.py.

`python -m tests.conformance.rdma_topo kernel-boot/rdma_topo` writes its answers down, beside this file.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.fixtures.pcie import MACHINES, dump, write_functions

ANSWERS = Path(__file__).with_suffix(".json")


def answers(script: Path) -> dict[str, dict[str, Any]]:
    """Return what it says of each machine: whether the bridges are right, by address, and its parameter.

    `bridges` and `config_acs` are None where it knows no such machine; `sound` is its exit code.
    """
    return {name: _answer(script, name) for name in MACHINES}


def _answer(script: Path, name: str) -> dict[str, Any]:
    functions = MACHINES[name]()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        file = root / "dump.json"
        file.write_text(dump(functions))
        check = _run([sys.executable, str(script), "check", "-F", str(file)], {})
        write_functions(root / "host", functions)
        devices = str(root / "host/sys/bus/pci/devices")
        grub = _run(
            [sys.executable, str(script), "write-grub-acs", "--dry-run"], {"RDMA_TOPO_DEVDIR": devices}
        )
    if "No supported topology" in check.stdout:
        return {"bridges": None, "sound": None, "config_acs": None}
    verdicts = re.findall(r"^(OK|FAIL)\tACS for \S+ (\S+) has", check.stdout, re.MULTILINE)
    parameter = re.search(r'config_acs=\\"(.*?)\\"', grub.stdout)
    assert parameter is not None, grub
    return {
        "bridges": {address: verdict == "OK" for verdict, address in verdicts},
        "sound": check.returncode == 0,
        "config_acs": parameter[1],
    }


def _run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


if __name__ == "__main__":
    ANSWERS.write_text(json.dumps(answers(Path(sys.argv[1])), indent=1, sort_keys=True) + "\n")
