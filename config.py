"""pyinfra reads this before the inventory: what its command line does differently in this repository.

`inventories/lab` stands for `inventories/lab/inventory.py`, and without a terminal a host that cannot be
reached fails alone.
"""

from pathlib import Path
from typing import Any

from pyinfra_cli import cli as _cli

from numaforge.pyinfra_cli import connect_all as _connect_all

_make_inventory = _cli.make_inventory


def _make_inventory_of_folder(inventory: str, *args: Any, **options: Any) -> Any:
    """Take the file where a folder is named; pyinfra itself takes files only."""
    file = Path(inventory, "inventory.py")
    return _make_inventory(str(file) if file.is_file() else inventory, *args, **options)


_cli.make_inventory = _make_inventory_of_folder
_cli.connect_all = _connect_all
