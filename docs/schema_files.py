"""Write schemas/*.json from the models: `python -m docs.schema_files`."""

from __future__ import annotations

import json
from pathlib import Path

from numaforge.commands.schema import NAMES
from numaforge.planning.json_schema import json_schema

FOLDER = Path(__file__).parents[1] / "schemas"


def text(name: str) -> str:
    """Return a schema's file, which is what `numaforge schema NAME` prints."""
    return json.dumps(json_schema(name), indent=2) + "\n"


if __name__ == "__main__":
    for each in NAMES:
        (FOLDER / f"{each}.json").write_text(text(each), encoding="utf-8")
