"""What the manifests of Jobs in docs/ hold for pyinfra."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def inventory_as_pyinfra_reads_it(data: Mapping[str, str], folder: Path) -> str:
    """Lay out what a ConfigMap has as an inventory, and return what pyinfra says of it."""
    (folder / "group_data").mkdir()
    (folder / "inventory.py").write_text(data["inventory.py"])
    (folder / "group_data" / "all.py").write_text(data["all.py"])
    pyinfra = str(Path(sys.executable).with_name("pyinfra"))
    command = [pyinfra, str(folder / "inventory.py"), "debug-inventory"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    return shown.stdout + shown.stderr
