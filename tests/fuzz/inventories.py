"""Mutated inventories, read as `pyinfra` reads them: `python -m tests.fuzz.inventories CASES`.

It is a process of its own, because pyinfra patches the one in which it is imported.
"""

import sys
from pathlib import Path

from pyinfra.api import Config, State
from pyinfra.context import ctx_config, ctx_state

from numaforge.lib.errors import NumaforgeError
from numaforge.run.hosts.inventories import InventoryError
from numaforge.run.pyinfra_cli import adapt
from numaforge.run.pyinfra_cli import read_inventory as read
from tests.fuzz.mutations import mutated_text
from tests.fuzz.targets import Target, troubles

INVENTORY = """\
nodes = ["gpu-01", ("gpu-02", {"numaforge_profile": "training", "ssh_port": 22})]
spare = (["gpu-03"], {"numaforge_rollout": {"canaries": 1}})
"""


def read_inventory(text: str) -> None:
    """Read an inventory as `pyinfra`, `apply`, `doctor` and the others do; no host is asked."""
    Path("inventory.py").write_bytes(text.encode("utf-8", "surrogateescape"))
    try:
        with ctx_state.use(State()), ctx_config.use(Config()):
            read("./inventory.py")
    except InventoryError as refusal:
        raise NumaforgeError(refusal.message) from refusal


if __name__ == "__main__":
    adapt()
    cases = int(sys.argv[1])
    found = troubles(
        Target("inventory", read_inventory, lambda random: mutated_text(random, INVENTORY), cases)
    )
    print(*found, sep="\n")
    sys.exit(bool(found))
