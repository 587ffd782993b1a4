"""Record what rdma-core's `rdma_topo` says of the machines of tests/fixtures/pcie.py.

`python -m tests.conformance.record_rdma_topo CHECKOUT`, where CHECKOUT is a clone of
github.com/linux-rdma/rdma-core: its script kernel-boot/rdma_topo is run as it is.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.conformance.checkouts import version_of
from tests.fixtures.pcie import MACHINES, dump, write_functions

FILE = Path(__file__).with_name("rdma_topo.json")
_SCRIPT = "kernel-boot/rdma_topo"


def main(checkout: Path) -> None:
    """Write the file."""
    record = {"version": version(checkout), "machines": answers(checkout)}
    FILE.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def version(checkout: Path) -> str:
    """Return the release that the checkout leads to, and its commit."""
    return version_of(checkout, "rdma-core", r'PACKAGE_VERSION "(\S+)"', "CMakeLists.txt")


def answers(checkout: Path) -> dict[str, dict[str, Any]]:
    """Return what it says of each machine: whether the bridges are right, by address, and its parameter.

    `sound` is its exit code. A machine that it does not know has its reason as `refused`, and nothing else.
    """
    return {name: _answer(checkout / _SCRIPT, name) for name in MACHINES}


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
    parameter = re.search(r'config_acs=\\"(.*?)\\"', grub.stdout)
    if parameter is None:
        return {"refused": _reason(grub)}
    verdicts = re.findall(r"^(OK|FAIL)\tACS for \S+ (\S+) has", check.stdout, re.MULTILINE)
    return {
        "bridges": {address: verdict == "OK" for verdict, address in verdicts},
        "sound": check.returncode == 0,
        "config_acs": parameter[1],
    }


def _reason(ended: subprocess.CompletedProcess[str]) -> str:
    """Return the error with which it ends, or the exception that it does not handle."""
    if ended.returncode == 0:
        raise RuntimeError(f"it neither answers nor refuses: {ended}")
    reason = (ended.stdout or ended.stderr).strip().splitlines()[-1].removeprefix("E: ")
    return reason.partition(". Are you running on a production system?")[0]


def _run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
