"""Recorded decisions of kubelets."""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

VECTORS = Path(os.environ.get("NUMAFORGE_VECTORS", Path(__file__).parents[2].parent / "shared" / "vectors"))


@cache
def recording(name: str) -> dict[str, Any]:
    path = VECTORS / name
    if not path.is_file():
        pytest.skip(f"no recordings at {path}: set NUMAFORGE_VECTORS to the folder that holds {name}")
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def cases(name: str, *lists: str) -> list[Any]:
    """One parameter per recorded case, or a single one that skips where the recording is absent."""
    path = VECTORS / name
    if not path.is_file():
        return [pytest.param(None, id="absent")]
    document = json.loads(path.read_text())
    return [
        pytest.param(case, id=f"{key}-{number}-{case.get('name') or case.get('description') or ''}"[:90])
        for key in lists
        for number, case in enumerate(document.get(key, []))
    ]
