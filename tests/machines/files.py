"""The machines in this folder: each a snapshot, `NAME.json.xz`, with its `NAME.expected.json`."""

import json
import lzma
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numaforge.machine.snapshot.model import Snapshot

FOLDER = Path(__file__).parent
README = FOLDER / "README.md"
EXPECTED = ".expected.json"
BEGIN, END = "<!-- begin machines -->\n", "<!-- end machines -->\n"

KINDS = {
    "real": "captured on such a machine",
    "virtual": "captured in a virtual machine",
    "changed": "captured, then changed on purpose",
    "modelled": "never captured: laid out after what its maker documents",
}


@dataclass(frozen=True)
class MachineFile:
    """One machine; a snapshot that was just dropped in is `NAME.json` and has no expectations yet."""

    snapshot_file: Path

    @property
    def name(self) -> str:
        """The file's name without what tells its format."""
        return self.snapshot_file.name.removesuffix(".xz").removesuffix(".json")

    @property
    def expected_file(self) -> Path:
        """Where its expectations are, or belong."""
        return FOLDER / f"{self.name}{EXPECTED}"

    def snapshot(self) -> Snapshot:
        """Load the snapshot."""
        if self.snapshot_file.suffix != ".xz":
            return Snapshot.load(self.snapshot_file)
        return Snapshot.from_json(lzma.decompress(self.snapshot_file.read_bytes()).decode())

    def expected(self) -> dict[str, Any]:
        """Load what is expected; empty where nothing is."""
        return json.loads(self.expected_file.read_text()) if self.expected_file.exists() else {}


def stored(name: str) -> MachineFile:
    """Return where a machine of this name is kept."""
    return MachineFile(FOLDER / f"{name}.json.xz")


def machine_files() -> list[MachineFile]:
    """Return every machine of the folder, by name."""
    found = [*FOLDER.glob("*.json.xz"), *FOLDER.glob("*.json")]
    return sorted(
        (MachineFile(path) for path in found if not path.name.endswith(EXPECTED)), key=lambda file: file.name
    )


def table() -> str:
    """Return the table of machines as the README has it."""
    rows = [(file.name, file.expected()) for file in machine_files()]
    lines = [
        f"| `{name}` | {held['machine']} | {held['kind']} | {held['origin']} | {held['licence']} |"
        for name, held in rows
        if held
    ]
    head = ["| file | machine | kind | origin | licence |", "|---|---|---|---|---|"]
    return "\n".join([*head, *lines]) + "\n"
