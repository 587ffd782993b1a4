"""pyinfra reads this before the inventory: let `inventories/lab` stand for `inventories/lab/inventory.py`."""

from pathlib import Path
from typing import Any

from pyinfra_cli import cli as _cli

_make_inventory = _cli.make_inventory


def _make_inventory_of_folder(inventory: str, *args: Any, **options: Any) -> Any:
    """Take the file where a folder is named; pyinfra itself takes files only."""
    file = Path(inventory, "inventory.py")
    return _make_inventory(str(file) if file.is_file() else inventory, *args, **options)


_cli.make_inventory = _make_inventory_of_folder
